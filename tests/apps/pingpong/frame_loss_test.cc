// The port behind --drop-every loses exactly every n-th frame, however frames are grouped and however often the port is full; the one
// behind --faults drop= loses each with the chance that was asked for, whatever became of the one before.
#include <corewire/net/port/wrap/faulty_port.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace corewire;

namespace {

/// What a port does with the frames that it is given, and what became of them.
struct sent_frames {
    std::vector<unsigned> numbers;
    std::size_t appetite = 32; ///< at most so many a call
    bool full_at_times = false; ///< every third call takes none
    std::uint64_t calls = 0;
};

class recording_port final : public port {
public:
    explicit recording_port(sent_frames& sent) : sent_(sent) { pool_ = &frames_; }
    std::size_t receive(std::span<packet>) override { return 0; }
    std::size_t transmit(std::span<packet> burst) override {
        if (++sent_.calls % 3 == 0 && sent_.full_at_times) return 0;
        const std::size_t n = std::min(burst.size(), sent_.appetite);
        for (packet& p : burst.first(n)) {
            sent_.numbers.push_back(load_be32(p.head.data()));
            p = packet{};
        }
        statistics_.transmitted_packets += n;
        return n;
    }

private:
    frame_pool frames_{64};
    sent_frames& sent_;
};

/// Sends frames 1 to `count` in bursts; `sent` tells which went out.
void send_through(const faults& what, sent_frames& sent, unsigned count, std::size_t burst) {
    faulty_port lossy(std::make_unique<recording_port>(sent), {.on_transmit = what});
    for (unsigned next = 1; next <= count;) {
        std::vector<packet> packets;
        for (unsigned n = next; n <= count && packets.size() < burst; ++n) {
            buffer frame = lossy.pool().allocate_buffer();
            store_be32(frame.append(4), n);
            packets.push_back(packet{.head = std::move(frame), .body = {}});
        }
        const std::size_t taken = lossy.transmit(packets);
        BOOST_REQUIRE(taken <= packets.size());
        next += static_cast<unsigned>(taken);
    }
    BOOST_TEST(lossy.statistics().transmitted_packets + lossy.statistics().transmit_dropped == count);
    BOOST_TEST(lossy.transmitted().packets == count);
    packet none;
    BOOST_TEST(lossy.receive({&none, 1}) == 0u);
    BOOST_TEST(lossy.pool().free_count == lossy.pool().count());
}

constexpr double hardly_ever = 1e-300; ///< such a chance has each frame looked at by itself

} // namespace

BOOST_AUTO_TEST_SUITE(frame_loss)

BOOST_AUTO_TEST_CASE(every_nth_frame_is_lost_and_no_other) {
    for (const std::uint32_t every : {2u, 3u, 10u, 200u}) {
        std::vector<unsigned> expected;
        for (unsigned n = 1; n <= 100; ++n)
            if (n % every != 0) expected.push_back(n);
        for (const std::size_t burst : {1u, 2u, 7u, 32u})
            for (const std::size_t appetite : {1u, 3u, 32u})
                for (const bool full_at_times : {false, true})
                    for (const double duplicate : {0.0, hardly_ever}) {
                        sent_frames sent{.appetite = appetite, .full_at_times = full_at_times};
                        send_through({.drop_every = every, .duplicate = duplicate}, sent, 100, burst);
                        BOOST_TEST(sent.numbers == expected, boost::test_tools::per_element());
                    }
    }
}

BOOST_AUTO_TEST_CASE(every_frame_can_be_lost) {
    for (const faults& all : {faults{.drop_every = 1}, faults{.drop = 1}, faults{.drop = 1, .duplicate = hardly_ever}}) {
        sent_frames sent;
        send_through(all, sent, 10, 4);
        BOOST_TEST(sent.numbers.empty());
    }
}

BOOST_AUTO_TEST_CASE(losses_by_chance_are_as_many_as_asked_for_and_know_nothing_of_each_other) {
    constexpr unsigned count = 100'000;
    for (const faults& what : {faults{.drop = 0.3}, faults{.drop = 0.3, .duplicate = hardly_ever}}) {
        sent_frames sent{.full_at_times = true};
        send_through(what, sent, count, 32);
        const double lost = count - static_cast<double>(sent.numbers.size());
        BOOST_TEST(std::abs(lost - 30'000) < 5 * 145); // five times the deviation of a binomial distribution
        double next_to_each_other = 0, before = 0;
        for (const unsigned number : sent.numbers) {
            next_to_each_other += std::max(number - before - 2, 0.0);
            before = number;
        }
        BOOST_TEST(std::abs(next_to_each_other - 9'000) < 5 * 120);
    }
}

BOOST_AUTO_TEST_CASE(losses_by_chance_leave_bursts_together) {
    sent_frames sent;
    send_through({.drop = 0.01}, sent, 32'000, 32);
    const std::uint64_t lost = 32'000 - sent.numbers.size();
    BOOST_TEST((lost > 230 && lost < 410));
    BOOST_TEST(sent.calls <= 1'000 + lost);
}

BOOST_AUTO_TEST_SUITE_END()
