// BBR by itself, on made-up samples, rule by rule (draft-ietf-ccwg-bbr-06); what it makes of paths is tests/sim/golden_bbr_test.cc.
#include <corewire/net/tcp/congestion/bbr.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

#include <memory>

using namespace corewire;
using namespace corewire::test;
using bbr_controller = tcp::bbr;
using phase = bbr_controller::phase;

namespace {

constexpr std::uint32_t mss = 1000;
constexpr duration rtt = 100ms;

/// A path of 1,000,000 bytes a second and 100 ms: 100 segments. Each round() is one ACK that ends a round.
struct path {
    bbr_controller c{mss};
    time_point now = from_ns(1'000'000'000);
    std::uint64_t total = 0;
    std::uint64_t rate = 1'000'000;

    path() { c.on_round_trip(rtt); }
    tcp::rate_sample next(std::uint64_t at_rate) {
        now += rtt;
        tcp::rate_sample s;
        s.now = now;
        s.known = s.selective = true;
        s.rate = at_rate;
        s.prior_total = total;
        s.delivered = at_rate / 10;
        s.newly_acked = static_cast<std::uint32_t>(s.delivered);
        total += s.delivered;
        s.total = total;
        s.rtt = rtt;
        s.in_flight = s.flight_at_send = std::min(static_cast<std::uint32_t>(s.delivered), c.cwnd());
        return s;
    }
    void take(const tcp::rate_sample& s) {
        c.on_sample(s);
        c.check_invariants();
    }
    void round() { take(next(rate)); }
    void round(std::uint32_t in_flight) {
        tcp::rate_sample s = next(rate);
        s.in_flight = s.flight_at_send = std::min(in_flight, c.cwnd());
        take(s);
    }
    /// As far as that went, and no farther: so much flies until an ACK delivers a part of it.
    void probe_after_one_that_went_too_far() {
        reach(phase::up);
        lose(4'000, 4'000, 120'000);
        while (c.state() != phase::up) round(90'000);
        tcp::rate_sample s = next(rate);
        s.flight_at_send = c.model().inflight_longterm;
        s.newly_acked = 2 * mss;
        s.in_flight = s.flight_at_send - s.newly_acked;
        take(s);
    }
    /// A piece of `size` is held for lost, of a flight of `flight`; `lost` since it was sent.
    void lose(std::uint32_t size, std::uint32_t lost, std::uint32_t flight) {
        c.on_lost({.now = now, .total = total, .size = size, .known = true, .lost = lost, .flight_at_send = flight, .selective = true});
    }
    /// Startup until it is seen that the path is full; then the queue is gone.
    void settle() {
        while (c.state() == phase::startup) round();
        while (c.state() != phase::cruise) round(static_cast<std::uint32_t>(rate / 20));
    }
    void reach(phase p) {
        settle();
        for (int i = 0; i < 200 && c.state() != p; ++i) round();
        BOOST_REQUIRE(c.state() == p);
    }
    /// Pace over bandwidth.
    double gain() const { return static_cast<double>(c.pacing_rate()) / 0.99 / static_cast<double>(c.model().bw); }
};

std::string state_of(const path& p) {
    constexpr const char* names[] = {"startup", "drain", "down", "cruise", "refill", "up", "probe_rtt"};
    return names[static_cast<int>(p.c.state())];
}

#define CHECK_NEAR(a, b) BOOST_CHECK_CLOSE_FRACTION(static_cast<double>(a), static_cast<double>(b), 0.001)

} // namespace

BOOST_AUTO_TEST_SUITE(bbr)

BOOST_AUTO_TEST_CASE(the_first_pace_is_the_initial_windows_in_a_round_trip) { // 5.6.2
    path p;
    BOOST_TEST(p.c.cwnd() == 10'000u);
    CHECK_NEAR(p.c.pacing_rate(), 277'000);
    p.c.on_round_trip(1ms); // once
    CHECK_NEAR(p.c.pacing_rate(), 277'000);
}

BOOST_AUTO_TEST_CASE(startup_paces_at_2_77_and_lets_twice_the_product_fly) { // 5.3.1.1
    path p;
    for (p.rate = 100'000; p.rate <= 800'000; p.rate *= 2) {
        p.round();
        BOOST_TEST(state_of(p) == "startup");
        BOOST_TEST(p.c.model().max_bw() == p.rate);
    }
    CHECK_NEAR(p.gain(), 2.77);
    BOOST_TEST(p.c.max_inflight() >= 160'000u);
    BOOST_TEST(p.c.cwnd() == 160'000u); // what was acknowledged was added
}

BOOST_AUTO_TEST_CASE(three_rounds_without_a_quarter_more_end_startup_and_the_queue_is_drained) { // 5.3.1.2, 5.3.2
    path p;
    p.round();
    p.rate = 1'240'000; // less than a quarter more
    p.round(), p.round();
    BOOST_TEST(state_of(p) == "startup");
    p.round(200'000);
    BOOST_TEST(state_of(p) == "drain");
    CHECK_NEAR(p.gain(), 0.5);
    p.round(130'000);
    BOOST_TEST(state_of(p) == "drain");
    p.round(124'000); // one product
    BOOST_TEST(state_of(p) == "cruise"); // by way of ProbeBW_DOWN, which has nothing left to do
    CHECK_NEAR(p.gain(), 1.0);
}

BOOST_AUTO_TEST_CASE(a_quarter_more_begins_the_count_anew) {
    path p;
    p.round(), p.round(), p.round();
    p.rate = 1'250'000;
    p.round(), p.round(), p.round();
    BOOST_TEST(state_of(p) == "startup");
    p.round(200'000);
    BOOST_TEST(state_of(p) == "drain");
}

BOOST_AUTO_TEST_CASE(a_queue_that_does_not_drain_is_left_after_three_rounds) { // 5.3.2
    path p;
    while (p.c.state() == phase::startup) p.round(200'000);
    for (int i = 0; i < 3; ++i) {
        p.round(200'000);
        BOOST_TEST(state_of(p) == "drain");
    }
    p.round(200'000);
    BOOST_TEST(state_of(p) == "down");
}

BOOST_AUTO_TEST_CASE(samples_for_want_of_data_count_only_when_they_are_higher) { // 5.5.4, 5.3.1.2
    path p;
    p.round();
    for (int i = 0; i < 10; ++i) {
        tcp::rate_sample s = p.next(300'000);
        s.app_limited = true;
        p.take(s);
    }
    BOOST_TEST(state_of(p) == "startup");
    BOOST_TEST(p.c.model().max_bw() == 1'000'000u);
    tcp::rate_sample s = p.next(1'500'000);
    s.app_limited = true;
    p.take(s);
    BOOST_TEST(p.c.model().max_bw() == 1'500'000u);
}

BOOST_AUTO_TEST_CASE(cycles_with_little_to_send_forget_nothing) { // 5.5.4, 5.5.6
    path p;
    p.settle();
    unsigned probes = 0;
    for (int i = 0; i < 150; ++i) {
        const bool probing = p.c.state() == phase::up || p.c.state() == phase::down;
        if (p.c.state() == phase::down) ++probes;
        tcp::rate_sample s = p.next(300'000);
        s.app_limited = !probing;
        if (probing) s.rate = 0; // no reliable sample
        p.take(s);
    }
    BOOST_TEST(probes > 2u);
    BOOST_TEST(p.c.model().max_bw() == 1'000'000u);
}

BOOST_AUTO_TEST_CASE(the_cycle_is_down_cruise_refill_up_with_their_gains) { // 5.3.3, 5.6.1
    path p;
    p.settle();
    CHECK_NEAR(p.gain(), 1.0);
    BOOST_TEST(p.c.cwnd() == 300'000u); // twice the product, and here ACKs come in lumps of one
    const time_point cruising = p.now;
    while (p.c.state() == phase::cruise) p.round();
    BOOST_TEST(state_of(p) == "refill");
    BOOST_TEST((p.now - cruising > 1500ms)); // 2 to 3 s since the last probe
    BOOST_TEST((p.now - cruising <= 3100ms));
    CHECK_NEAR(p.gain(), 1.0);
    p.round();
    BOOST_TEST(state_of(p) == "up");
    CHECK_NEAR(p.gain(), 1.25);
    for (int i = 0; i < 3; ++i) p.round(); // a plateau
    BOOST_TEST(state_of(p) == "down");
    CHECK_NEAR(p.gain(), 0.9);
    p.round(150'000);
    BOOST_TEST(state_of(p) == "down"); // more than a product flies
    p.round(100'000);
    BOOST_TEST(state_of(p) == "cruise");
}

BOOST_AUTO_TEST_CASE(a_small_flow_probes_as_often_as_reno_would_grow) { // 5.3.3.8.2
    path p;
    p.rate = 100'000; // ten segments a round trip
    p.settle();
    int rounds = 0;
    while (p.c.state() == phase::cruise && rounds < 30) p.round(5'000), ++rounds;
    BOOST_TEST(state_of(p) == "refill");
    BOOST_TEST(rounds <= 10);
}

BOOST_AUTO_TEST_CASE(a_probe_that_finds_more_goes_on) {
    path p;
    p.reach(phase::up);
    for (int i = 0; i < 6; ++i) {
        p.rate = p.rate * 5 / 4;
        p.round();
        BOOST_TEST(state_of(p) == "up");
    }
    BOOST_TEST(p.c.model().max_bw() == p.rate);
}

BOOST_AUTO_TEST_CASE(what_was_delivered_two_cycles_ago_is_forgotten) { // 5.5.6
    path p;
    p.settle();
    p.rate = 400'000;
    int cycles = 0;
    phase last = p.c.state();
    while (cycles < 2) {
        p.round(15'000);
        if (p.c.state() == phase::down && last != phase::down) ++cycles;
        last = p.c.state();
        if (cycles == 0) BOOST_TEST(p.c.model().max_bw() == 1'000'000u);
    }
    p.round(15'000), p.round(15'000);
    BOOST_TEST(p.c.model().max_bw() == 400'000u);
}

BOOST_AUTO_TEST_CASE(more_than_two_percent_lost_ends_a_probe_and_is_remembered) { // 5.5.10.2
    path p;
    p.reach(phase::up);
    p.lose(2'000, 2'000, 110'000); // 1.8 %
    BOOST_TEST(state_of(p) == "up");
    p.lose(1'000, 3'000, 120'000); // 2.5 %
    BOOST_TEST(state_of(p) == "down");
    // 119,000 flew before that piece and 2,000 of it were lost: 2 % are reached 387 bytes into it.
    BOOST_TEST(p.c.model().inflight_longterm == 119'387u);
    p.lose(9'000, 12'000, 100'000); // once a probe
    BOOST_TEST(p.c.model().inflight_longterm == 119'387u);
    p.round();
    BOOST_TEST(state_of(p) == "cruise");
    BOOST_TEST(p.c.cwnd() <= 101'480u); // 0.85 of it: room for others
}

BOOST_AUTO_TEST_CASE(never_does_a_loss_cost_more_than_cubic_gives_up) { // Beta
    path p;
    p.reach(phase::up);
    p.lose(30'000, 30'000, 40'000);
    BOOST_TEST(p.c.model().inflight_longterm == 70'000u);
}

BOOST_AUTO_TEST_CASE(the_probe_after_one_that_went_too_far_is_short_and_then_a_long_one_follows) { // 5.3.3.6
    path p;
    p.probe_after_one_that_went_too_far();
    BOOST_TEST(state_of(p) == "down");
    p.round(90'000); // it did no harm
    BOOST_TEST(state_of(p) == "refill");
    p.round(90'000);
    BOOST_TEST(state_of(p) == "up");
    p.round(p.c.model().inflight_longterm);
    BOOST_TEST(state_of(p) == "up");
}

BOOST_AUTO_TEST_CASE(a_short_probe_that_went_too_far_as_well_is_followed_by_none) { // 5.3.3.6
    path p;
    p.probe_after_one_that_went_too_far();
    BOOST_TEST(state_of(p) == "down");
    p.lose(4'000, 4'000, 100'000); // it is heard of a round trip later
    p.round(90'000);
    BOOST_TEST(state_of(p) != "refill");
}

BOOST_AUTO_TEST_CASE(a_safe_probe_raises_its_bound_faster_and_faster) { // 5.3.3.5
    path p;
    p.probe_after_one_that_went_too_far();
    while (p.c.state() != phase::up) p.round(90'000);
    std::uint32_t steps[5];
    for (std::uint32_t& step : steps) {
        const std::uint32_t before = p.c.model().inflight_longterm;
        tcp::rate_sample s = p.next(p.rate);
        s.newly_acked = p.c.cwnd(); // the window is the limit
        s.window_limited = true;
        p.take(s);
        s.prior_total = 0; // another of the same round
        s.newly_acked = 0;
        p.take(s);
        BOOST_TEST(state_of(p) == "up"); // no plateau: it is the window's doing
        step = p.c.model().inflight_longterm - before;
    }
    BOOST_TEST(steps[4] > steps[1]);
    BOOST_TEST(steps[4] >= 8 * mss);
}

BOOST_AUTO_TEST_CASE(losses_while_cruising_lower_the_short_term_until_the_next_refill) { // 5.5.10.3
    path p;
    p.settle();
    const std::uint32_t cwnd = p.c.cwnd();
    p.lose(1'000, 1'000, 100'000);
    p.rate = 900'000;
    p.round();
    p.round();
    BOOST_TEST(p.c.model().bw >= 900'000u); // what was delivered, not less
    BOOST_TEST(p.c.model().bw < 1'000'001u);
    BOOST_TEST(p.c.model().inflight_shortterm <= cwnd);
    p.lose(1'000, 1'000, 100'000);
    p.round(), p.round();
    BOOST_TEST(p.c.model().bw == 900'000u);
    p.rate = 100'000; // it breaks down: 0.7 a round
    p.lose(1'000, 1'000, 100'000);
    p.round(10'000), p.round(10'000);
    p.lose(1'000, 1'000, 100'000);
    p.round(10'000), p.round(10'000);
    BOOST_TEST(p.c.model().bw < 900'000u);
    BOOST_TEST(p.c.model().bw >= 400'000u);
    BOOST_TEST(p.c.model().max_bw() == 1'000'000u);
    while (p.c.state() != phase::refill) p.round(10'000);
    BOOST_TEST(p.c.model().bw == 1'000'000u); // it looks again
    BOOST_TEST(p.c.model().inflight_shortterm == tcp::bbr_model::any_volume);
}

BOOST_AUTO_TEST_CASE(six_losses_of_two_percent_in_a_round_of_recovery_end_startup) { // 5.3.1.3
    for (const std::uint32_t pieces : {5u, 6u}) {
        path p;
        p.round();
        p.rate = 2'000'000;
        p.round();
        p.c.remember();
        p.c.on_loss(200'000);
        for (std::uint32_t i = 1; i <= pieces; ++i) p.lose(1'000, i * 1'000, 200'000);
        tcp::rate_sample s = p.next(3'000'000);
        s.recovering = s.repairing = true;
        s.lost = 9'000;
        s.flight_at_send = 300'000;
        p.take(s);
        BOOST_TEST((p.c.state() == phase::startup) == (pieces == 5));
        if (pieces == 5) continue;
        BOOST_TEST(p.c.model().inflight_longterm == 300'000u);
        p.c.undo(p.now); // 5.5.11.2
        BOOST_TEST(state_of(p) == "startup");
        BOOST_TEST(p.c.model().inflight_longterm == tcp::bbr_model::any_volume);
    }
}

BOOST_AUTO_TEST_CASE(without_sack_any_loss_ends_startup) { // 5.3.1.3
    path p;
    p.round();
    p.c.on_loss(100'000);
    p.lose(1'000, 1'000, 100'000);
    tcp::rate_sample s = p.next(2'000'000);
    s.recovering = true;
    s.selective = false;
    p.take(s);
    BOOST_CHECK(p.c.state() != phase::startup);
}

BOOST_AUTO_TEST_CASE(without_a_shorter_round_trip_for_5_s_it_makes_room_for_200_ms) { // 5.3.4
    path p;
    const time_point first = p.now + rtt; // since when no shorter one has come
    p.settle();
    const std::uint32_t before = p.c.cwnd();
    time_point since = p.now;
    while (p.c.state() != phase::probe_rtt && p.now - since < 20s) {
        tcp::rate_sample s = p.next(p.rate);
        s.rtt = 120ms; // others' queue
        p.take(s);
    }
    BOOST_TEST((p.now - first > 5s && p.now - first <= 5s + rtt));
    BOOST_TEST(p.c.holds_back());
    BOOST_TEST(p.c.cwnd() == 50'000u); // half a product
    CHECK_NEAR(p.gain(), 1.0);
    tcp::rate_sample late = p.next(p.rate);
    late.in_flight = 80'000; // there is too much in flight yet
    p.take(late);
    BOOST_TEST(state_of(p) == "probe_rtt");
    since = p.now;
    while (p.c.state() == phase::probe_rtt) p.round(50'000);
    BOOST_TEST((p.now - since > 200ms));
    BOOST_TEST((p.now - since <= 500ms));
    BOOST_TEST(state_of(p) == "cruise");
    BOOST_TEST(p.c.cwnd() >= before - 20 * mss);
    p.round();
    BOOST_TEST(!p.c.holds_back());
}

BOOST_AUTO_TEST_CASE(the_round_trip_is_the_least_of_ten_seconds) { // 5.5.7
    path p;
    const time_point first = p.now + rtt;
    p.settle();
    BOOST_TEST((p.c.model().min_rtt == rtt));
    while (p.now - first < 16s) { // the path is longer now
        tcp::rate_sample s = p.next(p.rate);
        s.rtt = 150ms;
        s.in_flight = 40'000;
        p.take(s);
        BOOST_TEST((p.c.model().min_rtt == (p.now - first <= 10s ? rtt : 150ms)));
    }
    BOOST_TEST((p.c.model().min_rtt == 150ms));
    tcp::rate_sample s = p.next(p.rate);
    s.rtt = 20ms;
    p.take(s);
    BOOST_TEST((p.c.model().min_rtt == 20ms));
}

BOOST_AUTO_TEST_CASE(acks_that_come_in_lumps_let_more_fly) { // 5.5.9
    path p;
    p.settle();
    for (int i = 0; i < 12; ++i) p.round();
    const std::uint32_t smooth = p.c.max_inflight();
    tcp::rate_sample s = p.next(p.rate);
    s.newly_acked = 160'000; // at once, of 100,000 that the rate explains
    p.take(s);
    BOOST_TEST(p.c.max_inflight() >= smooth + 40'000);
    for (int i = 0; i < 11; ++i) {
        BOOST_TEST(p.c.model().extra_acked() >= 40'000u);
        tcp::rate_sample less = p.next(p.rate);
        less.newly_acked = 50'000;
        if (i == 9) break;
        p.take(less);
    }
    for (int i = 0; i < 3; ++i) {
        tcp::rate_sample less = p.next(p.rate);
        less.newly_acked = 50'000;
        p.take(less);
    }
    BOOST_TEST(p.c.model().extra_acked() <= 50'000u); // ten rounds later
}

BOOST_AUTO_TEST_CASE(after_recovery_the_window_is_what_it_was_within_the_model) { // 5.6.4.4
    path p;
    p.settle();
    const std::uint32_t before = p.c.cwnd();
    p.c.on_timeout(before, true);
    p.c.limit(20'000 + mss); // what still flies, and one
    BOOST_TEST(p.c.cwnd() == 21'000u);
    tcp::rate_sample s = p.next(p.rate);
    s.newly_acked = 5'000;
    p.take(s);
    BOOST_TEST(p.c.cwnd() == 26'000u); // slow start
    p.c.on_recovered();
    BOOST_TEST(p.c.cwnd() == before);
}

BOOST_AUTO_TEST_CASE(a_second_time_out_of_a_recovery_knows_the_window_of_before_the_first) { // 5.6.4.4: if !InLossRecovery()
    path p;
    p.settle();
    const std::uint32_t before = p.c.cwnd();
    p.c.on_timeout(before, true);
    tcp::rate_sample s = p.next(p.rate);
    s.newly_acked = mss;
    s.repairing = true;
    p.take(s);
    p.c.on_timeout(before, true);
    p.c.on_recovered();
    BOOST_TEST(p.c.cwnd() == before);
}

BOOST_AUTO_TEST_CASE(where_less_than_a_segment_fills_the_path_a_rate_is_forgotten_too) { // 5.5.6; appendix: sub-packet BDPs
    path p;
    p.rate = 5'000; // 500 bytes in a round trip
    std::uint64_t sent = 0;
    const auto half_a_round = [&] {
        tcp::rate_sample s = p.next(p.rate);
        std::swap(s.prior_total, sent); // what this ACK delivers left before the one before came
        s.in_flight = s.flight_at_send = 4 * mss;
        p.take(s);
    };
    for (int i = 0; i < 100; ++i) half_a_round();
    BOOST_TEST(p.c.model().max_bw() == 5'000u);
    p.rate = 2'500;
    for (int i = 0; i < 400; ++i) half_a_round();
    BOOST_TEST(p.c.model().max_bw() == 2'500u);
}

BOOST_AUTO_TEST_CASE(a_probe_ended_by_what_was_no_loss_is_taken_up_again) { // 5.5.11
    path p;
    p.reach(phase::up);
    const std::uint32_t before = p.c.cwnd();
    p.c.remember();
    p.c.on_loss(before);
    p.lose(5'000, 5'000, 100'000);
    p.lose(5'000, 10'000, 100'000); // a second piece: what it has found is no state to go back to
    BOOST_TEST(state_of(p) == "down");
    BOOST_TEST(p.c.model().inflight_longterm != tcp::bbr_model::any_volume);
    p.c.on_recovered();
    p.c.undo(p.now);
    BOOST_TEST(state_of(p) == "refill");
    BOOST_TEST(p.c.model().inflight_longterm == tcp::bbr_model::any_volume);
    BOOST_TEST(p.c.cwnd() >= before);
}

BOOST_AUTO_TEST_CASE(a_pause_costs_neither_window_nor_rate) { // 5.4
    path p;
    p.reach(phase::down);
    const std::uint32_t before = p.c.cwnd();
    p.now += 3s;
    p.c.on_idle(p.now, 3s, 300ms);
    p.c.on_restart(p.now);
    BOOST_TEST(p.c.cwnd() == before);
    CHECK_NEAR(p.gain(), 1.0);
    p.now += 3s; // a shorter round trip was not seen for more than 5 s, but the pause has emptied the queue
    p.round();
    BOOST_CHECK(p.c.state() != phase::probe_rtt);
}

BOOST_AUTO_TEST_CASE(a_mark_is_congestion) { // 3.7
    path start;
    start.round();
    start.c.on_mark(start.now, 150'000);
    BOOST_TEST(state_of(start) == "drain");
    path cruise;
    cruise.settle();
    const std::uint32_t before = cruise.c.cwnd();
    cruise.c.on_mark(cruise.now, before);
    BOOST_TEST(cruise.c.cwnd() == before * 7 / 10);
    cruise.round();
    BOOST_TEST(cruise.c.cwnd() == before * 7 / 10);
    path probe;
    probe.reach(phase::up);
    probe.c.on_mark(probe.now, 120'000);
    BOOST_TEST(state_of(probe) == "down");
    BOOST_TEST(probe.c.model().inflight_longterm == 84'000u);
}

BOOST_AUTO_TEST_CASE(another_one_is_as_new) {
    path p;
    p.reach(phase::refill);
    const std::unique_ptr<tcp::congestion_controller> fresh(p.c.another());
    BOOST_TEST(fresh->name() == "bbr");
    BOOST_TEST(fresh->mss() == p.c.mss());
    BOOST_TEST(fresh->cwnd() == tcp::initial_window(p.c.mss()));
    BOOST_CHECK(static_cast<const bbr_controller&>(*fresh).state() == phase::startup);
}

BOOST_AUTO_TEST_CASE(a_connection_of_its_own_is_paced_repaired_and_not_slowed_by_a_pause) {
    tcp::parameters p = tcp_script::plain();
    p.congestion = tcp::bbr_congestion;
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.connect();
    std::int64_t acked = 1;
    for (int round = 0; round < 12; ++round) { // 20 segments in 100 ms is all the peer's window lets go
        s.write(20'000);
        for (int i = 0; i < 20; ++i) s.drain(), s.advance(5ms);
        acked = s.block().info().snd_max.value - 1'000'000;
        s.receive("A 1:1 ack " + std::to_string(acked) + " win 65535");
    }
    const std::uint32_t cwnd = s.block().info().cwnd;
    BOOST_TEST(cwnd > 10'000u);
    s.drain();
    s.advance(50ms);
    acked = s.block().info().snd_max.value - 1'000'000;
    s.receive("A 1:1 ack " + std::to_string(acked) + " win 65535");
    s.expect_nothing();
    s.advance(5s); // 5.4.2
    s.write(3'000);
    s.drain();
    BOOST_TEST(s.block().info().cwnd >= cwnd);
    s.advance(3s); // nobody answers
    BOOST_TEST(s.block().info().cwnd <= 2'000u); // 5.6.4.4
    s.drain();
    s.receive("A 1:1 ack " + std::to_string(acked + 3'000) + " win 65535");
    BOOST_TEST(s.block().info().cwnd >= 4'000u);
    BOOST_TEST(s.block().info().unacknowledged == 0u);
}

BOOST_AUTO_TEST_CASE(a_controller_chosen_amid_a_repair_answers_the_loss) { // BBR had set no ssthresh
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        for (const auto how : {tcp::cubic_congestion, tcp::reno_congestion, tcp::dctcp_congestion}) {
            tcp::parameters p = tcp_script::plain();
            p.habits = habits;
            p.congestion = tcp::bbr_congestion;
            p.tail_loss_probe = false;
            tcp_script s(p);
            s.connect();
            s.write(30'000);
            BOOST_TEST(s.drain() == 10);
            s.advance(50ms);
            s.receive("A 1:1 ack 1 win 65535 sack 4001-10001");
            BOOST_TEST(s.block().info().lost != 0u);
            s.block().set_congestion(how);
            BOOST_TEST(s.block().info().ssthresh <= 7'000u); // of ten in flight
            BOOST_TEST(s.block().info().ssthresh >= 5'000u);
            for (int i = 0; i < 10; ++i) {
                s.drain();
                BOOST_TEST(s.block().info().cwnd <= 10'000u);
                s.advance(10ms);
            }
            const std::int64_t sent = s.block().info().snd_max.value - 1'000'000;
            s.receive("A 1:1 ack " + std::to_string(sent) + " win 65535"); // the repair is over
            BOOST_TEST(s.block().info().cwnd <= 8'000u);
            BOOST_TEST(s.block().info().cwnd >= 5'000u);
        }
    }
}

BOOST_AUTO_TEST_CASE(requests_that_are_answered_open_no_window_without_end) { // 5.4.1, 5.5.9
    auto p = tcp_script::plain();
    p.congestion = tcp::bbr_congestion;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 7", 20ms);
    std::int64_t at = 1;
    for (int i = 0; i < 100; ++i) {
        s.write(8'000);
        s.drain();
        for (int passed = 0; passed < 20; ++passed) {
            s.advance(1ms);
            s.drain();
        }
        s.receive("A 1:1 ack " + std::to_string(at += 8'000));
        s.drain();
    }
    BOOST_TEST(s.block().info().cwnd < 100'000u); // an exchange is 8,000 bytes
}

BOOST_AUTO_TEST_CASE(the_same_controller_once_more_keeps_what_it_has_learned) {
    auto p = tcp_script::plain();
    p.congestion = tcp::bbr_congestion;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 7", 20ms);
    s.write(8'000);
    s.drain();
    s.advance(20ms);
    s.receive("A 1:1 ack 8001");
    const std::uint64_t rate = s.block().believed_path().rate;
    BOOST_TEST(rate != 0u);
    s.block().set_congestion(tcp::bbr_congestion);
    BOOST_TEST(s.block().believed_path().rate == rate);
}

BOOST_AUTO_TEST_CASE(a_time_out_is_answered_by_who_comes_behind_bbr) { // RFC 5681 3.1 (4)
    auto p = tcp_script::plain();
    p.congestion = tcp::bbr_congestion;
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 2", 100ms);
    s.write(20'000);
    s.drain();
    for (int i = 0; i < 1100; ++i) {
        s.advance(1ms);
        s.drain();
    }
    BOOST_TEST(s.block().statistics().retransmission_timeouts != 0u);
    s.block().set_congestion(tcp::cubic_congestion);
    BOOST_TEST(s.block().info().ssthresh <= 20'000u);
}

BOOST_AUTO_TEST_SUITE_END()
