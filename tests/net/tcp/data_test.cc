// Data in order: acknowledgments, Nagle, windows, probes (RFC 9293 3.7.4, 3.8.6).
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

BOOST_AUTO_TEST_SUITE(data)

BOOST_AUTO_TEST_CASE(a_lone_segment_is_acknowledged_after_forty_milliseconds) { // RFC 9293 3.8.6.3, MUST-40
    tcp_script s;
    s.connect();
    BOOST_TEST(tcp::has(s.receive("A 1:101 ack 1"), event::readable));
    s.expect_nothing();
    s.advance(40ms - 1us);
    s.expect_nothing();
    s.advance(1us);
    s.expect("A 1:1 ack 101");
}

BOOST_AUTO_TEST_CASE(the_last_of_what_waits_is_pushed_and_nothing_waits_for_ever) { // RFC 9293 3.9.1.2, MUST-60, MUST-61
    tcp_script s;
    s.connect();
    s.write(2500); // there is no PUSH to ask for
    BOOST_TEST(!wire::has(s.expect("A 1:1001").flags, tcp::tcp_flags::psh));
    s.expect("A 1001:2001");
    s.receive("A 1:1 ack 2001");
    BOOST_TEST(wire::has(s.expect("A 2001:2501").flags, tcp::tcp_flags::psh));
}

BOOST_AUTO_TEST_CASE(a_trickle_does_not_push_the_delayed_ack_back) { // RFC 9293 3.8.6.3
    tcp_script s;
    s.connect();
    s.receive("A 1:11 ack 1");
    s.expect_nothing();
    s.advance(30ms);
    s.receive("A 11:21 ack 1");
    s.expect_nothing();
    s.advance(10ms);
    s.expect("A 1:1 ack 21");
}

BOOST_AUTO_TEST_CASE(every_second_full_segment_is_acknowledged_at_once) { // RFC 5681 4.2, RFC 9293 SHLD-18
    tcp_script s;
    s.connect();
    s.receive("A 1:1001 ack 1");
    s.expect_nothing();
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 2001");
}

BOOST_AUTO_TEST_CASE(a_burst_is_acknowledged_once) { // RFC 9293 3.10.7.4: MUST-58, MUST-59
    tcp_script s;
    s.connect();
    for (int i = 0; i < 6; ++i) s.receive("A " + std::to_string(1 + i * 1000) + ":" + std::to_string(1001 + i * 1000) + " ack 1");
    s.receive("A 7001:8001 ack 1"); // a gap is told of in the same one
    s.expect("A 1:1 ack 6001 sack 7001-8001");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(the_first_segments_are_acknowledged_quickly_until_data_flows_back) {
    auto p = tcp_script::plain();
    p.quick_acks = 16;
    tcp_script s(p);
    s.connect();
    s.receive("A 1:11 ack 1");
    s.expect("A 1:1 ack 11");
    s.write(10);
    s.expect("PA 1:11 ack 11");
    s.receive("A 11:21 ack 11");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(data_carries_the_ack) {
    tcp_script s;
    s.connect();
    s.receive("A 1:101 ack 1");
    s.write(10);
    s.expect("PA 1:11 ack 101");
    s.receive("A 101:101 ack 11");
    s.advance(100ms);
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(a_small_segment_waits_for_the_ack_of_another) { // RFC 9293 3.7.4, SHLD-7, Minshall's variant
    tcp_script s;
    s.connect();
    s.write(10);
    s.expect("PA 1:11");
    s.write(10);
    s.expect_nothing();
    s.receive("A 1:1 ack 11");
    s.expect("PA 11:21");
}

BOOST_AUTO_TEST_CASE(a_segment_that_makes_room_for_sack_blocks_is_not_small) {
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 50000 mss 1000 sackok");
    s.receive("A 101:111 ack 1");
    s.expect("A 1:1 ack 1 sack 101-111");
    s.write(2 * 988 + 10);
    s.expect("A 1:989");
    s.expect("A 989:1977");
    s.expect("PA 1977:1987");
}

BOOST_AUTO_TEST_CASE(no_delay_sends_small_segments_at_once) { // RFC 9293 3.7.4, MUST-17
    auto p = tcp_script::plain();
    p.no_delay = true;
    tcp_script s(p);
    s.connect();
    s.write(10);
    s.expect("PA 1:11");
    s.write(10);
    s.expect("PA 11:21");
}

BOOST_AUTO_TEST_CASE(switching_nagle_off_lets_the_waiting_bytes_go) {
    tcp_script s;
    s.connect();
    s.write(10);
    s.expect("PA 1:11");
    s.write(10);
    s.expect_nothing();
    s.block().set_no_delay(true);
    s.expect("PA 11:21");
}

BOOST_AUTO_TEST_CASE(the_initial_window_is_ten_segments) { // RFC 6928
    tcp_script s;
    s.connect();
    s.write(20'000);
    for (int i = 0; i < 10; ++i) s.expect("A " + std::to_string(1 + i * 1000) + ":" + std::to_string(1001 + i * 1000));
    s.expect_nothing();
    s.receive("A 1:1 ack 2001"); // slow start: two more for the two, two for the growth
    BOOST_TEST(s.drain() == 4);
}

BOOST_AUTO_TEST_CASE(the_peers_window_is_never_overrun) { // RFC 9293 3.8.6
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 2500 mss 1000 sackok ws 0");
    s.write(5000);
    s.expect("A 1:1001");
    s.expect("A 1001:2001");
    s.expect_nothing(); // 500 more would be silly (RFC 9293 3.8.6.2.1, MUST-38)
    s.receive("A 1:1 ack 2001 win 2500");
    s.expect("A 2001:3001");
}

BOOST_AUTO_TEST_CASE(a_closed_window_is_probed_with_back_off_for_as_long_as_the_peer_answers) { // 3.8.6.1, MUST-35, MUST-36, MUST-37
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 0 mss 1000 sackok ws 0");
    s.write(3000);
    s.expect_nothing();
    duration last{0};
    for (int i = 0; i < 20; ++i) {
        const time_point before = s.now();
        s.advance(100s);
        s.expect("A 1:2");
        BOOST_TEST((s.now() - before >= std::min<duration>(last, 60s)));
        last = s.now() - before;
        s.receive("A 1:1 ack 1 win 0");
    }
    BOOST_TEST((last == 60s));
    s.receive("A 1:1 ack 1 win 5000");
    s.expect("A 1:1001");
    s.expect("A 1001:2001");
    s.expect("PA 2001:3001");
}

BOOST_AUTO_TEST_CASE(what_was_a_window_probe_tells_no_round_trip_time) { // RFC 6298 3, Karn
    for (const bool opens : {true, false}) {
        tcp_script s;
        s.connect("SA 0:0 ack 1 win 1000 mss 1000 sackok ws 0");
        s.write(1000);
        s.expect("PA 1:1001");
        s.advance(10ms);
        s.receive("A 1:1 ack 1001 win 0");
        BOOST_TEST((s.block().info().srtt <= 10ms));
        s.write(1000);
        s.expect_nothing();
        for (int i = 0; i < 4; ++i) {
            s.advance(100s);
            s.expect("A 1001:1002");
            if (i < 3) s.receive("A 1:1 ack 1001 win 0");
        }
        if (opens) {
            s.receive("A 1:1 ack 1001 win 5000");
            s.expect("PA 1001:2001"); // its first byte for the fifth time
            s.advance(10ms);
            s.receive("A 1:1 ack 2001 win 5000");
        } else { // the fourth probe's byte was taken, or an earlier one's
            s.receive("A 1:1 ack 1002 win 5000");
            s.expect("PA 1002:2001");
            s.advance(10ms);
            s.receive("A 1:1 ack 2001 win 5000");
        }
        BOOST_TEST((s.block().info().srtt <= 10ms));
        BOOST_TEST((s.block().info().rto <= 1s));
    }
}

BOOST_AUTO_TEST_CASE(a_window_that_opens_behind_probes_is_used_though_the_congestion_window_is_one_segment) {
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    for (int i = 1; i <= 2; ++i) {
        s.advance(1s * i);
        s.expect("S 0:0");
    }
    s.receive("SA 0:0 ack 1 win 1000 mss 1000 sackok ws 0");
    s.drain();
    s.write(1000);
    s.expect("PA 1:1001");
    s.receive("A 1:1 ack 1001 win 0");
    BOOST_REQUIRE(s.block().info().cwnd < 2001u);
    s.write(3000);
    s.expect_nothing();
    for (int i = 0; i < 3; ++i) {
        s.advance(100s);
        s.expect("A 1001:1002");
        s.receive("A 1:1 ack 1001 win 0");
    }
    BOOST_TEST(s.block().info().in_flight == 0u);
    s.receive("A 1:1 ack 1001 win 5000");
    s.expect("A 1001:2001");
}

BOOST_AUTO_TEST_CASE(a_window_taken_back_from_what_is_in_flight_is_asked_for_as_long_as_the_peer_answers) { // SHLD-17, MUST-37
    for (const bool orphan : {false, true}) {
        auto p = tcp_script::plain();
        p.retries = 5;
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
        s.write(3000);
        BOOST_TEST(s.drain() == 3);
        if (orphan) {
            s.shutdown();
            s.orphan();
            BOOST_TEST(s.drain() == 1);
        }
        int answers = 0;
        for (; answers < 20 && !s.saw(event::timed_out); ++answers) {
            s.receive("A 1:1 ack 1 win 0");
            for (int i = 0; i < 50 && s.drain() == 0 && !s.saw(event::timed_out); ++i) s.advance(5s);
        }
        BOOST_TEST(s.saw(event::timed_out) == orphan);
        if (orphan) continue;
        BOOST_TEST(answers == 20);
        for (int i = 0; i < 400 && !s.saw(event::timed_out); ++i) s.advance(5s), s.drain(); // but not without an answer
        BOOST_TEST(s.saw(event::timed_out));
    }
}

BOOST_AUTO_TEST_CASE(what_a_window_taken_back_refused_goes_again_as_soon_as_it_opens) {
    for (const bool sack : {true, false}) {
        tcp_script s;
        s.connect(sack ? "SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0" : "SA 0:0 ack 1 win 5000 mss 1000 ws 0");
        s.write(3000);
        BOOST_TEST(s.drain() == 3);
        for (int i = 0; i < 8; ++i) { // dropped, and the time-out is backed off
            s.receive("A 1:1 ack 1 win 0");
            for (int j = 0; j < 50 && s.drain() == 0; ++j) s.advance(5s);
        }
        s.receive("A 1:1 ack 1 win 0");
        s.expect_nothing();
        s.advance(1ms);
        s.receive("A 1:1 ack 1 win 5000");
        s.expect("A 1:1001");
        s.expect_nothing(); // one segment, as after any time-out
        s.advance(3s); // lost: the time-out is that of the round trip
        s.expect("A 1:1001");
        s.expect_nothing();
        s.advance(10ms);
        s.receive("A 1:1 ack 1001 win 5000");
        s.expect("A 1001:2001");
        s.expect("PA 2001:3001");
        s.receive("A 1:1 ack 3001 win 5000");
        BOOST_TEST(s.block().info().in_flight == 0u);
    }
}

BOOST_AUTO_TEST_CASE(linux_and_freebsd_wait_for_the_time_out_then) {
    for (const auto habits : {tcp::personality::linux_, tcp::personality::freebsd}) {
        auto p = tcp_script::plain();
        p.habits = habits;
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
        s.write(3000);
        s.drain();
        for (int i = 0; i < 3; ++i) {
            s.receive("A 1:1 ack 1 win 0");
            for (int j = 0; j < 50 && s.drain() == 0; ++j) s.advance(1s);
        }
        s.receive("A 1:1 ack 1 win 0");
        s.advance(1ms);
        s.receive("A 1:1 ack 1 win 5000");
        s.expect_nothing();
    }
}

BOOST_AUTO_TEST_CASE(a_window_that_opens_and_closes_puts_no_end_off) {
    for (const bool orphan : {false, true}) {
        auto p = tcp_script::plain();
        p.retries = 5;
        p.user_timeout = orphan ? duration{0s} : duration{60s};
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
        s.write(3000);
        s.drain();
        if (orphan) {
            s.shutdown();
            s.orphan();
            s.drain();
        }
        int sent = 0;
        for (int i = 0; i < 20'000 && !s.saw(event::timed_out); ++i) { // every 20 ms, 400 s in all
            s.receive(i % 2 == 0 ? "A 1:1 ack 1 win 0" : "A 1:1 ack 1 win 5000");
            if (s.saw(event::timed_out)) break;
            sent += s.drain();
            s.advance(20ms);
            sent += s.drain();
        }
        BOOST_TEST(s.saw(event::timed_out));
        BOOST_TEST(sent < 1000); // a few for each time-out
    }
}

BOOST_AUTO_TEST_CASE(a_window_taken_back_does_not_stretch_the_users_patience) { // RFC 5482
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        for (const duration patience : {duration{60s}, duration{0s}}) {
            auto p = tcp_script::plain();
            p.habits = habits;
            p.user_timeout = patience;
            tcp_script s(p);
            s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
            s.write(3000);
            s.drain();
            for (int i = 0; i < 1000 && !s.saw(event::timed_out); ++i) {
                s.receive("A 1:1 ack 1 win 0");
                s.advance(5s);
                s.drain();
            }
            BOOST_TEST(s.saw(event::timed_out) == (patience != 0s));
            for (int i = 0; i < 1000 && !s.saw(event::timed_out); ++i) s.advance(5s), s.drain(); // without an answer
            BOOST_TEST(s.saw(event::timed_out));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_window_that_shrinks_breaks_nothing) { // RFC 9293 3.8.6: MUST-34, SHLD-15, SHLD-16
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
    s.write(8000);
    BOOST_TEST(s.drain() == 5);
    s.receive("A 1:1 ack 1001 win 1000"); // SND.UNA + SND.WND: from 5001 back to 2001
    s.expect_nothing();                   // what is new waits
    s.receive("A 1:1 ack 5001 win 1000"); // and what had left before is acknowledged as ever
    s.expect("A 5001:6001");
    s.expect_nothing();
    s.receive("A 1:1 ack 5001 win 300");
    s.advance(300ms); // between the time-out and the next: what lies beyond the edge now is sent again
    BOOST_TEST(s.expect("A 5001:6001").retransmission);
    s.receive("A 1:1 ack 6001 win 5000");
    s.expect("A 6001:7001");
    s.expect("PA 7001:8001");
}

BOOST_AUTO_TEST_CASE(a_segment_that_was_sent_before_the_last_one_tells_no_window) { // RFC 9293 3.10.7.4: SND.WL1
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
    s.write(4000);
    BOOST_TEST(s.drain() == 4);
    s.receive("A 1:101 ack 1001 win 4000");
    s.receive("A 101:201 ack 2001 win 2000"); // to 4001
    s.write(5000);
    s.drain();
    s.receive("A 51:251 ack 2001 win 60000"); // begins before the last
    s.expect("A 4001:4001 ack 251");
    s.expect_nothing();
    s.receive("A 251:251 ack 3001 win 2000"); // the next one tells it
    s.expect("A 4001:5001");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(text_that_an_acknowledgment_has_overtaken_tells_no_window) { // the same, whichever way it goes
    for (const bool fast : {true, false}) {
        tcp::parameters p = tcp_script::plain();
        p.fast_path = fast;
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 5000 mss 1000");
        s.receive("A 101:101 ack 1 win 4000"); // behind the text that has not come yet
        s.drain();
        s.receive("A 1:101 ack 1 win 300");
        s.write(2000);
        BOOST_TEST(s.drain() == 2);
    }
}

BOOST_AUTO_TEST_CASE(a_probe_byte_that_was_taken_is_not_sent_again) {
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 0 mss 1000 sackok ws 0");
    s.write(500);
    s.expect_nothing();
    s.advance(100s);
    s.expect("A 1:2");
    s.receive("A 1:1 ack 2 win 5000");
    s.expect("PA 2:501");
}

BOOST_AUTO_TEST_CASE(a_window_probe_without_any_answer_ends_in_a_time_out) {
    auto p = tcp_script::plain();
    p.retries = 3;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 0 mss 1000 sackok ws 0");
    s.write(500);
    s.expect_nothing();
    for (int i = 0; i < 3; ++i) {
        s.advance(100s);
        s.expect("A 1:2");
    }
    BOOST_TEST(tcp::has(s.advance(100s), event::timed_out));
}

BOOST_AUTO_TEST_CASE(a_window_too_small_for_a_segment_is_used_after_a_while) { // RFC 9293 3.8.6.2.1, the override
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
    s.receive("A 1:1 ack 1 win 300");
    s.write(2000);
    s.expect_nothing();
    s.advance(100s);
    s.expect("A 1:301");
    // It leaves for the first time: no probe, and nothing to back off for.
    BOOST_TEST(s.block().info().attempts == 0u);
    BOOST_TEST(s.block().info().backoff == 0u);
    s.block().on_no_route(s.now(), s.block().acknowledged());
    s.receive("A 1:1 ack 301 win 300");
}

BOOST_AUTO_TEST_CASE(what_fits_a_small_window_is_no_attempt_that_could_be_the_last) {
    auto p = tcp_script::plain();
    p.retries = 0;
    p.user_timeout = 10ms;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 5000 mss 1000 sackok ws 0");
    s.receive("A 1:1 ack 1 win 300");
    s.write(2000);
    s.expect_nothing();
    s.advance(100s);
    s.expect("A 1:301");
    s.expect_state(tcp_state::established);
}

BOOST_AUTO_TEST_CASE(our_window_closes_as_data_piles_up_and_an_update_opens_it) { // RFC 9293 3.8.6.2.2, MUST-39
    auto p = tcp_script::plain();
    p.receive_buffer = 4000;
    p.window_scaling = false;
    tcp_script s(p);
    s.connect();
    s.receive("A 1:1001 ack 1");
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 2001 win 2000");
    s.receive("A 2001:3001 ack 1");
    s.receive("A 3001:4001 ack 1");
    s.expect("A 1:1 ack 4001 win 0");
    s.receive("A 4001:4002 ack 1"); // a probe finds it closed
    s.expect("A 1:1 ack 4001 win 0");
    BOOST_TEST(s.read(100) == 100u);
    s.expect_nothing(); // 100 bytes are not worth an update
    BOOST_TEST(s.read_all() == 3900u);
    s.expect("A 1:1 ack 4001 win 4000");
}

BOOST_AUTO_TEST_CASE(the_promised_window_never_shrinks) { // RFC 9293 SHLD-14
    tcp_script s;
    s.connect();
    s.block().set_buffers(2000, 2000);
    s.receive("A 1:1001 ack 1");
    s.receive("A 1001:2001 ack 1");
    BOOST_TEST((std::uint32_t{s.expect("A 1:1 ack 2001").window} << 5) >= 1'048'576u - 2000 - 32);
}

BOOST_AUTO_TEST_CASE(a_full_send_buffer_says_so_and_reports_room) {
    auto p = tcp_script::plain();
    p.send_buffer = 4000;
    tcp_script s(p);
    s.connect();
    s.write(4000);
    BOOST_TEST(s.block().writable() == 0u);
    BOOST_TEST(s.drain() == 4);
    BOOST_TEST(!tcp::has(s.receive("A 1:1 ack 501"), event::writable));
    BOOST_TEST(tcp::has(s.receive("A 1:1 ack 3001"), event::writable));
    BOOST_TEST(tcp::has(s.receive("A 1:1 ack 4001"), event::all_acknowledged));
}

BOOST_AUTO_TEST_CASE(small_borrowed_writes_gather_in_one_chunk) {
    tcp_script s;
    s.connect();
    s.write(10);
    std::byte more[20];
    for (int i = 0; i < 20; ++i) more[i] = stream_byte(10 + static_cast<unsigned>(i));
    BOOST_TEST(s.block().append_copy(more) == 20u);
    s.expect("PA 1:31");
}

BOOST_AUTO_TEST_CASE(too_many_pieces_in_the_send_queue_stop_the_writer) {
    auto p = tcp_script::plain();
    p.send_chunks = 8;
    tcp_script s(p);
    s.connect();
    for (int i = 0; i < 8; ++i) s.write(1);
    BOOST_TEST(s.block().writable() == 0u);
}

BOOST_AUTO_TEST_CASE(too_many_pieces_in_the_receive_queue_are_dropped_and_counted) {
    auto p = tcp_script::plain();
    p.receive_pieces = 4;
    tcp_script s(p);
    s.connect();
    for (int i = 0; i < 6; ++i) s.receive("A " + std::to_string(1 + i) + ":" + std::to_string(2 + i) + " ack 1");
    BOOST_TEST(s.block().readable() <= 4u);
    BOOST_TEST(s.block().statistics().receive_queue_full > 0u);
}

BOOST_AUTO_TEST_CASE(what_finds_no_place_in_the_receive_queue_is_answered) {
    auto p = tcp_script::plain();
    p.receive_pieces = 4;
    tcp_script s(p);
    s.connect();
    for (int i = 0; i < 4; ++i) s.receive("A " + std::to_string(1 + i) + ":" + std::to_string(2 + i) + " ack 1"), s.drain();
    const std::uint32_t held = s.block().readable();
    s.receive("A 5:6 ack 1");
    s.expect("A 1:1 ack " + std::to_string(1 + held));
}

BOOST_AUTO_TEST_CASE(what_finds_no_room_beyond_a_gap_is_counted) { // RFC 2018 8
    tcp_script s;
    s.connect();
    for (int at = 10; at < 2010; at += 10) {
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1) + " ack 1");
        s.drain();
    }
    BOOST_TEST(s.block().statistics().out_of_order == 200u);
    BOOST_TEST(s.block().statistics().beyond_gap_dropped == 200u - tcp::reassembler::range_limit);
}

BOOST_AUTO_TEST_CASE(sacks_that_find_no_room_are_counted) { // RFC 2018 8
    tcp_script s;
    s.connect();
    s.write(10'000);
    s.drain();
    for (int at = 2; s.block().statistics().sack_refused == 0 && at < 5000; at += 4) { // a byte of every four
        s.receive("A 1:1 ack 1 sack " + std::to_string(at) + "-" + std::to_string(at + 1));
        s.drain();
    }
    BOOST_TEST(s.block().statistics().sack_refused > 0u);
    s.receive("A 1:1 ack 10001");
    BOOST_TEST(s.block().info().in_flight == 0u);
}

BOOST_AUTO_TEST_CASE(where_there_is_no_place_the_window_is_closed_until_there_is) { // RFC 9293 3.8.6.1: the peer asks, and does not give up
    auto p = tcp_script::plain();
    p.receive_pieces = 8;
    tcp_script s(p);
    s.connect();
    std::int64_t at = 1;
    for (; s.block().statistics().receive_queue_full == 0; at += 1000) {
        s.drain();
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1");
    }
    at -= 1000; // was refused
    BOOST_TEST(s.expect("A 1:1 ack " + std::to_string(at)).window == 0u);
    s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1) + " ack 1"); // the peer asks
    BOOST_TEST(s.expect("A 1:1 ack " + std::to_string(at)).window == 0u);
    s.read_all();
    BOOST_TEST(s.expect("A 1:1 ack " + std::to_string(at)).window != 0u);
    s.expect_nothing();
    s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1");
    BOOST_TEST(s.block().readable() == 1000u);
}

BOOST_AUTO_TEST_CASE(a_large_window_is_kept_though_nobody_reads) {
    auto p = tcp_script::plain();
    p.receive_buffer = 8u << 20;
    tcp_script s(p, 1'000'000, 5'000'000, 12'000);
    s.connect();
    std::int64_t at = 1;
    for (; s.edge() >= at + 1000; at += 1000) s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1"), s.drain();
    BOOST_TEST(s.block().statistics().receive_queue_full == 0u);
    BOOST_TEST(s.block().readable() > (8u << 20) - 2000);
}

BOOST_AUTO_TEST_CASE(all_of_a_large_window_is_kept_beyond_a_gap) {
    auto p = tcp_script::plain();
    p.receive_buffer = 8u << 20;
    tcp_script s(p, 1'000'000, 5'000'000, 12'000);
    s.connect();
    const std::int64_t end = std::min<std::int64_t>(s.edge(), 4'000'001);
    std::int64_t at = 1001;
    for (; end >= at + 1000; at += 1000) s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1"), s.drain();
    s.receive("A 1:1001 ack 1");
    s.expect("A 1:1 ack " + std::to_string(at));
}

BOOST_AUTO_TEST_CASE(a_buffer_that_shrinks_keeps_what_it_holds) {
    auto p = tcp_script::plain();
    p.receive_buffer = 4u << 20;
    tcp_script s(p);
    s.connect();
    std::int64_t at = 1;
    for (; at < 3'000'000; at += 1000) s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1000) + " ack 1"), s.drain();
    s.block().set_buffers(64 << 10, s.block().options().send_buffer);
    s.block().check_invariants();
    BOOST_TEST(s.block().readable() == 3'000'000u);
    s.read_all();
}

BOOST_AUTO_TEST_CASE(a_receive_buffer_below_a_segment_opens_its_window_again) { // RFC 9293 3.8.6.2.2: MIN(buffer / 2, MSS)
    tcp_script s;
    s.connect();
    s.block().set_buffers(800, s.block().options().send_buffer);
    for (int at = 1; at < 1'200'000; at += 400) { // what was promised before is used up on the way
        if (s.edge() < at + 400) break;
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 400) + " ack 1");
        s.drain();
        s.read_all();
        s.drain();
        s.advance(1s);
        s.drain();
    }
    BOOST_TEST(s.edge() > 1'199'000);
}

BOOST_AUTO_TEST_CASE(a_send_buffer_made_smaller_than_what_it_holds_tells_of_room_again) {
    tcp_script s;
    s.connect();
    s.write(3000);
    s.drain();
    s.block().set_buffers(s.block().options().receive_buffer, 2000);
    BOOST_TEST(s.block().writable() == 0u);
    s.forget_events();
    s.receive("A 1:1 ack 3001");
    BOOST_TEST(s.block().writable() == 2000u);
    BOOST_TEST(s.saw(event::writable));
}

BOOST_AUTO_TEST_CASE(small_pieces_beyond_a_gap_share_frames) {
    for (const bool backwards : {false, true}) {
        tcp_script s;
        s.connect();
        for (int i = 0; i < 1000; ++i) {
            const int at = backwards ? 1001 - i : 2 + i;
            s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 1) + " ack 1");
            s.drain();
        }
        BOOST_TEST(s.pool().count() - s.pool().free_count < 10u);
        s.receive("A 1:2 ack 1");
        s.expect("A 1:1 ack 1002");
        BOOST_TEST(s.read_all() == 1001u);
    }
}

BOOST_AUTO_TEST_CASE(what_came_beyond_a_gap_may_be_dropped_and_comes_again) { // RFC 2018 8
    tcp_script s;
    s.connect();
    BOOST_TEST(!s.block().drop_ahead());
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 1 sack 1001-2001");
    BOOST_TEST(s.block().drop_ahead());
    BOOST_TEST(s.pool().free_count == s.pool().count());
    s.expect("A 1:1 ack 1");
    s.receive("A 1:1001 ack 1");
    s.receive("A 1001:2001 ack 1");
    BOOST_TEST(s.read_all() == 2000u);
}

BOOST_AUTO_TEST_CASE(many_small_pieces_share_frames) {
    tcp_script s;
    s.connect();
    for (int i = 0; i < 500; ++i) s.receive("A " + std::to_string(1 + i) + ":" + std::to_string(2 + i) + " ack 1");
    BOOST_TEST(s.pool().count() - s.pool().free_count < 80u);
    BOOST_TEST(s.read_all() == 500u);
}

BOOST_AUTO_TEST_CASE(after_a_long_silence_the_congestion_window_starts_again) { // RFC 5681 4.1
    tcp_script s;
    s.connect();
    s.write(30'000);
    for (int acked = 0; acked < 30'000;) {
        acked += 1000 * s.drain();
        s.receive("A 1:1 ack " + std::to_string(acked + 1));
    }
    s.expect_nothing();
    BOOST_TEST(s.block().info().cwnd > 10'000u);
    s.advance(10s);
    s.write(10);
    s.expect("PA 30001:30011");
    BOOST_TEST(s.block().info().cwnd == 10'000u);
}

BOOST_AUTO_TEST_CASE(two_segments_of_a_path_that_has_shrunk_are_acknowledged_at_once) { // RFC 9293 3.8.6.3 (SHLD-18)
    tcp::parameters p = tcp_script::plain();
    p.quick_acks = 0;
    tcp_script s(p);
    s.connect();
    s.receive("A 1:1001 ack 1");
    s.expect_nothing();
    s.receive("A 1001:2001 ack 1");
    s.expect("A 1:1 ack 2001");
    s.receive("A 2001:2601 ack 1"); // from now on 600 bytes each
    s.expect_nothing();
    for (std::int64_t at = 2601; at < 6000; at += 1200) {
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 600) + " ack 1");
        s.expect("A 1:1 ack " + std::to_string(at + 600));
        s.receive("A " + std::to_string(at + 600) + ":" + std::to_string(at + 1200) + " ack 1");
        s.expect_nothing();
    }
    for (std::int64_t at = 6201; at < 6500; at += 100) { // small messages wait as ever
        s.receive("A " + std::to_string(at) + ":" + std::to_string(at + 100) + " ack 1");
        s.expect_nothing();
    }
}

BOOST_AUTO_TEST_CASE(with_freebsds_habits_nothing_is_kept_for_who_has_shut_the_reading_side) {
    tcp::parameters p = tcp_script::plain();
    p.habits = tcp::personality::freebsd;
    tcp_script s(p);
    s.connect();
    s.receive("A 1:1001 ack 1");
    s.read_all();
    s.drain();
    s.block().shutdown_receive();
    for (const char* const data : {"A 1001:2001 ack 1", "A 2001:3001 ack 1", "A 3001:4001 ack 1"}) {
        s.receive(data);
        s.drain();
        BOOST_TEST(s.block().readable() == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
