// Golden table 2: what CUBIC and Reno get through a bottleneck, by loss, delay and buffer, against what theory gives: the sawtooth of
// beta on a buffer (Appenzeller et al. 2004 for one half), or the response function where chance losses rule (RFC 9438 5.1).
// The same run gives the same bytes. Printed with --log_level=message.
// ctest: timeout=240
#include "golden_paths.hh"

#include <boost/test/unit_test.hpp>

#include <iomanip>
#include <sstream>

using namespace corewire;
using namespace corewire::golden;

namespace {

constexpr std::uint64_t rate = 20'000'000;

/// Of the bottleneck's rate, at least: a window that falls from 1 + b products to beta (1 + b) and grows again, not faster than in a
/// straight line. From (1 + b) beta >= 1 on the cable never runs dry.
double sawtooth(double beta, double b) {
    const double low = beta * (1 + b);
    if (low >= 1) return 1;
    const double below = (1 - low) / ((1 + b) - low); // share of the time without a queue
    return below * (1 + low) / 2 + (1 - below);
}

struct cell {
    duration rtt;
    double buffer;
    double loss;
};

double share(const path& what) { return goodput(what, 10s, 20s) * on_cable / payload * 8 / static_cast<double>(rate); }

void check(const char* name, tcp::congestion_factory how, double beta, const cell& c) {
    const path what{.rtt = c.rtt, .rate = rate, .buffer = c.buffer, .loss = c.loss, .congestion = how, .seed = 7};
    const double full = sawtooth(beta, c.buffer);
    double expected = full, least = 0.8;
    if (c.loss > 0) {
        double segments = reno_window(c.loss);
        if (how == tcp::cubic_congestion) segments = std::max(segments, cubic_window(c.loss, what.seconds()));
        const double alone = segments * on_cable / what.product();
        expected = std::min(full, alone);
        if (alone > full / 2 && alone < 2 * full) least = 0.7; // the largest windows of a path without an end are cut off here
    }
    const double queued = c.buffer * what.seconds() / 20; // what waited when counting began comes on top
    const double got = share(what);
    std::ostringstream line;
    line << std::fixed << std::setprecision(3) << name << "  loss " << c.loss << "  RTT " << std::setw(3)
         << std::chrono::duration_cast<std::chrono::milliseconds>(c.rtt).count() << " ms  buffer " << std::setprecision(2) << c.buffer
         << "  share of the rate " << std::setprecision(3) << got << "  expected " << expected;
    BOOST_TEST_MESSAGE(line.str());
    BOOST_TEST(got > expected * least, line.str());
    BOOST_TEST(got < std::min(1.0, expected * 1.35) + queued, line.str());
}

/// Every round trip with every buffer and every loss.
void check_all(const char* name, tcp::congestion_factory how, double beta) {
    for (const duration rtt : {10ms, 40ms, 100ms})
        for (const double buffer : {0.25, 1.0, 2.0})
            for (const double loss : {0.0, 1e-3, 1e-2}) check(name, how, beta, {rtt, buffer, loss});
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_paths)

BOOST_AUTO_TEST_CASE(cubic_fills_a_path_as_its_sawtooth_and_its_response_say) {
    check_all("cubic", tcp::cubic_congestion, 0.7);
}

BOOST_AUTO_TEST_CASE(reno_fills_a_path_as_its_sawtooth_and_its_response_say) {
    check_all("reno ", tcp::reno_congestion, 0.5);
}

BOOST_AUTO_TEST_CASE(a_cell_of_the_table_is_the_same_bit_for_bit) {
    const path what{.rtt = 40ms, .rate = rate, .loss = 1e-3, .seed = 7};
    std::uint64_t digests[3], bytes[3];
    for (int i = 0; i < 3; ++i) {
        path mine = what;
        if (i == 2) mine.seed = 8;
        one_path p(mine);
        sim_flow flow(p.from, p.to, 7);
        p.world.run_for(3s);
        digests[i] = p.world.digest();
        bytes[i] = flow.delivered();
    }
    BOOST_TEST(digests[0] == digests[1]);
    BOOST_TEST(bytes[0] == bytes[1]);
    BOOST_TEST(digests[0] != digests[2]);
}

BOOST_AUTO_TEST_SUITE_END()
