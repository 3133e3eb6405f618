// Golden table 3: two flows and one bottleneck. Jain's index, (sum x)^2 / (n sum x^2), is 1 when both get the same: RFC 9438 5.3 asks
// that CUBIC flows of one round trip share alike, and 4.3 that CUBIC takes no more than Reno would where Reno does well.
// ctest: timeout=240
#include "golden_paths.hh"

#include <boost/test/unit_test.hpp>

#include <iomanip>
#include <sstream>

using namespace corewire;
using namespace corewire::golden;

namespace {

std::string line(const char* name, const shares& s) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(3) << name << "  first " << s.first << "  second " << s.second << "  Jain " << s.jain();
    return out.str();
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_fairness)

BOOST_AUTO_TEST_CASE(two_flows_of_one_kind_and_one_round_trip_share_alike) {
    using kind = std::pair<const char*, tcp::congestion_factory>;
    for (const auto& [name, how] : {kind{"cubic cubic", tcp::cubic_congestion}, kind{"reno reno  ", tcp::reno_congestion}}) {
        const shares s = compete({how, how, 40ms, 40ms, 10'000'000, 1, 2s, 20s, 60s});
        BOOST_TEST_MESSAGE(line(name, s));
        BOOST_TEST(s.jain() > 0.95, line(name, s));
        BOOST_TEST(s.first + s.second > 0.9, line(name, s));
    }
}

BOOST_AUTO_TEST_CASE(cubic_leaves_reno_its_share_where_reno_does_well) { // RFC 9438 4.3, 5.2
    const shares s = compete({tcp::cubic_congestion, tcp::reno_congestion, 20ms, 20ms, 5'000'000, 1, 1s, 20s, 60s});
    BOOST_TEST_MESSAGE(line("cubic reno ", s));
    BOOST_TEST(s.jain() > 0.85, line("cubic reno", s));
    BOOST_TEST(s.second > 0.25, line("cubic reno", s));
}

BOOST_AUTO_TEST_CASE(a_round_trip_four_times_as_long_costs_cubic_less_than_reno) { // RFC 9438 5.3: shares as RTT, Reno's as its square
    const shares cubic = compete({tcp::cubic_congestion, tcp::cubic_congestion, 20ms, 80ms, 20'000'000, 1, 1s, 20s, 60s});
    const shares reno = compete({tcp::reno_congestion, tcp::reno_congestion, 20ms, 80ms, 20'000'000, 1, 1s, 20s, 60s});
    BOOST_TEST_MESSAGE(line("cubic 20/80", cubic));
    BOOST_TEST_MESSAGE(line("reno  20/80", reno));
    BOOST_TEST(cubic.second > reno.second, line("cubic", cubic) + "; " + line("reno", reno));
    BOOST_TEST(cubic.first / cubic.second < 16.0, line("cubic", cubic));
}

BOOST_AUTO_TEST_SUITE_END()
