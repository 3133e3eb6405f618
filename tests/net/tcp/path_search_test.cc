// Packetisation-layer path MTU discovery (RFC 4821, 8899), and ICMP's word on the MTU (RFC 1191, RFC 5927 7.2).
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using enum tcp::path_probing;

namespace {

constexpr const char* syn_ack = "SA 0:0 ack 1 win 65535 mss 1460 sackok ws 4";

tcp::parameters probing(tcp::path_probing how) {
    auto p = tcp_script::plain();
    p.mss = 1460;
    p.mtu_probing = how;
    p.tail_loss_probe = false;
    return p;
}

struct world : tcp_script {
    explicit world(tcp::path_probing how) : world(probing(how)) {}
    explicit world(const tcp::parameters& p, const std::string& answer = syn_ack) : tcp_script(p) { connect(answer); }
    std::uint32_t payload() { return block().segment_payload(); }
    tcp::counters counts() { return block().statistics(); }
    /// ICMP, for the byte `at` of the stream.
    tcp::event report(std::uint32_t mtu, std::uint32_t at) {
        return block().on_path_mtu(now(), mtu, tcp::seq_number(1'000'000 + at));
    }
    /// A first window is sent and acknowledged, so that the next one has room for a probe. Returns where that begins.
    std::int64_t open_window() {
        const std::uint32_t window = block().info().cwnd / payload() * payload();
        write(window + 1000); // more than may go
        drain();
        receive("A 1:1 ack " + std::to_string(window + 1));
        drain();
        receive("A 1:1 ack " + std::to_string(window + 1001));
        require(block().info().cwnd >= 11 * payload(), "no room for a probe");
        return window + 1001;
    }
};

std::string range(std::int64_t from, std::int64_t size) { return std::to_string(from) + ":" + std::to_string(from + size); }

} // namespace

BOOST_AUTO_TEST_SUITE(path_search)

BOOST_AUTO_TEST_CASE(a_report_is_believed_at_once_where_no_segment_of_that_size_got_through) { // RFC 5927 7.2, initial discovery
    world w(off);
    w.write(2920);
    BOOST_TEST(w.drain() == 2);
    BOOST_TEST((w.report(640, 1) == tcp::event::path_mtu_fell));
    w.expect("A 1:601");
    BOOST_TEST(w.payload() == 600u);
    BOOST_TEST(w.block().packet_size() == 640u);
}

BOOST_AUTO_TEST_CASE(a_report_waits_for_a_time_out_where_segments_of_that_size_got_through) { // RFC 5927 7.2
    world w(off);
    w.write(1460);
    w.expect("A 1:1461");
    w.receive("A 1:1 ack 1461");
    w.write(2920);
    BOOST_TEST(w.drain() == 2);
    BOOST_TEST((w.report(640, 1461) == tcp::event::none));
    BOOST_TEST(w.payload() == 1460u);
    BOOST_TEST(w.counts().path_reports_deferred == 1u);
    w.expect_nothing();
    BOOST_TEST(tcp::has(w.advance(1s), tcp::event::path_mtu_fell));
    w.expect("A 1461:2061");
    BOOST_TEST(w.payload() == 600u);
}

BOOST_AUTO_TEST_CASE(a_report_that_an_acknowledgment_refutes_is_forgotten) { // RFC 5927 7.2
    world w(off);
    w.write(1460);
    w.drain();
    w.receive("A 1:1 ack 1461");
    w.write(1460);
    w.drain();
    w.report(640, 1461);
    w.receive("A 1:1 ack 2921"); // a lie
    w.write(1460);
    w.drain();
    w.advance(1s);
    w.expect("A 2921:4381");
    BOOST_TEST(w.payload() == 1460u);
}

BOOST_AUTO_TEST_CASE(a_report_on_what_is_not_in_flight_or_was_never_so_large_means_nothing) { // RFC 5927 4.1
    world w(off);
    w.write(1460);
    w.drain();
    for (const std::uint32_t at : {0u, 1461u, 500'000u}) BOOST_TEST((w.report(640, at) == tcp::event::none));
    BOOST_TEST((w.report(1500, 1) == tcp::event::none));
    BOOST_TEST((w.report(9000, 1) == tcp::event::none));
    w.expect_nothing();
    BOOST_TEST(w.payload() == 1460u);
    BOOST_TEST((w.report(0, 1) == tcp::event::path_mtu_fell)); // never below what sender::set_mss() holds
    BOOST_TEST(w.payload() == 64u);
}

BOOST_AUTO_TEST_CASE(segments_that_vanish_again_and_again_become_smaller) { // RFC 4821 7.7
    world w(on_black_hole);
    w.write(2920);
    w.drain();
    w.advance(1s), w.expect("A 1:1461");
    w.advance(2s), w.expect("A 1:1461");
    BOOST_TEST(w.payload() == 1460u);
    w.advance(4s), w.expect("A 1:1025"); // R1
    BOOST_TEST(w.payload() == 1024u);
    BOOST_TEST(w.counts().path_black_holes == 1u);
    w.advance(8s), w.expect("A 1:513");
    w.advance(16s), w.expect("A 1:513"); // the floor
    BOOST_TEST(w.counts().path_black_holes == 2u);
    w.receive("A 1:1 ack 513"); // it lives
    w.expect("A 513:1025");
}

BOOST_AUTO_TEST_CASE(what_small_segments_suffer_is_not_the_fault_of_their_size) {
    world w(on_black_hole);
    w.write(1000);
    w.drain();
    for (const auto wait : {1s, 2s, 4s, 8s}) w.advance(wait), w.expect("A 1:1001");
    BOOST_TEST(w.payload() == 1460u);
    world never(off);
    never.write(1460);
    never.drain();
    for (const auto wait : {1s, 2s, 4s, 8s}) never.advance(wait), never.expect("A 1:1461");
}

BOOST_AUTO_TEST_CASE(a_search_begins_small_and_a_probe_that_gets_through_raises_the_size) { // RFC 4821 7.3, RFC 8899 5.2
    world w(always);
    BOOST_TEST(w.payload() == 1024u);
    w.write(100'000);
    w.expect("A 1:1025"); // cwnd is too small for a probe
    w.drain();
    w.receive("A 1:1 ack 10241");
    const auto first = w.expect("A 10241:11701"); // all that the peer takes
    BOOST_TEST(!first.retransmission);
    w.expect("A 11701:12725"); // meanwhile as before
    w.drain();
    BOOST_TEST(w.payload() == 1024u);
    w.receive("A 1:1 ack 11701");
    BOOST_TEST(w.payload() == 1460u);
    BOOST_TEST(w.counts().path_probes == 1u);
    BOOST_TEST(w.counts().path_probes_lost == 0u);
}

BOOST_AUTO_TEST_CASE(a_probe_that_is_lost_alone_costs_no_window_and_the_next_one_is_smaller) { // RFC 4821 7.6.2, RFC 8899 5.1.4
    world w(always);
    const std::int64_t at = w.open_window();
    w.write(200'000);
    const auto window = w.block().info().cwnd;
    w.expect("A " + range(at, 1460));
    w.drain();
    const std::string end = std::to_string(at + 1460 + 4 * 1024);
    w.advance(10ms);
    w.receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(at + 1460) + "-" + end);
    w.expect("A " + range(at, 1024)); // the probe's bytes, as others
    w.expect("A " + range(at + 1024, 1460 - 1024));
    w.drain();
    BOOST_TEST(w.block().info().cwnd >= window);
    BOOST_TEST(w.counts().fast_recoveries == 0u);
    BOOST_TEST(w.counts().path_probes_lost == 1u);
    BOOST_TEST(w.payload() == 1024u);
    const auto sent_to = w.block().info().snd_max - tcp::seq_number(1'000'000);
    w.receive("A 1:1 ack " + std::to_string(sent_to));
    const auto next = w.expect("A " + range(sent_to, (1024 + 1459 + 1) / 2));
    BOOST_TEST(!next.retransmission);
    BOOST_TEST(w.counts().path_probes == 2u);
}

BOOST_AUTO_TEST_CASE(a_probe_that_is_lost_among_others_proves_nothing) { // RFC 4821 7.6.4
    world w(always);
    const std::int64_t at = w.open_window();
    w.write(200'000);
    w.expect("A " + range(at, 1460));
    w.drain();
    const auto window = w.block().info().cwnd;
    const std::int64_t second = at + 1460 + 1024;
    w.advance(10ms);
    w.receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(second) + "-" + std::to_string(second + 4096));
    w.expect("A " + range(at, 1024)); // fast recovery
    BOOST_TEST(w.counts().fast_recoveries == 1u);
    BOOST_TEST(w.block().info().ssthresh < window);
    BOOST_TEST(w.counts().path_probes_lost == 0u);
    w.drain();
    const auto sent_to = w.block().info().snd_max - tcp::seq_number(1'000'000);
    w.receive("A 1:1 ack " + std::to_string(sent_to));
    BOOST_TEST(w.payload() == 1024u); // not a success either
}

BOOST_AUTO_TEST_CASE(three_probes_in_a_row_that_prove_nothing_count_as_lost) { // RFC 4821 7.6.4, RFC 8899 5.1.2: MAX_PROBES
    world w(always);
    std::int64_t written = 0;
    const auto sent_to = [&w] { return w.block().info().snd_max - tcp::seq_number(1'000'000); };
    /// The next segment larger than others: where it begins, and its size.
    const auto next_probe = [&] {
        for (int rounds = 0; rounds < 200; ++rounds) {
            while (written - sent_to() < 60'000) w.write(20'000), written += 20'000;
            tcp::outgoing_segment out;
            while (w.block().next_segment(w.now(), out))
                if (out.payload_size > w.payload()) return std::pair{std::int64_t{out.seq - tcp::seq_number(1'000'000)}, out.payload_size};
            w.advance(10ms);
            w.receive("A 1:1 ack " + std::to_string(sent_to()));
        }
        return std::pair{std::int64_t{0}, std::uint32_t{0}};
    };
    for (unsigned misses = 0; misses < 3; ++misses) {
        BOOST_TEST(w.counts().path_probes_lost == 0u);
        const auto [at, size] = next_probe();
        BOOST_REQUIRE(size == 1460u);
        w.drain();
        w.advance(10ms);
        const std::int64_t second = at + size + 1024; // what came behind it is lost, too
        w.receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(second) + "-" + std::to_string(sent_to()));
        w.drain();
        BOOST_TEST(w.counts().fast_recoveries == misses + 1);
        w.advance(10ms);
        w.receive("A 1:1 ack " + std::to_string(sent_to()));
        BOOST_TEST(w.payload() == 1024u);
    }
    BOOST_TEST(w.counts().path_probes_lost == 1u);
    BOOST_TEST(next_probe().second == (1024u + 1459 + 1) / 2);
}

BOOST_AUTO_TEST_CASE(a_probe_has_four_segments_behind_it) { // RFC 4821 7.4: what comes behind it tells of its loss
    for (const unsigned behind : {3u, 4u}) {
        world w(always);
        const std::int64_t at = w.open_window();
        w.write(1460 + behind * 1024);
        w.expect("A " + range(at, behind == 4 ? 1460 : 1024));
        w.drain();
        BOOST_TEST(w.counts().path_probes == behind - 3);
    }
}

BOOST_AUTO_TEST_CASE(what_is_lost_behind_a_probe_that_was_costs_window_as_any_loss) { // RFC 4821 7.6.2: only an isolated loss is free
    for (const bool by_timer : {false, true}) { // the SACK that tells of it comes at once, or some patience is left
        world w(always);
        const std::int64_t at = w.open_window(), behind = at + 1460, hole = behind + 4 * 1024;
        w.write(200'000);
        w.expect("A " + range(at, 1460));
        w.drain();
        const auto window = w.block().info().cwnd;
        const auto sack = [&](std::int64_t left, std::int64_t right) {
            w.receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(left) + "-" + std::to_string(right));
        };
        w.advance(10ms);
        sack(behind, hole);
        w.drain();
        BOOST_TEST(w.counts().path_probes_lost == 1u);
        BOOST_TEST(w.counts().fast_recoveries == 0u);
        if (by_timer) w.advance(1ms);
        sack(hole + 1024, hole + (by_timer ? 2 : 4) * 1024);
        if (by_timer) w.drain(), w.advance(15ms);
        BOOST_TEST(w.counts().fast_recoveries == 1u);
        BOOST_TEST(w.block().info().ssthresh < window);
        BOOST_TEST(w.counts().path_probes_lost == 1u);
    }
}

namespace {

/// The probe behind a full window is lost, and all that is known to be: its bytes are sent again, and cwnd is as it was.
struct lost_probe : world {
    explicit lost_probe(const tcp::parameters& p, const std::string& answer = syn_ack, std::int64_t full = 1460)
        : world(p, answer), at(open_window()), hole(at + full), size(payload()), window(block().info().cwnd) {
        write(200'000);
        expect("A " + range(at, full));
        drain();
        advance(10ms);
        if (block().info().sack) sacked(hole, 4);
        else for (int i = 0; i < 3; ++i) receive("A 1:1 ack " + std::to_string(at));
        drain();
        BOOST_TEST(counts().path_probes_lost == 1u);
        BOOST_TEST(counts().fast_recoveries == 0u);
        hole += 4 * size;
        advance(5ms);
    }
    void sacked(std::int64_t from, int segments, const std::string& flags = "A") {
        receive(flags + " 1:1 ack " + std::to_string(at) + " sack " + std::to_string(from) + "-" + std::to_string(from + segments * size));
    }
    const std::int64_t at;
    std::int64_t hole; ///< behind what was SACKed
    const std::uint32_t size, window;
};

} // namespace

BOOST_AUTO_TEST_CASE(the_copy_of_a_probe_speaks_for_no_other_that_is_lost) { // RFC 3522: its echo is older than what was resent behind it
    auto p = probing(always);
    p.timestamps = true;
    lost_probe w(p, std::string(syn_ack) + " ts 7 1000000", 1448);
    const std::string now = std::to_string(w.now().time_since_epoch() / 1ms), copied = std::to_string(w.now().time_since_epoch() / 1ms - 5);
    w.sacked(w.hole + w.size, 4);
    w.drain();
    BOOST_TEST(w.counts().fast_recoveries == 1u);
    w.advance(5ms);
    w.receive("A 1:1 ack " + std::to_string(w.hole) + " sack " + std::to_string(w.hole + w.size) + "-" +
              std::to_string(w.hole + 5 * w.size) + " ts " + now + " " + copied);
    BOOST_TEST(w.counts().spurious_recoveries == 0u);
    BOOST_TEST(w.block().info().ssthresh < w.window);
}

BOOST_AUTO_TEST_CASE(a_mark_beside_a_lost_probe_costs_window) { // RFC 3168 6.1.2
    auto p = probing(always);
    p.ecn = true;
    lost_probe w(p, std::string(syn_ack).replace(0, 2, "SAE"));
    w.sacked(w.hole, 1, "AE");
    BOOST_TEST(w.counts().mark_reductions == 1u);
    BOOST_TEST(w.block().info().ssthresh < w.window);
}

BOOST_AUTO_TEST_CASE(without_sack_a_partial_acknowledgment_tells_what_is_lost_behind_a_probe) { // RFC 6582 3.2
    lost_probe w(probing(always), "SA 0:0 ack 1 win 65535 mss 1460 ws 4");
    w.receive("A 1:1 ack " + std::to_string(w.at + w.size)); // the first piece of it
    w.drain();
    BOOST_TEST(w.counts().fast_recoveries == 0u);
    w.receive("A 1:1 ack " + std::to_string(w.hole));
    w.expect("A " + range(w.hole, w.size));
    BOOST_TEST(w.counts().fast_recoveries == 1u);
    BOOST_TEST(w.block().info().ssthresh < w.window);
}

BOOST_AUTO_TEST_CASE(a_time_out_beside_a_lost_probe_may_prove_needless) { // RFC 5682
    lost_probe w(probing(always));
    w.advance(5s);
    w.drain();
    BOOST_TEST(w.counts().retransmission_timeouts >= 1u);
    w.sacked(w.hole, 2); // what was sent once; the rest of the probe's bytes, sent again before it, is lost
    BOOST_TEST(w.counts().spurious_recoveries == 1u);
    BOOST_TEST(w.counts().fast_recoveries == 1u);
    BOOST_TEST(w.block().info().cwnd > w.window * 7 / 10);
}

BOOST_AUTO_TEST_CASE(a_report_on_the_probe_within_a_recovery_is_no_second_loss) {
    world w(always);
    const std::int64_t before = w.open_window(), at = before + 5 * 1024, behind = at + 1460;
    w.write(5 * 1024);
    BOOST_TEST(w.drain() == 5);
    w.write(200'000);
    w.expect("A " + range(at, 1460));
    w.drain();
    w.advance(10ms);
    w.receive("A 1:1 ack " + std::to_string(before) + " sack " + std::to_string(before + 1024) + "-" + std::to_string(before + 5 * 1024));
    BOOST_TEST(w.counts().fast_recoveries == 1u);
    w.report(1240, static_cast<std::uint32_t>(at));
    BOOST_TEST(w.counts().path_probes_lost == 1u);
    w.drain();
    w.receive("A 1:1 ack " + std::to_string(before) + " sack " + std::to_string(behind + 1024) + "-" + std::to_string(behind + 6 * 1024));
    w.drain();
    BOOST_TEST(w.counts().fast_recoveries == 1u);
}

BOOST_AUTO_TEST_CASE(a_report_on_the_probe_is_an_answer) { // RFC 8899 4.6.2
    world w(always);
    const std::int64_t at = w.open_window();
    w.write(200'000);
    w.expect("A " + range(at, 1460));
    BOOST_TEST((w.report(1240, static_cast<std::uint32_t>(at)) == tcp::event::none));
    w.expect("A " + range(at, 1024));
    w.drain();
    BOOST_TEST(w.counts().path_probes_lost == 1u);
    const auto sent_to = w.block().info().snd_max - tcp::seq_number(1'000'000);
    w.receive("A 1:1 ack " + std::to_string(sent_to));
    w.expect("A " + range(sent_to, (1024 + 1200 + 1) / 2)); // between what is known and what the router said
}

BOOST_AUTO_TEST_CASE(what_was_on_its_way_before_the_probe_is_not_lost_with_it) { // RFC 8899 4.6.2
    world w(always);
    const std::int64_t before = w.open_window(), at = before + 5 * 1024;
    w.write(5 * 1024);
    BOOST_TEST(w.drain() == 5);
    w.write(200'000);
    w.expect("A " + range(at, 1460));
    w.drain();
    w.report(1240, static_cast<std::uint32_t>(at));
    w.expect("A " + range(at, 1024));
    w.drain();
    BOOST_TEST(w.counts().path_probes_lost == 1u);
    BOOST_TEST(w.counts().retransmitted_bytes == 1460u);
}

BOOST_AUTO_TEST_CASE(a_search_that_has_ended_begins_anew_after_a_while) { // RFC 8899 5.1.1, PMTU_RAISE_TIMER
    auto p = probing(always);
    p.mtu_probing_threshold = 1460 - 1024; // one failure ends it
    p.restart_after_idle = false;
    world w(p);
    const std::int64_t at = w.open_window();
    const auto acknowledge_all = [&w] {
        w.drain();
        const auto sent_to = w.block().info().snd_max - tcp::seq_number(1'000'000);
        w.receive("A 1:1 ack " + std::to_string(sent_to));
        w.drain();
    };
    w.write(20'000);
    w.expect("A " + range(at, 1460));
    w.report(1070, static_cast<std::uint32_t>(at));
    while (w.block().info().unacknowledged != 0) acknowledge_all();
    w.write(20'000);
    while (w.block().info().unacknowledged != 0 || w.block().wants_output()) acknowledge_all();
    BOOST_TEST(w.counts().path_probes == 1u);
    w.advance(10min);
    for (int i = 0; i < 2; ++i) {
        w.write(20'000);
        while (w.block().info().unacknowledged != 0 || w.block().wants_output()) acknowledge_all();
    }
    BOOST_TEST(w.counts().path_probes == 2u);
    BOOST_TEST(w.payload() == 1460u);
}

namespace {

/// Bulk data for so long, over a path that takes `limit` bytes of payload. A router says what does not fit, or nobody does.
void stream_for(world& w, duration how_long, std::uint32_t limit = 1460, bool told = true) {
    tcp::tcb& block = w.block();
    for (duration passed{}; passed < how_long; passed += 10s) {
        w.write(30'000);
        while (block.info().unacknowledged != 0 || block.wants_output()) {
            std::int64_t lost = 0, behind = 0;
            tcp::outgoing_segment s;
            while (block.next_segment(w.now(), s)) {
                if (s.payload_size <= limit) continue;
                lost = s.seq - tcp::seq_number(1'000'000);
                behind = lost + s.payload_size;
            }
            const std::string sent_to = std::to_string(block.info().snd_max - tcp::seq_number(1'000'000));
            w.advance(10ms);
            if (lost == 0) w.receive("A 1:1 ack " + sent_to);
            else if (told) w.report(limit + 40, static_cast<std::uint32_t>(lost));
            else w.receive("A 1:1 ack " + std::to_string(lost) + " sack " + std::to_string(behind) + "-" + sent_to);
        }
        w.advance(10s);
    }
}

/// A report has made its segments smaller.
std::unique_ptr<world> narrowed(tcp::path_probing how, tcp::personality habits = tcp::personality::standard) {
    auto p = probing(how);
    p.habits = habits;
    p.restart_after_idle = false;
    auto w = std::make_unique<world>(p);
    w->write(2920);
    w->drain();
    BOOST_TEST((w->report(1280, 1) == tcp::event::path_mtu_fell));
    stream_for(*w, 9min);
    BOOST_TEST(w->payload() == 1240u);
    BOOST_TEST(w->counts().path_probes == 0u);
    return w;
}

} // namespace

BOOST_AUTO_TEST_CASE(what_a_report_took_away_is_tried_again_after_ten_minutes) { // RFC 1191 6.3, RFC 8201 4, RFC 8899 5.1.1
    for (const auto how : {on_black_hole, off}) {
        const auto w = narrowed(how);
        stream_for(*w, 2min);
        BOOST_TEST(w->payload() == 1460u);
        BOOST_TEST(w->counts().path_probes == 1u);
        BOOST_TEST(w->counts().path_probes_lost == 0u);
    }
}

BOOST_AUTO_TEST_CASE(what_the_host_says_of_its_way_is_no_report_and_holds_for_good) { // `ip route change ... mtu 1280`
    for (const std::uint32_t mtu : {1290u, 1270u}) { // beside a report of 1,280
        const auto w = narrowed(on_black_hole);
        w->block().fit_into_path(mtu);
        stream_for(*w, 30min);
        BOOST_TEST(w->payload() == mtu - 40);
    }
}

BOOST_AUTO_TEST_CASE(a_path_that_stays_narrow_costs_one_segment_in_ten_minutes) {
    for (const bool told : {true, false}) {
        const auto w = narrowed(on_black_hole);
        stream_for(*w, 52min, 1240, told);
        BOOST_TEST(w->payload() == 1240u);
        BOOST_TEST(w->counts().path_probes == 6u);
        BOOST_TEST(w->counts().path_probes_lost == 6u);
        BOOST_TEST(w->counts().fast_recoveries == 0u);
    }
}

BOOST_AUTO_TEST_CASE(for_linux_a_report_counts_for_ten_minutes) { // tcp_current_mss()
    const auto w = narrowed(off, tcp::personality::linux_);
    stream_for(*w, 2min);
    BOOST_TEST(w->payload() == 1460u);
    BOOST_TEST(w->counts().path_probes == 0u);
}

BOOST_AUTO_TEST_CASE(a_path_that_widens_a_little_gives_what_its_router_says) {
    const auto w = narrowed(on_black_hole);
    stream_for(*w, 2min, 1360);
    BOOST_TEST(w->payload() == 1360u);
    BOOST_TEST(w->counts().path_probes == 2u);
}

BOOST_AUTO_TEST_CASE(linux_searches_by_halves_and_counts_a_black_hole_by_time) { // tcp_mtu_probe(), tcp_mtu_probing()
    auto p = probing(always);
    p.habits = tcp::personality::linux_;
    p.mtu_probing_floor = 48;
    world w(p);
    const std::int64_t at = w.open_window();
    w.write(200'000);
    w.expect("A " + range(at, (1460 + 1024) / 2));
    p.mtu_probing = on_black_hole;
    world hole(p);
    hole.write(2920);
    hole.drain();
    int repeats = 0;
    for (; hole.payload() == 1460u && repeats < 10; ++repeats) {
        hole.advance(60s);
        hole.drain();
    }
    BOOST_TEST(repeats >= 3);
    BOOST_TEST(hole.payload() == 1024u);
}

BOOST_AUTO_TEST_CASE(linux_cuts_what_is_too_large_and_keeps_as_many_segments_in_its_window) { // tcp_simple_retransmit()
    auto p = probing(off);
    p.habits = tcp::personality::linux_;
    p.congestion = tcp::reno_congestion;
    world w(p);
    w.write(4'000); // 1460, 1460 and 1080 bytes
    BOOST_TEST(w.drain() == 3);
    BOOST_TEST((w.report(1200, 1) == tcp::event::path_mtu_fell));
    w.expect("A 1:1161");
    w.drain();
    BOOST_TEST(w.counts().retransmitted_bytes == 2'920u);
    BOOST_TEST(w.block().info().cwnd == 10 * 1'160u);
}

BOOST_AUTO_TEST_CASE(for_linux_a_report_on_the_syn_counts) { // tcp_v4_mtu_reduced() in SYN-SENT
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        auto p = probing(off);
        p.habits = habits;
        tcp_script s(p);
        s.open();
        s.drain();
        s.block().on_path_mtu(s.now(), 1'200, tcp::seq_number(1'000'000));
        s.receive(syn_ack);
        BOOST_TEST(s.block().segment_payload() == (habits == tcp::personality::linux_ ? 1'160u : 1'460u));
    }
}

BOOST_AUTO_TEST_CASE(linux_sends_whole_segments_to_who_has_connected_and_searches_later) { // tcp_mtup_init(), tcp_sync_mss()
    auto p = probing(always);
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.accept("S 0:0 win 65535 mss 1460 sackok ws 0");
    BOOST_TEST(s.block().segment_payload() == 1'460u);
    world client(p);
    BOOST_TEST(client.payload() == 1'024u);
}

BOOST_AUTO_TEST_CASE(a_probe_fits_into_the_congestion_window) { // RFC 4821 7.4
    tcp::parameters p = probing(always);
    p.mss = 8960;
    p.mtu_probing_base = 1000;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 8960 sackok ws 4", 50ms);
    s.write(200'000);
    bool probed = false;
    for (std::int64_t at = 1; !probed && at < 60'000;) {
        tcp::outgoing_segment out;
        while (!probed && s.block().next_segment(s.now(), out)) probed = out.payload_size > 1000;
        if (probed) break;
        s.advance(10ms);
        s.receive("A 1:1 ack " + std::to_string(at += 1000));
    }
    BOOST_REQUIRE(probed);
    BOOST_TEST(s.block().info().in_flight <= s.block().info().cwnd);
}

BOOST_AUTO_TEST_SUITE_END()
