// Modern recovery, step by step: RACK-TLP (RFC 8985), proportional rate reduction (RFC 9937), and finding out that a
// recovery was needless (RFC 3522, 5682, 2883).
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::tcp_state;

namespace {

tcp::parameters no_probe() {
    auto p = tcp_script::plain();
    p.tail_loss_probe = false;
    return p;
}

std::string echo(const tcp_script& s, duration ago) {
    return std::to_string(static_cast<std::uint32_t>((s.now() - ago).time_since_epoch() / 1ms));
}

/// The handshake takes a round trip of 100 ms.
void connect(tcp_script& s, const std::string& options = "") {
    s.connect(std::string("SA 0:0 ack 1 win 65535 mss ") + (options.empty() ? "1000" : "1012") + " sackok ws 0" + options, 100ms);
}

/// Ten segments of 1,000 bytes are on their way.
void send_ten(tcp_script& s, std::uint32_t bytes = 9'900) {
    s.write(100);
    s.expect("PA 1:101");
    s.advance(100ms);
    s.receive("A 1:1 ack 101");
    s.drain();
    s.write(bytes);
    BOOST_TEST(s.drain() == 10);
}

/// Of ten segments one is sent again, and all are acknowledged. Returns cwnd before.
std::uint32_t recover_from_one_loss(tcp_script& s) {
    send_ten(s);
    const std::uint32_t before = s.block().info().cwnd;
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-4101");
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    s.drain();
    s.receive("A 1:1 ack 10001");
    return before;
}

} // namespace

BOOST_AUTO_TEST_SUITE(recovery)

BOOST_AUTO_TEST_CASE(a_segment_that_was_overtaken_is_given_a_quarter_round_trip) { // RFC 8985 6.2 step 5
    tcp_script s(no_probe());
    connect(s);
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-2101");
    s.expect_nothing();
    s.advance(24ms);
    s.expect_nothing();
    s.advance(2ms);
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    BOOST_TEST(s.block().info().recovering);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
}

BOOST_AUTO_TEST_CASE(an_ack_for_a_burst_with_a_hole_in_it_reduces_what_was_in_flight_before_it) { // RFC 5681 (4), RFC 9438 4.6
    tcp_script s(no_probe());
    connect(s);
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 5101 sack 6101-10001");
    BOOST_TEST(s.block().info().recovering);
    BOOST_TEST(s.block().info().ssthresh == 6'930u); // 0.7 * 9,900
}

BOOST_AUTO_TEST_CASE(a_segment_that_comes_late_is_not_resent) { // RFC 8985 6.2
    tcp_script s(no_probe());
    connect(s);
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-2101");
    s.expect_nothing();
    s.advance(20ms);
    s.receive("A 1:1 ack 2101");
    s.advance(30ms);
    s.expect_nothing();
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().statistics().retransmitted_segments == 0u);
}

BOOST_AUTO_TEST_CASE(once_reordering_was_seen_three_sacks_are_no_proof) { // RFC 8985 6.2 step 4
    tcp_script s(no_probe());
    connect(s);
    send_ten(s, 20'000);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-2101");
    s.drain();
    s.receive("A 1:1 ack 2101"); // it was only late
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 3101 sack 4101-8101");
    const auto before = s.block().statistics().retransmitted_segments;
    s.drain();
    BOOST_TEST(s.block().statistics().retransmitted_segments == before);
    s.advance(30ms);
    BOOST_TEST(s.expect("A 3101:4101").retransmission);
}

BOOST_AUTO_TEST_CASE(nor_are_three_duplicate_acks_with_sacks) { // RFC 8985 6.2 step 4: DupThresh counts while no reordering was seen
    tcp_script s(no_probe());
    connect(s);
    send_ten(s, 20'000);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-2101");
    s.drain();
    s.receive("A 1:1 ack 2101"); // it was only late
    s.drain();
    s.advance(100ms);
    const auto cwnd = s.block().info().cwnd;
    for (std::uint32_t end = 4101; end <= 7101; end += 1000) {
        s.receive("A 1:1 ack 2101 sack 3101-" + std::to_string(end));
        s.drain();
    }
    s.advance(5ms);
    s.receive("A 1:1 ack 7101"); // late once more
    s.drain();
    BOOST_TEST(s.block().statistics().retransmitted_segments == 0u);
    BOOST_TEST(s.block().statistics().fast_recoveries == 0u);
    BOOST_TEST(s.block().info().cwnd >= cwnd);
}

BOOST_AUTO_TEST_CASE(what_was_sacked_while_it_waited_counts_not_among_what_is_to_be_delivered) { // RFC 9937 6.1, RecoverFS
    auto p = no_probe();
    p.congestion = tcp::reno_congestion;
    tcp_script s(p);
    connect(s);
    send_ten(s, 40'000);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-2101");
    s.drain();
    s.receive("A 1:1 ack 2101"); // it was only late
    s.drain();
    s.advance(100ms);
    const std::uint32_t at = s.block().info().snd_max - tcp::seq_number(1'000'000);
    const std::string ack = "A 1:1 ack " + std::to_string(at), sack = ack + " sack " + std::to_string(at + 1000) + "-";
    s.receive(ack);
    const std::uint32_t window = static_cast<std::uint32_t>(s.drain()) * 1000;
    BOOST_TEST(window == s.block().info().cwnd);
    s.advance(100ms);
    for (std::uint32_t n = 2; n <= 6; ++n) { // for the first of them there is patience, and new ones go
        s.receive(sack + std::to_string(at + 1000 * n));
        BOOST_TEST(s.drain() == 1);
    }
    BOOST_TEST(s.block().statistics().fast_recoveries == 0u);
    s.advance(30ms);
    s.expect("A " + std::to_string(at) + ":" + std::to_string(at + 1000));
    BOOST_TEST(s.block().info().ssthresh == window / 2);
    int sent = 1;
    for (std::uint32_t n = 7; n <= 12; ++n) { // of six that come half as many are followed by another
        s.receive(sack + std::to_string(at + 1000 * n));
        sent += s.drain();
    }
    BOOST_TEST(sent == 3);
}

BOOST_AUTO_TEST_CASE(no_claim_of_what_was_delivered_makes_a_window_of_more_than_there_can_be) { // RFC 9937; RFC 7323 2.3
    tcp::rate_reduction r;
    r.start(10'000, 1'000);
    for (int i = 0; i < 8; ++i) BOOST_TEST(r.window(6'000, 5'000, 0xffff'ffffu, false, 1'000) <= (1u << 30) + 6'000);
}

BOOST_AUTO_TEST_CASE(linux_takes_what_comes_late_for_no_proof_of_a_loss) { // tcp_rack_mark_lost(): only when RACK has advanced
    auto p = no_probe();
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    connect(s);
    s.write(30'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(s.block().info().rto + 1ms);
    s.drain();
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
    s.receive("A 1:1 ack 1001");
    s.drain();
    s.advance(50ms);
    s.receive("A 1:1 ack 1001 sack 2001-3001"); // sent once: the time-out was needless
    s.drain();
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    s.advance(1ms);
    s.receive("A 1:1 ack 1001 sack 2001-4001");
    s.drain();
    BOOST_TEST(s.block().statistics().fast_recoveries == 0u);
    s.advance(100ms);
    BOOST_TEST(s.block().statistics().fast_recoveries == 1u);
}

namespace {

/// The third, then the first, then the second of the ten segments that are on their way arrive.
void overtake(tcp_script& s) {
    s.advance(100ms);
    s.receive("A 1:1 ack 1 sack 2001-3001");
    s.drain();
    s.advance(1ms);
    s.receive("A 1:1 ack 1001 sack 2001-3001");
    s.drain();
    s.advance(1ms);
    s.receive("A 1:1 ack 3001");
    s.drain();
}

} // namespace

BOOST_AUTO_TEST_CASE(how_far_segments_are_overtaken_counts_from_their_start_and_has_bounds) { // tcp_check_sack_reordering()
    struct bounds { std::uint16_t least, most; unsigned told; };
    for (const auto& b : {bounds{2, 300, 3}, bounds{3, 300, 3}, bounds{5, 300, 5}, bounds{2, 2, 2}}) {
        auto p = no_probe();
        p.habits = tcp::personality::linux_;
        p.duplicate_threshold = b.least;
        p.reordering_limit = b.most;
        p.min_reordering = 50ms;
        tcp_script s(p);
        connect(s);
        s.write(10'000);
        BOOST_TEST(s.drain() == 10);
        BOOST_TEST(s.block().info().reordering == b.least);
        overtake(s);
        BOOST_TEST(s.block().info().reordering == b.told);
    }
}

BOOST_AUTO_TEST_CASE(so_many_duplicates_as_the_threshold_says_are_a_loss) { // tcp_reordering
    for (const unsigned threshold : {2u, 5u}) {
        auto p = no_probe();
        p.duplicate_threshold = static_cast<std::uint16_t>(threshold);
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 65535 mss 1000");
        s.write(10'000);
        s.drain();
        for (unsigned i = 1; i <= threshold; ++i) {
            BOOST_TEST(!s.block().info().recovering);
            s.receive("A 1:1 ack 1");
            s.drain();
        }
        BOOST_TEST(s.block().info().recovering);
    }
}

BOOST_AUTO_TEST_CASE(linux_opens_its_window_by_what_sack_tells_where_segments_come_out_of_order) { // tcp_may_raise_cwnd()
    for (const bool reordered : {true, false}) {
        auto p = no_probe();
        p.habits = tcp::personality::linux_;
        p.duplicate_threshold = 2;
        tcp_script s(p);
        connect(s);
        s.write(60'000);
        BOOST_TEST(s.drain() == 10);
        if (reordered) overtake(s);
        else s.advance(100ms), s.receive("A 1:1 ack 3001"), s.drain();
        const auto before = s.block().info().cwnd;
        s.receive("A 1:1 ack 3001 sack 4001-5001");
        BOOST_TEST(s.block().info().cwnd == before + (reordered ? 1'000u : 0u));
        BOOST_TEST(!s.block().info().recovering);
    }
}

BOOST_AUTO_TEST_CASE(the_window_shrinks_in_proportion_to_what_is_delivered) { // RFC 9937
    tcp_script s(no_probe());
    connect(s);
    send_ten(s, 40'000);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-4101"); // three of ten delivered: the first is lost
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    const auto ssthresh = s.block().info().ssthresh;
    BOOST_TEST(ssthresh <= 7000u);
    int sent = s.drain();
    for (std::uint32_t end = 5101; end <= 10'101; end += 1000) {
        s.receive("A 1:1 ack 101 sack 1101-" + std::to_string(end));
        const int now = s.drain();
        BOOST_TEST(now <= 2);
        sent += now;
        BOOST_TEST(s.block().info().in_flight <= s.block().info().cwnd);
    }
    BOOST_TEST(sent >= 3);
    s.receive("A 1:1 ack 10101");
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().info().cwnd >= ssthresh);
}

BOOST_AUTO_TEST_CASE(an_echo_older_than_the_retransmission_undoes_the_recovery) { // RFC 3522
    auto p = no_probe();
    p.timestamps = true;
    p.mss = 1012;
    tcp_script s(p);
    connect(s, " ts 7 " + echo(s, 0ms));
    send_ten(s);
    const auto before = s.block().info().cwnd;
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-4101 ts " + echo(s, 0ms) + " " + echo(s, 100ms));
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    s.drain();
    BOOST_TEST(s.block().info().cwnd < before);
    s.receive("A 1:1 ack 4101 ts " + echo(s, 0ms) + " " + echo(s, 100ms)); // the original was only late
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().info().cwnd >= before);
}

BOOST_AUTO_TEST_CASE(an_echo_half_the_clock_away_from_a_recovery_that_is_long_over_undoes_nothing) {
    auto p = no_probe();
    p.timestamps = true;
    p.mss = 1012;
    tcp_script s(p);
    connect(s, " ts 7 " + echo(s, 0ms));
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-4101 ts " + echo(s, 0ms) + " " + echo(s, 100ms));
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    s.drain();
    s.advance(20ms);
    s.receive("A 1:1 ack 10001 ts " + echo(s, 0ms) + " " + echo(s, 0ms)); // it was needed
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
    s.drain();
    s.advance(24h * 25); // 2^31 ms, and a little
    s.write(4000);
    s.drain();
    s.advance(10ms);
    const auto cwnd = s.block().info().cwnd;
    s.receive("A 1:1 ack 10001 sack 11001-12001 ts " + echo(s, 0ms) + " " + echo(s, 0ms)); // only out of order
    s.receive("A 1:1 ack 12001 ts " + echo(s, 0ms) + " " + echo(s, 0ms));
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
    BOOST_TEST(s.block().info().cwnd <= cwnd + 4000);
}

BOOST_AUTO_TEST_CASE(duplicates_reported_of_all_that_was_resent_undo_the_recovery) { // RFC 2883, 3708
    tcp_script s(no_probe());
    connect(s);
    const auto before = recover_from_one_loss(s);
    BOOST_TEST(s.block().info().cwnd < before);
    s.receive("A 1:1 ack 10001 sack 101-1101"); // it had come twice
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    BOOST_TEST(s.block().info().cwnd >= before);
}

BOOST_AUTO_TEST_CASE(a_duplicate_that_is_reported_beside_something_new_undoes_the_recovery_behind_its_end) { // RFC 2883, 3708
    for (const auto who : {tcp::personality::standard, tcp::personality::linux_}) {
        auto p = no_probe();
        p.habits = who;
        tcp_script s(p);
        connect(s);
        const auto before = recover_from_one_loss(s);
        s.write(1000);
        s.drain();
        BOOST_TEST(s.block().info().cwnd < before);
        s.receive("A 1:1 ack 10101 sack 101-1101"); // the receiver had an ACK of the last to send anyway
        BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
        BOOST_TEST(s.block().info().cwnd >= before);
    }
}

BOOST_AUTO_TEST_CASE(a_duplicate_of_a_tail_probe_undoes_no_recovery) { // RFC 3708 3: of what the recovery has resent
    tcp_script s;
    connect(s);
    send_ten(s, 10'000);
    for (int i = 0; i < 2000 && s.block().statistics().tail_loss_probes == 0; ++i) s.advance(1ms);
    BOOST_TEST(s.expect("PA 9101:10101").retransmission);
    s.receive("A 1:1 ack 4101 sack 5101-10101"); // one is lost
    BOOST_TEST(s.expect("A 4101:5101").retransmission);
    s.drain();
    const auto cwnd = s.block().info().cwnd;
    s.receive("A 1:1 ack 4101 sack 9101-10101,5101-10101"); // the probe's copy
    BOOST_TEST(s.block().info().recovering);
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
    BOOST_TEST(s.block().info().cwnd <= cwnd);
}

BOOST_AUTO_TEST_CASE(a_duplicate_of_what_came_before_the_recovery_undoes_nothing) { // RFC 3708 3
    tcp_script s(no_probe());
    connect(s);
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 1101");
    s.drain();
    s.receive("A 1:1 ack 1101 sack 2101-5101");
    BOOST_TEST(s.expect("A 1101:2101").retransmission);
    s.drain();
    s.receive("A 1:1 ack 10001");
    s.receive("A 1:1 ack 10001 sack 101-1101"); // the network's copy
    s.receive("A 1:1 ack 10001 sack 6101-7101"); // another one, of what was sent once
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
    s.receive("A 1:1 ack 10001 sack 1101-2101");
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
}

BOOST_AUTO_TEST_CASE(a_later_reduction_is_not_undone_by_what_an_old_recovery_resent) {
    tcp_script s;
    connect(s);
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 1101-10001");
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 10001"); // it was needed
    s.drain();
    const auto probes = s.block().statistics().tail_loss_probes;
    s.write(1000);
    s.expect("PA 10001:11001");
    for (int i = 0; i < 2000 && s.block().statistics().tail_loss_probes == probes; ++i) s.advance(1ms);
    BOOST_TEST(s.expect("PA 10001:11001").retransmission);
    s.receive("A 1:1 ack 11001");
    s.write(100);
    s.drain();
    s.receive("A 1:1 ack 11101"); // the probe has mended a loss, as it seems
    const auto reduced = s.block().info().cwnd;
    s.receive("A 1:1 ack 11101 sack 10001-11001");
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
    BOOST_TEST(s.block().info().cwnd == reduced);
}

BOOST_AUTO_TEST_CASE(a_spurious_time_out_is_undone) { // RFC 5682 3.1
    tcp_script s(no_probe());
    connect(s);
    send_ten(s, 20'000);
    const auto before = s.block().info().cwnd;
    s.advance(400ms); // a delay spike
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    s.expect_nothing();
    BOOST_TEST(s.block().info().cwnd == 1000u);
    s.receive("A 1:1 ack 1101"); // of the original or of the copy: new data goes first
    BOOST_TEST(!s.expect("A 10101:11101").retransmission);
    BOOST_TEST(!s.expect("A 11101:12101").retransmission);
    s.receive("A 1:1 ack 2101"); // never resent: it was all only late
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    BOOST_TEST(s.block().info().cwnd >= before);
    s.drain();
    BOOST_TEST(s.block().statistics().retransmitted_segments == 1u);
}

BOOST_AUTO_TEST_CASE(an_original_that_comes_longer_than_a_round_trip_behind_its_copy_proves_no_other_lost) { // RFC 8985 6.2 step 2
    for (const bool stamps : {true, false}) {
        auto p = no_probe();
        p.timestamps = stamps;
        p.mss = stamps ? 1012 : 1000;
        tcp_script s(p);
        connect(s, stamps ? " ts 7 " + echo(s, 0ms) : "");
        s.write(30'000);
        BOOST_TEST(s.drain() == 10);
        const time_point sent = s.now();
        const auto before = s.block().info().cwnd;
        s.advance(310ms);
        BOOST_TEST(s.expect("A 1:1001").retransmission);
        s.expect_nothing();
        s.advance(150ms);
        for (const int end : {1001, 2001, 3001}) { // all was only late
            s.receive("A 1:1 ack " + std::to_string(end) + (stamps ? " ts " + echo(s, 0ms) + " " + echo(s, s.now() - sent) : ""));
            s.drain();
        }
        BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
        BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
        BOOST_TEST(s.block().statistics().fast_recoveries == 0u);
        BOOST_TEST(s.block().statistics().retransmitted_segments == 1u);
        BOOST_TEST(!s.block().info().recovering);
        BOOST_TEST(s.block().info().cwnd >= before);
    }
}

BOOST_AUTO_TEST_CASE(an_ack_that_echoes_the_first_copy_proves_nothing_of_what_left_before_the_second) { // RFC 8985 6.2 step 2
    auto p = no_probe();
    p.timestamps = true;
    p.mss = 1012;
    tcp_script s(p);
    connect(s, " ts 7 " + echo(s, 0ms));
    const time_point begin = s.now();
    const auto receive = [&](const std::string& segment, duration sent) {
        s.receive(segment + " ts " + echo(s, 0ms) + " " + echo(s, s.now() - (begin + sent)));
    };
    s.write(60'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    receive("A 1:1 ack 1 sack 1001-4001", 0ms);
    BOOST_TEST(s.expect("A 1:1001").retransmission);
    s.drain();
    s.advance(1ms);
    receive("A 1:1 ack 1 sack 1001-10001", 0ms);
    BOOST_TEST(s.drain() > 4); // new data
    s.advance(100ms);
    receive("A 1:1 ack 1 sack 1001-14001", 0ms); // four of it have overtaken the copy
    BOOST_TEST(s.expect("A 1:1001").retransmission);
    s.drain();
    const auto resent = s.block().statistics().retransmitted_segments;
    s.advance(120ms);
    receive("A 1:1 ack 14001", 100ms); // which was only late
    s.drain();
    BOOST_TEST(s.block().statistics().retransmitted_segments == resent);
    BOOST_TEST(s.block().statistics().fast_recoveries == 1u);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
}

BOOST_AUTO_TEST_CASE(a_real_time_out_stays_one) { // RFC 5682 2.1 step 3a
    tcp_script s(no_probe());
    connect(s);
    send_ten(s, 20'000);
    s.advance(400ms);
    s.expect("A 101:1101");
    s.expect_nothing();
    s.receive("A 1:1 ack 1101");
    s.expect("A 10101:11101");
    s.expect("A 11101:12101");
    s.expect_nothing();
    s.advance(100ms);
    s.receive("A 1:1 ack 1101 sack 10101-11101"); // the rest was lost
    BOOST_TEST(s.expect("A 1101:2101").retransmission);
    s.receive("A 1:1 ack 3101 sack 10101-11101"); // the hole was smaller: with the repair comes what was sent but once
    BOOST_TEST(s.block().statistics().spurious_recoveries == 0u);
}

BOOST_AUTO_TEST_CASE(without_sack_the_new_segments_make_room_for_what_is_lost) { // RFC 5682 2.1 step 3a
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        auto p = no_probe();
        p.habits = habits;
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 65535 mss 1000 ws 0", 100ms);
        s.write(30'000);
        BOOST_TEST(s.drain() == 10);
        s.advance(400ms);
        BOOST_TEST(s.expect("A 1:1001").retransmission);
        s.expect_nothing();
        s.receive("A 1:1 ack 1001");
        BOOST_TEST(!s.expect("A 10001:11001").retransmission);
        BOOST_TEST(!s.expect("A 11001:12001").retransmission);
        s.expect_nothing();
        s.advance(100ms);
        s.receive("A 1:1 ack 1001"); // the rest was lost
        BOOST_TEST(s.expect("A 1001:2001").retransmission);
        s.expect_nothing();
        s.receive("A 1:1 ack 1001");
        BOOST_TEST(s.expect("A 2001:3001").retransmission);
        s.expect_nothing();
        s.receive("A 1:1 ack 1001"); // two were sent anew, and no more
        s.expect_nothing();
        BOOST_TEST(s.block().statistics().retransmission_timeouts == 1u);
    }
}

BOOST_AUTO_TEST_CASE(without_sack_duplicates_of_needless_copies_start_no_recovery) { // RFC 6582 3.2 step 2: more than `recover`
    tcp_script s(no_probe());
    s.connect("SA 0:0 ack 1 win 65535 mss 1000");
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    for (int i = 0; i < 6; ++i) s.receive("A 1:1 ack 1"), s.drain(); // 1 to 4 are lost, and the first once more
    s.advance(s.block().info().rto + 1ms);
    s.expect("A 1:1001");
    s.receive("A 1:1 ack 1001");
    s.drain();
    s.receive("A 1:1 ack 2001"), s.drain();
    s.receive("A 1:1 ack 3001"), s.drain();
    s.receive("A 1:1 ack 10001"); // three of what was sent again the peer had
    BOOST_TEST(!s.block().info().recovering);
    const auto before = s.block().statistics();
    BOOST_TEST(before.retransmission_timeouts == 1u);
    s.write(5'000);
    BOOST_TEST(s.drain() >= 3);
    for (int i = 0; i < 3; ++i) s.receive("A 1:1 ack 10001"), s.drain();
    BOOST_TEST(s.block().statistics().fast_recoveries == before.fast_recoveries);
    BOOST_TEST(s.block().statistics().retransmitted_segments == before.retransmitted_segments);
    s.receive("A 1:1 ack 11001"), s.drain();
    for (int i = 0; i < 3; ++i) s.receive("A 1:1 ack 11001"), s.drain(); // that is a loss
    BOOST_TEST(s.block().statistics().fast_recoveries == before.fast_recoveries + 1);
}

BOOST_AUTO_TEST_CASE(nothing_heard_of_a_burst_of_retransmissions_one_segment_asks) { // RFC 8985 7.3
    tcp_script s;
    connect(s);
    send_ten(s);
    s.advance(100ms);
    s.receive("A 1:1 ack 101 sack 5101-10001");
    const int burst = s.drain();
    BOOST_TEST(burst >= 4); // all lost, or late
    for (int i = 0; i < 1000 && s.block().statistics().tail_loss_probes == 0; ++i) s.advance(1ms);
    BOOST_TEST(s.block().statistics().retransmission_timeouts == 0u);
    BOOST_TEST(s.expect("A 101:1101").retransmission);
    s.expect_nothing();
    s.advance(100ms);
    s.receive("A 1:1 ack 1101 sack 5101-10001"); // of the second copy: the others are lost as well
    BOOST_TEST(s.expect("A 1101:2101").retransmission);
}

namespace {

/// Linux's habits: segments leave several in a packet.
tcp::parameters in_packets() {
    auto p = tcp_script::plain();
    p.habits = tcp::personality::linux_;
    p.super_segments.on = true;
    p.forward_rto = false;
    p.tail_loss_probe = false;
    return p;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_packet_that_is_sent_again_does_not_go_on_behind_what_was_sacked_meanwhile) { // tcp_xmit_retransmit_queue()
    tcp_script s(in_packets());
    s.connect();
    s.write(8'000);
    s.drain();
    s.advance(1s);
    s.expect("A 1:1001");
    s.expect_nothing();
    s.receive("A 1:1 ack 1001");
    BOOST_TEST(!s.expect("A 1001:2001").joins());
    s.receive("A 1:1 ack 1001 sack 2001-3001"); // the rest of the packet that is leaving
    BOOST_TEST(!s.expect("A 3001:4001").joins());
}

BOOST_AUTO_TEST_CASE(a_packet_that_stopped_half_way_keeps_nothing_from_being_sent_again) {
    tcp_script s(in_packets());
    s.connect();
    s.write(8'000);
    s.expect("A 1:1001"); // and the port takes no more
    const time_point later = s.block().next_timeout();
    s.block().on_timer(later);
    tcp::outgoing_segment again;
    BOOST_REQUIRE(s.block().next_segment(later, again));
    BOOST_TEST(again.retransmission);
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_heard_of_in_a_burst_of_acks_counts_the_window_that_was_full) { // RFC 5681 2: FlightSize; RFC 9438 4.6
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok");
    s.write(30'000);
    s.drain();
    BOOST_TEST(s.block().info().unacknowledged == 10'000u);
    s.advance(100ms);
    s.receive("A 1:1 ack 5001"); // nothing leaves between these: they came together
    s.receive("A 1:1 ack 5001 sack 6001-9001");
    const auto i = s.block().info();
    BOOST_TEST(i.recovering);
    BOOST_TEST(i.ssthresh >= 7'000u); // not three tenths less than the five that were in flight still
    s.drain();
    BOOST_TEST(s.block().info().in_flight >= 6'000u); // and what the first made room for has left
}

BOOST_AUTO_TEST_CASE(a_partial_acknowledgment_resends_the_next_hole_whatever_the_window_says) { // RFC 6582 3.2 (3)
    tcp::parameters p = tcp_script::plain();
    p.congestion = tcp::reno_congestion;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 ws 0", 50ms);
    s.write(10'000);
    BOOST_TEST(s.drain() == 10); // six are lost: 1:3001 and 4001:7001
    s.advance(50ms);
    for (int i = 0; i < 4; ++i) s.receive("A 1:1 ack 1");
    s.expect("A 1:1001");
    s.expect_nothing();
    s.advance(50ms);
    s.receive("A 1:1 ack 1001");
    s.expect("A 1001:2001");
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(an_echo_of_this_millisecond_is_no_least_round_trip) { // RFC 8985 6.2 step 4
    tcp::parameters p = tcp_script::plain();
    p.timestamps = true;
    p.quick_acks = 0;
    p.mss = 1012;
    tcp_script s(p);
    const auto stamp = [&s](duration ago = {}) { return std::to_string(static_cast<std::uint32_t>(to_ns(s.now() - ago) / 1'000'000)); };
    s.open();
    s.expect("S 0:0");
    s.advance(900us);
    s.receive("SA 0:0 ack 1 win 65535 mss 1012 sackok ws 0 ts 1 " + stamp(900us));
    s.drain();
    s.write(1000);
    s.drain();
    s.advance(200ms);
    s.drain();
    s.advance(1s); // the time-out has backed off: timestamps tell
    s.drain();
    s.advance(duration{1'000'000 - to_ns(s.now()) % 1'000'000} + 1us);
    s.receive("A 1:1 ack 1001 ts 2 " + stamp());
    std::int64_t at = 1001;
    for (int i = 0; i < 4; ++i) {
        s.write(4000);
        for (const std::int64_t end = at + 4000; at < end;) {
            at += 1000 * s.drain();
            s.advance(900us);
            s.receive("A 1:1 ack " + std::to_string(at) + " ts 2 " + stamp(900us));
        }
    }
    s.write(2000);
    s.drain();
    s.advance(900us);
    const std::string second = std::to_string(at + 1000) + "-" + std::to_string(at + 2000);
    s.receive("A 1:1 ack " + std::to_string(at) + " sack " + second + " ts 3 " + stamp(900us));
    s.drain();
    const std::uint64_t before = s.block().statistics().fast_recoveries;
    s.advance(150us); // a sixth of a round trip is no loss
    BOOST_TEST(s.block().statistics().fast_recoveries == before);
}

BOOST_AUTO_TEST_SUITE_END()
