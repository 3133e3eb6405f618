// A window that is not used is kept for a while, at a pace, and answers a loss by what was used of it (RFC 7661).
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

/// A connection that wants it, over a path of 100 ms, or another.
struct fresh_script : tcp_script {
    explicit fresh_script(duration round_trip = 100ms) : tcp_script(wanted()), rtt(round_trip) {
        open();
        drain();
        advance(rtt);
        receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 2");
        drain();
    }
    static tcp::parameters wanted() {
        tcp::parameters p = plain();
        p.tail_loss_probe = false;
        p.congestion = tcp::reno_congestion;
        p.window_validation = true;
        return p;
    }
    std::uint32_t cwnd() { return block().info().cwnd; }
    std::uint32_t ssthresh() { return block().info().ssthresh; }
    void fill() { send(cwnd() / 1000 * 1000); }
    /// Writes four segments; the last three are SACKed after 100 ms.
    void lose_the_first_of_four() {
        write(4'000);
        int sent = drain();
        while (sent < 4) advance(1ms), sent += drain();
        advance(100ms);
        const auto next = [&](int n) { return std::to_string(at + 1000 * n); };
        receive("A 1:1 ack " + next(0) + " sack " + next(1) + "-" + next(4));
    }
    /// Writes so much, lets the pace let it go, and acknowledges it in a round trip.
    void send(std::uint32_t bytes) {
        write(bytes);
        int sent = drain();
        duration took{0};
        for (; took < rtt - 5ms && sent < static_cast<int>(bytes / 1000); took += 1ms) {
            advance(1ms);
            sent += drain();
        }
        BOOST_TEST(sent == static_cast<int>(bytes / 1000));
        advance(rtt - took);
        for (std::uint32_t done = 0; done < bytes; done += 1000) receive("A 1:1 ack " + std::to_string(at += 1000));
        drain();
    }
    /// Loses the first of a whole window, and repairs it.
    void lose_one_of_a_window() {
        const int segments = static_cast<int>(cwnd() / 1000);
        write(1000 * static_cast<std::uint32_t>(segments));
        for (int sent = drain(); sent < segments; sent += drain()) advance(1ms);
        advance(20ms);
        const std::string end = std::to_string(at + 1000 * segments);
        receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(at + 1000) + "-" + end);
        drain();
        advance(100ms);
        receive("A 1:1 ack " + end);
        drain();
        at += 1000 * segments;
    }
    const duration rtt;
    std::int64_t at = 1;
};

/// The same, whose window has been used up twice.
struct script : fresh_script {
    explicit script(duration round_trip = 100ms) : fresh_script(round_trip) {
        fill();
        fill();
        BOOST_TEST(cwnd() >= 20'000u);
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(window_validation)

BOOST_FIXTURE_TEST_CASE(a_pause_keeps_the_window_and_what_it_lets_go_is_paced, script) { // 4.4, 4.4.2
    const std::uint32_t before = cwnd();
    advance(4min);
    BOOST_TEST(cwnd() == before);
    write(before);
    BOOST_TEST(drain() < 10); // and not all at once
    BOOST_TEST(cwnd() == before);
}

BOOST_FIXTURE_TEST_CASE(a_window_that_is_half_used_may_grow_and_one_that_is_not_stays, script) { // 4.3, 4.4
    advance(2s);
    const std::uint32_t before = cwnd();
    for (int i = 0; i < 12; ++i) send(2'000);
    BOOST_TEST(cwnd() == before);
    fill(); // the round is measured at its end
    fill();
    BOOST_TEST(cwnd() > before);
}

BOOST_FIXTURE_TEST_CASE(a_window_counts_as_used_for_a_second, script) { // 4.2: or for three round trips, if they are longer
    std::uint32_t before = cwnd();
    advance(600ms);
    send(1'000);
    BOOST_TEST(cwnd() > before);
    before = cwnd();
    advance(600ms);
    send(1'000);
    BOOST_TEST(cwnd() == before);
}

BOOST_AUTO_TEST_CASE(a_window_counts_as_used_for_three_round_trips_where_those_are_longer) { // 4.2
    script s(600ms);
    std::uint32_t before = s.cwnd();
    s.advance(600ms);
    s.send(1'000); // acknowledged 1.2 s later
    BOOST_TEST(s.cwnd() > before);
    before = s.cwnd();
    s.advance(100ms);
    s.send(1'000); // 1.9 s
    BOOST_TEST(s.cwnd() == before);
}

BOOST_FIXTURE_TEST_CASE(before_a_round_was_measured_nothing_is_known, fresh_script) { // 4.2
    write(2'000);
    BOOST_TEST(drain() == 2);
    advance(100ms);
    receive("A 1:1 ack 1001"); // not all of the round
    BOOST_TEST(cwnd() == 10'000u);
}

BOOST_FIXTURE_TEST_CASE(behind_a_recovery_nothing_is_known_and_an_idle_window_is_judged_as_ever, script) { // 4.2, RFC 5681 4.1
    fill();
    fill();
    lose_one_of_a_window();
    BOOST_TEST(cwnd() > 15'000u);
    advance(5s);
    write(1'000);
    drain();
    BOOST_TEST(cwnd() == 10'000u);
}

BOOST_FIXTURE_TEST_CASE(after_five_minutes_half_of_it_is_left, script) { // 4.4.3
    const std::uint32_t before = cwnd();
    advance(4min + 59s);
    write(1'000);
    drain();
    BOOST_TEST(cwnd() == before);
    advance(100ms);
    receive("A 1:1 ack " + std::to_string(at += 1000));
    advance(10s);
    write(1'000);
    drain();
    BOOST_TEST(cwnd() == std::max(before / 2, 10'000u));
    advance(100ms);
    receive("A 1:1 ack " + std::to_string(at += 1000));
    advance(6min);
    write(1'000);
    drain();
    BOOST_TEST(cwnd() == 10'000u); // never below the initial window
}

BOOST_FIXTURE_TEST_CASE(the_threshold_remembers_three_quarters_of_what_five_minutes_halve, script) { // 4.4.3
    lose_one_of_a_window();
    for (int i = 0; i < 100 && cwnd() * 3 / 4 <= ssthresh() + 2'000; ++i) fill();
    const std::uint32_t before = cwnd();
    BOOST_REQUIRE(before * 3 / 4 > ssthresh() + 2'000);
    advance(5min + 10s);
    write(1'000);
    drain();
    BOOST_TEST(cwnd() == std::max(before / 2, 10'000u));
    BOOST_TEST(ssthresh() == before / 4 * 3);
}

BOOST_FIXTURE_TEST_CASE(a_loss_is_answered_by_what_was_used_lately, script) { // 4.4.1
    advance(5s);
    send(8'000);
    lose_the_first_of_four();
    BOOST_TEST(ssthresh() == 4'000u); // half of 8,000, where the flight alone would be half of 4,000
    for (int i = 0; i < 100; ++i) drain(), advance(1ms);
    drain();
    receive("A 1:1 ack " + std::to_string(at + 4000));
    BOOST_TEST(cwnd() == 3'500u); // less what was sent again
    at += 4000;
    advance(5s); // nothing is known of it now: an ordinary window
    send(3'000);
    BOOST_TEST(cwnd() >= 3'500u);
}

BOOST_FIXTURE_TEST_CASE(a_round_after_a_pause_is_measured_whole, script) { // 4.2
    advance(5s);
    send(4'000);
    advance(50ms); // too short to begin anew, and all was acknowledged
    send(8'000);
    lose_the_first_of_four();
    BOOST_TEST(ssthresh() == 4'000u); // half of all 8,000
}

BOOST_FIXTURE_TEST_CASE(a_window_that_is_used_answers_a_loss_as_ever, script) {
    const int segments = static_cast<int>(cwnd() / 1000);
    write(1000 * static_cast<std::uint32_t>(segments));
    int sent = drain();
    while (sent < segments) advance(1ms), sent += drain();
    advance(60ms);
    receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(at + 1000) + "-" + std::to_string(at + 1000 * segments));
    BOOST_TEST(ssthresh() == 500u * static_cast<std::uint32_t>(segments));
}

BOOST_AUTO_TEST_SUITE_END()
