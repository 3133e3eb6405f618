// CUBIC in Linux's arithmetic. The expected windows are what Linux 6.18 has had with the same acknowledgements.
#include <corewire/net/tcp/congestion/linux_cubic.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace corewire;
using namespace corewire::tcp;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t mss = 1000;

struct path {
    linux_cubic c{mss};
    time_point now = from_ns(1'000'000'000);
    seq_number una{};

    path() { c.follow_linux(); }
    std::uint32_t window() const { return c.cwnd() / mss; }
    void ack(std::uint32_t segments, duration rtt, std::uint32_t flight) {
        una = una + segments * mss;
        c.on_ack({.now = now, .acked = segments * mss, .in_flight = flight, .srtt = 50ms, .rtt = rtt, .una = una, .next = una + flight});
        c.check_invariants();
    }
    void lose() {
        c.remember();
        c.on_loss(c.cwnd());
        c.on_recovered();
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(linux_cubic)

BOOST_AUTO_TEST_CASE(the_curve_is_reckoned_in_whole_segments) {
    path p; // 20 segments, of which one is lost, and round trips of 50 ms
    p.ack(10, 50ms, 10'000);
    BOOST_TEST(p.window() == 20u);
    p.now += 50ms;
    p.lose();
    BOOST_TEST(p.window() == 14u); // 20 * 717 / 1024
    p.now += 50ms;
    p.ack(1, duration{0}, 14'000); // the last that it had
    std::vector<std::uint32_t> windows;
    for (int round = 0; round < 6; ++round) {
        for (int i = 0; i < 6; ++i) {
            p.now += i == 0 ? 26ms : 4ms;
            p.ack(2, 50ms, 14'000);
        }
        windows.push_back(p.window());
    }
    const std::vector<std::uint32_t> expected{14, 15, 16, 16, 16, 16};
    BOOST_TEST(windows == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(round_trips_of_a_repair_count_for_the_curve) {
    path p; // ten segments; SACK tells of five after 100 ms, and one ACK of all when the first has come once more
    p.c.on_repair_round_trip(p.now, 100ms);
    p.lose();
    BOOST_TEST(p.window() == 7u);
    p.now += 150ms;
    p.ack(5, 254ms, 0);
    BOOST_TEST(p.window() == 7u); // one more for seven; 254 ms ahead on the curve it would be one for three
}

BOOST_AUTO_TEST_CASE(a_round_trip_that_has_grown_ends_slow_start_at_the_window_of_before) {
    path p; // round trips of 100 ms, later of 120
    for (const std::uint32_t segments : {10u, 20u}) {
        for (std::uint32_t i = 0; i < segments; i += 2) {
            p.now += 10ms; // no train
            p.ack(2, 100ms, segments * mss);
        }
    }
    BOOST_TEST(p.window() == 40u);
    std::uint32_t before = 0;
    int acks = 0;
    for (; acks < 20 && p.c.in_slow_start(); ++acks) {
        before = p.window();
        p.now += 10ms;
        p.ack(2, 120ms, 40'000);
    }
    BOOST_TEST(acks == 11); // the third begins the round, and the ninth of that is compared
    BOOST_TEST(p.c.ssthresh() / mss == before);
    BOOST_TEST(p.window() == before); // what it acknowledges counts towards the next segment
}

BOOST_AUTO_TEST_CASE(a_train_as_long_as_half_a_round_trip_ends_slow_start) {
    path p;
    p.now += 10ms;
    p.ack(10, 100ms, 10'000);
    p.now += 100ms;
    int acks = 0;
    for (; acks < 100 && p.c.in_slow_start(); ++acks) {
        p.now += 2ms;
        p.ack(1, 100ms, 60'000);
    }
    BOOST_TEST(acks == 11 + 26); // the eleventh begins a round, of which (100 ms + 1 ms) / 2 pass
}

BOOST_AUTO_TEST_CASE(after_a_time_out_a_window_grows_by_a_segment_for_every_twenty) {
    path p;
    p.ack(190, 50ms, 10'000);
    p.now += 1s;
    p.c.on_timeout(200'000, true);
    BOOST_TEST(p.window() == 1u);
    BOOST_TEST(p.c.ssthresh() == 140'000u);
    p.ack(139, 50ms, 1'000);
    BOOST_TEST(p.window() == 140u);
    p.now += 50ms;
    for (int i = 0; i < 7; ++i) p.ack(20, 50ms, 140'000);
    BOOST_TEST(p.window() == 147u); // the curve alone would add one
    p.now += 2s;
    BOOST_TEST(p.c.name() == "cubic");
}

BOOST_AUTO_TEST_CASE(no_window_grows_without_bound) {
    path p;
    for (int i = 0; i < 3'000'000 && p.c.cwnd() < 1u << 30; ++i) p.ack(1u << 14, 1ms, 1u << 29);
    p.ack(1u << 14, 1ms, 1u << 29);
    BOOST_TEST(p.c.cwnd() <= (1u << 30) + (1u << 25));
}

BOOST_AUTO_TEST_SUITE_END()
