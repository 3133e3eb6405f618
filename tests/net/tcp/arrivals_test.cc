// Segments that do not belong: RFC 9293 3.10.7.4 first to fifth, RFC 5961, RFC 7323 5; and the state x segment table.
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

#include <set>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_state;

#include <corewire/net/tcp/arrives/closed.hh>
#include <corewire/net/tcp/arrives/listen.hh>

namespace {

struct row {
    tcp_state from;
    const char* segment;
    const char* reply; ///< flags of what is sent; "" for nothing
    tcp_state to;
};

using enum tcp_state;

// RFC 9293 3.10.7.3 and .4. "in order" is 1 before the peer's FIN and 2 after it; our ACK covers 1, or 2 after our FIN.
const row table[] = {
    {syn_sent, "A 1:1 ack 1", "", syn_sent},
    {syn_sent, "A 1:1 ack 2", "R", syn_sent},
    {syn_sent, "RA 0:0 ack 1", "", closed},
    {syn_sent, "R 0:0", "", syn_sent},
    {syn_sent, "S 0:0", "SA", syn_received},
    {syn_sent, "SA 0:0 ack 1", "A", established},
    {syn_sent, "F 0:0", "", syn_sent},
    {syn_received, "A 1:1 ack 1", "", established},
    {syn_received, "A 1:1 ack 2", "R", syn_received},
    {syn_received, "R 1:1", "", closed},
    {syn_received, "R 5:5", "A", syn_received},
    {syn_received, "S 0:0", "SA", syn_received},
    {syn_received, "FA 1:1 ack 1", "A", close_wait},
    {syn_received, "1 1:1", "", syn_received},
    {established, "A 1:101 ack 1", "", established},
    {established, "FA 1:1 ack 1", "A", close_wait},
    {established, "R 1:1", "", closed},
    {established, "R 2:2", "A", established},
    {established, "R 900:900", "A", established},
    {established, "R -5:-5", "", established},
    {established, "S 1:1", "A", established},
    {established, "S 0:0", "A", established},
    {established, "SA 300:300 ack 1", "A", established},
    {established, "A 1:1 ack 99", "A", established},
    {established, "A 1:1 ack -65534", "", established}, // RFC 5961 5.2: SND.UNA - MAX.SND.WND, and one less
    {established, "A 1:1 ack -65535", "A", established},
    {established, "A -100:0 ack 1", "A", established},
    {established, "A 3000000:3000001 ack 1", "A", established},
    {established, "- 1:101", "", established},
    {fin_wait_1, "A 1:1 ack 1", "", fin_wait_1},
    {fin_wait_1, "A 1:1 ack 2", "", fin_wait_2},
    {fin_wait_1, "FA 1:1 ack 1", "A", closing},
    {fin_wait_1, "FA 1:1 ack 2", "A", time_wait},
    {fin_wait_1, "R 1:1", "", closed},
    {fin_wait_1, "S 1:1", "A", fin_wait_1},
    {fin_wait_2, "FA 1:1 ack 2", "A", time_wait},
    {fin_wait_2, "R 1:1", "", closed},
    {fin_wait_2, "A 1:101 ack 2", "", fin_wait_2},
    {close_wait, "A 2:2 ack 1", "", close_wait},
    {close_wait, "FA 1:1 ack 1", "A", close_wait},
    {close_wait, "R 2:2", "", closed},
    {close_wait, "A 2:102 ack 1", "", close_wait},
    {closing, "A 2:2 ack 2", "", time_wait},
    {closing, "A 2:2 ack 1", "", closing},
    {closing, "R 2:2", "", closed},
    {last_ack, "A 2:2 ack 2", "", closed},
    {last_ack, "A 2:2 ack 1", "", last_ack},
    {last_ack, "R 2:2", "", closed},
    {time_wait, "FA 1:1 ack 2", "A", time_wait},
    {time_wait, "A 2:2 ack 2", "", time_wait},
    {time_wait, "R 2:2", "", closed},
    {time_wait, "R 7:7", "A", time_wait},
    {time_wait, "S 2:2", "A", time_wait},
};

} // namespace

BOOST_AUTO_TEST_SUITE(arrivals)

BOOST_AUTO_TEST_CASE(each_state_answers_each_segment_as_the_rfc_says) {
    for (const row& r : table) {
        BOOST_TEST_CONTEXT(tcp::name_of(r.from) << " receives " << r.segment) {
            tcp_script s;
            s.reach(r.from);
            s.receive(r.segment);
            tcp::outgoing_segment out;
            std::string reply;
            if (s.block().next_segment(s.now(), out)) {
                if (wire::has(out.flags, tcp::tcp_flags::syn)) reply += 'S';
                if (wire::has(out.flags, tcp::tcp_flags::fin)) reply += 'F';
                if (wire::has(out.flags, tcp::tcp_flags::rst)) reply += 'R';
                if (wire::has(out.flags, tcp::tcp_flags::ack)) reply += 'A';
            }
            BOOST_TEST(reply == r.reply);
            BOOST_TEST(tcp::name_of(s.block().state()) == tcp::name_of(r.to));
            s.block().check_invariants();
        }
    }
}

BOOST_AUTO_TEST_CASE(no_connection_answers_with_a_reset_but_to_a_reset) { // RFC 9293 3.10.7.1
    tcp::segment s;
    s.seq = tcp::seq_number(100);
    s.ack = tcp::seq_number(7);
    s.payload_size = 10;
    tcp::outgoing_segment out;
    s.flags = tcp::tcp_flags::syn;
    BOOST_TEST(tcp::reset_for(s, out));
    BOOST_TEST((out.seq == tcp::seq_number(0) && out.ack == tcp::seq_number(111)));
    s.flags = tcp::tcp_flags::ack;
    BOOST_TEST(tcp::reset_for(s, out));
    BOOST_TEST((out.seq == tcp::seq_number(7) && out.flags == tcp::tcp_flags::rst));
    s.flags = tcp::tcp_flags::rst;
    BOOST_TEST(!tcp::reset_for(s, out));
}

BOOST_AUTO_TEST_CASE(a_listener_takes_a_syn_and_nothing_else) { // RFC 9293 3.10.7.2
    using tcp::tcp_flags;
    using tcp::listen_verdict;
    tcp::segment s;
    const auto verdict = [&](tcp_flags f) { return s.flags = f, tcp::on_listen(s); };
    BOOST_TEST((verdict(tcp_flags::syn) == listen_verdict::open));
    BOOST_TEST((verdict(tcp_flags::ack) == listen_verdict::reset));
    BOOST_TEST((verdict(tcp_flags::syn | tcp_flags::ack) == listen_verdict::reset));
    BOOST_TEST((verdict(tcp_flags::rst | tcp_flags::ack) == listen_verdict::ignore));
    BOOST_TEST((verdict(tcp_flags::syn | tcp_flags::fin) == listen_verdict::ignore));
    BOOST_TEST((verdict(tcp_flags::none) == listen_verdict::ignore));
}

BOOST_AUTO_TEST_CASE(challenge_acks_are_limited) { // RFC 5961 7
    tcp::challenge_limiter limiter(1, 10);
    auto p = tcp_script::plain();
    p.challenges = &limiter;
    tcp_script s(p);
    s.connect();
    for (int i = 0; i < 100; ++i) s.receive("S 1:1"), s.drain();
    BOOST_TEST(s.block().statistics().challenge_acks <= 15u);
    BOOST_TEST(s.block().statistics().challenge_acks_withheld >= 85u);
    BOOST_TEST(limiter.withheld() >= 85u);
}

BOOST_AUTO_TEST_CASE(how_many_challenges_a_second_brings_cannot_be_told) { // RFC 5961 7: else counting them tells of other connections
    constexpr std::uint32_t rate = 100;
    tcp::challenge_limiter limiter(1, rate);
    std::set<unsigned> budgets;
    std::uint64_t all = 0;
    time_point now{std::chrono::seconds{1}};
    for (int second = 0; second < 50; ++second, now += std::chrono::seconds{1}) {
        unsigned allowed = 0;
        for (unsigned i = 0; i < 2 * rate; ++i) allowed += limiter.allow(now + i * std::chrono::milliseconds{4}) ? 1 : 0;
        BOOST_TEST((allowed >= rate / 2 && allowed <= rate + rate / 2));
        budgets.insert(allowed);
        all += allowed;
    }
    BOOST_TEST(budgets.size() > 20u);
    BOOST_TEST((all > 50 * rate * 8 / 10 && all < 50 * rate * 12 / 10));
}

BOOST_AUTO_TEST_CASE(two_confused_ends_do_not_acknowledge_each_other_for_ever) {
    tcp_script s;
    s.connect();
    for (int i = 0; i < 100; ++i) s.receive("A -100:-100 ack 1"), s.drain();
    BOOST_TEST(s.block().statistics().unacceptable_segments == 100u);
    s.receive("A -100:-100 ack 1");
    s.expect_nothing();
    s.advance(600ms);
    s.receive("A -100:-100 ack 1");
    s.expect("A 1:1");
}

/// Each has sent all that the other's window takes, and each other's first segment was lost: the ACKs stand at the right edges.
BOOST_AUTO_TEST_CASE(two_ends_that_have_filled_each_others_windows_hear_each_other) {
    tcp::parameters p;
    p.receive_buffer = 3'000;
    p.sack = p.timestamps = p.window_scaling = false;
    tcp_script s(p);
    s.connect();
    s.write(2'000);
    BOOST_TEST(s.drain() == 2);
    s.receive("A 1461:3001 ack 1");
    s.expect("A 2001:2001 ack 1 win 3000");
    s.receive("A 3001:3001 ack 2001 win 65535");
    s.expect_nothing();
    BOOST_TEST(s.block().queued() == 0u);
    s.receive("A 3002:3002 ack 2001 win 65535"); // nobody can stand here
    s.expect("A 2001:2001 ack 1 win 3000");
}

BOOST_AUTO_TEST_CASE(an_old_timestamp_is_rejected_and_answered) { // RFC 7323 5.3, R1
    auto p = tcp_script::plain();
    p.timestamps = true;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 ts 5000 0 ws 0");
    s.receive("A 1:11 ack 1 ts 5010 0");
    s.receive("A 11:21 ack 1 ts 4000 0");
    s.expect("A 1:1 ack 11 ts 0 5010");
    BOOST_TEST(s.block().statistics().paws_rejected == 1u);
    BOOST_TEST(s.block().readable() == 10u);
    s.receive("A 11:21 ack 1 nots"); // RFC 7323 3.2: dropped
    BOOST_TEST(s.block().statistics().paws_rejected == 2u);
    BOOST_TEST(s.block().readable() == 10u);
    s.receive("A 11:21 ack 1 ts 5010 0"); // the same tick is no older
    BOOST_TEST(s.block().readable() == 20u);
    BOOST_TEST(tcp::has(s.receive("R 21:21 ts 4000 0"), tcp::event::reset)); // 5.2: a reset has none that count
}

BOOST_AUTO_TEST_CASE(a_segment_without_the_timestamps_that_were_agreed_on_is_taken) { // as Linux does; RFC 7323 3.2: SHOULD drop it
    auto p = tcp_script::plain();
    p.timestamps = true;
    p.habits = tcp::personality::linux_;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 ts 77 0 ws 0");
    s.receive("A 1:101 ack 1 ts 78 0");
    s.receive("A 101:201 ack 1 nots");
    BOOST_TEST(s.block().readable() == 200u);
    BOOST_TEST(s.block().statistics().paws_rejected == 0u);
}

BOOST_AUTO_TEST_CASE(the_echo_is_of_the_segment_that_moved_the_ack) { // RFC 7323 4.3
    for (const bool fast_path : {true, false}) {
        auto p = tcp_script::plain();
        p.timestamps = true;
        p.fast_path = fast_path;
        tcp_script s(p);
        s.connect("SA 0:0 ack 1 win 65535 mss 1000 ts 100 0 ws 0");
        s.receive("A 989:1977 ack 1 ts 103 0"); // beyond a gap: not echoed
        s.expect("A 1:1 ack 1 ts 0 100");
        s.receive("A 1:989 ack 1 ts 101 0");
        s.expect("A 1:1 ack 1977 ts 0 101");
        s.receive("A 1977:2077 ack 1 ts 110 0"); // 4.3 (A): of those that one ACK answers the first is echoed
        s.receive("A 2077:2177 ack 1 ts 120 0");
        s.advance(40ms);
        s.expect("A 1:1 ack 2177 ts 0 110");
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_acceptable_says_nothing_of_the_peers_clock) { // RFC 7323 5.3: R2 before R3; 3.2: never a reset
    for (const char* forged : {"A -5000:-4000 ack 1 ts 900000 0", "A -5:-5 ack 1 ts 900000 0", "- -5:-5 ts 900000 0", "R -5:-5 ts 900000 0",
                               "S 0:0 ts 900000 0", "S 1:1 ts 900000 0", "- 1:1 ts 900000 0", "A 1:11 ack 9999 ts 900000 0"}) {
        for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
            BOOST_TEST_CONTEXT(forged) {
                auto p = tcp_script::plain();
                p.timestamps = true;
                p.habits = habits;
                tcp_script s(p);
                s.connect("SA 0:0 ack 1 win 65535 mss 1000 ts 5000 0 ws 0");
                s.receive(forged);
                s.drain();
                s.receive("A 1:11 ack 1 ts 5010 0"); // the true peer
                BOOST_TEST(s.block().readable() == 10u);
                BOOST_TEST(s.block().statistics().paws_rejected == 0u);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(after_24_days_of_silence_paws_forgets) { // RFC 7323 5.5
    auto p = tcp_script::plain();
    p.timestamps = true;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 ts 5000 0 ws 0");
    s.expect_nothing();
    s.advance(std::chrono::hours{24 * 24});
    s.receive("A 1:11 ack 1 ts 4000 0");
    BOOST_TEST(s.block().readable() == 0u);
    s.drain();
    s.advance(std::chrono::hours{24});
    s.receive("A 1:11 ack 1 ts 4000 0");
    BOOST_TEST(s.block().readable() == 10u);
}

BOOST_AUTO_TEST_CASE(as_freebsd_a_challenge_that_rode_on_data_changes_no_window_behind_it) {
    auto p = tcp_script::plain();
    p.habits = tcp::personality::freebsd;
    for (const bool timestamps : {false, true}) {
        std::uint16_t windows[2];
        for (const bool challenged : {false, true}) {
            p.timestamps = timestamps;
            tcp_script s(p);
            s.connect();
            s.receive("A 1:101 ack 1");
            s.drain();
            if (challenged) s.receive("S 1:1");
            s.write(100);
            s.expect("A 1:101");
            s.expect_nothing();
            s.receive("A 101:201 ack 101");
            s.receive("A 201:301 ack 101");
            windows[challenged] = s.expect("A 101:101 ack 301").window;
        }
        BOOST_TEST(windows[0] == windows[1]);
    }
}

BOOST_AUTO_TEST_SUITE_END()
