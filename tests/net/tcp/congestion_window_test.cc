// A congestion window that is not used is not believed in (RFC 5681 4.1, 2861, 7661).
#include <corewire/net/tcp/congestion/cubic.hh>
#include <corewire/net/tcp/congestion/reno.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

tcp::parameters with(tcp::personality habits) {
    tcp::parameters p = tcp_script::plain();
    p.habits = habits;
    p.tail_loss_probe = false;
    p.congestion = tcp::reno_congestion;
    p.fast_path = false; // habits are followed on the general way
    return p;
}

/// A handshake of 100 ms, and a round in which the initial window was used up. Returns cwnd.
std::uint32_t open_window(tcp_script& s) {
    s.open();
    s.drain();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 2");
    s.drain();
    s.write(10'001);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    unsigned sent = 0;
    for (int at = 2'001; at <= 10'001; at += 2'000) {
        s.receive("A 1:1 ack " + std::to_string(at));
        sent += s.drain();
    }
    BOOST_TEST(sent == 1u);
    s.receive("A 1:1 ack 10002");
    const std::uint32_t cwnd = s.block().info().cwnd;
    BOOST_TEST(cwnd >= 20'000u);
    BOOST_TEST(cwnd <= 21'000u); // Linux's: a byte that was a segment opens it by one
    return cwnd;
}

/// One segment, acknowledged in 100 ms.
void exchange(tcp_script& s, std::int64_t& at) {
    s.write(1000);
    BOOST_TEST(s.drain() == 1);
    s.advance(100ms);
    at += 1000;
    s.receive("A 1:1 ack " + std::to_string(at));
}

} // namespace

BOOST_AUTO_TEST_SUITE(congestion_window)

BOOST_AUTO_TEST_CASE(a_window_that_is_not_used_does_not_grow) { // RFC 7661 4.4
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        tcp_script s(with(habits));
        const std::uint32_t cwnd = open_window(s);
        std::int64_t at = 10'002;
        exchange(s, at);
        exchange(s, at);
        BOOST_TEST(s.block().info().cwnd == cwnd);
    }
}

BOOST_AUTO_TEST_CASE(a_loss_counts_what_was_in_flight_and_not_the_window) { // RFC 5681 (4), RFC 7661 4.4.1
    tcp_script s(with(tcp::personality::standard));
    open_window(s); // 20 segments
    s.write(6'000);
    BOOST_TEST(s.drain() == 6);
    s.advance(100ms);
    s.receive("A 1:1 ack 10002 sack 11002-16002");
    BOOST_TEST(s.block().info().ssthresh == 3'000u);
    tcp::cubic c(1000);
    c.on_loss(6'000); // of 10,000
    BOOST_TEST(c.ssthresh() == 4'200u);
}

BOOST_AUTO_TEST_CASE(after_a_pause_the_window_is_the_initial_one) { // RFC 5681 4.1
    tcp_script s(with(tcp::personality::standard));
    open_window(s);
    s.expect_nothing();
    s.advance(2s);
    s.write(1000);
    BOOST_TEST(s.drain() == 1);
    BOOST_TEST(s.block().info().cwnd == 10'000u);
}

BOOST_AUTO_TEST_CASE(linux_halves_it_once_a_time_out_and_keeps_its_threshold) { // RFC 2861 2.1
    tcp_script s(with(tcp::personality::linux_));
    open_window(s);
    s.write(22'000);
    BOOST_TEST(s.drain() == 21);
    s.advance(100ms);
    s.receive("A 1:1 ack 31002");
    BOOST_TEST(s.drain() == 1);
    const std::uint32_t cwnd = s.block().info().cwnd;
    BOOST_TEST(cwnd >= 42'000u);
    s.receive("A 1:1 ack 32002");
    const duration rto = s.block().info().rto;
    s.expect_nothing();
    s.advance(rto + rto / 2); // since the last segment was sent
    s.write(1000);
    BOOST_TEST(s.drain() == 1);
    BOOST_TEST(s.block().info().cwnd <= (cwnd + 1000) / 2);
    BOOST_TEST(s.block().info().cwnd >= cwnd / 2);
    BOOST_TEST(s.block().info().ssthresh > 1u << 29); // no loss yet: as it was
}

BOOST_AUTO_TEST_CASE(linux_remembers_three_quarters_of_a_window_that_a_pause_has_halved) { // RFC 2861 2.1
    tcp::reno r(1000);
    r.follow_linux();
    const time_point now = from_ns(1);
    r.on_loss(20'000);
    r.on_recovered();
    BOOST_TEST(r.ssthresh() == 5'000u);
    while (r.cwnd() < 40'000) r.on_ack({.now = now, .acked = r.cwnd(), .in_flight = r.cwnd(), .srtt = 100ms});
    r.on_idle(now, 300ms, 200ms); // one time-out, and not two
    BOOST_TEST(r.cwnd() == 20'000u);
    BOOST_TEST(r.ssthresh() == 30'000u);
    r.on_idle(now, 300ms, 200ms);
    BOOST_TEST(r.cwnd() == 10'000u);
    BOOST_TEST(r.ssthresh() == 30'000u); // never less
}

BOOST_AUTO_TEST_CASE(linux_counts_a_window_as_used_that_is_just_full) { // tcp_cwnd_validate()
    tcp_script s(with(tcp::personality::linux_));
    open_window(s);
    s.write(20'000);
    BOOST_TEST(s.drain() == 20);
    s.advance(100ms);
    s.receive("A 1:1 ack 10002 sack 11002-30002");
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 30002");
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().info().cwnd >= s.block().info().ssthresh); // beyond slow start, where half of it would do
    std::int64_t at = 30'002;
    for (int round = 0; round < 3; ++round) {
        const std::uint32_t full = s.block().info().cwnd;
        s.write(full);
        BOOST_TEST(s.drain() == static_cast<int>(full / 1000));
        s.expect_nothing();
        s.advance(100ms);
        s.receive("A 1:1 ack " + std::to_string(at += full));
        BOOST_TEST(s.block().info().cwnd == full + 1000);
    }
}

BOOST_AUTO_TEST_CASE(linux_takes_half_of_what_is_not_used_while_data_flows) { // RFC 2861 3.2
    tcp_script s(with(tcp::personality::linux_));
    open_window(s);
    std::int64_t at = 10'002;
    for (int i = 0; i < 5; ++i) exchange(s, at);
    BOOST_TEST(s.block().info().cwnd == 15'000u); // the initial window counts as used
    for (int i = 0; i < 12; ++i) exchange(s, at);
    BOOST_TEST(s.block().info().cwnd >= 10'000u);
    BOOST_TEST(s.block().info().cwnd < 12'500u);
}

BOOST_AUTO_TEST_CASE(neither_happens_when_it_is_not_wanted) { // net.ipv4.tcp_slow_start_after_idle
    tcp::parameters p = with(tcp::personality::linux_);
    p.restart_after_idle = false;
    tcp_script s(p);
    const std::uint32_t cwnd = open_window(s);
    std::int64_t at = 10'002;
    for (int i = 0; i < 8; ++i) exchange(s, at);
    s.expect_nothing();
    s.advance(10s);
    exchange(s, at);
    BOOST_TEST(s.block().info().cwnd == cwnd);
}

BOOST_AUTO_TEST_CASE(a_retransmission_is_no_idleness) { // RFC 5681 4.1
    tcp_script s(tcp_script::plain());
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0", 150ms);
    std::int64_t at = 1;
    const auto round_trip = [&](std::uint32_t bytes) {
        s.write(bytes);
        while (at < 1 + static_cast<std::int64_t>(s.block().info().snd_max.value - 1'000'001) || s.block().info().unsent != 0) {
            s.drain();
            const std::int64_t sent = 1 + static_cast<std::int64_t>(s.block().info().snd_max.value - 1'000'001);
            s.advance(150ms);
            while (at < sent) s.receive("A 1:1 ack " + std::to_string(at = std::min(at + 1000, sent)));
        }
    };
    for (int i = 0; i < 3; ++i) round_trip(30'000);
    const int flight = static_cast<int>(s.block().info().cwnd / 1000);
    s.write(static_cast<std::uint32_t>(flight * 1000));
    BOOST_TEST(s.drain() == flight);
    s.advance(150ms); // the first is lost
    for (int i = 2; i <= flight; ++i) {
        s.receive("A 1:1 ack " + std::to_string(at) + " sack " + std::to_string(at + 1000) + "-" + std::to_string(at + i * 1000));
        s.drain();
    }
    s.advance(150ms);
    s.receive("A 1:1 ack " + std::to_string(at + flight * 1000)); // new data left 300 ms ago, the copy of the first half of that
    BOOST_REQUIRE(s.block().info().rto < 300ms);
    const std::uint32_t before = s.block().info().cwnd;
    BOOST_TEST(before > 15'000u);
    s.write(60'000);
    s.drain();
    BOOST_TEST(s.block().info().cwnd == before);
}

BOOST_AUTO_TEST_SUITE_END()
