// Golden table 3: two flows and one bottleneck. Jain's index, (sum x)^2 / (n sum x^2), is 1 when both get the same: RFC 9438 5.6 says
// that CUBIC flows of one round trip share alike, and 4.3 that CUBIC takes no more than Reno would where Reno does well. What was measured
// before: golden/fairness.tsv.
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
    static golden_table all("fairness");
    return all;
}

/// `first` and `second`: what is expected of their shares.
void keep(const std::string& name, const shares& s, double first, double second, const char* source) {
    table().compare(name + ", first", s.first, first, source);
    table().compare(name + ", second", s.second, second, source);
}

std::string line(const char* name, const shares& s) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(3) << name << "  first " << s.first << "  second " << s.second << "  Jain " << s.jain();
    return out.str();
}

} // namespace

BOOST_AUTO_TEST_SUITE(golden_fairness)

BOOST_AUTO_TEST_CASE(two_flows_of_one_kind_and_one_round_trip_share_alike) {
    using kind = std::pair<const char*, tcp::congestion_factory>;
    for (const auto& [name, how] : {kind{"cubic cubic", tcp::cubic_congestion}, kind{"reno reno", tcp::reno_congestion}}) {
        const shares s = compete({how, how, 40ms, 40ms, 10'000'000, 1, 2s, 20s, 60s});
        BOOST_TEST_MESSAGE(line(name, s));
        keep(name, s, 0.5, 0.5, "RFC 9438 5.6: flows of one round trip share alike");
        BOOST_TEST(s.jain() > 0.95, line(name, s));
        BOOST_TEST(s.first + s.second > 0.9, line(name, s));
    }
}

BOOST_AUTO_TEST_CASE(cubic_leaves_reno_its_share_where_reno_does_well) { // RFC 9438 4.3, 5.2
    const shares s = compete({tcp::cubic_congestion, tcp::reno_congestion, 20ms, 20ms, 5'000'000, 1, 1s, 20s, 60s});
    BOOST_TEST_MESSAGE(line("cubic reno ", s));
    keep("cubic reno", s, 0.5, 0.5, "RFC 9438 4.3: alpha is chosen so that both share alike");
    BOOST_TEST(s.jain() > 0.85, line("cubic reno", s));
    BOOST_TEST(s.second > 0.25, line("cubic reno", s));
}

// RFC 9438 3.3: CUBIC's shares go as the round trips (4); Reno's as their squares (16) at worst, Lakshman and Madhow 1997. With the
// bottleneck's queue in both the round trips are not so far apart.
BOOST_AUTO_TEST_CASE(a_round_trip_four_times_as_long_costs_cubic_less_than_reno) {
    const shares cubic = compete({tcp::cubic_congestion, tcp::cubic_congestion, 20ms, 80ms, 20'000'000, 1, 1s, 20s, 60s});
    const shares reno = compete({tcp::reno_congestion, tcp::reno_congestion, 20ms, 80ms, 20'000'000, 1, 1s, 20s, 60s});
    BOOST_TEST_MESSAGE(line("cubic 20/80", cubic));
    BOOST_TEST_MESSAGE(line("reno  20/80", reno));
    BOOST_TEST(cubic.second > reno.second, line("cubic", cubic) + "; " + line("reno", reno));
    BOOST_TEST(cubic.first / cubic.second < 6.0, line("cubic", cubic));
    keep("cubic 20/80", cubic, 4.0 / 5, 1.0 / 5, "RFC 9438 3.3: as the round trips");
    keep("reno 20/80", reno, 16.0 / 17, 1.0 / 17, "as the squares of the round trips at worst, Lakshman and Madhow 1997");
    BOOST_TEST((table().writes() || table().rows("") == 10u));
}

BOOST_AUTO_TEST_SUITE_END()
