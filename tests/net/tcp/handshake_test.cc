// Opening a connection: RFC 9293 3.5 and the SYN's options.
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

BOOST_AUTO_TEST_SUITE(handshake)

BOOST_AUTO_TEST_CASE(an_active_open_takes_three_segments) { // RFC 9293 3.5, figure 6; 3.7.1, MUST-14
    tcp_script s;
    s.open();
    s.expect("S 0:0 mss 1000 sackok ws 5 win 65535 nots");
    s.expect_nothing();
    s.expect_state(tcp_state::syn_sent);
    BOOST_TEST(tcp::has(s.receive("SA 0:0 ack 1 win 65535 mss 500 sackok ws 7"), event::established));
    s.expect("A 1:1 ack 1");
    s.expect_nothing();
    BOOST_TEST(s.block().segment_payload() == 500u);
    BOOST_TEST(s.block().info().send_scale == 7);
}

BOOST_AUTO_TEST_CASE(a_passive_open_answers_with_what_was_offered_only) { // RFC 7323 2.2, RFC 2018 2
    tcp_script s;
    s.listen("S 0:0 win 1000 mss 700");
    const auto out = s.expect("SA 0:0 ack 1 mss 1000 nots");
    wire::tcp_options o;
    BOOST_TEST((wire::tcp_options::parse({out.options.data(), out.option_size}, o) == wire::parse_error::none));
    BOOST_TEST(!o.has_sack_permitted());
    BOOST_TEST(!o.has_window_scale());
    BOOST_TEST(tcp::has(s.receive("A 1:1 ack 1"), event::established));
    s.expect_nothing();
    BOOST_TEST(!s.block().info().sack);
}

BOOST_AUTO_TEST_CASE(without_an_mss_option_segments_have_536_bytes) { // RFC 9293 3.7.1 MUST-15
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 65535");
    BOOST_TEST(s.block().segment_payload() == 536u);
    s.write(1000);
    s.expect("A 1:537 ack 1");
}

BOOST_AUTO_TEST_CASE(timestamps_take_twelve_bytes_of_every_segment) { // RFC 9293 MUST-16, RFC 7323 3.2
    auto p = tcp_script::plain();
    p.timestamps = true;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 ts 77 0 ws 0");
    BOOST_TEST(s.block().segment_payload() == 988u);
    s.write(1000);
    BOOST_TEST(s.expect("A 1:989 ts 0 77").option_size == 12);
}

BOOST_AUTO_TEST_CASE(the_first_syns_are_repeated_at_equal_distances_where_that_is_wanted) { // net.ipv4.tcp_syn_linear_timeouts
    auto p = tcp_script::plain();
    p.syn_linear_timeouts = 2;
    tcp_script s(p);
    s.open();
    s.expect("S 0:0");
    for (const auto distance : {1s, 1s, 1s, 2s, 4s}) {
        s.advance(distance - 1ms);
        s.expect_nothing();
        s.advance(1ms);
        s.expect("S 0:0");
    }
}

BOOST_AUTO_TEST_CASE(linux_counts_the_syns_at_equal_distances_apart_and_looks_at_the_time) { // tcp_syn_retries
    auto p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    p.syn_linear_timeouts = 4;
    p.syn_retries = 1; // which would take three seconds, if each time-out were twice the one before
    tcp_script few(p);
    few.open();
    few.expect("S 0:0");
    for (int n = 0; n < 2; ++n) {
        few.advance(1s);
        few.expect("S 0:0");
    }
    few.advance(1s);
    few.expect_nothing();
    BOOST_TEST((few.block().state() == tcp::tcp_state::closed));
    p.syn_retries = 3; // and the four
    tcp_script more(p);
    more.open();
    more.expect("S 0:0");
    for (const auto distance : {1s, 1s, 1s, 1s, 1s, 2s, 4s}) {
        more.advance(distance);
        more.expect("S 0:0");
    }
    more.advance(8s);
    more.expect_nothing();
    BOOST_TEST((more.block().state() == tcp::tcp_state::closed));
}

BOOST_AUTO_TEST_CASE(the_window_of_a_syn_is_not_scaled) { // RFC 7323 2.2
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 1000 mss 1000 ws 4");
    BOOST_TEST(s.block().info().send_window == 1000u);
    s.receive("A 1:1 ack 1 win 1000");
    BOOST_TEST(s.block().info().send_window == 16000u);
}

BOOST_AUTO_TEST_CASE(a_window_is_unsigned) { // RFC 9293 3.1, MUST-1
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000");
    s.drain();
    BOOST_TEST(s.block().info().send_window == 65'535u);
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
}

BOOST_AUTO_TEST_CASE(who_opened_actively_is_told_of_a_refusal_behind_the_others_syn) { // RFC 9293 3.5.2, 3.10.7.4, MUST-11
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    s.receive("S 0:0 win 65535 mss 1000"); // both at once
    s.expect("SA 0:0 ack 1");
    s.receive("R 1:1");
    BOOST_TEST((s.block().error() == std::errc::connection_refused));
}

BOOST_AUTO_TEST_CASE(both_sides_may_open_at_once) { // RFC 9293 3.5, figure 7, MUST-10
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    s.receive("S 0:0 win 65535 mss 1000");
    s.expect("SA 0:0 ack 1");
    s.expect_state(tcp_state::syn_received);
    BOOST_TEST(tcp::has(s.receive("SA 0:0 ack 1 win 65535 mss 1000"), event::established));
    s.expect("A 1:1 ack 1");
    s.expect_state(tcp_state::established);
}

BOOST_AUTO_TEST_CASE(linux_challenges_a_syn_that_comes_again_where_both_have_opened) { // tcp_validate_incoming()
    auto p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.open();
    s.expect("S 0:0");
    s.receive("S 0:0 win 65535 mss 1000");
    s.expect("SA 0:0 ack 1");
    s.receive("S 0:0 win 65535 mss 1000");
    s.expect("A 1:1 ack 1");
    s.receive("S 0:0 win 65535 mss 1000"); // twice a second at most
    s.expect_nothing();
    s.receive("SA 0:0 ack 1 win 65535 mss 1000");
    s.expect_state(tcp_state::established);
}

BOOST_AUTO_TEST_CASE(a_lost_syn_is_repeated_with_back_off_until_three_minutes_are_over) { // RFC 9293 3.8.3, MUST-22, MUST-23
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    const time_point begin = s.now();
    for (int wait : {1, 2, 4, 8, 16, 32, 60}) {
        s.advance(std::chrono::seconds{wait} - 1us);
        s.expect_nothing();
        s.advance(1us);
        BOOST_TEST(s.expect("S 0:0").retransmission);
    }
    BOOST_TEST(tcp::has(s.advance(60s), event::timed_out));
    BOOST_TEST((s.block().error() == std::errc::timed_out));
    BOOST_TEST((s.now() - begin >= 180s));
    s.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_CASE(after_two_lost_syns_the_window_begins_with_one_segment) { // RFC 5681 3.1, RFC 6928 2, RFC 6298 5.7
    for (const unsigned lost : {1u, 2u}) {
        tcp_script s;
        s.open();
        s.expect("S 0:0");
        for (unsigned i = 0; i < lost; ++i) {
            s.advance(1s * (i + 1));
            s.expect("S 0:0");
        }
        s.receive("SA 0:0 ack 1 win 65535 mss 1000");
        s.expect("A 1:1 ack 1");
        BOOST_TEST(s.block().info().cwnd == (lost == 1 ? 10'000u : 1'000u)); // once may have been haste
        BOOST_TEST((s.block().info().rto >= 3s));
    }
}

BOOST_AUTO_TEST_CASE(a_syn_that_comes_twice_is_no_loss_of_ours) { // RFC 5681 3.1, RFC 6298 5.7 speak of our timer
    tcp_script s;
    s.listen("S 0:0 win 65535 mss 1000");
    s.expect("SA 0:0 ack 1");
    for (int i = 0; i < 3; ++i) {
        s.receive("S 0:0 win 65535 mss 1000");
        s.expect("SA 0:0 ack 1");
    }
    s.receive("A 1:1 ack 1");
    s.expect_state(tcp_state::established);
    BOOST_TEST(s.block().info().cwnd == 10'000u);
    BOOST_TEST((s.block().info().rto < 3s));
}

BOOST_AUTO_TEST_CASE(the_echo_in_the_answer_to_a_repeated_syn_gives_a_round_trip) { // RFC 7323 4.1
    for (const bool active : {true, false}) {
        auto p = tcp_script::plain();
        p.timestamps = true;
        tcp_script s(p);
        if (active) s.open();
        else s.listen("S 0:0 win 65535 mss 1000 ts 7 0");
        s.expect(active ? "S 0:0" : "SA 0:0 ack 1");
        s.advance(1s);
        s.expect(active ? "S 0:0" : "SA 0:0 ack 1");
        const std::uint32_t sent = tcp::timestamp_echo::clock(s.now(), 0);
        s.advance(30ms);
        s.receive((active ? "SA 0:0 ack 1 win 65535 mss 1000 ts 7 " : "A 1:1 ack 1 ts 8 ") + std::to_string(sent));
        s.expect_state(tcp_state::established);
        BOOST_TEST((s.block().info().srtt == 30ms));
        BOOST_TEST((s.block().info().rto < 3s));
    }
}

BOOST_AUTO_TEST_CASE(the_echo_of_a_syn_that_was_repeated_gives_none) { // whether its answer was lost nobody knows
    auto p = tcp_script::plain();
    p.timestamps = true;
    tcp_script s(p);
    s.open();
    s.expect("S 0:0");
    const std::uint32_t sent = tcp::timestamp_echo::clock(s.now(), 0);
    s.advance(1s);
    s.expect("S 0:0");
    s.advance(30ms);
    s.receive("SA 0:0 ack 1 win 65535 mss 1000 ts 7 " + std::to_string(sent));
    s.expect_state(tcp_state::established);
    BOOST_TEST((s.block().info().rto == 3s));
}

BOOST_AUTO_TEST_CASE(the_answer_to_a_repeated_syn_echoes_it) { // RFC 7323 5.3 R3
    auto p = tcp_script::plain();
    p.timestamps = true;
    tcp_script s(p);
    s.listen("S 0:0 win 65535 mss 1000 ts 7 0");
    s.expect("SA 0:0 ack 1 ts 0 7");
    s.receive("S 0:0 win 65535 mss 1000 ts 1007 0");
    s.expect("SA 0:0 ack 1 ts 0 1007");
    s.receive("S 0:0 win 65535 mss 1000 ts 3 0"); // an old one
    s.expect("SA 0:0 ack 1 ts 0 1007");
}

BOOST_AUTO_TEST_CASE(a_repeated_syn_gets_the_syn_ack_again) {
    tcp_script s;
    s.listen("S 0:0 win 65535 mss 1000");
    s.expect("SA 0:0 ack 1");
    s.receive("S 0:0 win 65535 mss 1000");
    s.expect("SA 0:0 ack 1");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(a_syn_ack_that_is_not_answered_is_given_up) {
    tcp_script s;
    s.listen("S 0:0 win 65535 mss 1000");
    s.expect("SA 0:0 ack 1");
    for (int i = 0; i < 5; ++i) {
        s.advance(70s);
        s.expect("SA 0:0 ack 1");
    }
    BOOST_TEST(tcp::has(s.advance(70s), event::timed_out | event::closed));
}

BOOST_AUTO_TEST_CASE(a_reset_refuses_a_connection_attempt) { // RFC 9293 3.10.7.3
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    BOOST_TEST(tcp::has(s.receive("RA 0:0 ack 1"), event::reset));
    BOOST_TEST((s.block().error() == std::errc::connection_refused));
}

BOOST_AUTO_TEST_CASE(a_reset_for_something_else_does_not_refuse_it) { // RFC 5961 3.2
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    s.receive("RA 0:0 ack 7");
    s.receive("R 0:0");
    s.expect_nothing();
    s.expect_state(tcp_state::syn_sent);
}

BOOST_AUTO_TEST_CASE(an_ack_of_something_else_in_syn_sent_is_reset) { // RFC 9293 3.5.1, half-open connections
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    s.receive("A 300:300 ack 91");
    const auto out = s.expect("R 91:91");
    BOOST_TEST((out.seq == tcp::seq_number(1'000'091)));
    s.expect_state(tcp_state::syn_sent);
}

BOOST_AUTO_TEST_CASE(data_with_the_syn_ack_is_taken) { // RFC 9293 3.10.7.3, last paragraph
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    s.receive("SA 0:0 ack 1 win 65535 mss 1000");
    s.receive("A 1:11 ack 1");
    BOOST_TEST(s.read() == 10u);
}

BOOST_AUTO_TEST_CASE(data_written_before_the_handshake_goes_out_after_it) {
    tcp_script s;
    s.open();
    s.write(500);
    s.expect("S 0:0");
    s.expect_nothing();
    s.receive("SA 0:0 ack 1 win 65535 mss 1000");
    s.expect("PA 1:501 ack 1");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(a_hard_icmp_error_ends_an_attempt_and_is_soft_afterwards) { // RFC 9293 3.9.2.2, RFC 5927
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    BOOST_TEST(tcp::has(s.block().on_icmp_error(std::errc::host_unreachable, true, tcp::seq_number(1'000'000)), event::closed));
    BOOST_TEST((s.block().error() == std::errc::host_unreachable));
    tcp_script t;
    t.connect();
    t.write(10);
    t.expect("A 1:11");
    BOOST_TEST((t.block().on_icmp_error(std::errc::host_unreachable, true, tcp::seq_number(1'000'001)) == event::none));
    t.expect_state(tcp_state::established);
}

BOOST_AUTO_TEST_CASE(sequence_numbers_wrap_without_notice) { // RFC 9293 3.4
    tcp_script s(tcp_script::plain(), 0xffff'fff0u, 0xffff'fe00u);
    s.connect();
    s.write(2000);
    s.expect("A 1:1001");
    s.expect("A 1001:2001");
    s.receive("A 1:1001 ack 2001");
    BOOST_TEST(s.read() == 1000u);
    s.advance(40ms);
    s.expect("A 2001:2001 ack 1001");
    BOOST_TEST(s.block().all_acknowledged());
}

BOOST_AUTO_TEST_SUITE_END()
