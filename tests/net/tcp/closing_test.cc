// Closing, in all its orders (RFC 9293 3.6), TIME-WAIT, abort, keepalive (3.8.4).
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

BOOST_AUTO_TEST_SUITE(closing)

BOOST_AUTO_TEST_CASE(the_active_closer_ends_in_time_wait) { // RFC 9293 3.6, figure 12, MUST-13
    tcp_script s;
    s.connect();
    s.shutdown();
    s.expect("FA 1:1 ack 1");
    s.expect_state(tcp_state::fin_wait_1);
    BOOST_TEST(tcp::has(s.receive("A 1:1 ack 2"), event::all_acknowledged));
    s.expect_state(tcp_state::fin_wait_2);
    BOOST_TEST(tcp::has(s.receive("FA 1:1 ack 2"), event::end_of_stream));
    s.expect("A 2:2 ack 2");
    s.expect_state(tcp_state::time_wait);
    s.advance(60s - 1us);
    s.expect_state(tcp_state::time_wait);
    BOOST_TEST(tcp::has(s.advance(1us), event::closed));
    BOOST_TEST((s.block().error() == std::errc{}));
}

BOOST_AUTO_TEST_CASE(the_passive_closer_ends_with_its_own_fin) {
    tcp_script s;
    s.connect();
    s.receive("FA 1:1 ack 1");
    s.expect("A 1:1 ack 2");
    s.expect_state(tcp_state::close_wait);
    BOOST_TEST(s.block().at_end());
    s.write(100); // half-closed: our side still talks
    s.expect("PA 1:101 ack 2");
    s.shutdown();
    s.expect("FA 101:101 ack 2");
    s.expect_state(tcp_state::last_ack);
    BOOST_TEST(tcp::has(s.receive("A 2:2 ack 102"), event::closed));
}

BOOST_AUTO_TEST_CASE(both_close_at_once) { // RFC 9293 3.6, figure 13
    tcp_script s;
    s.connect();
    s.shutdown();
    s.expect("FA 1:1 ack 1");
    s.receive("FA 1:1 ack 1");
    s.expect("A 2:2 ack 2");
    s.expect_state(tcp_state::closing);
    s.receive("A 2:2 ack 2");
    s.expect_state(tcp_state::time_wait);
}

BOOST_AUTO_TEST_CASE(fin_and_its_ack_in_one_segment_lead_straight_to_time_wait) {
    tcp_script s;
    s.connect();
    s.shutdown();
    s.expect("FA 1:1 ack 1");
    s.receive("FA 1:1 ack 2");
    s.expect("A 2:2 ack 2");
    s.expect_state(tcp_state::time_wait);
}

BOOST_AUTO_TEST_CASE(the_last_data_is_not_held_back_where_it_fills_the_window_and_the_fin_finds_no_room) {
    for (const bool corked : {true, false}) { // found by the fuzzer: it waited for a FIN that waited for the window
        tcp_script s;
        s.connect();
        s.receive("A 1:1 ack 1 win 150");
        if (corked) s.block().set_cork(true);
        else s.write(50), s.expect("PA 1:51");
        s.write(corked ? 150 : 100);
        s.expect_nothing();
        s.shutdown();
        s.expect(corked ? "PA 1:151" : "PA 51:151");
        s.expect_nothing();
        s.receive("A 1:1 ack 151 win 0");
        s.expect_nothing();
        s.receive("A 1:1 ack 151 win 150");
        s.expect("FA 151:151 ack 1");
    }
}

BOOST_AUTO_TEST_CASE(the_fin_goes_with_the_last_data) {
    tcp_script s;
    s.connect();
    s.write(1500);
    s.shutdown();
    s.expect("A 1:1001");
    s.expect("FPA 1001:1501");
    s.receive("A 1:1 ack 1502");
    s.expect_state(tcp_state::fin_wait_2);
}

BOOST_AUTO_TEST_CASE(a_lost_fin_is_sent_again) {
    auto p = tcp_script::plain();
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.connect();
    s.shutdown();
    s.expect("FA 1:1");
    s.expect_nothing();
    s.advance(200ms);
    BOOST_TEST(s.expect("FA 1:1").retransmission);
}

BOOST_AUTO_TEST_CASE(a_repeated_fin_is_acknowledged_and_restarts_time_wait) { // RFC 9293 3.10.7.4, eighth
    tcp_script s;
    s.connect();
    s.shutdown();
    s.expect("FA 1:1");
    s.receive("FA 1:1 ack 2");
    s.drain();
    s.advance(50s);
    s.receive("FA 1:1 ack 2");
    s.expect("A 2:2 ack 2");
    s.expect_nothing();
    s.advance(50s);
    s.expect_state(tcp_state::time_wait);
    BOOST_TEST(tcp::has(s.advance(11s), event::closed));
}

BOOST_AUTO_TEST_CASE(time_wait_lets_a_later_connection_in_and_no_other) { // RFC 9293 3.6.1 MAY-2, RFC 6191
    tcp_script s;
    s.connect();
    s.shutdown();
    s.expect("FA 1:1");
    s.receive("FA 1:1 ack 2");
    s.drain();
    buffer nothing;
    BOOST_TEST(s.block().may_reuse(s.build(segment_text::parse("S 5000:5000"), nothing)));
    BOOST_TEST(!s.block().may_reuse(s.build(segment_text::parse("S -5000:-5000"), nothing)));
    BOOST_TEST(!s.block().may_reuse(s.build(segment_text::parse("A 5000:5000"), nothing)));
    BOOST_TEST(!s.block().may_reuse(s.build(segment_text::parse("SF 5000:5000"), nothing))); // no listener takes it
}

BOOST_AUTO_TEST_CASE(time_wait_is_left_by_a_later_timestamp) { // RFC 6191 2, its two lists
    const auto judge = [](bool stamped_before, const std::string& syn, tcp::personality habits = tcp::personality::standard) {
        auto p = tcp_script::plain();
        p.timestamps = true;
        p.habits = habits;
        tcp_script s(p);
        s.connect(std::string("SA 0:0 ack 1 win 65535 mss 1000") + (stamped_before ? " ts 100 0" : ""));
        s.shutdown();
        s.expect("FA 1:1");
        s.receive(std::string("FA 1:1 ack 2") + (stamped_before ? " ts 100 0" : ""));
        s.drain();
        s.expect_state(tcp_state::time_wait);
        buffer nothing;
        return s.block().may_reuse(s.build(segment_text::parse(syn), nothing));
    };
    BOOST_TEST(judge(true, "S -5000:-5000 ts 101 0"));
    BOOST_TEST(judge(true, "S 5000:5000 ts 100 0"));
    BOOST_TEST(!judge(true, "S -5000:-5000 ts 100 0"));
    BOOST_TEST(!judge(true, "S 5000:5000 ts 99 0"));
    BOOST_TEST(judge(true, "S 5000:5000 nots"));
    BOOST_TEST(!judge(true, "S -5000:-5000 nots"));
    BOOST_TEST(judge(false, "S -5000:-5000 ts 1 0")); // no old duplicate has one
    BOOST_TEST(judge(false, "S 5000:5000 nots"));
    BOOST_TEST(!judge(false, "S -5000:-5000 nots"));
    BOOST_TEST(!judge(false, "S -5000:-5000 ts 1 0", tcp::personality::linux_));
}

BOOST_AUTO_TEST_CASE(abort_sends_a_reset) { // RFC 9293 3.10.5
    tcp_script s;
    s.connect();
    s.write(100);
    s.abort();
    s.expect("RA 1:1 ack 1");
    s.expect_nothing();
    s.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_CASE(data_for_an_orphan_is_reset) { // RFC 9293 3.6.1 SHLD-3, RFC 2525 2.17
    tcp_script s;
    s.connect();
    s.shutdown();
    s.orphan();
    s.expect("FA 1:1");
    s.receive("A 1:1 ack 2");
    BOOST_TEST(tcp::has(s.receive("A 1:101 ack 2"), event::reset));
    s.expect("RA 2:2");
}

BOOST_AUTO_TEST_CASE(text_behind_the_peers_fin_is_nothing_to_an_orphan_either) { // RFC 9293 3.10.7.4, seventh; RFC 1337
    for (const bool acknowledged : {true, false}) { // TIME-WAIT, CLOSING
        tcp_script s;
        s.connect();
        s.shutdown();
        s.orphan();
        s.expect("FA 1:1");
        s.receive(acknowledged ? "FA 1:1 ack 2" : "FA 1:1 ack 1");
        s.drain();
        s.receive(acknowledged ? "A 2:102 ack 2" : "A 2:102 ack 1");
        s.drain();
        s.expect_state(acknowledged ? tcp_state::time_wait : tcp_state::closing);
    }
    tcp_script s; // LAST-ACK, with something to say yet
    s.connect();
    s.receive("FA 1:1 ack 1");
    s.drain();
    s.write(1000);
    s.shutdown();
    s.orphan();
    s.drain();
    s.receive("A 2:102 ack 1");
    s.expect_state(tcp_state::last_ack);
    s.receive("A 2:2 ack 1002");
    s.expect_state(tcp_state::closed);
    BOOST_TEST((s.block().error() == std::errc{}));
}

BOOST_AUTO_TEST_CASE(an_orphan_does_not_wait_for_ever_in_fin_wait_2) {
    tcp_script s;
    s.connect();
    s.shutdown();
    s.orphan();
    s.expect("FA 1:1");
    s.receive("A 1:1 ack 2");
    s.expect_nothing();
    BOOST_TEST(tcp::has(s.advance(60s), event::closed));
}

BOOST_AUTO_TEST_CASE(half_closed_fin_wait_2_goes_on_receiving) {
    tcp_script s;
    s.connect();
    s.shutdown();
    s.expect("FA 1:1");
    s.receive("A 1:1 ack 2");
    s.expect_nothing();
    s.advance(3600s);
    s.receive("A 1:1001 ack 2");
    BOOST_TEST(s.read() == 1000u);
    s.expect_state(tcp_state::fin_wait_2);
}

BOOST_AUTO_TEST_CASE(what_was_read_before_a_reset_is_still_there) { // RFC 9293 3.6, MUST-12: and the application hears of the reset
    tcp_script s;
    s.connect();
    s.receive("A 1:101 ack 1");
    BOOST_TEST(tcp::has(s.receive("R 101:101"), event::reset | event::closed));
    BOOST_TEST((s.block().error() == std::errc::connection_reset));
    BOOST_TEST(s.read() == 100u);
}

BOOST_AUTO_TEST_CASE(keepalive_is_off_unless_asked_for) { // RFC 9293 3.8.4, MUST-25
    tcp_script s;
    s.connect();
    s.advance(std::chrono::hours{24});
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(keepalive_probes_an_idle_peer_and_gives_up_after_the_last) { // MUST-24, MUST-26, MUST-27, MUST-29
    auto p = tcp_script::plain();
    p.keepalive = true;
    p.keepalive_idle = 10s;
    p.keepalive_interval = 1s;
    p.keepalive_probes = 3;
    tcp_script s(p);
    s.connect();
    s.expect_nothing();
    s.advance(10s);
    s.expect("A 0:0 ack 1");
    s.receive("A 1:1 ack 1"); // it lives
    s.expect_nothing();
    s.advance(9s);
    s.expect_nothing();
    for (int i = 0; i < 3; ++i) {
        s.advance(10s);
        s.expect("A 0:0 ack 1");
        s.expect_nothing();
    }
    BOOST_TEST(tcp::has(s.advance(10s), event::timed_out));
}

BOOST_AUTO_TEST_CASE(what_knows_no_more_than_the_4_tuple_keeps_nothing_alive) { // RFC 5961 1.1
    auto p = tcp_script::plain();
    p.keepalive = true;
    p.keepalive_idle = 10s;
    p.keepalive_interval = 1s;
    p.keepalive_probes = 3;
    tcp_script s(p);
    s.connect();
    s.expect_nothing();
    for (int i = 0; i < 20 && s.block().state() != tcp_state::closed; ++i) {
        s.receive("A 1073741825:1073741825 ack 1");  // far from what was expected
        s.receive("A 1:1 ack 1073741825");           // acknowledges what was never sent
        s.receive("S 1:1");
        s.drain();
        s.advance(1s);
    }
    BOOST_TEST(s.saw(event::timed_out));
}

BOOST_AUTO_TEST_CASE(whatever_the_peer_may_have_sent_keeps_it_alive) {
    for (const char* const said : {"A 1:1 ack 1", "A 0:0 ack 1", "A 0:1 ack 1", "A 1:11 ack 1", "A 101:201 ack 1"}) {
        auto p = tcp_script::plain();
        p.keepalive = true;
        p.keepalive_idle = 10s;
        p.keepalive_interval = 1s;
        p.keepalive_probes = 3;
        tcp_script s(p);
        s.connect();
        s.expect_nothing();
        for (int i = 0; i < 20; ++i) {
            s.receive(said); // the answer to a probe, a keepalive of its own, old and new text, text beyond a gap
            s.drain();
            s.advance(8s);
        }
        BOOST_TEST(s.block().statistics().keepalive_probes == 0u);
        s.expect_state(tcp_state::established);
    }
}

BOOST_AUTO_TEST_CASE(a_keepalive_waits_while_data_is_unacknowledged) { // MUST-26
    auto p = tcp_script::plain();
    p.keepalive = true;
    p.keepalive_idle = 10s;
    p.keepalive_interval = 1s;
    tcp_script s(p);
    s.connect();
    s.write(100);
    for (int i = 0; i < 30; ++i) s.drain(), s.advance(1s);
    BOOST_TEST(s.block().statistics().retransmission_timeouts != 0u);
    BOOST_TEST(s.block().statistics().keepalive_probes == 0u);
    s.receive("A 1:1 ack 101");
    s.expect_nothing();
    s.advance(10s);
    s.expect("A 100:100 ack 1");
}

BOOST_AUTO_TEST_CASE(keepalive_waits_two_hours_where_nobody_says_how_long) { // MUST-28
    auto p = tcp_script::plain();
    p.keepalive = true;
    tcp_script s(p);
    s.connect();
    s.expect_nothing();
    s.advance(std::chrono::hours{2} - 1us);
    s.expect_nothing();
    s.advance(1us);
    s.expect("A 0:0 ack 1");
}

BOOST_AUTO_TEST_CASE(a_keepalive_interval_of_nothing_does_not_stop_the_clock) {
    tcp_script s;
    s.connect();
    s.block().set_keepalive(s.now(), true, 0s, 0s, 3);
    for (int probes = 0; probes < 3; ++probes) {
        s.advance(1ms);
        s.expect("A 0:0 ack 1");
    }
    BOOST_TEST(tcp::has(s.advance(1ms), tcp::event::timed_out));
}

BOOST_AUTO_TEST_CASE(what_came_ahead_and_lies_behind_the_fin_is_forgotten) { // found by tests/fuzz/connection_target.hh
    tcp_script s;
    s.connect();
    s.receive("A 101:201 ack 1");
    s.expect("A 1:1 ack 1");
    s.receive("FA 1:51 ack 1");
    s.expect("A 1:1 ack 52");
    s.expect_state(tcp_state::close_wait);
    BOOST_TEST(s.block().info().out_of_order == 0u);
    BOOST_TEST(s.read_all() == 50u);
    BOOST_TEST(s.block().at_end());
}

BOOST_AUTO_TEST_CASE(text_that_comes_again_in_time_wait_restarts_it_like_the_fin) { // found by the soak, seed 29406
    auto p = tcp_script::plain();
    p.time_wait = 60s;
    tcp_script s(p);
    s.connect();
    s.shutdown();
    s.expect("FA 1:1 ack 1");
    s.receive("A 1:101 ack 2");
    s.receive("FA 101:101 ack 2");
    s.expect("A 2:2 ack 102");
    s.expect_state(tcp_state::time_wait);
    s.advance(50s);
    s.receive("A 1:101 ack 2"); // our ACK was lost, and the FIN is not what the peer repeats first
    s.expect("A 2:2 ack 102");
    s.advance(50s);
    s.expect_state(tcp_state::time_wait);
    s.advance(11s);
    s.expect_state(tcp_state::closed);
}

BOOST_AUTO_TEST_CASE(no_reset_ends_time_wait_where_that_is_asked_for) { // RFC 1337 3, F1
    for (const auto habits : {tcp::personality::standard, tcp::personality::linux_, tcp::personality::freebsd}) {
        for (const bool keeps : {false, true}) {
            auto p = tcp_script::plain();
            p.habits = habits;
            p.keeps_time_wait = keeps;
            tcp_script s(p);
            s.reach(tcp_state::time_wait);
            s.receive("R 2:2"); // exactly the next number (RFC 5961 3.2)
            s.expect_nothing();
            s.expect_state(keeps || habits == tcp::personality::freebsd ? tcp_state::time_wait : tcp_state::closed);
        }
    }
}

BOOST_AUTO_TEST_CASE(time_wait_sends_no_keepalives) { // RFC 9293 3.6.1 (MUST-13)
    tcp_script s(tcp_script::plain());
    s.reach(tcp::tcp_state::time_wait);
    s.block().set_keepalive(s.now(), true, 1s, 1s, 3);
    for (int i = 0; i < 10; ++i) {
        s.advance(1s);
        s.expect_nothing();
    }
    s.expect_state(tcp::tcp_state::time_wait);
}

/// Keepalives after ten seconds; gives up after three that nobody answers.
tcp::parameters probing(tcp::personality habits = tcp::personality::standard) {
    tcp::parameters p = tcp_script::plain();
    p.habits = habits;
    p.keepalive = true;
    p.keepalive_idle = 10s;
    p.keepalive_interval = 1s;
    p.keepalive_probes = 3;
    return p;
}

/// Whether the connection lives though nothing but these come, one after the other, twice before each keepalive would be due.
bool lives_by(const tcp::parameters& p, const std::vector<std::string>& said) {
    tcp_script s(p);
    s.connect(p.timestamps ? "SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0 ts 700 1" : "SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.drain();
    for (int i = 0; i < 20 && s.block().state() != tcp_state::closed; ++i) {
        s.advance(5s);
        for (const std::string& each : said) s.receive(each), s.drain();
    }
    return s.block().state() != tcp_state::closed;
}

BOOST_AUTO_TEST_CASE(a_segment_of_another_clock_is_no_sign_of_life) { // RFC 7323 5.3: it may be an old one, or somebody's who guesses
    auto p = probing();
    p.timestamps = true;
    BOOST_TEST(lives_by(p, {"A 1:1 ack 1 ts 700 1"}));
    BOOST_TEST(lives_by(p, {"A 0:0 ack 1 ts 701 1"}));
    BOOST_TEST(!lives_by(p, {"A 1:1 ack 1 ts 699 1"}));
    BOOST_TEST(!lives_by(p, {"A 1:11 ack 1 ts 4294960000 1"}));
    BOOST_TEST(!lives_by(p, {"A 1:1 ack 1 nots"}));
    BOOST_TEST(!lives_by(p, {"A 1:1 ack 1 ts 699 1", "S 1:1 ts 700 1", "A 1:1 ack 1073741825 ts 700 1"}));
}

BOOST_AUTO_TEST_CASE(freebsd_takes_whatever_comes_for_a_sign_of_life_and_linux_what_is_acceptable) {
    using enum tcp::personality;
    for (const char* const stranger : {"A 1073741825:1073741825 ack 1", "A 1:1 ack 1073741825"}) {
        BOOST_TEST(!lives_by(probing(standard), {stranger}), stranger);
        BOOST_TEST(lives_by(probing(freebsd), {stranger}), stranger);
        BOOST_TEST(!lives_by(probing(linux_), {stranger}), stranger);
    }
    for (const auto habits : {standard, freebsd, linux_}) BOOST_TEST(lives_by(probing(habits), {"A 1:1 ack 1"}));
    BOOST_TEST(!lives_by(probing(linux_), {"A 0:0 ack 1"})); // what is not acceptable, and so a keepalive of the peer's
    BOOST_TEST(lives_by(probing(standard), {"A 0:0 ack 1"}));
}

BOOST_AUTO_TEST_CASE(in_time_wait_too_only_the_peer_is_heard) { // by which the oldest gives way where the table is full
    for (const auto habits : {tcp::personality::standard, tcp::personality::freebsd}) {
        tcp_script s(probing(habits));
        s.reach(tcp_state::time_wait);
        const time_point heard = s.block().last_heard();
        s.advance(1s);
        for (const char* const stranger : {"A 1073741825:1073741825 ack 2", "A 2:2 ack 1073741825", "S 1073741825:1073741825"}) {
            s.receive(stranger);
            s.drain();
        }
        s.expect_state(tcp_state::time_wait);
        BOOST_TEST((s.block().last_heard() == heard) == (habits == tcp::personality::standard));
        s.advance(1s);
        s.receive("FA 1:1 ack 2"); // again
        BOOST_TEST((s.block().last_heard() == s.now()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
