// What a connection counts for info() when it is asked to (parameters::counted), and what it always knows.
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

tcp::parameters counted() {
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    p.counted = true;
    return p;
}

/// A handshake of 100 ms.
void open_far(tcp_script& s) {
    s.open();
    s.drain();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.drain();
}

} // namespace

BOOST_AUTO_TEST_SUITE(counts)

BOOST_AUTO_TEST_CASE(segments_are_counted_both_ways) {
    tcp_script s(counted());
    open_far(s);
    s.write(2'500);
    BOOST_TEST(s.drain() == 3);
    s.advance(100ms);
    s.receive("PA 1:301 ack 1001");
    s.receive("A 301:301 ack 2501");
    s.drain();
    tcp::connection_info i = s.block().info();
    BOOST_TEST(i.counted);
    BOOST_TEST(i.tally.data_out == 3u);
    BOOST_TEST(i.tally.out >= 5u); // SYN, ACK; and perhaps one of the 300 bytes
    BOOST_TEST(i.tally.in == 3u);
    BOOST_TEST(i.tally.data_in == 1u);
    BOOST_TEST(i.tally.delivered == 3u); // the small one as well
    BOOST_TEST(i.bytes_acked == 2'500u);
    BOOST_TEST((i.tally.spent[1] == 100ms)); // busy
    BOOST_TEST((i.last_payload == s.now()));
    s.advance(1s);
    s.receive("A 301:301 ack 2501"); // nothing more is under way
    BOOST_TEST((s.block().info().tally.spent[1] == 100ms));
}

BOOST_AUTO_TEST_CASE(the_rate_of_delivery_is_that_of_the_last_good_sample) { // tcp_rate_gen()
    tcp_script s(counted());
    open_far(s);
    s.write(10'000 + 12'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    s.receive("A 1:1 ack 10001");
    tcp::connection_info i = s.block().info();
    BOOST_TEST(i.delivery_rate == 100'000u); // ten segments in 100 ms
    BOOST_TEST(i.delivery_rate_limited); // nothing was to be sent before
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 22001");
    i = s.block().info();
    BOOST_TEST(i.delivery_rate == 120'000u);
    BOOST_TEST(!i.delivery_rate_limited);
    s.write(1'000); // too little to tell of the path
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 23001");
    BOOST_TEST(s.block().info().delivery_rate == 120'000u);
}

BOOST_AUTO_TEST_CASE(a_probe_of_the_path_that_begins_a_flight_is_timed_as_any_segment) {
    tcp::parameters p = counted();
    p.mss = 1460;
    p.mtu_probing = tcp::path_probing::always;
    p.restart_after_idle = false;
    tcp_script s(p);
    s.open();
    s.drain();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1460 sackok ws 4");
    s.drain();
    s.write(11'000); // more than may go at once, so the window grows
    const int first = s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack " + std::to_string(1 + 1024 * first));
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 11001");
    s.drain();
    s.advance(10s);
    s.write(100'000);
    s.expect("A 11001:12461"); // the probe
    s.drain();
    const std::uint32_t flight = s.block().info().in_flight;
    s.advance(100ms);
    s.receive("A 1:1 ack " + std::to_string(11'001 + flight));
    BOOST_TEST(s.block().info().delivery_rate == flight * 10u);
}

BOOST_AUTO_TEST_CASE(who_asks_while_data_is_in_flight_is_told_of_rates_from_then_on) {
    tcp::parameters p = counted();
    p.counted = false;
    tcp_script s(p);
    open_far(s);
    s.write(5'000);
    BOOST_TEST(s.drain() == 5);
    s.advance(50ms);
    s.block().set_counted(true);
    s.write(5'000);
    BOOST_TEST(s.drain() == 5);
    s.advance(50ms);
    s.receive("A 1:1 ack 5001");
    s.advance(50ms);
    s.receive("A 1:1 ack 10001");
    BOOST_TEST(s.block().info().delivery_rate >= 50'000u);
    BOOST_TEST(s.block().info().delivery_rate <= 100'000u);
    s.block().note_no_space(true);
    s.block().set_counted(false);
    s.block().note_no_space(false); // says nothing to who does not count
    s.block().set_counted(true);
    BOOST_TEST(!s.block().info().tally.no_space);
}

BOOST_AUTO_TEST_CASE(rows_of_time_outs_and_how_long_they_took_are_known_of_every_connection) { // tcpi_total_rto and its neighbours
    for (const bool asks : {true, false}) {
        tcp::parameters p = counted();
        p.counted = asks;
        tcp_script s(p);
        s.connect();
        s.write(1000);
        s.drain();
        s.advance(200ms);
        s.drain();
        s.advance(400ms);
        s.drain();
        BOOST_TEST(s.block().info().tally.time_out_rows == 1u);
        BOOST_TEST((s.block().info().tally.in_rows == 0ms)); // it goes on
        s.advance(50ms);
        s.receive("A 1:1 ack 1001");
        BOOST_TEST((s.block().info().tally.in_rows == 450ms));
        s.write(1000);
        s.drain();
        s.advance(s.block().info().rto);
        s.drain();
        s.advance(10ms);
        s.receive("A 1:1 ack 2001");
        BOOST_TEST(s.block().info().tally.time_out_rows == 2u);
        BOOST_TEST((s.block().info().tally.in_rows == 460ms));
        BOOST_TEST(s.block().statistics().retransmission_timeouts == 3u);
    }
}

BOOST_AUTO_TEST_CASE(who_does_not_ask_pays_nothing) {
    tcp::parameters p = counted();
    p.counted = false;
    tcp_script s(p);
    open_far(s);
    s.write(2'500);
    s.drain();
    s.advance(100ms);
    s.receive("PA 1:301 ack 2501");
    const tcp::connection_info i = s.block().info();
    BOOST_TEST(!i.counted);
    BOOST_TEST(i.tally.in + i.tally.out + i.tally.delivered == 0u);
    BOOST_TEST(i.delivery_rate == 0u);
    BOOST_TEST((i.last_payload == time_point{}));
    s.block().set_counted(true);
    s.write(1'000);
    s.drain();
    s.advance(100ms);
    s.receive("A 301:301 ack 3501");
    BOOST_TEST(s.block().info().tally.delivered == 1u);
    BOOST_TEST(s.block().info().bytes_acked == 3'500u);
}

BOOST_AUTO_TEST_SUITE_END()
