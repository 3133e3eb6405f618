// Explicit congestion notification (RFC 3168) and DCTCP (RFC 8257).
#include <tests/support/tcp_script.hh>

#include <corewire/net/tcp/congestion/dctcp.hh>

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace corewire;
using namespace corewire::test;
using tcp::tcp_flags;

namespace {

tcp::parameters with_ecn() {
    auto p = tcp_script::plain();
    p.ecn = true;
    p.tail_loss_probe = false;
    p.delayed_ack = 40ms;
    return p;
}
bool says(const tcp::outgoing_segment& s, tcp_flags f) { return wire::has(s.flags, f); }

/// `dctcp_of_linux`: its SYN is ECN-capable.
void connect(tcp_script& s, bool dctcp_of_linux = false) {
    s.open();
    const auto syn = s.expect("S 0:0");
    BOOST_TEST(says(syn, tcp_flags::ece));
    BOOST_TEST(says(syn, tcp_flags::cwr));
    BOOST_TEST(syn.ecn_capable() == dctcp_of_linux);
    s.receive("SAE 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.drain();
    BOOST_TEST(s.block().info().ecn);
}

/// Adds up what a controller that wants exact marks is told.
struct told final : tcp::reno {
    static inline std::uint32_t acked = 0, marked = 0;
    explicit told(std::uint32_t mss) noexcept : reno(mss) { wants_exact_marks_ = true; }
    void on_ack(const tcp::ack_sample& sample) noexcept override {
        acked += sample.acked;
        marked += sample.marked;
        reno::on_ack(sample);
    }
    tcp::congestion_controller* another() const override { return new told(mss_); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(ecn)

BOOST_AUTO_TEST_CASE(both_ends_must_agree) { // RFC 3168 6.1.1
    tcp_script offered(with_ecn());
    connect(offered);

    tcp_script refused(with_ecn());
    refused.connect();
    BOOST_TEST(!refused.block().info().ecn);

    tcp_script reflected(with_ecn()); // a peer that sends back what it got
    reflected.open();
    reflected.expect("S 0:0");
    reflected.receive("SAEC 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    reflected.drain();
    BOOST_TEST(!reflected.block().info().ecn);

    tcp_script asked(with_ecn());
    asked.listen("SEC 0:0 win 65535 mss 1000 sackok ws 0");
    const auto answer = asked.expect("SA 0:0");
    BOOST_TEST(says(answer, tcp_flags::ece));
    BOOST_TEST(!says(answer, tcp_flags::cwr));

    tcp_script unwilling;
    unwilling.listen("SEC 0:0 win 65535 mss 1000 sackok ws 0");
    BOOST_TEST(!says(unwilling.expect("SA 0:0"), tcp_flags::ece));
}

BOOST_AUTO_TEST_CASE(a_syn_cookie_remembers_that_ecn_was_agreed_to) {
    for (const bool agreed : {false, true}) {
        tcp::tcb block(from_ns(1'000'000'000), tcp::cookie_open{.iss = tcp::seq_number(7), .irs = tcp::seq_number(9), .peer_mss = 1000,
                                                                .window = 65'535, .ecn = agreed}, with_ecn());
        BOOST_TEST(block.info().ecn == agreed);
    }
    tcp::segment syn;
    syn.flags = tcp_flags::syn | tcp_flags::ece | tcp_flags::cwr;
    BOOST_TEST((tcp::cookie_flags(with_ecn(), syn, true) == tcp_flags::ece));
    BOOST_TEST((tcp::cookie_flags(with_ecn(), syn, false) == tcp_flags::none)); // there is nothing to remember it by
    BOOST_TEST((tcp::cookie_flags(tcp_script::plain(), syn, true) == tcp_flags::none));
}

BOOST_AUTO_TEST_CASE(as_linux_a_syn_that_is_ecn_capable_itself_is_not_taken_at_its_word) { // tcp_ecn_create_request()
    for (const bool linux_habits : {false, true}) {
        auto p = with_ecn();
        if (linux_habits) p.habits = tcp::personality::linux_;
        tcp_script s(p);
        s.listen("SEC 0:0 win 65535 mss 1000 sackok ws 0 ect0");
        BOOST_TEST(says(s.expect("SA 0:0"), tcp_flags::ece) == !linux_habits);
    }
}

BOOST_AUTO_TEST_CASE(a_mark_that_is_heard_of_in_a_burst_of_acks_counts_the_window_that_was_full) { // RFC 3168 6.1.2
    tcp_script s(with_ecn());
    connect(s);
    s.write(30'000);
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 8001"); // nothing leaves between these
    s.receive("AE 1:1 ack 9001");
    BOOST_TEST(s.block().statistics().mark_reductions == 1u);
    BOOST_TEST(s.block().info().ssthresh >= 7'000u);
}

BOOST_AUTO_TEST_CASE(a_syn_without_an_answer_is_repeated_without_ecn) { // RFC 3168 6.1.1.1
    tcp_script s(with_ecn());
    s.open();
    BOOST_TEST(says(s.expect("S 0:0"), tcp_flags::ece));
    s.advance(1s);
    const auto again = s.expect("S 0:0");
    BOOST_TEST(!says(again, tcp_flags::ece));
    BOOST_TEST(!says(again, tcp_flags::cwr));
    s.receive("SAE 0:0 ack 1 win 65535 mss 1000 sackok ws 0");
    s.drain();
    BOOST_TEST(!s.block().info().ecn);
}

BOOST_AUTO_TEST_CASE(new_data_is_capable_and_nothing_else) { // RFC 3168 6.1.4, 6.1.5
    tcp_script s(with_ecn());
    connect(s);
    s.write(1000);
    BOOST_TEST(s.expect("A 1:1001").ecn_capable());
    s.advance(1s);
    const auto again = s.expect("A 1:1001");
    BOOST_TEST(again.retransmission);
    BOOST_TEST(!again.ecn_capable());
    s.receive("A 1:501 ack 1001");
    s.advance(50ms);
    BOOST_TEST(!s.expect("A 1001:1001 ack 501").ecn_capable());
}

BOOST_AUTO_TEST_CASE(an_echo_opens_no_window_of_one_segment) { // RFC 3168 6.1.2
    tcp::reno reno(1000);
    reno.on_timeout(10'000, true);
    BOOST_REQUIRE(reno.cwnd() == 1000u);
    reno.on_mark(time_point{}, 1000);
    BOOST_TEST(reno.cwnd() == 1000u);
    tcp::dctcp dctcp(1000);
    dctcp.on_timeout(10'000, true);
    BOOST_REQUIRE(dctcp.cwnd() == 1000u);
    dctcp.on_mark(time_point{}, 1000);
    BOOST_TEST(dctcp.cwnd() == 1000u);
}

BOOST_AUTO_TEST_CASE(an_echo_shrinks_the_window_once_a_round_trip) { // RFC 3168 6.1.2
    tcp_script s(with_ecn());
    connect(s);
    s.write(50'000);
    BOOST_TEST(s.drain() == 10);
    const auto before = s.block().info().cwnd;
    s.receive("AE 1:1 ack 1001");
    const auto after = s.block().info().cwnd;
    BOOST_TEST(after < before);
    s.receive("AE 1:1 ack 2001");
    BOOST_TEST(s.block().info().cwnd == after);
    BOOST_TEST(s.block().statistics().mark_reductions == 1u);
    s.receive("AE 1:1 ack 8001");
    const auto next = s.expect("A 10001:11001");
    BOOST_TEST(says(next, tcp_flags::cwr)); // told once
    BOOST_TEST(!says(s.expect("A 11001:12001"), tcp_flags::cwr));
    s.drain();
    s.receive("AE 1:1 ack 10001"); // the last byte of the window that was reduced
    s.drain();
    BOOST_TEST(s.block().statistics().mark_reductions == 1u);
    s.receive("AE 1:1 ack 11001");
    s.drain();
    BOOST_TEST(s.block().statistics().mark_reductions == 2u); // that window is over, and still it says so
    BOOST_TEST(s.block().statistics().retransmitted_segments == 0u);
}

BOOST_AUTO_TEST_CASE(a_loss_beside_a_mark_in_the_same_window_costs_nothing_more) { // RFC 3168 6.1.2
    tcp_script s(with_ecn());
    connect(s);
    s.write(50'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    s.receive("AE 1:1 ack 1001");
    const auto after = s.block().info().ssthresh;
    BOOST_TEST(after == 7000u);
    s.drain();
    s.receive("A 1:1 ack 1001 sack 2001-5001"); // 1001 was lost beside the one that was marked
    BOOST_TEST(s.expect("A 1001:2001").retransmission);
    BOOST_TEST(s.block().info().recovering);
    BOOST_TEST(s.block().info().ssthresh == after);
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 10001");
    BOOST_TEST(!s.block().info().recovering);
    BOOST_TEST(s.block().info().cwnd >= after);
    s.drain();
    s.advance(100ms);
    s.receive("A 1:1 ack 10001 sack 11001-14001"); // another window's
    BOOST_TEST(s.block().info().recovering);
    BOOST_TEST(s.block().info().ssthresh < after);
}

/// Of ten segments the first is sent again; the ACKs in between say ECE where it is `marked`.
void resend_the_first_of_ten(tcp_script& s, bool marked) {
    connect(s);
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    for (const char* end : {"2001", "3001", "4001"}) s.receive(std::string("A 1:1 ack 1 sack 1001-") + end);
    BOOST_TEST(s.expect("A 1:1001").retransmission);
    s.receive(std::string(marked ? "AE" : "A") + " 1:1 ack 1 sack 1001-5001");
    s.drain();
    s.advance(10ms);
}

BOOST_AUTO_TEST_CASE(a_mark_in_a_window_that_was_reduced_for_a_loss_costs_nothing_more) { // RFC 3168 6.1.2
    tcp_script s(with_ecn());
    resend_the_first_of_ten(s, true);
    s.receive("AE 1:1 ack 10001"); // nothing new could say CWR
    BOOST_TEST(!s.block().info().recovering);
    const auto after = s.block().info().ssthresh;
    s.write(2000);
    BOOST_TEST(says(s.expect("A 10001:11001"), tcp_flags::cwr));
    s.drain();
    s.receive("AE 1:501 ack 10001"); // it left before that came
    BOOST_TEST(s.block().statistics().mark_reductions == 0u);
    BOOST_TEST(s.block().info().ssthresh == after);
    s.receive("AE 501:1001 ack 12001"); // of another window
    BOOST_TEST(s.block().statistics().mark_reductions == 1u);
}

BOOST_AUTO_TEST_CASE(behind_a_recovery_that_was_needless_a_mark_counts) { // RFC 3168 6.1.2
    tcp_script s(with_ecn());
    resend_the_first_of_ten(s, false);
    s.receive("A 1:1 ack 5001 sack 1-1001"); // it came twice
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    BOOST_TEST(s.block().info().cwnd >= 10'000u);
    s.receive("AE 1:1 ack 6001");
    BOOST_TEST(s.block().statistics().mark_reductions == 1u);
    BOOST_TEST(s.block().info().cwnd < 10'000u);
}

BOOST_AUTO_TEST_CASE(a_mark_that_a_recovery_has_answered_stays_answered_though_nothing_was_lost) { // RFC 4015 step 8
    for (const auto who : {tcp::personality::standard, tcp::personality::linux_}) { // there prior_ssthresh is forgotten
        auto p = with_ecn();
        p.habits = who;
        p.congestion = tcp::reno_congestion;
        tcp_script s(p);
        resend_the_first_of_ten(s, true);
        s.receive("A 1:1 ack 10001 sack 1-1001");
        BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
        BOOST_TEST(!s.block().info().recovering);
        BOOST_TEST(s.block().info().ssthresh == 5000u);
        BOOST_TEST(s.block().info().cwnd < 10'000u);
        s.write(1000);
        BOOST_TEST(says(s.expect("A 10001:11001"), tcp_flags::cwr));
    }
}

BOOST_AUTO_TEST_CASE(of_dctcp_a_needless_recovery_is_taken_back_though_marks_came) { // RFC 8257 3.5: a loss is answered otherwise
    auto p = with_ecn();
    p.congestion = tcp::dctcp_congestion;
    tcp_script s(p);
    resend_the_first_of_ten(s, true);
    s.receive("A 1:1 ack 10001 sack 1-1001");
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    BOOST_TEST(s.block().info().cwnd >= 10'000u);
}

BOOST_AUTO_TEST_CASE(a_needless_recovery_takes_back_no_word_of_a_mark) { // RFC 3168 6.1.2
    auto p = with_ecn();
    p.timestamps = true;
    p.mss = 1012;
    tcp_script s(p);
    s.open();
    s.expect("S 0:0");
    s.receive("SAE 0:0 ack 1 win 65535 mss 1012 sackok ts 1 0 ws 0");
    s.drain();
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    s.advance(100ms);
    s.receive("AE 1:1 ack 1001 ts 2 0"); // the window is halved, and there is nothing to say so with
    s.receive("A 1:1 ack 1001 sack 2001-5001 ts 2 0");
    BOOST_TEST(s.expect("A 1001:2001").retransmission);
    BOOST_TEST(s.block().info().recovering);
    s.advance(10ms);
    s.receive("A 1:1 ack 5001 sack 1001-2001 ts 3 0"); // it had only been late, and came twice
    BOOST_TEST(s.block().statistics().spurious_recoveries == 1u);
    s.write(1000);
    BOOST_TEST(says(s.expect("A 10001:11001"), tcp_flags::cwr));
}

BOOST_AUTO_TEST_CASE(linux_ends_one_reduction_before_the_next) { // tcp_end_cwnd_reduction(), then tcp_enter_cwr()
    auto p = with_ecn();
    p.habits = tcp::personality::linux_;
    p.congestion = tcp::reno_congestion;
    tcp_script s(p);
    connect(s);
    s.write(50'000);
    BOOST_TEST(s.drain() == 10);
    s.receive("AE 1:1 ack 1001");
    s.drain();
    BOOST_TEST(s.block().info().ssthresh == 5'000u);
    BOOST_TEST(s.block().info().cwnd > 5'000u); // on the way there
    s.receive("A 1:1 ack 3001");
    s.drain();
    s.receive("AE 1:1 ack 11001"); // marks of the next window as well
    BOOST_TEST(s.block().statistics().mark_reductions == 2u);
    BOOST_TEST(s.block().info().ssthresh == 2'000u); // half of what the first reduction led to, in whole segments
}

BOOST_AUTO_TEST_CASE(no_more_is_marked_than_the_ack_delivers) { // Linux's habit: what SACK told of before is not counted again
    auto p = with_ecn();
    p.habits = tcp::personality::linux_;
    p.congestion = [](std::uint32_t mss) -> tcp::congestion_controller* { return new told(mss); };
    tcp_script s(p);
    connect(s, true);
    s.write(10'000);
    BOOST_TEST(s.drain() == 10);
    told::acked = told::marked = 0;
    s.receive("A 1:1 ack 1 sack 8001-10001");
    s.receive("AE 1:1 ack 10001");
    BOOST_TEST(told::acked == 8'000u);
    BOOST_TEST(told::marked == 8'000u);
}

BOOST_AUTO_TEST_CASE(a_mark_is_echoed_until_the_sender_has_reduced) { // RFC 3168 6.1.3
    tcp_script s(with_ecn());
    connect(s);
    s.receive("A 1:501 ack 1 ce");
    BOOST_TEST(says(s.expect("A 1:1 ack 501"), tcp_flags::ece));
    s.receive("A 501:1001 ack 1");
    s.advance(50ms);
    BOOST_TEST(says(s.expect("A 1:1 ack 1001"), tcp_flags::ece));
    s.receive("AC 1001:1501 ack 1");
    s.advance(50ms);
    BOOST_TEST(!says(s.expect("A 1:1 ack 1501"), tcp_flags::ece));
    s.receive("AC 1501:2001 ack 1 ce"); // reduced, and congested again
    BOOST_TEST(says(s.expect("A 1:1 ack 2001"), tcp_flags::ece));
}

BOOST_AUTO_TEST_CASE(without_agreement_marks_mean_nothing) {
    tcp_script s;
    s.connect();
    s.receive("A 1:501 ack 1 ce");
    s.advance(50ms);
    BOOST_TEST(!says(s.expect("A 1:1 ack 501"), tcp_flags::ece));
    s.write(20'000);
    s.drain();
    const auto before = s.block().info().cwnd;
    s.receive("AE 501:501 ack 1001");
    BOOST_TEST(s.block().info().cwnd >= before);
}

BOOST_AUTO_TEST_CASE(dctcp_echoes_each_mark_and_acknowledges_where_it_changes) { // RFC 8257 3.2
    auto p = with_ecn();
    p.congestion = tcp::dctcp_congestion;
    p.quick_acks = 0;
    tcp_script s(p);
    connect(s);
    s.receive("A 1:501 ack 1"); // its ACK is delayed
    s.expect_nothing();
    s.receive("A 501:1001 ack 1 ce");
    BOOST_TEST(!says(s.expect("A 1:1 ack 501"), tcp_flags::ece));
    BOOST_TEST(says(s.expect("A 1:1 ack 1001"), tcp_flags::ece));
    s.receive("A 1001:1501 ack 1");
    BOOST_TEST(!says(s.expect("A 1:1 ack 1501"), tcp_flags::ece));
    s.expect_nothing();
}

BOOST_AUTO_TEST_CASE(dctcp_learns_from_the_first_ack_on) { // RFC 8257 3.3: DCTCP.WindowEnd begins as SND.UNA
    tcp::dctcp c(1000);
    c.on_ack({.acked = 1000, .una = tcp::seq_number(1001), .next = tcp::seq_number(10'001), .marked = 0, .limited = false});
    BOOST_TEST(c.alpha() == 1 - 1.0F / 16);
    c.on_ack({.acked = 9000, .una = tcp::seq_number(10'001), .next = tcp::seq_number(20'001), .marked = 0, .limited = false});
    BOOST_TEST(c.alpha() == 1 - 1.0F / 16); // the end of the next window is not passed yet
}

BOOST_AUTO_TEST_CASE(dctcp_counts_marks_amid_a_repair) { // RFC 8257 3.3: of every ACK
    auto p = with_ecn();
    p.congestion = [](std::uint32_t mss) -> tcp::congestion_controller* { return new told(mss); };
    tcp_script s(p);
    connect(s);
    s.write(9000);
    s.drain();
    told::acked = told::marked = 0;
    s.receive("A 1:1 ack 1 sack 1001-5001"); // the first is lost
    s.drain();
    s.receive("AE 1:1 ack 5001");
    BOOST_TEST(told::acked == 5000u);
    BOOST_TEST(told::marked == 5000u);
}

BOOST_AUTO_TEST_CASE(dctcp_shrinks_by_the_share_that_was_marked) { // RFC 8257 3.3
    tcp::dctcp c(1000);
    tcp::seq_number una{};
    const auto window = [&](std::uint32_t marked) {
        const tcp::seq_number next = una + 100'001;
        for (int i = 0; i < 100; ++i) {
            una = una + 1000;
            c.on_ack({.acked = 1000, .una = una, .next = next, .marked = i < int(marked) ? 1000u : 0u, .limited = false});
        }
        una = una + 1;
    };
    for (int i = 0; i < 200; ++i) window(0);
    BOOST_TEST(c.alpha() < 0.01F);
    for (int i = 0; i < 200; ++i) window(30);
    BOOST_TEST(c.alpha() > 0.25F);
    BOOST_TEST(c.alpha() < 0.35F);
    const auto before = c.cwnd();
    c.on_mark(time_point{}, before);
    BOOST_TEST(c.cwnd() > before * 8 / 10);
    BOOST_TEST(c.cwnd() < before * 9 / 10);
}

BOOST_AUTO_TEST_CASE(dctcp_learns_from_an_ack_before_it_answers_its_mark) { // RFC 8257 3.3: steps 4 to 8, then 9
    auto p = with_ecn();
    p.congestion = tcp::dctcp_congestion;
    tcp_script s(p);
    connect(s);
    s.write(50'000);
    s.drain();
    s.receive("A 1:1 ack 1001"); // alpha is 15/16, and a window begins
    s.drain();
    s.receive("A 1:1 ack 10001");
    s.drain();
    const std::uint32_t before = s.block().info().cwnd;
    s.receive("AE 1:1 ack 11001"); // it is over, and a tenth of it was marked
    BOOST_TEST(s.block().statistics().mark_reductions == 1u);
    const double alpha = 15.0 / 16 * 15 / 16 + 1.0 / 10 / 16;
    BOOST_TEST(std::abs(s.block().info().cwnd - before * (1 - alpha / 2)) < 10);
}

BOOST_AUTO_TEST_CASE(dctcp_answers_a_loss_by_half_however_little_was_marked) { // RFC 8257 3.5 (MUST)
    tcp::dctcp c(1000);
    tcp::seq_number una{};
    for (int i = 0; i < 200; ++i) {
        una = una + 10'000;
        c.on_ack({.acked = 10'000, .una = una, .next = una + 9'999, .marked = 0});
    }
    BOOST_TEST(c.alpha() < 0.01F);
    const std::uint32_t before = c.cwnd();
    BOOST_REQUIRE(before > 100'000u);
    c.on_loss(before);
    BOOST_TEST(c.ssthresh() == before / 2);
    c.on_recovered();
    BOOST_TEST(c.cwnd() == before / 2);
}

BOOST_AUTO_TEST_SUITE_END()
