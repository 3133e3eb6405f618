// Losses and their repair: RFC 6298, 5681, 6582, 2018, 6675, 2883, 8985 7.
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

namespace {

tcp::parameters no_probe() {
    auto p = tcp_script::plain();
    p.tail_loss_probe = false;
    p.congestion = tcp::reno_congestion; // halving, so that the numbers are easy to follow
    return p;
}

/// Ten segments of 1,000 bytes are on their way.
void send_ten(tcp_script& s) {
    s.write(9'900); // the tenth is small, no more can follow
    BOOST_TEST(s.drain() == 10);
}

} // namespace

BOOST_AUTO_TEST_SUITE(loss)

BOOST_AUTO_TEST_CASE(a_time_out_resends_the_first_segment_and_doubles) { // RFC 6298 5.4 to 5.6; RFC 9293 MUST-19
    tcp_script s(no_probe());
    s.connect();
    s.write(1000);
    s.expect("PA 1:1001");
    s.expect_nothing();
    s.advance(200ms - 1us);
    s.expect_nothing();
    s.advance(1us);
    BOOST_TEST(s.expect("PA 1:1001").retransmission);
    s.expect_nothing();
    s.advance(400ms - 1us);
    s.expect_nothing();
    s.advance(1us);
    s.expect("PA 1:1001");
    BOOST_TEST(s.block().info().cwnd == 1000u);
    BOOST_TEST(tcp::has(s.receive("A 1:1 ack 1001"), event::all_acknowledged));
}

BOOST_AUTO_TEST_CASE(the_time_out_stays_backed_off_until_a_round_trip_is_measured) { // RFC 6298 5, Karn; MUST-18
    tcp_script s(no_probe());
    s.open();
    s.drain();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.drain();
    s.write(100);
    s.expect("PA 1:101");
    for (int i = 0; i < 100; ++i) s.advance(10ms), s.drain(); // the path has become longer
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 2u);
    const duration backed_off = s.block().info().rto;
    BOOST_TEST((backed_off >= 1s));
    s.receive("A 1:1 ack 101");
    BOOST_TEST((s.block().info().rto == backed_off));
    s.write(100);
    s.expect("PA 101:201");
    s.advance(1s);
    s.receive("A 1:1 ack 201"); // sent once
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 2u);
    BOOST_TEST(s.block().info().backoff == 0u);
    BOOST_TEST((s.block().info().srtt > 200ms));
}

BOOST_AUTO_TEST_CASE(a_time_out_resends_the_first_segment_whatever_was_sent_just_before) { // RFC 6298 5.4
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        auto p = no_probe();
        p.habits = habits;
        tcp_script s(p);
        s.open();
        s.drain();
        s.advance(100ms);
        s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
        s.drain();
        s.write(2000);
        BOOST_TEST(s.drain() == 2);
        s.advance(100ms);
        s.receive("A 1:1 ack 1 sack 1001-2001"); // from here on RACK knows the round trip
        s.receive("A 1:1 ack 2001");
        s.write(1000);
        s.expect("PA 2001:3001"); // lost
        s.expect_nothing();
        s.advance(s.block().info().rto - 10ms);
        s.write(1000);
        s.expect("PA 3001:4001"); // too young to be held for lost
        s.expect_nothing();
        s.advance(10ms);
        BOOST_TEST(s.expect("A 2001:3001").retransmission);
        s.expect_nothing();
        BOOST_TEST(s.block().info().lost == 0u);
        BOOST_TEST(s.block().info().cwnd == (habits == tcp::personality::linux_ ? 2000u : 1000u)); // tcp_enter_loss(): flight and one more
    }
}

BOOST_AUTO_TEST_CASE(a_time_out_holds_nothing_for_lost_that_was_sent_within_a_round_trip) { // RFC 8985 6.3
    tcp_script s(no_probe()); // nothing was ever overtaken, so RACK has measured nothing
    s.open();
    s.drain();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.drain();
    s.write(1000);
    s.expect("PA 1:1001");
    s.advance(s.block().info().rto - 60ms);
    s.write(1000);
    s.expect("PA 1001:2001");
    s.expect_nothing();
    s.advance(60ms);
    BOOST_TEST(s.expect("A 1:1001").retransmission);
    BOOST_TEST(s.block().info().lost == 0u);
}

BOOST_AUTO_TEST_CASE(a_time_out_in_recovery_counts_all_that_is_not_acknowledged) { // RFC 5681 (4): FlightSize; 4.3: lowered twice
    tcp_script s(no_probe());
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 1 sack 1001-9001"); // the flight thins out
    BOOST_TEST(s.expect("A 1:1001").retransmission); // lost as well
    s.drain();
    BOOST_TEST(s.block().info().ssthresh == 4'950u);
    s.advance(200ms);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
    BOOST_TEST(s.block().info().ssthresh == 2'475u);
    BOOST_TEST(s.block().info().cwnd == 1'000u);
}

BOOST_AUTO_TEST_CASE(a_second_time_out_counts_all_that_is_not_acknowledged) { // RFC 5681 (4), 4.3
    tcp_script s(no_probe());
    s.connect();
    send_ten(s);
    s.advance(200ms);
    BOOST_TEST(s.drain() == 1);
    BOOST_TEST(s.block().info().ssthresh == 4'950u);
    s.receive("A 1:1 ack 1001");
    BOOST_TEST(s.drain() == 2); // lost as well
    s.advance(400ms);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 2u);
    BOOST_TEST(s.block().info().ssthresh == 2'475u); // not what is left of the flight, two segments
}

BOOST_AUTO_TEST_CASE(behind_a_time_out_one_ack_opens_the_window_by_one_segment) { // RFC 3465 2.3
    tcp_script s(no_probe());
    s.connect("SA 0:0 ack 1 win 65535 mss 1000");
    send_ten(s);
    s.advance(200ms);
    s.expect("A 1:1001");
    s.expect_nothing();
    s.receive("A 1:1 ack 9901"); // the rest was there all along
    BOOST_TEST(s.block().info().cwnd == 2'000u);
}

BOOST_AUTO_TEST_CASE(linux_reduces_once_for_a_loss_and_the_time_out_in_its_recovery) { // tcp_enter_loss()
    auto p = no_probe();
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 1 sack 1001-9001");
    BOOST_TEST(s.expect("A 1:1001").retransmission);
    s.drain();
    const auto ssthresh = s.block().info().ssthresh;
    s.advance(300ms);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
    BOOST_TEST(s.block().info().ssthresh == ssthresh);
}

BOOST_AUTO_TEST_CASE(a_retransmitted_segment_is_not_timed) { // Karn, RFC 6298 3; RFC 9293 MUST-18
    tcp_script s(no_probe());
    s.connect();
    s.write(1000);
    s.expect("PA 1:1001");
    s.expect_nothing();
    const duration before = s.block().info().srtt;
    s.advance(200ms);
    s.expect("PA 1:1001");
    s.expect_nothing();
    s.advance(150ms);
    s.receive("A 1:1 ack 1001");
    BOOST_TEST((s.block().info().srtt == before));
}

BOOST_AUTO_TEST_CASE(after_a_back_off_the_echo_gives_a_round_trip) { // RFC 7323 4.1: what Karn's rule can not time
    for (const bool stamps : {true, false}) {
        auto p = no_probe();
        p.timestamps = stamps;
        tcp_script s(p);
        s.connect(stamps ? "SA 0:0 ack 1 win 65535 mss 1000 sackok ts 5000 0 ws 0" : "SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
        s.write(900);
        s.expect("PA 1:901");
        s.expect_nothing();
        const duration before = s.block().info().srtt;
        s.advance(200ms);
        s.expect("PA 1:901");
        s.expect_nothing();
        s.advance(150ms);
        s.receive("A 1:1 ack 901"); // echoes the repeated one
        if (stamps) {
            BOOST_TEST((s.block().info().srtt > before && s.block().info().srtt <= 150ms));
        } else {
            BOOST_TEST((s.block().info().srtt == before));
        }
    }
}

BOOST_AUTO_TEST_CASE(r1_is_reported_and_r2_ends_the_connection) { // RFC 9293 3.8.3, MUST-20
    auto p = no_probe();
    p.retries = 5;
    tcp_script s(p);
    s.connect();
    s.write(1000);
    s.expect("PA 1:1001");
    s.expect_nothing();
    bool trouble = false;
    for (int i = 0; i < 5; ++i) {
        trouble |= tcp::has(s.advance(100s), event::delivery_trouble);
        s.expect("PA 1:1001");
        s.expect_nothing();
    }
    BOOST_TEST(trouble);
    BOOST_TEST(tcp::has(s.advance(100s), event::timed_out | event::closed));
    BOOST_TEST((s.block().error() == std::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(the_user_timeout_ends_it_sooner) { // RFC 9293 3.8.3, MUST-21
    tcp_script s(no_probe());
    s.connect();
    s.block().set_user_timeout(1s);
    s.write(1000);
    s.expect("PA 1:1001");
    s.expect_nothing();
    for (int i = 0; i < 99; ++i) s.advance(10ms), s.drain();
    s.expect_state(tcp_state::established);
    s.advance(10ms);
    s.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_CASE(a_soft_icmp_error_names_the_cause_of_the_time_out) { // RFC 9293 3.9.2.2, MUST-47, MUST-54, MUST-56
    auto p = no_probe();
    p.retries = 1;
    tcp_script s(p);
    s.connect();
    s.write(1000);
    s.expect("PA 1:1001");
    s.block().on_icmp_error(std::errc::host_unreachable, false, tcp::seq_number(1'000'001));
    s.expect_state(tcp_state::established);
    for (int i = 0; i < 2; ++i) s.drain(), s.advance(100s);
    BOOST_TEST((s.block().error() == std::errc::host_unreachable));
}

BOOST_AUTO_TEST_CASE(three_sacks_start_fast_recovery_and_only_the_hole_is_resent) { // RFC 6675 5
    tcp_script s(no_probe());
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 1001");
    s.receive("A 1:1 ack 1001 sack 2001-3001");
    s.receive("A 1:1 ack 1001 sack 2001-4001");
    BOOST_TEST(s.drain() == 0);
    s.receive("A 1:1 ack 1001 sack 2001-5001");
    BOOST_TEST(s.expect("A 1001:2001").retransmission);
    s.expect_nothing();
    BOOST_TEST(s.block().info().recovering);
    BOOST_TEST(s.block().info().ssthresh < 6000u);
    s.receive("A 1:1 ack 9901");
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
}

BOOST_AUTO_TEST_CASE(limited_transmit_sends_new_data_on_the_first_two) { // RFC 3042
    tcp_script s(no_probe());
    s.connect();
    s.write(20'000);
    BOOST_TEST(s.drain() == 10);
    s.receive("A 1:1 ack 1 sack 1001-2001");
    s.expect("A 10001:11001");
    s.expect_nothing();
    s.receive("A 1:1 ack 1 sack 1001-3001");
    s.expect("A 11001:12001");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(two_holes_are_repaired_in_one_recovery) { // RFC 6675
    tcp_script s(no_probe());
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 1 sack 1001-2001");
    s.receive("A 1:1 ack 1 sack 3001-4001,1001-2001");
    s.receive("A 1:1 ack 1 sack 3001-7001,1001-2001");
    s.expect("A 1:1001");
    s.drain();
    s.receive("A 1:1 ack 1 sack 3001-9901,1001-2001");
    s.drain();
    s.receive("A 1:1 ack 2001 sack 3001-9901");
    s.drain();
    BOOST_TEST(s.block().statistics().retransmitted_segments == 2u);
    BOOST_TEST(s.block().statistics().fast_recoveries == 1u);
    s.receive("A 1:1 ack 9901");
    BOOST_TEST(s.block().all_acknowledged());
}

BOOST_AUTO_TEST_CASE(a_lost_retransmission_is_seen_without_a_time_out) {
    tcp_script s(no_probe());
    s.connect();
    s.write(40'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(1ms);
    s.receive("A 1:1 ack 1 sack 1001-4001");
    BOOST_TEST(s.expect("A 1:1001").retransmission); // and it is lost
    s.drain();
    s.advance(1ms);
    s.receive("A 1:1 ack 1 sack 1001-10001");
    BOOST_TEST(s.drain() > 3); // new data, behind the retransmission
    s.receive("A 1:1 ack 1 sack 1001-14001");
    BOOST_TEST(s.expect("A 1:1001").retransmission);
}

BOOST_AUTO_TEST_CASE(without_sack_three_duplicates_start_newreno) { // RFC 5681 3.2, RFC 6582
    tcp_script s(no_probe());
    s.connect("SA 0:0 ack 1 win 65535 mss 1000");
    send_ten(s);
    for (int i = 0; i < 2; ++i) s.receive("A 1:1 ack 1");
    s.expect_nothing();
    s.receive("A 1:1 ack 1");
    s.expect("A 1:1001");
    s.expect_nothing();
    for (int i = 0; i < 5; ++i) s.receive("A 1:1 ack 1");
    s.receive("A 1:1 ack 4001"); // partial: the next hole at once
    s.expect("A 4001:5001");
    s.receive("A 1:1 ack 9901");
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().info().cwnd <= 5000u);
}

BOOST_AUTO_TEST_CASE(a_partial_ack_takes_back_what_duplicates_have_said_of_it) { // RFC 6582 3.2 steps 4, 5
    auto p = no_probe();
    p.congestion = tcp::reno_congestion;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000");
    s.write(50'000);
    BOOST_TEST(s.drain() == 10);
    for (int i = 0; i < 3; ++i) s.receive("A 1:1 ack 1");
    s.expect("A 1:1001");
    for (int i = 0; i < 2; ++i) s.receive("A 1:1 ack 1");
    s.expect_nothing();
    for (int i = 0; i < 4; ++i) { // each tells of one that has left: half of ten may be in flight
        s.receive("A 1:1 ack 1");
        s.expect("A " + std::to_string(10'001 + 1000 * i) + ":" + std::to_string(11'001 + 1000 * i));
        s.expect_nothing();
    }
    s.receive("A 1:1 ack 4001");
    s.expect("A 4001:5001");
    s.expect_nothing(); // of what is acknowledged now three were told of before
}

BOOST_AUTO_TEST_CASE(an_ack_of_a_byte_delivers_a_byte) { // RFC 9937: of Linux's window without SACK; ACK division (RFC 3465 2.1)
    auto p = no_probe();
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000");
    s.write(100'000);
    BOOST_TEST(s.drain() == 10);
    for (int i = 0; i < 4; ++i) s.receive("A 1:1 ack 1"); // the first has a newer number than the SYN-ACK, and is none
    s.drain();
    for (int at = 2; at <= 100; ++at) {
        s.receive("A 1:1 ack " + std::to_string(at));
        s.drain();
    }
    BOOST_TEST(s.block().info().recovering);
    const std::uint32_t sent = s.block().info().snd_max - tcp::seq_number(1'000'001);
    BOOST_TEST(sent <= 11'000u);
}

BOOST_AUTO_TEST_CASE(window_updates_are_not_duplicate_acks) { // RFC 5681 2
    tcp_script s(no_probe());
    s.connect("SA 0:0 ack 1 win 65535 mss 1000");
    send_ten(s);
    for (int i = 0; i < 5; ++i) s.receive("A 1:1 ack 1 win " + std::to_string(60'000 + i));
    s.expect_nothing();
    BOOST_TEST(s.block().statistics().fast_recoveries == 0u);
}

BOOST_AUTO_TEST_CASE(a_sack_of_what_was_never_sent_is_ignored) {
    tcp_script s(no_probe());
    s.connect();
    send_ten(s);
    for (int i = 0; i < 5; ++i) s.receive("A 1:1 ack 1 sack 20001-30001,5001-4001");
    s.expect_nothing();
    BOOST_TEST(!s.block().info().recovering);
}

BOOST_AUTO_TEST_CASE(linux_soon_repeats_what_a_peer_has_dropped) { // tcp_check_sack_reneging()
    auto p = no_probe();
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.open();
    s.drain();
    s.advance(100ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok");
    s.drain();
    s.write(5'000);
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 1 sack 1001-4001");
    BOOST_TEST(s.expect("A 1:1001").retransmission);
    s.advance(50ms);
    s.receive("A 1:1 ack 1001");
    s.drain();
    s.advance(45ms);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
    s.advance(10ms); // half of a round trip has passed
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
    s.expect("A 1001:2001");
}

BOOST_AUTO_TEST_CASE(a_peer_that_drops_what_it_sacked_gets_it_again) { // RFC 2018 8
    tcp_script s(no_probe());
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 1 sack 1001-9901");
    s.drain();
    s.receive("A 1:1 ack 1001"); // at 1001 it has nothing after all
    s.drain();
    s.advance(100s);
    s.expect("A 1001:2001");
}

BOOST_AUTO_TEST_CASE(the_last_segment_lost_is_probed_long_before_the_time_out) { // RFC 8985 7
    tcp_script s;
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 9001");
    s.drain();
    const time_point before = s.now();
    s.advance(1s);
    BOOST_TEST(s.expect("PA 9001:9901").retransmission);
    BOOST_TEST((s.now() - before < 60ms));
    s.receive("A 1:1 ack 9901");
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
    BOOST_TEST(s.block().statistics().tail_loss_probes == 1u);
}

namespace {

/// Sends 100 bytes, and waits for the tail probe.
void send_until_probed(tcp_script& s, int at) {
    s.write(100);
    s.expect("PA " + std::to_string(at) + ":" + std::to_string(at + 100));
    for (int i = 0; i < 1000 && s.drain() == 0; ++i) s.advance(1ms);
    BOOST_TEST(s.block().statistics().tail_loss_probes == 1u);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_needless_probe_costs_no_window_though_nothing_is_in_flight_when_that_is_heard) { // RFC 8985 7.4.2
    for (const std::string answer : {"A 1:1 ack 101 sack 1-101", "A 1:1 ack 101"}) {
        tcp_script s;
        s.connect();
        send_until_probed(s, 1);
        const auto before = s.block().info().cwnd;
        s.receive("A 1:1 ack 101"); // the first copy's
        s.receive(answer);          // the probe's
        s.write(100);
        s.expect("PA 101:201");
        s.receive("A 1:1 ack 201");
        BOOST_TEST(s.block().info().cwnd >= before);
    }
}

BOOST_AUTO_TEST_CASE(a_probe_that_mended_a_loss_costs_window) { // RFC 8985 7.4.2
    for (const std::string also : {"", " sack 1-51"}) { // a duplicate of something else
        tcp_script s;
        s.connect();
        send_until_probed(s, 1);
        const auto before = s.block().info().cwnd;
        s.receive("A 1:1 ack 101"); // and nothing more: one of the two was lost
        s.write(100);
        s.expect("PA 101:201");
        s.receive("A 1:1 ack 201" + also);
        BOOST_TEST(s.block().info().cwnd < before);
    }
}

BOOST_AUTO_TEST_CASE(a_probe_takes_new_data_along_though_the_window_is_full) { // RFC 8985 7.3
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        auto p = tcp_script::plain();
        p.habits = habits;
        tcp_script s(p);
        s.connect();
        s.write(20'000);
        BOOST_TEST(s.drain() == 10);
        s.advance(1s);
        BOOST_TEST(s.block().statistics().tail_loss_probes == 1u);
        BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
        BOOST_TEST(!s.expect("A 10001:11001").retransmission);
        s.expect_nothing();
    }
}

BOOST_AUTO_TEST_CASE(a_probe_repeats_the_last_segment_where_the_peer_has_no_room_for_more) { // RFC 8985 7.3
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 10000 mss 1000 sackok ws 0");
    s.write(20'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(1s);
    BOOST_TEST(s.expect("A 9001:10001").retransmission);
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(linux_probes_neither_in_recovery_nor_beside_sacked_data) { // RFC 8985 7.2, tcp_schedule_loss_probe()
    auto p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 1 sack 1001-9001");
    BOOST_TEST(s.expect("A 1:1001").retransmission); // lost as well
    s.drain();
    s.advance(s.block().info().rto - 1us);
    s.expect_nothing();
    BOOST_TEST(s.block().statistics().tail_loss_probes == 0u);
    s.advance(2us);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
}

BOOST_AUTO_TEST_CASE(linux_allows_for_a_delayed_ack_of_one_segment_and_not_of_two_small_ones) { // RFC 8985 7.2
    auto p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    p.no_delay = true;
    p.peer_delayed_ack = 100ms;
    for (const int segments : {1, 2}) {
        tcp_script s(p);
        s.open();
        s.drain();
        s.advance(20ms);
        s.receive("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
        s.drain();
        for (int i = 0; i < segments; ++i) s.write(10), s.drain();
        s.advance(50ms); // twice the round trip, and a little
        BOOST_TEST(s.block().statistics().tail_loss_probes == (segments == 2 ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(a_probe_that_is_sacked_reveals_the_lost_tail) { // RFC 8985 7
    tcp_script s;
    s.connect();
    send_ten(s);
    s.receive("A 1:1 ack 6001"); // the last four are lost
    s.drain();
    s.advance(1s);
    s.expect("PA 9001:9901");
    s.receive("A 1:1 ack 6001 sack 9001-9901");
    s.expect("A 6001:7001");
    s.expect_nothing(); // RFC 9937: as much as was delivered
    s.advance(100us);
    s.receive("A 1:1 ack 7001 sack 9001-9901");
    s.expect("A 7001:8001");
    s.expect("A 8001:9001");
    s.receive("A 1:1 ack 8001 sack 9001-9901");
    s.receive("A 1:1 ack 9901");
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
}

BOOST_AUTO_TEST_CASE(a_smaller_path_mtu_cuts_what_is_in_flight_anew) { // RFC 1191 6.5, RFC 9293 3.7.2
    tcp_script s(no_probe());
    s.connect();
    s.write(2000);
    BOOST_TEST(s.drain() == 2);
    s.block().on_path_mtu(s.now(), 640, tcp::seq_number(1'000'001));
    s.expect("A 1:601");
    BOOST_TEST(s.block().segment_payload() == 600u);
}

BOOST_AUTO_TEST_CASE(beyond_a_gap_data_is_kept_and_reported) { // RFC 2018 4, RFC 5681 4.2
    tcp_script s;
    s.connect();
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 1 sack 1001-2001");
    s.receive("A 3001:4001 ack 1");
    s.expect("A 1:1 ack 1 sack 3001-4001,1001-2001");
    s.receive("A 2001:3001 ack 1");
    s.expect("A 1:1 ack 1 sack 1001-4001");
    s.receive("A 1:1001 ack 1");
    s.expect("A 1:1 ack 4001");
    BOOST_TEST(s.read_all() == 4000u);
}

BOOST_AUTO_TEST_CASE(a_segment_that_finds_no_room_is_not_reported_as_had) { // RFC 2018 4: a block says that we hold it
    tcp_script s;
    s.connect();
    for (int i = 0; i < 64; ++i) { // as many gaps as are kept in mind
        s.receive("A " + std::to_string(1'001 + 200 * i) + ":" + std::to_string(1'101 + 200 * i) + " ack 1");
        s.drain();
    }
    s.receive("A 20001:20101 ack 1");
    s.expect("A 1:1 ack 1 sack 13601-13701,13401-13501,13201-13301,13001-13101");
    BOOST_TEST(s.block().statistics().duplicates == 0u);
}

BOOST_AUTO_TEST_CASE(a_duplicate_is_reported_by_dsack) { // RFC 2883 4
    tcp_script s;
    s.connect();
    s.receive("A 1:1001 ack 1");
    s.receive("A 1:1001 ack 1");
    s.expect("A 1:1 ack 1001 sack 1-1001");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(a_duplicate_inside_a_kept_block_is_followed_by_that_block) { // RFC 2883 4.2
    tcp_script s;
    s.connect();
    s.receive("A 2001:3001 ack 1");
    s.receive("A 3001:4001 ack 1");
    s.drain();
    s.receive("A 5001:6001 ack 1");
    s.drain();
    s.receive("A 7001:8001 ack 1");
    s.expect("A 1:1 ack 1 sack 7001-8001,5001-6001,2001-4001");
    s.receive("A 3001:4001 ack 1");
    s.expect("A 1:1 ack 1 sack 3001-4001,2001-4001,7001-8001,5001-6001");
    s.receive("A 5001:6001 ack 1");
    s.expect("A 1:1 ack 1 sack 5001-6001,5001-6001,2001-4001,7001-8001");
    s.receive("A 9001:10001 ack 1");
    s.expect("A 1:1 ack 1 sack 9001-10001,5001-6001,2001-4001,7001-8001");
    s.receive("A 1:1001 ack 1");
    s.drain();
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 4001 sack 9001-10001,5001-6001,7001-8001");
    s.receive("A 1001:2001 ack 1"); // below the acknowledgment (4.1): the blocks stand as they are
    s.expect("A 1:1 ack 4001 sack 1001-2001,9001-10001,5001-6001,7001-8001");
    BOOST_TEST(s.block().statistics().duplicates == 3u);
}

BOOST_AUTO_TEST_CASE(without_dsack_a_duplicate_brings_its_block_to_the_front) { // RFC 2018 4: the first block holds what has just come
    auto p = tcp_script::plain();
    p.duplicate_sack = false;
    tcp_script s(p);
    s.connect();
    s.receive("A 2001:3001 ack 1");
    s.drain();
    s.receive("A 5001:6001 ack 1");
    s.expect("A 1:1 ack 1 sack 5001-6001,2001-3001");
    s.receive("A 2001:3001 ack 1");
    s.expect("A 1:1 ack 1 sack 2001-3001,5001-6001");
}

BOOST_AUTO_TEST_CASE(nor_does_what_comes_before_its_ack_stand_between) { // RFC 2883 4 (2): ACKs leave at the end of a burst
    tcp_script s;
    s.connect();
    s.receive("A 2001:3001 ack 1");
    s.drain();
    s.receive("A 5001:6001 ack 1");
    s.drain();
    s.receive("A 2001:3001 ack 1");
    s.receive("A 7001:8001 ack 1");
    s.expect("A 1:1 ack 1 sack 2001-3001,2001-3001,7001-8001,5001-6001");
    s.receive("A 5001:6001 ack 1");
    s.receive("A 1:1001 ack 1");
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 3001 sack 5001-6001,5001-6001,7001-8001");
    s.receive("A 5001:6001 ack 1"); // by then it is below the acknowledgment
    s.receive("A 3001:4001 ack 1");
    s.receive("A 4001:5001 ack 1");
    s.expect("A 1:1 ack 6001 sack 5001-6001,7001-8001");
    s.receive("A 7001:8001 ack 1"); // and here nothing is held any more
    s.receive("A 6001:7001 ack 1");
    s.expect("A 1:1 ack 8001 sack 7001-8001");
}

BOOST_AUTO_TEST_CASE(overlaps_are_trimmed_and_the_first_bytes_stay) {
    tcp_script s;
    s.connect();
    s.receive("A 501:1501 ack 1");
    s.drain();
    s.receive("A 1:1001 ack 1");
    s.expect("A 1:1 ack 1501");
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 2001 sack 1001-1501");
    BOOST_TEST(s.read_all() == 2000u);
}

BOOST_AUTO_TEST_CASE(a_fin_beyond_a_gap_is_remembered) {
    tcp_script s;
    s.connect();
    s.receive("FA 1001:2001 ack 1");
    s.drain();
    s.expect_state(tcp_state::established);
    BOOST_TEST(tcp::has(s.receive("A 1:1001 ack 1"), event::end_of_stream));
    s.expect("A 1:1 ack 2002");
    s.expect_state(tcp_state::close_wait);
}

BOOST_AUTO_TEST_SUITE_END()
