// What is known of a recovery afterwards: what was needless in it is undone, and what is lost besides is repaired at once (Linux's habit);
// how long it is held without SACK, and which D-SACKs are believed.
#include <corewire/net/tcp/send/rack.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

/// Of twenty segments the first four are held for lost. The first was sent again, though it was only late;
/// the others are not sent yet.
void resend_one_of_four(tcp_script& s) {
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.write(30'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    s.receive("A 1:1 ack 10001");
    BOOST_TEST(s.drain() == 20);
    s.advance(100ms);
    for (const char* sack : {"15001", "16001", "17001"}) s.receive(std::string("A 1:1 ack 10001 sack 14001-") + sack);
    s.expect("A 10001:11001");
    s.expect_nothing();
    s.advance(1ms);
    s.receive("A 1:1 ack 11001 sack 14001-17001"); // and the next comes before it sends
}

tcp::parameters linux_reno() {
    tcp::parameters p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    p.tail_loss_probe = false;
    p.congestion = tcp::reno_congestion;
    return p;
}

/// Five segments are out, nobody answers, and the first one goes again.
void time_out_of_five(tcp_script& s) {
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0", 100ms);
    s.write(5000);
    BOOST_TEST(s.drain() == 5);
    s.advance(400ms);
    s.expect("A 1:1001");
}

} // namespace

BOOST_AUTO_TEST_SUITE(undo)

BOOST_AUTO_TEST_CASE(what_sacks_have_overtaken_that_undo_a_time_out_is_lost_a_little_later) { // RFC 5682 3.1, RFC 8985 6.2
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    tcp_script s(p);
    time_out_of_five(s);
    s.receive("A 1:1 ack 1 sack 1001-2001,3001-4001");
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    s.expect_nothing();
    s.advance(100ms);
    s.expect("A 2001:3001");
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_time_out_that_covers_all_says_nothing_of_what_was_lost) { // RFC 5682 3.1 step 2a
    for (const auto who : {tcp::personality::standard, tcp::personality::linux_}) { // Linux believes it (FLAG_ORIG_SACK_ACKED)
        tcp::parameters p = tcp_script::plain();
        p.tail_loss_probe = false;
        p.habits = who;
        tcp_script s(p);
        time_out_of_five(s);
        s.receive("A 1:1 ack 5001"); // the first was lost, and so were the ACKs of the others
        BOOST_TEST(s.block().statistics().spurious_recoveries == (who == tcp::personality::linux_ ? 1u : 0u));
        BOOST_TEST((s.block().info().cwnd < 10'000) == (who == tcp::personality::standard));
    }
}

BOOST_AUTO_TEST_CASE(what_is_lost_besides_is_repaired_whatever_else_the_ack_brings) {
    for (const std::string from : {"A 1:1", "A 1:101"}) { // the D-SACK comes alone, or with data
        tcp_script s(linux_reno());
        resend_one_of_four(s);
        s.receive(from + " ack 11001 sack 10001-11001,14001-17001");
        s.expect("A 11001:12001");
        BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
        BOOST_TEST(s.block().statistics().fast_recoveries == 2u);
    }
}

BOOST_AUTO_TEST_CASE(a_recovery_that_is_held_goes_on_though_nothing_is_in_flight) { // RFC 6582 4.1; tcp_is_non_sack_preventing_reopen()
    tcp_script s(linux_reno());
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 ws 0");
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    for (int i = 0; i < 4; ++i) s.receive("A 1:1 ack 1"); // the first has a newer number than the SYN-ACK, and is no duplicate
    s.expect("A 1:1001");
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 10001"); // all of it
    s.expect_nothing();
    for (int i = 0; i < 3; ++i) s.receive("A 1:1 ack 10001"); // of needless copies, perhaps
    s.advance(10s);
    s.expect_nothing();
    BOOST_TEST(!s.saw(tcp::event::timed_out));
    s.write(2000);
    s.expect("A 10001:11001");
    s.expect("PA 11001:12001");
    for (int i = 0; i < 3; ++i) s.receive("A 1:1 ack 10001");
    s.expect_nothing();
    BOOST_TEST(s.block().statistics().fast_recoveries == 1u);
    s.receive("A 1:1 ack 12001");
    s.write(10'000);
    BOOST_TEST(s.drain() > 1);
    s.advance(100ms);
    for (int i = 0; i < 3; ++i) s.receive("A 1:1 ack 12001"); // now they count
    BOOST_TEST(s.block().statistics().fast_recoveries == 2u);
}

BOOST_AUTO_TEST_CASE(nobody_had_more_twice_than_its_window_holds) { // RFC 2883: what lies about it is not believed
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 20000 mss 1000 sackok ws 0");
    for (std::uint32_t n = 1; n <= 30; ++n) {
        s.write(1000);
        s.drain();
        s.receive("A 1:1 ack " + std::to_string(1000 * n + 1));
    }
    s.write(1000);
    s.drain();
    s.receive("A 1:1 ack 30001 sack 5001-26001");
    BOOST_TEST(s.block().statistics().duplicates_reported == 0u);
    s.receive("A 1:1 ack 30001 sack 5001-25001");
    BOOST_TEST(s.block().statistics().duplicates_reported == 20u);
}

BOOST_AUTO_TEST_CASE(patience_is_bounded_though_no_round_trip_was_measured) { // UBSan would tell
    tcp::rack r;
    for (std::uint32_t round = 0; round < 300; ++round) r.on_dsack(tcp::seq_number(1000 * round + 1), tcp::seq_number(1000 * round + 1000));
    BOOST_TEST((r.patience(false, duration::max(), duration{0}, 1ms) == 1ms));
    BOOST_TEST((r.patience(false, duration::max(), 20ms, 1ms) == 20ms));
    BOOST_TEST((r.patience(false, 4ms, 2s, 1ms) == 255ms));
    BOOST_TEST((r.patience(false, 4ms, 20ms, 1ms) == 20ms));
}

BOOST_AUTO_TEST_CASE(what_flew_behind_the_hole_makes_no_time_out_in_a_recovery_spurious) { // RFC 5682 3.1, RFC 5681 4.3
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0", 50ms);
    s.write(30'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(50ms); // 1:1001 is lost, and so is its copy
    for (int i = 2; i <= 9; ++i) {
        s.receive("A 1:1 ack 1 sack 1001-" + std::to_string(i * 1000 + 1));
        s.drain();
    }
    s.advance(201ms);
    s.drain();
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
    s.receive("A 1:1 ack 1 sack 1001-10001"); // the tenth, late
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
