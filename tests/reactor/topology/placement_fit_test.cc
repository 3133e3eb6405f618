// Whether a placement fits a machine: each impossibility and each remark, by its sentence.
#include <corewire/reactor/topology/placement_fit.hh>

#include <boost/test/unit_test.hpp>
#include <stdexcept>

using namespace corewire;

namespace {

// CPUs 2n and 2n+1 share core n; cores 0-3 are on node 0, 4-7 on node 1.
machine two_sockets(std::vector<unsigned> allowed = {}) { return machine::synthetic("package:2 numa:1 core:4 pu:2", allowed); }

std::vector<std::string> findings(const machine& on, const std::string& lines) {
    std::vector<std::string> out;
    for (const fit_finding& f : check_fit(on, parse_placement(lines))) out.push_back((f.impossible ? "no: " : "but: ") + f.text);
    return out;
}

#define CHECK_FINDINGS(on, lines, ...)                                                                                 \
    BOOST_TEST(findings(on, lines) == (std::vector<std::string>{__VA_ARGS__}), boost::test_tools::per_element())

} // namespace

BOOST_AUTO_TEST_SUITE(placement_fit)

BOOST_AUTO_TEST_CASE(a_good_placement_has_no_findings) {
    BOOST_TEST(findings(two_sockets(), "shard = \"pu:2,numa:0\"\nshard = \"pu:8,numa:1\"\nshard = \"pu:4\"").empty());
    BOOST_CHECK_NO_THROW(require_fit(two_sockets(), parse_placement("shard = \"pu:2\"")));
}

BOOST_AUTO_TEST_CASE(what_is_impossible_is_named_with_what_to_do) {
    CHECK_FINDINGS(two_sockets(), "shard = \"pu:16\"",
                   "no: shard 0: CPU 16 does not exist, this machine has 0-15: plan again with `cw-topo plan`");
    CHECK_FINDINGS(two_sockets({2, 3}), "shard = \"pu:2\"\nshard = \"pu:4\"",
                   "no: shard 1: CPU 4 is not allowed to this process, its cgroup or affinity mask allows 2-3: plan again there, "
                   "or widen the cpuset");
    CHECK_FINDINGS(two_sockets(), "shard = \"pu:2\"\nshard = \"pu:2\"", "no: shards 0 and 1 are both on CPU 2: each needs one of its own");
    CHECK_FINDINGS(two_sockets(), "shard = \"pu:2,numa:5\"",
                   "no: shard 0: NUMA node 5 does not exist: plan again with `cw-topo plan`");
    CHECK_FINDINGS(two_sockets(), "shard = \"pu:2,queue:0\"",
                   "no: shard 0: queue 0 of no interface: add a line interface = \"IFNAME\"");
    CHECK_FINDINGS(two_sockets(), "interface = \"e\"\nshard = \"pu:2,queue:3\"\nshard = \"pu:4,queue:2+3\"",
                   "no: shards 0 and 1 both have queue 3: a queue has one owner");
    BOOST_CHECK_THROW(require_fit(two_sockets(), parse_placement("shard = \"pu:16\"")), std::invalid_argument);
    BOOST_CHECK_THROW(require_fit(two_sockets(), {}), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(what_is_unwise_is_a_remark_behind_what_is_impossible) {
    CHECK_FINDINGS(two_sockets(), "shard = \"pu:2,numa:1\"\nshard = \"pu:16\"",
                   "no: shard 1: CPU 16 does not exist, this machine has 0-15: plan again with `cw-topo plan`",
                   "but: shard 0: CPU 2 is next to NUMA node 0, and its memory would come from node 1: numa:0 is faster");
    CHECK_FINDINGS(two_sockets(), "shard = \"pu:2\"\nshard = \"pu:3\"",
                   "but: shards 0 and 1 share core 1: one thread a core is faster unless both are idle half of the time");
    CHECK_FINDINGS(machine::synthetic("core:4 pu:1"), "shard=\"pu:0\"\nshard=\"pu:1\"\nshard=\"pu:2\"\nshard=\"pu:3\"",
                   "but: every core has a shard: the kernel and other programs will interrupt them; leave one free");
    BOOST_CHECK_NO_THROW(require_fit(two_sockets(), parse_placement("shard = \"pu:2,numa:1\"")));
}

BOOST_AUTO_TEST_SUITE_END()
