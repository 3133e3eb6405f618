// --cores, against machines that hwloc makes up: what is chosen, and what each refusal says.
#include <corewire/reactor/topology/cpu_selection.hh>

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <vector>

using cpus = std::vector<unsigned>;
using corewire::machine;
using corewire::select_cpus;

namespace {

// Linux numbers hyperthreads last on most machines, hwloc's synthetic ones first: CPUs 2n and 2n+1 share core n here.
machine two_sockets() { return machine::synthetic("package:2 numa:1 core:4 pu:2"); }

std::string refusal(const machine& on, std::string_view selection) {
    try {
        static_cast<void>(select_cpus(on, selection));
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "accepted";
}

#define CHECK_CHOICE(on, selection, ...)                                                                               \
    BOOST_TEST(select_cpus(on, selection) == (cpus{__VA_ARGS__}), boost::test_tools::per_element())

} // namespace

BOOST_AUTO_TEST_SUITE(cpu_selection)

BOOST_AUTO_TEST_CASE(a_count_takes_one_cpu_of_each_core_before_any_sibling) {
    CHECK_CHOICE(two_sockets(), "1", 0);
    CHECK_CHOICE(two_sockets(), "3", 0, 2, 4);
    CHECK_CHOICE(two_sockets(), "8", 0, 2, 4, 6, 8, 10, 12, 14);
    CHECK_CHOICE(two_sockets(), "10", 0, 2, 4, 6, 8, 10, 12, 14, 1, 3);
}

BOOST_AUTO_TEST_CASE(a_list_names_cpus_in_its_own_order) {
    CHECK_CHOICE(two_sockets(), "0-3,6", 0, 1, 2, 3, 6);
    CHECK_CHOICE(two_sockets(), "6,0", 6, 0);
    CHECK_CHOICE(two_sockets(), "3-3", 3);
    CHECK_CHOICE(two_sockets(), "pu:7", 7);
}

BOOST_AUTO_TEST_CASE(objects_give_one_cpu_for_each_of_their_cores) {
    CHECK_CHOICE(two_sockets(), "numa:1", 8, 10, 12, 14);
    CHECK_CHOICE(two_sockets(), "package:0", 0, 2, 4, 6);
    CHECK_CHOICE(two_sockets(), "core:2-5", 4, 6, 8, 10);
    CHECK_CHOICE(two_sockets(), "all", 0, 2, 4, 6, 8, 10, 12, 14);
}

BOOST_AUTO_TEST_CASE(a_prefix_holds_until_the_next_one) {
    CHECK_CHOICE(two_sockets(), "core:0-1,4,pu:15,13", 0, 2, 8, 15, 13);
}

BOOST_AUTO_TEST_CASE(a_core_whose_first_thread_is_forbidden_is_used_through_its_second) {
    const unsigned allowed[] = {1, 2};
    CHECK_CHOICE(machine::synthetic("core:2 pu:2", allowed), "core:0-1", 1, 2);
    CHECK_CHOICE(machine::synthetic("core:2 pu:2", allowed), "2", 1, 2);
}

BOOST_AUTO_TEST_CASE(what_does_not_exist_is_named) {
    const machine two_cores = machine::synthetic("core:2 pu:1");
    BOOST_TEST(refusal(two_cores, "0-3") == "CPUs 2-3 do not exist; this machine has CPUs 0-1");
    BOOST_TEST(refusal(two_cores, "2-2") == "CPU 2 does not exist; this machine has CPUs 0-1");
    BOOST_TEST(refusal(two_cores, "core:7") == "core 7 does not exist; this machine has cores 0-1");
    BOOST_TEST(refusal(two_cores, "numa:1") == "NUMA node 1 does not exist; this machine has NUMA node 0");
    BOOST_TEST(refusal(two_cores, "package:3") == "package 3 does not exist; this machine has package 0");
    BOOST_TEST(refusal(two_cores, "1-4000000000") == "CPUs 2-65 do not exist; this machine has CPUs 0-1");
    BOOST_TEST(refusal(two_cores, "4000000000-4000000000") == "CPU 4000000000 does not exist; this machine has CPUs 0-1");
}

BOOST_AUTO_TEST_CASE(what_the_cgroup_forbids_is_named) {
    const unsigned allowed[] = {1, 2};
    const machine restricted = machine::synthetic("core:4 pu:1", allowed);
    BOOST_TEST(refusal(restricted, "3-3") ==
               "CPU 3 is not allowed to this process: its cgroup or affinity mask allows CPUs 1-2");
    BOOST_TEST(refusal(restricted, "core:0") ==
               "core 0 is not allowed to this process: its cgroup or affinity mask allows CPUs 1-2");
    BOOST_TEST(refusal(restricted, "3") ==
               "3 cores are asked for, but this process may use 2: CPUs 1-2 (this machine has 4)");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused) {
    const machine m = machine::synthetic("core:4 pu:1");
    for (const char* text : {"", "x", "1,", ",", "core:", "1-", "-1", "3-1", "cores:1", "1 2", "99999999999", "core:0-1-2"})
        BOOST_TEST(refusal(m, text) != "accepted", "'" << text << "' was accepted");
    BOOST_TEST(refusal(m, "0") == "0 cores are too few: at least one shard is needed");
    BOOST_TEST(refusal(m, "0,1,0") == "'0,1,0' names CPU 0 twice; a shard needs a CPU of its own");
    BOOST_TEST(refusal(m, "3-1") == "'3-1' is not a choice of cores: 3-1 runs backwards");
}

BOOST_AUTO_TEST_SUITE_END()
