// Golden table 6: BBR (draft-ietf-ccwg-bbr) where CUBIC's model of a path is wrong: losses by chance, and buffers that are far too small
// or far too large; how flows of it share, how it lives beside CUBIC, and what a burst of losses costs. What is expected is what the draft
// says of itself: 3.1 full throughput at losses of up to 1 %, 3.2 a queue of at most 1.5 products, 5.3.4.2 2 % of the rate for ProbeRTT.
// Printed with --log_level=message.
// ctest: timeout=240
#include "golden_paths.hh"

#include <corewire/net/tcp/tcb.hh>

#include <boost/test/unit_test.hpp>

#include <iomanip>
#include <sstream>

using namespace corewire;
using namespace corewire::golden;

namespace {

constexpr sim_flow_options large{.stream = {.receive_buffer = 16u << 20, .send_buffer = 16u << 20}};

double share(const path& what, duration warm, duration measured) {
    return goodput(what, warm, measured) * on_cable / payload * 8 / static_cast<double>(what.rate);
}

std::string line(const char* what, double a, double b) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(3) << what << "  " << a << "  " << b;
    return out.str();
}

/// The mean of the sender's smoothed round trips, in those of the path.
double round_trips(const path& what, duration warm, unsigned looks) {
    one_path p(what);
    sim_flow flow(p.from, p.to, 7, large);
    p.world.run_for(warm);
    double sum = 0;
    for (unsigned i = 0; i < looks; ++i) {
        p.world.run_for(20ms);
        sum += std::chrono::duration<double>(flow.sender()->info().rtt).count();
    }
    return sum / looks / what.seconds();
}

/// One bottleneck of 20 Mbit/s and 40 ms; the second flow begins two seconds later.
shares compete(tcp::congestion_factory a, tcp::congestion_factory b, double buffer, duration warm, duration measured) {
    return golden::compete({a, b, 40ms, 40ms, 20'000'000, buffer, 2s, warm, measured});
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_bbr)

BOOST_AUTO_TEST_CASE(one_percent_lost_by_chance_leaves_bbr_four_fifths_of_100_mbit_and_cubic_not) { // 3.1
    for (const auto& [name, rtt] : {std::pair{"20 ms", 20ms}, std::pair{"40 ms", 40ms}}) {
        double least = 1, with = 0, without = 0;
        for (const std::uint64_t seed : {1u, 2u, 3u}) {
            path what{.rtt = rtt, .rate = 100'000'000, .loss = 0.01, .congestion = tcp::bbr_congestion, .seed = seed};
            const double one = share(what, 3s, 10s);
            least = std::min(least, one);
            with += one / 3;
            what.congestion = tcp::cubic_congestion;
            without += share(what, 3s, 10s) / 3;
        }
        const std::string said = std::string("1 % lost, ") + name + line(", bbr, cubic", with, without) + line("  bbr's least", least, 0);
        BOOST_TEST_MESSAGE(said);
        BOOST_TEST(with >= 0.8, said);
        BOOST_TEST(without < 0.3, said);
    }
}

BOOST_AUTO_TEST_CASE(a_path_without_losses_is_full_but_for_probe_rtt) { // 5.3.4.2
    for (const double buffer : {0.25, 1.0, 8.0}) {
        const double got = share({.rtt = 40ms, .rate = 20'000'000, .buffer = buffer, .congestion = tcp::bbr_congestion}, 5s, 20s);
        BOOST_TEST_MESSAGE(line("buffer, bbr's share", buffer, got));
        BOOST_TEST(got > 0.9, line("buffer, bbr's share", buffer, got));
    }
}

BOOST_AUTO_TEST_CASE(a_large_buffer_stays_nearly_empty) { // 3.2
    const path bbr{.rtt = 40ms, .rate = 20'000'000, .buffer = 8, .congestion = tcp::bbr_congestion};
    path cubic = bbr;
    cubic.congestion = tcp::reno_congestion; // HyStart++ would leave the queue at first
    const double ours = round_trips(bbr, 5s, 500), theirs = round_trips(cubic, 5s, 500);
    BOOST_TEST_MESSAGE(line("8 products of buffer, round trips: bbr, reno", ours, theirs));
    BOOST_TEST(ours < 1.3);
    BOOST_TEST(theirs > 3.0);
}

BOOST_AUTO_TEST_CASE(two_flows_of_bbr_share) {
    const shares s = compete(tcp::bbr_congestion, tcp::bbr_congestion, 1, 30s, 30s);
    const std::string said = line("bbr bbr", s.first, s.second) + line("  Jain", s.jain(), 1);
    BOOST_TEST_MESSAGE(said);
    BOOST_TEST(s.jain() > 0.95, said);
    BOOST_TEST(s.first + s.second > 0.9, said);
}

BOOST_AUTO_TEST_CASE(beside_cubic_neither_starves) { // 5.3.3.8.1
    for (const double buffer : {1.0, 4.0}) {
        const shares s = compete(tcp::bbr_congestion, tcp::cubic_congestion, buffer, 20s, 40s);
        const std::string said = line("bbr cubic", s.first, s.second) + line("  buffer", buffer, 0);
        BOOST_TEST_MESSAGE(said);
        BOOST_TEST(s.first > 0.1, said);
        BOOST_TEST(s.second > 0.1, said);
    }
}

BOOST_AUTO_TEST_CASE(a_burst_of_losses_is_repaired_as_soon_as_by_cubic) {
    for (const unsigned burst : {1u, 10u, 30u}) {
        const path what{.rtt = 40ms, .rate = 30'000'000, .buffer = 2, .congestion = tcp::bbr_congestion};
        one_path p(what);
        sim_flow flow(p.from, p.to, 7);
        p.world.run_for(2s);
        const double took = repair_time(p, flow, what, burst);
        BOOST_TEST_MESSAGE(line("lost in a row, round trips", burst, took));
        BOOST_TEST(took < 2.5, line("lost in a row, round trips", burst, took));
        const std::uint64_t before = flow.delivered();
        p.world.run_for(1s);
        const double after = static_cast<double>(flow.delivered() - before) * on_cable / payload * 8 / static_cast<double>(what.rate);
        BOOST_TEST_MESSAGE(line("  share of the rate in the second after", burst, after));
        BOOST_TEST(after > 0.85);
    }
}

BOOST_AUTO_TEST_CASE(more_room_is_found_in_seconds) { // 5.3.3.8: a probe at least every 3 s, and each may raise the rate by a quarter
    const path what{.rtt = 40ms, .rate = 5'000'000, .congestion = tcp::bbr_congestion};
    one_path p(what);
    sim_flow flow(p.from, p.to, 7, large);
    p.world.run_for(5s);
    sim_link_options wider = p.cable.options(sim_link::direction::forward);
    wider.bits_per_second = 20'000'000;
    p.cable.configure(sim_link::direction::forward, wider);
    const double got = goodput(p, flow, 6s, 5s) * on_cable / payload * 8 / 20'000'000;
    BOOST_TEST_MESSAGE(line("four times the rate after 5 s: share 6 s later", got, 1));
    BOOST_TEST(got > 0.8);
}

BOOST_AUTO_TEST_SUITE_END()
