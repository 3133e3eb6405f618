// How fast data is delivered (send/delivery_rate.hh), by the rules of draft-ietf-ccwg-bbr 4.1.
#include <corewire/net/tcp/send/delivery_rate.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr time_point start = from_ns(1'000'000'000);

/// A sender by itself: what it has in flight, and what is told of an ACK.
struct flow {
    tcp::delivery_rate rate;
    std::uint32_t in_flight = 0;

    void send(duration at, std::uint32_t bytes) {
        const bool idle = in_flight == 0;
        in_flight += bytes;
        rate.on_sent(start + at, in_flight, idle);
    }
    /// `bytes` are delivered at `at`, the newest of which left at `sent`.
    tcp::rate_sample deliver(duration at, std::uint32_t bytes, duration sent) {
        in_flight -= bytes;
        const time_point newest = start + sent;
        tcp::rate_sample s;
        rate.on_delivered(start + at, bytes, &newest, at - sent, s);
        return s;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(delivery_rate)

BOOST_AUTO_TEST_CASE(a_flight_is_measured_from_the_ack_before_it_to_its_own) { // 4.1.1.2.1
    flow f;
    f.send(0ms, 1000);
    f.send(10ms, 1000);
    tcp::rate_sample s = f.deliver(100ms, 1000, 0ms);
    BOOST_TEST(s.known);
    BOOST_TEST(s.rate == 10'000u); // from its sending on: nothing was in flight before
    BOOST_TEST(s.flight_at_send == 1000u);
    f.send(100ms, 3000);
    s = f.deliver(110ms, 1000, 10ms);
    BOOST_TEST(s.total == 2000u);
    BOOST_TEST(s.rate == 2000u * 1000 / 110); // both, since the first left
    s = f.deliver(200ms, 3000, 100ms);
    BOOST_TEST(s.delivered == 4000u);   // the 1,000 at 110 ms as well
    BOOST_TEST(s.prior_total == 1000u);
    BOOST_TEST(s.rate == 40'000u);      // since 100 ms
    BOOST_TEST((s.rtt == 100ms));
}

BOOST_AUTO_TEST_CASE(acks_that_come_at_once_say_no_more_than_the_pace_of_sending) { // 4.1.1.2.2, 4.1.1.2.3
    flow f;
    for (int i = 0; i < 10; ++i) f.send(i * 10ms, 1000);
    f.deliver(95ms, 1000, 0ms); // somebody has held the ACKs up
    f.send(96ms, 1000);
    const tcp::rate_sample s = f.deliver(110ms, 10'000, 96ms);
    BOOST_TEST(s.delivered == 10'000u);
    BOOST_TEST(s.rate == 10'000u * 1000 / 96); // not in the 15 ms between the ACKs: sending them took 96
}

BOOST_AUTO_TEST_CASE(for_a_round_trip_after_a_lack_of_data_samples_are_marked) { // 4.1.2.4
    flow f;
    f.send(0ms, 2000);
    BOOST_TEST(!f.deliver(100ms, 1000, 0ms).app_limited);
    f.rate.limit_by_application(f.in_flight);
    BOOST_TEST(f.rate.limited_by_application());
    f.send(110ms, 1000);
    f.deliver(120ms, 1000, 0ms);
    f.send(130ms, 1000);
    BOOST_TEST(f.deliver(210ms, 1000, 110ms).app_limited);
    BOOST_TEST(!f.rate.limited_by_application()); // the bubble is out
    BOOST_TEST(f.deliver(230ms, 1000, 130ms).app_limited);
    f.send(230ms, 1000);
    BOOST_TEST(!f.deliver(330ms, 1000, 230ms).app_limited);
}

BOOST_AUTO_TEST_CASE(where_the_window_is_full_no_data_is_lacking) { // 4.1.2.4
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    p.counted = true;
    tcp_script s(p);
    s.connect();
    s.write(10'000);
    BOOST_TEST(s.drain() == 10); // all there is, and as much as may be
    s.write(12'000);
    BOOST_TEST(s.drain() == 0);
    s.advance(100ms);
    s.receive("A 1:1 ack 10001");
    BOOST_TEST(s.block().info().delivery_rate_limited); // nothing was to be sent before
    BOOST_TEST(s.drain() == 12);
    s.advance(100ms);
    s.receive("A 1:1 ack 22001");
    BOOST_TEST(!s.block().info().delivery_rate_limited);
}

BOOST_AUTO_TEST_CASE(what_waits_to_be_sent_again_is_no_lack_of_data) { // 4.1.2.4
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    p.counted = true;
    p.max_pacing_rate = 100'000;
    tcp_script s(p);
    s.connect();
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(50ms);
    s.receive("A 1:1 ack 1 sack 4001-10001");
    s.drain(); // some of it goes, the rest waits for the pace
    BOOST_TEST(s.block().info().lost != 0u);
    for (int i = 0; i < 10 && s.block().info().lost != 0u; ++i) s.advance(20ms), s.drain();
    const std::uint64_t before = s.block().info().delivery_rate;
    s.advance(50ms);
    s.receive("A 1:1 ack 4001 sack 4001-10001");
    BOOST_TEST(s.block().info().delivery_rate < before); // else the last sample would not count
}

BOOST_AUTO_TEST_CASE(a_sample_shorter_than_any_round_trip_is_none) { // 4.1.2.3: an earlier copy was acknowledged
    flow f;
    f.send(0ms, 1000);
    f.deliver(100ms, 1000, 0ms);
    f.send(200ms, 1000);
    const time_point again = start + 200ms;
    tcp::rate_sample s;
    f.rate.on_delivered(start + 210ms, 1000, &again, duration{-1}, s);
    BOOST_TEST(s.known);
    BOOST_TEST(s.rate == 0u);
    BOOST_TEST(s.delivered == 1000u);
}

BOOST_AUTO_TEST_CASE(losses_are_counted_from_each_sending_on) { // RS.lost, P.lost
    flow f;
    f.send(0ms, 1000);
    f.send(1ms, 1000);
    f.send(2ms, 1000);
    f.rate.on_lost(start + 0ms, 1000);
    BOOST_REQUIRE(f.rate.fresh_losses().size() == 1u);
    BOOST_TEST(f.rate.fresh_losses()[0].lost == 1000u);
    BOOST_TEST(f.rate.fresh_losses()[0].flight_at_send == 1000u);
    f.send(5ms, 1000);
    BOOST_TEST(f.deliver(101ms, 1000, 1ms).lost == 1000u);
    BOOST_TEST(f.deliver(105ms, 1000, 5ms).lost == 0u); // it left when the loss was known
    f.rate.on_lost(start + 77ms, 500); // of what nobody knows
    BOOST_TEST(!f.rate.fresh_losses()[1].known);
}

BOOST_AUTO_TEST_CASE(what_leaves_at_one_time_is_one_record_and_there_are_so_many) {
    flow f;
    for (int i = 0; i < 5; ++i) f.send(0ms, 1000);
    BOOST_TEST(f.rate.records() == 1u);
    BOOST_TEST(f.deliver(100ms, 1000, 0ms).flight_at_send == 5000u);
    constexpr std::uint32_t limit = tcp::delivery_rate::record_limit;
    for (std::uint32_t i = 1; i < limit; ++i) f.send(100ms + i * 1us, 1);
    BOOST_TEST(f.rate.full());
    BOOST_TEST(f.rate.forgotten() == 0u);
    f.send(200ms, 1);
    BOOST_TEST(f.rate.records() == limit);
    BOOST_TEST(f.rate.forgotten() == 1u);
    const tcp::rate_sample oldest = f.deliver(201ms, 4000, 0ms);
    BOOST_TEST(!oldest.known);
    BOOST_TEST(oldest.total == 5000u);
    BOOST_TEST(oldest.rate == 0u);
    f.rate.forget_before(start + 200ms);
    BOOST_TEST(f.rate.records() == 1u);
    BOOST_TEST(f.rate.forgotten() == 1u); // those were not needed
}

BOOST_AUTO_TEST_CASE(only_a_connection_whose_controller_asks_is_sampled) {
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    for (const auto how : {tcp::cubic_congestion, tcp::bbr_congestion}) {
        p.congestion = how;
        tcp_script s(p);
        s.connect();
        s.write(10'000);
        BOOST_TEST(s.drain() == 10);
        s.advance(100ms);
        s.receive("A 1:1 ack 10001 win 65535");
        BOOST_TEST(s.block().info().paced == (how == tcp::bbr_congestion));
        s.block().set_congestion(how == tcp::bbr_congestion ? tcp::cubic_congestion : tcp::bbr_congestion);
        BOOST_TEST(s.block().info().paced == (how == tcp::cubic_congestion));
        for (int i = 1; i <= 5; ++i) { // what flew meanwhile is not on record, and does no harm
            s.write(4'000);
            s.drain();
            s.advance(100ms);
            s.drain();
            s.receive("A 1:1 ack " + std::to_string(10'001 + i * 4'000) + " win 65535");
        }
        BOOST_TEST(s.block().info().unacknowledged == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
