// Golden table 4: how long a burst of losses holds up a flow. With SACK, RACK and PRR everything lost is sent again within the round
// trip after it is found missing (RFC 8985, 9937; Linux does the same), whatever the burst; NewReno sends one segment a round trip
// (RFC 6582 3.2). Table 5: goodput at one percent of chance loss, against the same without CUBIC, SACK and RACK.
// ctest: timeout=240
#include "golden_paths.hh"

#include <boost/test/unit_test.hpp>

#include <iomanip>
#include <sstream>

using namespace corewire;
using namespace corewire::golden;

namespace {

struct recovered {
    double round_trips;          ///< from the first loss until the receiver has read all that was sent before the last
    std::uint64_t timeouts;      ///< retransmission time-outs
};

std::uint64_t timeouts_of(sim_host& host) {
    std::uint64_t n = 0;
    host.stack().tcp().for_each_connection([&](const tcp_connection& c) { n += c.tcb.statistics().retransmission_timeouts; });
    return n;
}

/// `burst` packets in a row are lost while about 100 are in flight: what the receiver's window lets go, and nothing else is lost.
recovered after_burst(unsigned burst, bool sack) {
    const path what{.rtt = 40ms, .rate = 30'000'000, .buffer = 2, .sack = sack};
    one_path p(what);
    sim_flow flow(p.from, p.to, 7, {.stream = {.receive_buffer = static_cast<std::uint32_t>(what.product())}});
    p.world.run_for(1s);
    const double took = repair_time(p, flow, what, burst);
    return {took, timeouts_of(p.from)};
}

std::string line(const char* name, unsigned burst, const recovered& r) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(2) << name << "  lost in a row " << std::setw(2) << burst << "  round trips " << std::setw(6)
        << r.round_trips << "  time-outs " << r.timeouts;
    return out.str();
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_recovery)

BOOST_AUTO_TEST_CASE(rack_repairs_a_burst_in_few_round_trips_whatever_its_length) {
    for (const unsigned burst : {1u, 3u, 10u, 30u}) {
        const recovered r = after_burst(burst, true);
        BOOST_TEST_MESSAGE(line("rack   ", burst, r));
        BOOST_TEST(r.timeouts == 0u, line("rack", burst, r));
        // Half a round trip until the gap shows, half for the news of it, one for what is sent again, and the queue's own delay.
        BOOST_TEST(r.round_trips < 2.5, line("rack", burst, r));
    }
}

BOOST_AUTO_TEST_CASE(newreno_repairs_a_segment_a_round_trip) { // RFC 6582 3.2
    for (const unsigned burst : {1u, 3u, 10u}) {
        const recovered r = after_burst(burst, false);
        BOOST_TEST_MESSAGE(line("newreno", burst, r));
        BOOST_TEST(r.round_trips > burst, line("newreno", burst, r));
        BOOST_TEST(r.round_trips < burst + 3.0, line("newreno", burst, r));
    }
}

BOOST_AUTO_TEST_CASE(slow_starts_overshoot_is_repaired_without_a_timeout_and_then_the_path_is_full) {
    const path what{.rtt = 40ms, .rate = 30'000'000, .buffer = 1}; // a hundred holes, more than the receiver can tell of at a time
    one_path p(what);
    sim_flow flow(p.from, p.to, 7);
    p.world.run_for(1s);
    const auto& sent = p.cable.statistics(sim_link::direction::forward);
    BOOST_TEST(sent.queue_full > 64u);
    const std::uint64_t before = flow.delivered();
    p.world.run_for(1s);
    BOOST_TEST(timeouts_of(p.from) == 0u);
    BOOST_TEST(static_cast<double>(flow.delivered() - before) > 0.95 * static_cast<double>(what.rate) / 8 * payload / on_cable);
}

BOOST_AUTO_TEST_CASE(at_one_percent_loss_cubic_and_rack_carry_more_than_newreno) {
    const path modern{.rtt = 20ms, .rate = 1'000'000'000, .loss = 0.01};
    const path plain{.rtt = 20ms, .rate = 1'000'000'000, .loss = 0.01, .congestion = tcp::reno_congestion, .sack = false};
    const double with = goodput(modern, 2s, 30s), without = goodput(plain, 2s, 30s);
    std::ostringstream out;
    out << std::fixed << std::setprecision(2) << "1 % loss, 20 ms, 1 Gbit/s: " << with * 8 / 1e6 << " Mbit/s with, " << without * 8 / 1e6
        << " without, " << with / without << " x; Mathis: " << reno_window(0.01) * payload * 8 / 0.02 / 1e6;
    BOOST_TEST_MESSAGE(out.str());
    // RFC 9438 4.3 keeps CUBIC to Reno's window on such a path, so Mathis' is what there is to get; the rest is repairs and time-outs.
    BOOST_TEST(with * 8 * 0.02 > 0.95 * reno_window(0.01) * payload * 8, out.str());
    BOOST_TEST(with > 1.1 * without, out.str());
}

BOOST_AUTO_TEST_SUITE_END()
