// The congestion controllers by themselves, on made-up acknowledgements.
#include <corewire/net/tcp/congestion/cubic.hh>
#include <corewire/net/tcp/congestion/dctcp.hh>
#include <corewire/net/tcp/congestion/reno.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <memory>

using namespace corewire;
using namespace corewire::tcp;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t mss = 1000;

/// A path of one round-trip time: each call of round() acknowledges a whole window, segment by segment.
struct path {
    congestion_controller& c;
    duration rtt = 100ms;
    time_point now = from_ns(1'000'000'000);
    seq_number una{};

    void round() {
        const std::uint32_t window = c.cwnd();
        const seq_number next = una + window;
        now += rtt;
        for (std::uint32_t done = 0; done + mss <= window; done += mss) {
            una = una + mss;
            c.on_ack({.now = now, .acked = mss, .in_flight = window, .srtt = rtt, .rtt = rtt, .una = una, .next = next + done});
        }
        c.check_invariants();
    }
    void lose() {
        c.remember();
        c.on_loss(c.cwnd());
        c.on_recovered();
    }
    /// A loss at a window of so many bytes or a little more, and so many rounds since.
    void lose_at(std::uint32_t window, int rounds) {
        while (c.cwnd() < window) round();
        lose();
        for (int i = 0; i < rounds; ++i) round();
    }
};

/// HyStart++ alone, with ten segments in flight: the first round is ten acknowledgements, each later one nine.
struct ten_in_flight {
    hystart h;
    seq_number una{};

    bool ack(duration rtt) { return una = una + mss, h.on_ack(una, una + 9 * mss, rtt); }
    bool acks(int count, duration rtt) {
        bool over = false;
        for (int i = 0; i < count; ++i) over = ack(rtt);
        return over;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(congestion)

BOOST_AUTO_TEST_CASE(cubic_doubles_and_then_gives_up_three_tenths) { // RFC 9438 4.6, 4.10
    cubic c(mss);
    path p{c};
    p.round();
    BOOST_TEST(c.cwnd() == 20'000u);
    p.round();
    BOOST_TEST(c.cwnd() == 40'000u);
    p.lose();
    BOOST_TEST(c.cwnd() == 28'000u);
    BOOST_TEST(c.ssthresh() == 28'000u);
}

BOOST_AUTO_TEST_CASE(cubic_is_back_at_its_old_window_after_k_seconds) { // RFC 9438 4.2, figure 1
    cubic c(mss);
    path p{c};
    while (c.cwnd() < 640'000) p.round();
    const double top = c.cwnd() / 1000.0;
    p.lose();
    const double k = std::cbrt(top * 0.3 / 0.4);
    const int rounds = static_cast<int>(k / 0.1);
    for (int i = 0; i < rounds; ++i) {
        p.round();
        const double t = 0.1 * (i + 1);
        const double w = 0.4 * std::pow(t - k, 3) + top;
        BOOST_TEST(std::abs(c.cwnd() / 1000.0 - w) < 0.05 * top + 5);
    }
    BOOST_TEST(std::abs(c.cwnd() / 1000.0 - top) < 0.03 * top);
    const auto plateau = c.cwnd();
    for (int i = 0; i < 80; ++i) p.round();
    BOOST_TEST(c.cwnd() > plateau + plateau / 10); // convex: it looks for more
}

BOOST_AUTO_TEST_CASE(cubic_aims_at_the_curve_one_round_trip_ahead) { // RFC 9438 4.2
    cubic c(mss);
    path p{c};
    while (c.cwnd() < 640'000) p.round();
    const double top = c.cwnd() / 1000.0, k = std::cbrt(top * 0.3 / 0.4);
    p.lose();
    const auto acknowledge = [&](std::uint32_t bytes) {
        p.una = p.una + bytes;
        c.on_ack({.now = p.now, .acked = bytes, .in_flight = c.cwnd(), .srtt = 1s, .rtt = 1s, .una = p.una, .next = p.una + c.cwnd()});
    };
    acknowledge(mss); // the curve begins
    p.now += 1s;
    acknowledge(c.cwnd()); // a whole window: as far as it aims
    const double aim = 0.4 * std::pow(2 - k, 3) + top, here = 0.4 * std::pow(1 - k, 3) + top;
    BOOST_TEST(std::abs(c.cwnd() / 1000.0 - aim) < 0.1 * (aim - here));
}

BOOST_AUTO_TEST_CASE(cubic_grows_with_time_and_not_with_round_trips) { // RFC 9438 1
    cubic near(mss), far(mss);
    path a{near, 50ms}, b{far, 200ms};
    while (near.cwnd() < 640'000) a.round();
    while (far.cwnd() < 640'000) b.round();
    a.lose(), b.lose();
    const auto start_a = a.now, start_b = b.now;
    while (a.now - start_a < 6s) a.round();
    while (b.now - start_b < 6s) b.round();
    BOOST_TEST(std::abs(double(near.cwnd()) - double(far.cwnd())) < 0.06 * far.cwnd());
}

BOOST_AUTO_TEST_CASE(on_a_short_path_cubic_is_no_slower_than_reno) { // RFC 9438 4.3
    cubic c(mss);
    reno r(mss);
    path a{c, 1ms}, b{r, 1ms};
    while (c.cwnd() < 20'000) a.round();
    while (r.cwnd() < 20'000) b.round();
    a.lose(), b.lose();
    for (int i = 0; i < 60; ++i) a.round(), b.round();
    BOOST_TEST(c.cwnd() >= r.cwnd() - 6 * mss); // it began higher and grows by 0.53, then by 1
}

BOOST_AUTO_TEST_CASE(a_window_of_thousands_of_segments_grows_no_slower_than_reno) { // RFC 9438 4.3: an ACK adds less than a ten-thousandth
    cubic c(mss);
    path p{c, 100us}; // the curve rises by a twentieth of a segment a round
    while (c.cwnd() < 12'000'000) p.round();
    p.lose();
    const std::uint32_t before = c.cwnd();
    for (int i = 0; i < 40; ++i) p.round();
    BOOST_TEST(c.cwnd() >= before + 19 * mss);
    BOOST_TEST(c.cwnd() <= before + 24 * mss);
}

BOOST_AUTO_TEST_CASE(segments_of_another_size_neither_open_the_window_nor_hold_it_back) { // RFC 4821 7.6.1; RFC 9438 counts segments
    for (const std::uint32_t size : {9 * mss, mss / 2}) {
        for (const bool repaired : {false, true}) { // a loss behind it is taken back
            cubic c(mss);
            path p{c};
            p.lose_at(1'000'000, 60);
            cubic steady = c;
            path same{steady, p.rtt, p.now, p.una};
            if (repaired) p.lose();
            c.set_mss(size);
            if (repaired) c.undo(p.now);
            BOOST_TEST(c.cwnd() == steady.cwnd());
            for (int i = 0; i < 20; ++i) {
                p.round(), same.round();
                BOOST_TEST(std::abs(double(c.cwnd()) - double(steady.cwnd())) < 0.2 * steady.cwnd()); // Reno's growth
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(the_window_before_the_loss_stays_where_it_was_when_segments_shrink) { // RFC 9438 4.3, RFC 4821 7.6.1
    cubic c(mss);
    path p{c, 1ms};
    p.lose_at(16'000, 0);
    const auto lost = c.cwnd();
    c.set_mss(mss / 2);
    for (int i = 0; i < 10; ++i) p.round();
    BOOST_TEST(c.cwnd() - lost < 3500u); // 0.53 segments a round trip until it is there again, not one
}

BOOST_AUTO_TEST_CASE(a_second_loss_below_the_top_makes_room_for_others) { // RFC 9438 4.7
    cubic c(mss);
    path p{c};
    while (c.cwnd() < 160'000) p.round();
    p.lose();
    p.round();
    const auto second = c.cwnd();
    p.lose();
    const double size = second / 1000.0, top = size * (1 + 0.7) / 2; // the plateau lies at 0.85 of the second loss
    const double k = std::cbrt((top - size * 0.7) / 0.4);
    for (int i = 0; i < static_cast<int>(k / 0.1); ++i) p.round();
    BOOST_TEST(std::abs(c.cwnd() / 1000.0 - top) < 0.05 * top);
}

BOOST_AUTO_TEST_CASE(a_round_trip_opens_the_window_by_half_at_most) { // RFC 9438 4.2, 4.4, 4.5: the target is 1.5 cwnd at most
    cubic c(mss);
    path p{c, 10s}; // the curve rises by 400 segments in the first round trip behind K
    p.round();
    p.lose();
    std::uint32_t most = 0;
    for (int i = 0; i < 6; ++i) {
        const std::uint32_t before = c.cwnd();
        p.round();
        BOOST_TEST(c.cwnd() <= before + before / 2 + mss);
        most = std::max(most, c.cwnd() * 10 / before);
    }
    BOOST_TEST(most >= 14u); // and it came to that
}

BOOST_AUTO_TEST_CASE(after_a_pause_the_curve_begins_anew) { // RFC 9438 5.8: t does not count the pause
    cubic c(mss);
    path p{c};
    p.lose_at(640'000, 70); // on the plateau
    p.now += 30s;
    c.on_idle(p.now, 30s, 300ms);
    BOOST_TEST(c.cwnd() == 10'000u);
    while (c.in_slow_start()) p.round();
    const double begin = c.cwnd() / 1000.0, top = 640.0, k = std::cbrt((top - begin) / 0.4);
    for (int i = 1; i <= 20; ++i) {
        p.round();
        BOOST_TEST(c.cwnd() / 1000.0 < 0.4 * std::pow(0.1 * (i + 1) - k, 3) + top + 0.05 * top);
    }
}

BOOST_AUTO_TEST_CASE(where_five_minutes_halve_the_window_the_curve_begins_anew) { // RFC 7661 4.4.3, RFC 9438 4.2
    cubic c(mss);
    path p{c};
    p.lose_at(640'000, 70); // on the plateau
    p.now += 300s;
    c.on_period_over();
    BOOST_TEST(c.cwnd() < 350'000u);
    while (c.in_slow_start()) p.round();
    const double begin = c.cwnd() / 1000.0, top = 640.0, k = std::cbrt((top - begin) / 0.4);
    for (int i = 1; i <= 20; ++i) {
        p.round();
        BOOST_TEST(c.cwnd() / 1000.0 < 0.4 * std::pow(0.1 * (i + 1) - k, 3) + top + 0.05 * top);
    }
}

BOOST_AUTO_TEST_CASE(after_a_time_out_the_curve_begins_where_slow_start_ends) { // RFC 9438 4.8: K is 0, and W_max the window then
    cubic c(mss);
    path p{c};
    while (c.cwnd() < 640'000) p.round();
    c.remember();
    c.on_timeout(c.cwnd(), true);
    while (c.in_slow_start()) p.round();
    const double begin = c.cwnd() / 1000.0;
    for (int i = 1; i <= 60; ++i) {
        p.round();
        const double curve = begin + 0.4 * std::pow(0.1 * i, 3), reno = begin + 0.53 * (i + 1); // 4.3
        BOOST_TEST(c.cwnd() / 1000.0 < std::max(curve, reno) + 12);
        BOOST_TEST(c.cwnd() / 1000.0 > std::max(curve, reno) - 12);
    }
}

BOOST_AUTO_TEST_CASE(the_curve_waits_while_the_window_is_not_used) { // RFC 9438 5.8: t does not count it
    cubic c(mss);
    path p{c};
    p.lose_at(640'000, 10);
    cubic steady = c;
    path same{steady, p.rtt, p.now, p.una};
    p.now += 60s; // something is sent now and then, and cwnd is not the limit: nobody tells the controller
    for (int i = 0; i < 10; ++i) p.round(), same.round();
    BOOST_TEST(std::abs(double(c.cwnd()) - double(steady.cwnd())) <= 2.0 * mss);
}

BOOST_AUTO_TEST_CASE(undo_gives_back_two_segments_at_least_of_the_size_that_they_have_by_then) { // found by tools/fuzz
    reno slow(500);
    cubic fast(500);
    for (congestion_controller* c : {static_cast<congestion_controller*>(&slow), static_cast<congestion_controller*>(&fast)}) {
        path p{*c};
        c->on_timeout(1000, true); // ssthresh: two segments
        c->remember();
        c->on_timeout(500, false);
        c->set_mss(1400); // the path's MTU is known
        c->undo(p.now);
        c->check_invariants();
        BOOST_TEST(c->ssthresh() >= 2u * 1400);
    }
}

BOOST_AUTO_TEST_CASE(undo_gives_back_window_and_curve) { // RFC 9438 4.9
    cubic c(mss);
    path p{c};
    p.lose_at(160'000, 20);
    cubic untouched = c;
    c.remember();
    c.on_timeout(c.cwnd(), true);
    BOOST_TEST(c.cwnd() == mss);
    c.undo(p.now);
    BOOST_TEST(c.cwnd() == untouched.cwnd());
    BOOST_TEST(c.ssthresh() == untouched.ssthresh());
    path same{untouched, p.rtt, p.now, p.una};
    p.round(), same.round();
    BOOST_TEST(c.cwnd() == untouched.cwnd());
}

BOOST_AUTO_TEST_CASE(undo_of_two_time_outs_gives_back_the_curve_of_before_the_first) { // RFC 9438 4.9.1
    cubic c(mss);
    path p{c};
    p.lose_at(160'000, 20);
    cubic untouched = c;
    c.remember();
    c.on_timeout(c.cwnd(), true);
    c.on_timeout(c.cwnd(), true); // of another segment
    c.undo(p.now);
    path same{untouched, p.rtt, p.now, p.una};
    for (int i = 0; i < 30; ++i) p.round(), same.round();
    BOOST_TEST(c.cwnd() == untouched.cwnd());
}

BOOST_AUTO_TEST_CASE(hystart_leaves_slow_start_when_the_queue_grows) { // RFC 9406 4.2
    cubic c(mss);
    path p{c};
    for (int i = 0; i < 3; ++i) p.round();
    const auto before = c.cwnd();
    BOOST_TEST(c.in_slow_start());
    p.rtt = 120ms; // more than an eighth longer
    p.round();
    const auto first = c.cwnd();
    BOOST_TEST(first > before);
    for (int i = 0; i < 3; ++i) {
        const auto last = c.cwnd();
        p.round();
        BOOST_TEST(c.cwnd() <= last + last / 4 + mss); // careful: a quarter of the speed
        BOOST_TEST(c.in_slow_start());
    }
    for (int i = 0; i < 3; ++i) p.round();
    BOOST_TEST(!c.in_slow_start());
}

BOOST_AUTO_TEST_CASE(hystart_is_for_a_slow_start_whose_end_nobody_knows) { // RFC 9406 4.3: the first one
    cubic behind_a_time_out(mss), fresh(mss); // of another controller, in whose place it was put
    behind_a_time_out.go_on_from({.cwnd = mss, .ssthresh = 50'000, .prior_cwnd = 0, .prior_ssthresh = 0});
    const std::uint32_t before = fresh.cwnd();
    for (cubic* c : {&behind_a_time_out, &fresh})
        c->on_ack({.now = path{*c}.now, .acked = 8000, .in_flight = 8000, .srtt = 100ms, .rtt = 100ms});
    BOOST_TEST(behind_a_time_out.cwnd() == 3000u);
    BOOST_TEST(fresh.cwnd() == before + 8000u);
}

BOOST_AUTO_TEST_CASE(hystart_goes_back_when_it_was_only_jitter) { // RFC 9406 4.2
    ten_in_flight p;
    p.acks(10, 100ms), p.acks(9, 120ms);
    BOOST_TEST(p.h.careful());
    p.acks(9, 101ms);
    BOOST_TEST(!p.h.careful());
    BOOST_TEST(p.h.growth(100'000, mss, false) == 8000u);
}

BOOST_AUTO_TEST_CASE(a_queue_is_four_milliseconds_longer_at_least_and_sixteen_are_enough) { // RFC 9406 4.3: MIN_RTT_THRESH, MAX_RTT_THRESH
    struct row {
        duration before, after;
        bool careful;
    };
    for (const row& r : {row{16ms, 20ms - 1ns, false}, row{16ms, 20ms, true}, row{400ms, 416ms - 1ns, false}, row{400ms, 416ms, true},
                         row{80ms, 90ms - 1ns, false}, row{80ms, 90ms, true}}) { // in between an eighth
        ten_in_flight p;
        p.acks(10, r.before), p.acks(9, r.after);
        BOOST_TEST(p.h.careful() == r.careful);
    }
}

BOOST_AUTO_TEST_CASE(a_round_that_ended_2_gib_ago_has_ended) { // RFC 9406 4.2: slow start rests while the window is not the limit
    for (const std::uint32_t meanwhile : {2'500'000'000u, 4'000'000'000u}) {
        ten_in_flight p;
        p.acks(10, 100ms);
        p.una = p.una + meanwhile;
        p.ack(100ms);
        p.acks(9, 100ms), p.acks(9, 120ms);
        BOOST_TEST(p.h.careful());
    }
}

BOOST_AUTO_TEST_CASE(an_ack_opens_the_window_by_eight_segments_or_by_all_of_it_at_a_pace) { // RFC 9406 4.3: L
    cubic c(mss), paced(mss);
    c.on_ack({.now = from_ns(1), .acked = 10'000, .in_flight = 10'000, .srtt = 1ms});
    BOOST_TEST(c.cwnd() == 18'000u);
    paced.on_ack({.now = from_ns(1), .acked = 10'000, .in_flight = 10'000, .srtt = 1ms, .paced = true});
    BOOST_TEST(paced.cwnd() == 20'000u);
    ten_in_flight p;
    p.acks(10, 100ms), p.acks(9, 120ms);
    BOOST_TEST(p.h.careful());
    BOOST_TEST(p.h.growth(100'000, mss, false) == 2'000u);
    BOOST_TEST(p.h.growth(100'000, mss, true) == 25'000u);
}

BOOST_AUTO_TEST_CASE(in_slow_start_an_ack_opens_the_window_by_two_segments_at_most) { // RFC 3465 2.2: L
    reno r(mss);
    dctcp d(mss);
    for (congestion_controller* c : std::initializer_list<congestion_controller*>{&r, &d}) {
        c->on_ack({.now = from_ns(1), .acked = 10'000, .in_flight = 10'000, .srtt = 1ms});
        BOOST_TEST(c->cwnd() == 12'000u);
        c->on_ack({.now = from_ns(1), .acked = 1'500, .in_flight = 10'000, .srtt = 1ms});
        BOOST_TEST(c->cwnd() == 13'500u);
        c->on_ack({.now = from_ns(1), .acked = 10'000, .in_flight = 10'000, .srtt = 1ms, .most = mss}); // 2.3: behind a time-out
        BOOST_TEST(c->cwnd() == 14'500u);
    }
    cubic c(mss); // its later slow starts
    c.on_timeout(40'000, true);
    c.on_ack({.now = from_ns(2), .acked = 10'000, .in_flight = 10'000, .srtt = 1ms});
    BOOST_TEST(c.cwnd() == 3'000u);
    reno l(mss);
    l.follow_linux();
    l.on_ack({.now = from_ns(1), .acked = 10'000, .in_flight = 10'000, .srtt = 1ms});
    BOOST_TEST(l.cwnd() == 20'000u);
}

BOOST_AUTO_TEST_CASE(the_acknowledgement_that_ends_a_round_is_a_sample_of_that_round) { // RFC 9406 4.2
    ten_in_flight p;
    p.acks(10, 100ms); // the tenth ends the round, and does not make the next one look quick
    p.acks(7, 120ms);
    BOOST_TEST(!p.h.careful());
    p.ack(120ms);
    BOOST_TEST(p.h.careful());

    ten_in_flight q;
    q.acks(9, 150ms), q.ack(100ms); // the quickest of its round is the last: what the next one is compared with
    q.acks(9, 120ms);
    BOOST_TEST(q.h.careful());
}

BOOST_AUTO_TEST_CASE(slow_start_ends_after_five_careful_rounds_the_begun_one_included) { // RFC 9406 4.2: CSS_ROUNDS
    ten_in_flight p;
    p.acks(10, 100ms), p.acks(8, 120ms);
    BOOST_TEST(p.h.careful());
    BOOST_TEST(!p.ack(120ms));
    BOOST_TEST(!p.acks(3 * 9, 120ms));
    BOOST_TEST(!p.acks(8, 120ms));
    BOOST_TEST(p.ack(120ms));
}

BOOST_AUTO_TEST_CASE(the_first_window_is_ten_segments_or_14600_bytes_but_two_segments_at_least) { // RFC 6928 2
    struct row {
        std::uint32_t mss, window;
    };
    for (const row& r : {row{536, 5'360}, row{1460, 14'600}, row{1461, 14'600}, row{2000, 14'600}, row{7300, 14'600}, row{8960, 17'920}}) {
        BOOST_TEST(initial_window(r.mss) == r.window);
        for (const congestion_factory make : {reno_congestion, dctcp_congestion, cubic_congestion, bbr_congestion}) {
            const std::unique_ptr<congestion_controller> c(make(r.mss));
            BOOST_TEST(c->cwnd() == r.window, c->name() << ": " << c->cwnd());
        }
    }
}

BOOST_AUTO_TEST_CASE(no_window_grows_without_bound) {
    cubic c(mss);
    for (int i = 0; i < 3'000'000 && c.cwnd() < 1u << 30; ++i) {
        c.on_ack({.now = from_ns(i), .acked = 1u << 24, .in_flight = 1u << 29, .srtt = 1ms});
    }
    c.on_ack({.now = from_ns(1), .acked = 1u << 24, .in_flight = 1u << 29, .srtt = 1ms});
    BOOST_TEST(c.cwnd() <= (1u << 30) + (1u << 25));
}

BOOST_AUTO_TEST_SUITE_END()
