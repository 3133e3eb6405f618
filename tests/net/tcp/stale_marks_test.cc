// Marks in the stream that are passed: 2 GiB later the same connection must not take them for something ahead, nor 4 GiB later for what is
// in flight (net/tcp/expiry.cc).
// The numbers are wound forward by large segments of shared bytes, straight at the tcb.
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_flags;

namespace {

constexpr std::uint32_t step = 60'000;
constexpr std::int64_t half_of_all = std::int64_t{1} << 31;

tcp::parameters of_large_segments() {
    auto p = tcp_script::plain();
    p.mss = step;
    p.tail_loss_probe = false;
    p.mtu_probing = tcp::path_probing::off;
    return p;
}

tcp::parameters with_ecn() {
    auto p = of_large_segments();
    p.ecn = true;
    return p;
}

struct world : tcp_script {
    explicit world(const tcp::parameters& p = of_large_segments()) : tcp_script(p) {
        open();
        expect("S 0:0");
        receive(p.ecn ? "SAE 0:0 ack 1 win 65535 mss 60000 sackok ws 5" : "SA 0:0 ack 1 win 65535 mss 60000 sackok ws 5");
        expect("A 1:1 ack 1");
        whole.append(step);
    }
    ~world() { block().abort(); } // what it still holds is of `large`

    /// Segments of `step` bytes from `at` on arrive and are read, until more than 2 GiB have. Returns what comes next.
    std::int64_t wind_receiver(std::int64_t at) {
        for (const std::int64_t end = at + half_of_all + 2 * step; at < end; at += step) {
            const tcp::segment seg{.seq = tcp::seq_number(5'000'000 + static_cast<std::uint32_t>(at)),
                                   .ack = block().acknowledged(),
                                   .window = 65'535,
                                   .flags = tcp_flags::ack,
                                   .payload_size = step};
            buffer head = whole.share(0, step), body;
            block().on_segment(now(), seg, head, body);
            if (block().read().size() != step) BOOST_FAIL("the segment was not taken");
            take_all();
        }
        return at;
    }
    /// The same of segments that are sent and acknowledged; time passes, so that timers run.
    std::int64_t wind_sender(std::int64_t at) { return wind_sender(at, at + half_of_all + 2 * step); }
    std::int64_t wind_sender(std::int64_t at, std::int64_t end) {
        for (; at < end; at += step) {
            block().write(whole.share(0, step));
            if (take_all() != 1) BOOST_FAIL("not one segment");
            acknowledge(at + step);
            if (at / step % 4096 == 0) advance(5s);
        }
        return at;
    }
    /// From `at` on: opens the window to five segments, and winds forward until two are to come before the one that the number 1 is in when
    /// all have come round. Returns what comes next.
    std::int64_t come_round(std::int64_t at = 1) {
        while (block().info().cwnd < 5 * step) {
            for (int i = 0; i < 6; ++i) block().write(whole.share(0, step));
            for (int sent = take_all(); sent != 0; sent = take_all()) acknowledge(at += sent * std::int64_t{step});
        }
        return wind_sender(at, 1 + (2 * half_of_all / step - 2) * step);
    }
    /// Five segments leave; the second one is SACKed, and then those behind it.
    void lose_the_first_of_five(std::int64_t at) {
        for (int i = 0; i < 5; ++i) block().write(whole.share(0, step));
        if (take_all() != 5) BOOST_FAIL("not five segments");
        advance(1ms);
        const auto number = [](std::int64_t n) { return std::to_string(static_cast<std::uint32_t>(n)); };
        for (std::int64_t n = 2; n <= 5; ++n)
            receive("A 1:1 ack " + number(at) + " sack " + number(at + step) + "-" + number(at + n * step));
    }
    void acknowledge(std::int64_t at, tcp_flags more = tcp_flags::none) {
        const tcp::segment seg{.seq = block().expected(),
                               .ack = tcp::seq_number(1'000'000 + static_cast<std::uint32_t>(at)),
                               .window = 65'535,
                               .flags = tcp_flags::ack | more};
        buffer head, body;
        block().on_segment(now(), seg, head, body);
    }
    int take_all() {
        int n = 0;
        while (block().next_segment(now(), last)) ++n;
        return n;
    }

    frame_pool large{8, 65'536};
    buffer whole = large.allocate_buffer();
    tcp::outgoing_segment last;
};

} // namespace

BOOST_AUTO_TEST_SUITE(stale_marks)

BOOST_AUTO_TEST_CASE(an_urgent_mark_that_was_read_past_is_forgotten) { // RFC 9293 3.8.5
    world w;
    BOOST_TEST(tcp::has(w.receive("AU 1:101 ack 1 up 100"), event::urgent));
    w.read_all();
    w.take_all();
    const std::int64_t at = w.wind_receiver(101);
    BOOST_TEST(w.block().urgent_ahead() == 0u);
    const std::string next = std::to_string(at) + ":" + std::to_string(at + 10);
    BOOST_TEST(tcp::has(w.receive("AU " + next + " ack 1 up 10"), event::urgent));
    BOOST_TEST(w.block().urgent_ahead() == 10u);
    w.block().read();
    BOOST_TEST(w.block().urgent_ahead() == 0u);
}

BOOST_AUTO_TEST_CASE(an_urgent_mark_of_ours_that_was_acknowledged_is_forgotten) {
    world w;
    w.write(100);
    w.block().set_urgent();
    w.expect("A 1:101 up 100");
    w.acknowledge(101);
    w.wind_sender(101);
    w.block().write(w.whole.share(0, 100));
    BOOST_TEST(w.take_all() == 1);
    BOOST_TEST(!wire::has(w.last.flags, tcp_flags::urg));
}

BOOST_AUTO_TEST_CASE(a_small_segment_that_was_acknowledged_holds_no_other_back) { // RFC 9293 3.7.4
    world w;
    w.block().write(w.whole.share(0, 100));
    BOOST_TEST(w.take_all() == 1);
    w.acknowledge(101);
    w.wind_sender(101);
    w.block().write(w.whole.share(0, 100));
    BOOST_TEST(w.take_all() == 1);
}

BOOST_AUTO_TEST_CASE(a_window_that_held_data_back_long_ago_does_not_grow_unused) { // RFC 7661 4.4
    auto p = of_large_segments();
    p.restart_after_idle = false; // or each pause would make it smaller
    world w(p);
    w.block().write(w.whole.share(0, step));
    int sent = w.take_all();
    w.acknowledge(1 + sent * step); // and a window that is scaled
    const std::uint32_t before = w.block().info().cwnd;
    for (std::uint32_t queued = 0; queued <= before; queued += step) w.block().write(w.whole.share(0, step));
    sent += w.take_all();
    w.acknowledge(1 + sent * step);
    BOOST_TEST(w.block().info().cwnd > before); // it was the limit
    for (int more = w.take_all(); more != 0; more = w.take_all()) {
        sent += more;
        w.acknowledge(1 + sent * step);
    }
    const std::int64_t at = w.wind_sender(1 + std::int64_t{sent} * step);
    const std::uint32_t then = w.block().info().cwnd;
    w.block().write(w.whole.share(0, step));
    BOOST_TEST(w.take_all() == 1);
    w.acknowledge(at + step);
    BOOST_TEST(w.block().info().cwnd == then);
}

BOOST_AUTO_TEST_CASE(congestion_that_was_answered_hides_no_other) { // RFC 3168 6.1.2
    world w(with_ecn());
    w.block().write(w.whole.share(0, step));
    BOOST_TEST(w.take_all() == 1);
    w.acknowledge(1 + step, tcp_flags::ece);
    BOOST_TEST(w.block().statistics().mark_reductions == 1u);
    const std::int64_t at = w.wind_sender(1 + step);
    w.block().write(w.whole.share(0, step));
    BOOST_TEST(w.take_all() == 1);
    w.acknowledge(at + step, tcp_flags::ece);
    BOOST_TEST(w.block().statistics().mark_reductions == 2u);
}

BOOST_AUTO_TEST_CASE(what_was_never_marked_does_not_come_round_as_a_mark_that_hides_a_loss) { // RFC 3168 6.1.2, RFC 5681 3.2
    auto p = with_ecn();
    p.restart_after_idle = false;
    world w(p);
    const std::int64_t at = w.come_round();
    const std::uint32_t before = w.block().info().ssthresh;
    w.lose_the_first_of_five(at);
    BOOST_TEST(w.block().statistics().fast_recoveries == 1u);
    BOOST_TEST(w.block().info().ssthresh < before);
}

BOOST_AUTO_TEST_CASE(what_was_delivered_4_gib_ago_has_overtaken_nothing) { // RFC 8985 6.2 step 3
    auto p = of_large_segments();
    p.restart_after_idle = false;
    world w(p);
    w.block().write(w.whole.share(0, step));
    w.take_all();
    w.receive("A 1:1 ack 1 sack 2-1001"); // a part of it: now something is known of losses
    w.acknowledge(1 + step);
    const std::int64_t at = w.come_round(1 + step);
    const auto before = w.block().statistics().reorderings;
    w.lose_the_first_of_five(at);
    BOOST_TEST(w.block().statistics().reorderings == before);
}

BOOST_AUTO_TEST_CASE(a_report_on_what_was_acknowledged_is_forgotten) { // RFC 5927 7.2
    world w;
    w.block().write(w.whole.share(0, step));
    w.take_all();
    w.acknowledge(1 + step);
    w.block().write(w.whole.share(0, step));
    w.take_all();
    BOOST_TEST((w.block().on_path_mtu(w.now(), 640, tcp::seq_number(1'000'001 + step)) == event::none));
    BOOST_TEST(w.block().statistics().path_reports_deferred == 1u);
    w.acknowledge(1 + 2 * step);
    w.wind_sender(1 + 2 * step);
    w.block().write(w.whole.share(0, step));
    w.take_all();
    w.advance(5s); // time-outs
    BOOST_TEST(w.block().statistics().retransmission_timeouts != 0u);
    BOOST_TEST(w.block().segment_payload() == step);
}

BOOST_AUTO_TEST_CASE(what_was_sent_is_counted_beyond_2_gib) {
    world w;
    const std::int64_t next = w.wind_sender(1);
    BOOST_TEST(w.block().info().bytes_sent == static_cast<std::uint32_t>(next - 1));
}

BOOST_AUTO_TEST_SUITE_END()
