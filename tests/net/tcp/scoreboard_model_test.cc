// The scoreboard against a model that keeps every byte by itself, and its bounds.
#include <corewire/net/tcp/send/rack.hh>
#include <corewire/net/tcp/send/scoreboard.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace corewire;
using namespace corewire::tcp;
using namespace std::chrono_literals;

namespace {

const seq_number base(0xffff'f000u); // the numbers wrap on the way

/// Each byte with its own time and fate.
struct model {
    struct byte {
        fate what = fate::flying;
        time_point sent;
        copy again = copy::none;
    };
    std::vector<byte> bytes;
    std::uint32_t una = 0;

    std::uint32_t count(fate f) const {
        std::uint32_t n = 0;
        for (std::uint32_t i = una; i < bytes.size(); ++i) n += bytes[i].what == f ? 1u : 0u;
        return n;
    }
    bool quiet() const {
        for (std::uint32_t i = una; i < bytes.size(); ++i) {
            if (bytes[i].what != fate::flying || bytes[i].again != copy::none) return false;
        }
        return true;
    }
    bool repairs_out() const {
        for (std::uint32_t i = una; i < bytes.size(); ++i) {
            if (bytes[i].what == fate::flying && bytes[i].again == copy::repair) return true;
        }
        return false;
    }
};

struct both {
    scoreboard board;
    model truth;
    time_point now = from_ns(1'000);
    random_generator random;
    bool times_known = true; ///< joined SACKed ranges forget theirs, and what was resent; it matters only if the peer reneges

    explicit both(std::uint64_t seed) : random(seed) { board.start(base); }
    std::uint32_t end() const { return static_cast<std::uint32_t>(truth.bytes.size()); }
    std::uint32_t any(std::uint32_t from, std::uint32_t to) { return from + static_cast<std::uint32_t>(random.below(to - from + 1)); }

    void send() {
        const std::uint32_t size = any(1, 50);
        truth.bytes.resize(end() + size, {fate::flying, now, copy::none});
        board.sent(base + end(), now);
    }
    void acknowledge() {
        const std::uint32_t to = any(truth.una, std::min(end(), truth.una + 60));
        delivery d{.now = now, .farthest = base, .point = base};
        board.acknowledge(base + to, d);
        std::uint32_t delivered = 0;
        for (std::uint32_t i = truth.una; i < to; ++i) delivered += truth.bytes[i].what != fate::sacked ? 1u : 0u;
        BOOST_REQUIRE(d.bytes == delivered);
        truth.una = to;
    }
    void sack() {
        if (truth.una + 1 >= end()) return;
        const std::uint32_t left = any(truth.una + 1, end() - 1);
        const std::uint32_t right = any(left + 1, std::min(end(), left + 80));
        delivery d{.now = now, .farthest = base, .point = base};
        board.sack({base + left, base + right}, d);
        std::uint32_t delivered = 0;
        time_point newest{};
        for (std::uint32_t i = left; i < right; ++i) {
            model::byte& b = truth.bytes[i];
            if (b.what == fate::sacked) continue;
            ++delivered;
            newest = std::max(newest, b.sent);
            b.what = fate::sacked;
        }
        BOOST_REQUIRE(d.bytes == delivered);
        if (delivered != 0 && times_known) BOOST_REQUIRE((d.newest_sent == newest));
    }
    void resend() {
        const std::uint32_t most = any(1, 60);
        const sack_block lost = board.next_lost(most);
        std::uint32_t first = truth.una;
        while (first < end() && truth.bytes[first].what != fate::lost) ++first;
        if (first == end()) {
            BOOST_REQUIRE(lost.size() == 0u);
            return;
        }
        BOOST_REQUIRE((lost.left == base + first && lost.size() >= 1 && lost.size() <= most));
        for (std::uint32_t i = first; i < first + lost.size(); ++i) {
            BOOST_REQUIRE((truth.bytes[i].what == fate::lost));
            truth.bytes[i] = {fate::flying, now, copy::repair};
        }
        board.resent(lost, now);
    }
    void overtake() {
        const time_point newest = now - duration{any(0, 40)};
        const seq_number limit = base + any(truth.una, end());
        const duration patience{any(0, 60)};
        duration wait{0};
        board.lose_overtaken(newest, limit, now, patience, wait);
        duration longest{0};
        for (std::uint32_t i = truth.una; i < end(); ++i) {
            model::byte& b = truth.bytes[i];
            if (b.what != fate::flying || !(b.sent < newest || (b.sent == newest && b.again == copy::none && base + i < limit))) continue;
            if (b.sent + patience <= now) {
                b.what = fate::lost;
            } else {
                longest = std::max(longest, b.sent + patience - now);
            }
        }
        BOOST_REQUIRE((wait == longest));
    }
    void time_out() {
        const bool reneged = truth.una < end() && truth.bytes[truth.una].what == fate::sacked;
        board.lose_everything(true);
        if (reneged) times_known = false;
        for (std::uint32_t i = truth.una; i < end(); ++i) {
            if (reneged || truth.bytes[i].what != fate::sacked) truth.bytes[i].what = fate::lost;
        }
    }
    void probe() {
        const std::uint32_t size = std::min(any(1, 60), end() - truth.una);
        board.probed(size, now);
        for (std::uint32_t i = end() - size; i < end(); ++i) {
            model::byte& b = truth.bytes[i];
            if (b.what != fate::sacked) b = {fate::flying, now, b.again == copy::none ? copy::needless : b.again};
        }
    }
    void forgive() {
        if (!times_known) return;
        const bool all = any(0, 1) == 0;
        board.forgive(all);
        for (std::uint32_t i = truth.una; i < end(); ++i) {
            model::byte& b = truth.bytes[i];
            if (all && b.again == copy::repair) b.again = copy::needless;
            if (b.what == fate::lost && (all || b.again == copy::none)) b.what = fate::flying;
        }
    }
    void compare() {
        board.check_invariants(base + truth.una, base + end());
        BOOST_REQUIRE(board.sacked() == truth.count(fate::sacked));
        BOOST_REQUIRE(board.lost() == truth.count(fate::lost));
        BOOST_REQUIRE(board.pipe() == truth.count(fate::flying));
        if (board.quiet()) BOOST_REQUIRE(truth.quiet());
        if (times_known) BOOST_REQUIRE(board.repairs_out() == truth.repairs_out());
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(scoreboard_model)

BOOST_AUTO_TEST_CASE(it_agrees_with_a_model_of_single_bytes) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed) {
            both b(seed);
            for (int i = 0; i < 200; ++i) {
                b.now += duration{b.any(0, 9)};
                switch (b.any(0, 19)) {
                case 0: case 1: case 2: case 3: case 4: case 5: b.send(); break;
                case 6: case 7: case 8: b.acknowledge(); break;
                case 9: case 10: case 11: case 12: b.sack(); break;
                case 13: case 14: case 15: case 16: b.resend(); break;
                case 17: case 18: b.overtake(); break;
                default:
                    switch (b.any(0, 5)) {
                    case 0: b.time_out(); break;
                    case 1: b.forgive(); break;
                    case 2: b.probe(); break;
                    default: break;
                    }
                }
                b.compare();
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_burst_is_one_range) {
    scoreboard b;
    b.start(base);
    const time_point t = from_ns(5);
    for (std::uint32_t i = 1; i <= 100; ++i) b.sent(base + 1000 * i, t);
    BOOST_TEST(b.ranges() == 1u);
    BOOST_TEST(b.quiet());
    const auto times = b.acknowledge_quietly(base + 1500);
    BOOST_TEST((times.first == t && times.last == t));
    b.check_invariants(base + 1500, base + 100'000);
}

BOOST_AUTO_TEST_CASE(it_is_bounded) {
    scoreboard b;
    b.start(base);
    for (std::uint32_t i = 1; i <= 5000; ++i) b.sent(base + 100 * i, from_ns(i));
    BOOST_TEST(b.ranges() == scoreboard::range_limit);
    delivery d{.now = from_ns(5000), .farthest = base, .point = base};
    for (std::uint32_t i = 0; i < 2000; ++i) b.sack({base + 10 + 20 * i, base + 20 + 20 * i}, d);
    BOOST_TEST(b.ranges() == scoreboard::range_limit);
    BOOST_TEST(b.refused() > 0u);
    b.lose_everything(true);
    const std::uint32_t lost = b.lost();
    std::uint32_t resent = 0;
    for (int i = 0; i < 100'000 && b.has_lost(); ++i) {
        const sack_block next = b.next_lost(7);
        resent += next.size();
        b.resent(next, from_ns(6000 + i));
        if (i % 100 == 0) b.check_invariants(base, base + 500'000);
    }
    BOOST_TEST(resent == lost); // what was resent is not resent for ever, whatever the bound
}

namespace {

/// As many ranges as there may be, each of 200 bytes; more, as the first is cut in two. Returns where they end.
std::uint32_t fill(scoreboard& b, bool lose) {
    b.start(base);
    for (std::uint32_t i = 1; i <= scoreboard::range_limit; ++i) b.sent(base + 200 * i, from_ns(i));
    if (lose) b.lose_everything(true);
    return 200 * scoreboard::range_limit;
}

} // namespace

BOOST_AUTO_TEST_CASE(new_data_behind_a_range_that_is_lost_is_not_lost_though_the_board_is_full) { // RFC 6675 4, SetPipe()
    scoreboard b;
    std::uint32_t end = fill(b, true);
    b.resent({base, base + 100}, from_ns(5000));
    delivery d{.now = from_ns(5500), .farthest = base, .point = base};
    b.acknowledge(base + 100, d);
    const std::uint32_t lost = b.lost();
    b.sent(base + (end += 100), from_ns(6000)); // F-RTO's
    b.sent(base + (end += 100), from_ns(6001));
    b.check_invariants(base + 100, base + end);
    BOOST_TEST(b.lost() == lost);
    BOOST_TEST(b.pipe() == 200u);
    b.forgive();
    BOOST_TEST(b.lost() == 0u);
    BOOST_TEST(b.ranges() <= scoreboard::range_limit + 1);
}

BOOST_AUTO_TEST_CASE(nor_does_sacked_data_give_it_its_fate) {
    scoreboard b;
    std::uint32_t end = fill(b, false);
    delivery d{.now = from_ns(5500), .farthest = base, .point = base};
    BOOST_TEST(b.sack({base + end - 200, base + end}, d));
    b.sent(base + (end += 100), from_ns(6000));
    b.check_invariants(base, base + end);
    BOOST_TEST(b.sacked() == 200u);
    BOOST_TEST(b.sack({base + end - 100, base + end}, d));
    BOOST_TEST(b.sacked() == 300u);
}

BOOST_AUTO_TEST_CASE(however_often_that_is_so_the_board_is_bounded) {
    scoreboard b;
    std::uint32_t end = fill(b, true);
    for (std::uint32_t i = 1; i <= 3000; ++i) {
        b.sent(base + (end += 100), from_ns(6000 + i));
        if (i % 100 == 0) b.check_invariants(base, base + end);
        if (i != 3000) b.lose_everything(true);
    }
    BOOST_TEST(b.ranges() <= 2 * scoreboard::range_limit);
    std::uint32_t resent = 0;
    for (b.lose_everything(true); b.has_lost();) {
        const sack_block next = b.next_lost(1000);
        resent += next.size();
        b.resent(next, from_ns(20'000));
    }
    BOOST_TEST(resent == end);
    b.check_invariants(base, base + end);
}

BOOST_AUTO_TEST_CASE(of_a_burst_that_was_resent_one_segment_is_probed_with) { // RFC 8985 7.3
    scoreboard b;
    b.start(base);
    b.sent(base + 10'000, from_ns(1));
    b.lose_everything(true);
    b.resent({base, base + 10'000}, from_ns(5));
    b.forget_first_resend(1000);
    BOOST_TEST(b.lost() == 1000u);
    BOOST_TEST((b.next_lost(5000).left == base));
    b.check_invariants(base, base + 10'000);
}

BOOST_AUTO_TEST_CASE(blocks_that_make_no_sense_are_ignored) {
    scoreboard b;
    b.start(base);
    b.sent(base + 1000, from_ns(1));
    delivery d{.now = from_ns(2), .farthest = base, .point = base};
    BOOST_TEST(!b.sack({base + 500, base + 1001}, d)); // beyond what was sent
    BOOST_TEST(!b.sack({base + 500, base + 400}, d));
    BOOST_TEST(!b.sack({base + 500, base + 500}, d));
    BOOST_TEST(!b.sack({base - 500, base}, d));
    BOOST_TEST(b.quiet());
}

BOOST_AUTO_TEST_CASE(pipe_counts_what_is_neither_sacked_nor_lost) { // RFC 6675 4, SetPipe()
    scoreboard b;
    b.start(base);
    b.sent(base + 10'000, from_ns(1));
    delivery d{.now = from_ns(9), .farthest = base, .point = base};
    b.sack({base + 1000, base + 5000}, d);
    BOOST_TEST(b.pipe() == 6000u);
    b.lose_first(base + 1000);
    BOOST_TEST(b.pipe() == 5000u);
    const sack_block lost = b.next_lost(600);
    BOOST_TEST(lost.size() == 600u);
    b.resent(lost, from_ns(9));
    BOOST_TEST(b.pipe() == 5600u);
}

BOOST_AUTO_TEST_CASE(rack_forgets_what_was_delivered_so_long_ago_that_it_seems_to_lie_ahead) { // half the numbers and more
    rack r;
    r.start(base);
    const auto deliver = [&](seq_number before, seq_number start) {
        delivery d{.now = from_ns(2000), .farthest = before, .point = start};
        d.take(start, start + 100, from_ns(1000), false);
        r.take(d);
    };
    deliver(base, base);
    BOOST_TEST((r.farthest() == base + 100));
    deliver(base + 3'000'000'000, base + 3'000'000'000); // sender::farthest() did not believe in 100
    BOOST_TEST((r.farthest() == base + 3'000'000'100));
    deliver(base + 3'000'000'100, base + 2'999'999'000); // late
    BOOST_TEST((r.farthest() == base + 3'000'000'100));
}

BOOST_AUTO_TEST_CASE(rack_waits_for_the_overtaken_and_learns_from_dsack) { // RFC 8985 6.2
    scoreboard b;
    b.start(base);
    rack r;
    r.start(base);
    b.sent(base + 1000, from_ns(0));
    b.sent(base + 2000, from_ns(10'000));
    const time_point now = from_ns(110'000);
    delivery d{.now = now, .least_rtt = 100us, .farthest = base, .point = base};
    BOOST_TEST(b.sack({base + 1000, base + 2000}, d));
    r.take(d);
    duration wait{0};
    BOOST_TEST(!r.find_losses(b, now, r.patience(false, 100us, 100us, 0ns), wait)); // a quarter of the least round trip more
    BOOST_TEST((wait == 15us));
    BOOST_TEST(!r.find_losses(b, now + 14us, r.patience(false, 100us, 100us, 0ns), wait));
    BOOST_TEST((r.patience(false, 100us, 1s, 0ns) == 125us));
    r.on_dsack(base, base + 2000);
    BOOST_TEST((r.patience(false, 100us, 1s, 0ns) == 150us));
    r.on_dsack(base + 1000, base + 2000); // the same round
    BOOST_TEST((r.patience(false, 100us, 1s, 0ns) == 150us));
    BOOST_TEST((r.patience(true, 100us, 1s, 0ns) == 100us)); // no reordering was ever seen, and three were SACKed
    for (int i = 0; i < 16; ++i) r.on_recovered();
    BOOST_TEST((r.patience(false, 100us, 1s, 0ns) == 125us));
    BOOST_TEST(r.find_losses(b, now + 15us, r.patience(false, 100us, 100us, 0ns), wait));
    BOOST_TEST(b.lost() == 1000u);
}

BOOST_AUTO_TEST_CASE(the_least_round_trip_is_that_of_the_last_five_minutes) { // RFC 8985 6.2 step 1
    const time_point begin = from_ns(1);
    least_round_trip least;
    BOOST_TEST((least.get() == duration::max()));
    least.take(10ms, begin);
    least.take(20ms, begin + 300s);
    BOOST_TEST((least.get() == 10ms));
    least.take(20ms, begin + 301s); // the path may have become longer
    BOOST_TEST((least.get() == 20ms));
    least.take(15ms, begin + 302s);
    BOOST_TEST((least.get() == 15ms));
}

BOOST_AUTO_TEST_CASE(of_what_is_delivered_the_newest_counts) { // RFC 8985 6.2 step 2
    rack r;
    r.start(base);
    const auto trip = [&r] { return r.patience(true, 0us, 0us, 0us); }; // RACK.rtt
    delivery young{.now = from_ns(100'000), .least_rtt = 50us, .farthest = base, .point = base};
    young.take(base + 1000, base + 2000, from_ns(20'000), false);
    r.take(young);
    BOOST_TEST((trip() == 80us));
    delivery old{.now = from_ns(110'000), .least_rtt = 50us, .farthest = base, .point = base};
    old.take(base, base + 1000, from_ns(10'000), false); // sent before that
    r.take(old);
    BOOST_TEST((trip() == 100us)); // the latest round trip that was seen, though what came before it is known already
    delivery again{.now = from_ns(150'000), .least_rtt = 50us, .farthest = base, .point = base};
    again.take(base + 2000, base + 3000, from_ns(120'000), true); // sooner than any round trip: of the first copy
    BOOST_TEST(!again.newest_known);
    again.take(base + 3000, base + 4000, from_ns(100'000), true);
    r.take(again);
    BOOST_TEST((trip() == 50us));
    r.forget_copy(); // it was no answer to that copy
    BOOST_TEST((trip() == 0us));
    r.take(old);
    BOOST_TEST((trip() == 100us));
    r.forget_copy();
    BOOST_TEST((trip() == 100us));
    delivery echoed{.now = from_ns(300'000), .least_rtt = 50us, .farthest = base, .point = base, .echoed = from_ns(200'000)};
    echoed.take(base + 4000, base + 5000, from_ns(200'000), true); // the echo is older
    BOOST_TEST(!echoed.newest_known);
    echoed.take(base + 5000, base + 6000, from_ns(199'999), true);
    BOOST_TEST(echoed.newest_known);
}

BOOST_AUTO_TEST_CASE(a_time_out_takes_for_lost_what_was_sent_at_the_limit_and_nothing_later) { // RFC 8985 6.3
    scoreboard b;
    b.start(base);
    for (std::uint32_t i = 1; i <= 4; ++i) b.sent(base + 1000 * i, from_ns(10'000 * i));
    b.lose_sent_before(from_ns(20'000), 1000);
    BOOST_TEST(b.lost() == 2000u);
    b.lose_sent_before(from_ns(30'000) - 1ns, 1000);
    BOOST_TEST(b.lost() == 2000u);
}

BOOST_AUTO_TEST_SUITE_END()
