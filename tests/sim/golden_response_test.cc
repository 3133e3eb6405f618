// Golden table 1: the window that CUBIC and Reno keep where one packet of 1/p is lost, against the formulas of RFC 9438 5.1, whose
// model it is: losses at equal distances, a path without a limit. The formulas know nothing of the round trips that repairs take, which
// is what small windows fall short by. What was measured before: golden/response.tsv. Printed with --log_level=message.
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
    static golden_table all("response");
    return all;
}

constexpr const char* mathis = "sqrt(1.5/p), Mathis et al. 1997; RFC 9438 5.1, AVG_W_est";
constexpr const char* own_formula = "RFC 9438 5.1, equation (5), C = 0.4, beta = 0.7";

struct cell {
    duration rtt;
    std::uint64_t every; ///< 1/p
    double expected;     ///< segments
};

/// The mean window of six stretches between losses, after three.
double window(const path& what, double expected) {
    const double one = static_cast<double>(what.loses_every) / expected * what.seconds();
    const auto stretches = [&](double n) { return duration(static_cast<std::int64_t>(n * one * 1e9)); };
    return goodput(what, stretches(3), stretches(6)) * what.seconds() / payload;
}

void compare(const char* name, path what, const cell& c, double tolerance, const char* source) {
    what.rtt = c.rtt;
    what.loses_every = c.every;
    const double got = window(what, c.expected);
    std::ostringstream line;
    line << std::fixed << std::setprecision(1) << name << "  RTT " << std::setw(5) << what.seconds() * 1e3 << " ms  1/p "
         << std::setw(6) << c.every << "  window " << std::setw(6) << got << "  expected " << std::setw(6) << c.expected;
    BOOST_TEST_MESSAGE(line.str());
    BOOST_TEST(got > c.expected * (1 - tolerance), line.str());
    BOOST_TEST(got < c.expected * (1 + tolerance), line.str());
    std::ostringstream row;
    row << name << " RTT " << what.seconds() * 1e3 << " ms 1/p " << c.every;
    table().compare(row.str(), got, c.expected, source);
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_response)

BOOST_AUTO_TEST_CASE(reno_keeps_the_window_of_mathis_formula) {
    const path reno{.congestion = tcp::reno_congestion};
    for (const cell& c : {cell{10ms, 100, reno_window(1e-2)}, cell{10ms, 1'000, reno_window(1e-3)}, cell{100ms, 1'000, reno_window(1e-3)},
                          cell{100ms, 5'000, reno_window(2e-4)}})
        compare("reno", reno, c, 0.25, mathis); // behind a time-out an ACK opens the window by two segments at most (RFC 3465)
}

BOOST_AUTO_TEST_CASE(cubic_keeps_renos_window_where_that_is_larger) { // RFC 9438 4.3
    for (const cell& c : {cell{10ms, 100, reno_window(1e-2)}, cell{10ms, 1'000, reno_window(1e-3)}, cell{100ms, 100, reno_window(1e-2)}})
        compare("cubic", {}, c, 0.2, mathis);
}

BOOST_AUTO_TEST_CASE(cubic_keeps_the_window_of_its_own_formula_on_long_paths) { // RFC 9438 5.1, tables 1 and 2
    for (const cell& c : {cell{100ms, 10'000, cubic_window(1e-4, 0.1)}, cell{200ms, 3'000, cubic_window(1.0 / 3'000, 0.2)}})
        compare("cubic", {}, c, 0.1, own_formula);
    BOOST_TEST((table().writes() || table().rows("") == 9u));
}

BOOST_AUTO_TEST_SUITE_END()
