// Golden table 2: what CUBIC and Reno get through a bottleneck, by loss, delay and buffer, against what theory gives: the sawtooth of
// beta on a buffer (Appenzeller et al. 2004 for one half), or the response function where chance losses rule (RFC 9438 5.1).
// And against what was measured before, golden/paths.tsv. The same run gives the same bytes. Printed with --log_level=message.
// ctest: timeout=240
#include "golden_paths.hh"
#include "golden_table.hh"

#include <boost/test/unit_test.hpp>

#include <iomanip>
#include <sstream>

using namespace corewire;
using namespace corewire::golden;

namespace {

golden_table& table() {
    static golden_table all("paths");
    return all;
}

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
    std::uint64_t rate = 20'000'000;
    duration warm = 10s, measured = 20s;
};

/// One of the two: its name in the table, its sawtooth.
struct kind {
    const char* name;
    tcp::congestion_factory how;
    double beta;
};
constexpr kind cubic{"cubic", tcp::cubic_congestion, 0.7}; // RFC 9438 4.6
constexpr kind reno{"reno", tcp::reno_congestion, 0.5};    // RFC 5681 3.1, equation (4)

double share(const path& what, const cell& c) {
    return goodput(what, c.warm, c.measured) * on_cable / payload * 8 / static_cast<double>(what.rate);
}

/// Gives the share that it has got.
double check(const kind& k, const cell& c) {
    const path what{.rtt = c.rtt, .rate = c.rate, .buffer = c.buffer, .loss = c.loss, .congestion = k.how, .seed = 7};
    const double full = sawtooth(k.beta, c.buffer);
    // Without losses no window is cut off, and what Reno would get of the smallest buffer (0.89) is too little for CUBIC.
    double expected = full, least = k.how == tcp::cubic_congestion ? 0.93 : 0.9;
    std::string source = "sawtooth of beta on the buffer, Appenzeller et al. 2004";
    if (c.loss > 0) {
        least = 0.8;
        double segments = reno_window(c.loss);
        source = "sqrt(1.5/p), Mathis et al. 1997; RFC 9438 5.1";
        if (k.how == tcp::cubic_congestion && cubic_window(c.loss, what.seconds()) > segments) {
            segments = cubic_window(c.loss, what.seconds());
            source = "RFC 9438 5.1, equation (5)";
        } else if (k.how == tcp::cubic_congestion) {
            source += "; RFC 9438 4.3, the Reno-friendly region";
        }
        const double alone = segments * on_cable / what.product();
        expected = std::min(full, alone);
        if (full < alone) source = "sawtooth of beta on the buffer, Appenzeller et al. 2004";
        if (alone > full / 2 && alone < 2 * full) least = 0.7; // the largest windows of a path without an end are cut off here
    }
    const double queued = c.buffer * what.seconds() / 20; // what waited when counting began comes on top
    const double got = share(what, c);
    std::ostringstream row, line;
    row << k.name << " loss " << c.loss << " RTT " << std::chrono::duration_cast<std::chrono::milliseconds>(c.rtt).count()
        << " ms buffer " << c.buffer;
    line << row.str() << std::fixed << std::setprecision(3) << "  share of the rate " << got << "  expected " << expected;
    BOOST_TEST_MESSAGE(line.str());
    BOOST_TEST(got > expected * least, line.str());
    BOOST_TEST(got < std::min(1.0, expected * 1.35) + queued, line.str());
    table().compare(row.str(), got, expected, source);
    return got;
}

/// Every round trip with every buffer and every loss.
void check_all(const kind& k) {
    for (const duration rtt : {10ms, 40ms, 100ms})
        for (const double buffer : {0.25, 1.0, 2.0})
            for (const double loss : {0.0, 1e-3, 1e-2}) check(k, {rtt, buffer, loss});
    BOOST_TEST((table().writes() || table().rows(k.name) == 28u)); // and the long one
}

/// Where a loss comes once in 32 round trips CUBIC's own region rules.
constexpr cell long_path{.rtt = 200ms, .buffer = 1, .loss = 1e-4, .rate = 40'000'000, .warm = 60s, .measured = 240s};

} // namespace

BOOST_AUTO_TEST_SUITE(golden_paths)

BOOST_AUTO_TEST_CASE(cubic_fills_a_path_as_its_sawtooth_and_its_response_say) {
    check_all(cubic);
}

BOOST_AUTO_TEST_CASE(reno_fills_a_path_as_its_sawtooth_and_its_response_say) {
    check_all(reno);
}

BOOST_AUTO_TEST_CASE(cubic_is_ahead_of_reno_on_a_long_path_with_few_losses) { // RFC 9438 5.1, 5.2
    const double ours = check(cubic, long_path), other = check(reno, long_path);
    BOOST_TEST(ours > 1.7 * other); // 2.6 by the formulas
}

BOOST_AUTO_TEST_CASE(a_cell_of_the_table_is_the_same_bit_for_bit) {
    const path what{.rtt = 40ms, .rate = 20'000'000, .loss = 1e-3, .seed = 7};
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
