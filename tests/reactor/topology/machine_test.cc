// The machine: what hwloc's synthetic topologies and this host look like through it.
#include <corewire/reactor/topology/machine.hh>

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <thread>

#include <corewire/reactor/topology/pinning.hh>

using corewire::format_ranges;

BOOST_AUTO_TEST_SUITE(machine)

BOOST_AUTO_TEST_CASE(two_sockets_with_hyperthreads_are_counted) {
    const auto m = corewire::machine::synthetic("package:2 numa:1 core:4 pu:2");
    BOOST_TEST(m.processing_units().size() == 16u);
    BOOST_TEST(m.core_count() == 8u);
    BOOST_TEST(m.numa_node_count() == 2u);
    BOOST_TEST(m.package_count() == 2u);
    BOOST_TEST(m.allowed_count() == 16u);
}

BOOST_AUTO_TEST_CASE(each_unit_knows_its_core_node_and_package) {
    const auto m = corewire::machine::synthetic("package:2 numa:1 core:4 pu:2");
    const corewire::processing_unit* unit = m.find(11);
    BOOST_REQUIRE(unit != nullptr);
    BOOST_TEST(unit->core == 5u);
    BOOST_TEST(unit->numa_node == 1u);
    BOOST_TEST(unit->package == 1u);
    BOOST_TEST(m.find(16) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_restricted_process_sees_the_rest_as_not_allowed) {
    const unsigned allowed[] = {1, 2};
    const auto m = corewire::machine::synthetic("core:4 pu:1", allowed);
    BOOST_TEST(m.processing_units().size() == 4u);
    BOOST_TEST(m.allowed_count() == 2u);
    BOOST_TEST(!m.find(0)->allowed);
    BOOST_TEST(m.find(2)->allowed);
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused) {
    BOOST_CHECK_THROW(corewire::machine::synthetic("castle:3"), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(this_host_allows_exactly_what_the_kernel_lets_this_thread_use) {
    const auto m = corewire::machine::detect();
    BOOST_TEST(m.allowed_count() == corewire::this_thread_cpus().size());
}

BOOST_AUTO_TEST_CASE(a_pinned_thread_runs_on_its_cpu_only_and_is_free_again_afterwards) {
    const auto m = corewire::machine::detect();
    const std::vector<unsigned> before = corewire::this_thread_cpus();
    const unsigned last = before.back();
    {
        const corewire::thread_pinning pinning(m, last);
        BOOST_TEST(corewire::this_thread_cpus() == std::vector<unsigned>{last}, boost::test_tools::per_element());
        // What detect() says then is the truth for this thread: it may use one CPU.
        BOOST_TEST(corewire::machine::detect().allowed_count() == 1u);
    }
    BOOST_TEST(corewire::this_thread_cpus() == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(pinning_to_a_cpu_that_does_not_exist_throws_and_names_it) {
    const auto m = corewire::machine::detect();
    try {
        const corewire::thread_pinning pinning(m, 4095);
        BOOST_ERROR("pinned to CPU 4095");
    } catch (const std::system_error& error) {
        BOOST_TEST(std::string{error.what()}.find("CPU 4095") != std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(numbers_are_written_as_ranges) {
    BOOST_TEST(format_ranges({}) == "");
    BOOST_TEST(format_ranges({5}) == "5");
    BOOST_TEST(format_ranges({6, 0, 1, 2, 3}) == "0-3,6");
    BOOST_TEST(format_ranges({0, 2, 4, 5}) == "0,2,4-5");
}

BOOST_AUTO_TEST_SUITE_END()
