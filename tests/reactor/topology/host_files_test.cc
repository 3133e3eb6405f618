// What /sys and /proc say, in a tree that the test makes: isolated CPUs, the cgroup's quota in both versions, queues.
#include <corewire/reactor/topology/host_files.hh>
#include <corewire/reactor/topology/machine.hh>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

using namespace corewire;
namespace fs = std::filesystem;

namespace {

struct tree {
    tree() { fs::create_directories(root); }
    ~tree() { fs::remove_all(root); }
    void file(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }
    std::string root = (fs::current_path() / ("host_files_test." + std::to_string(::getpid()))).string();
};

} // namespace

BOOST_AUTO_TEST_SUITE(host_files)

BOOST_AUTO_TEST_CASE(isolated_and_tickless_cpus_are_read) {
    const tree t;
    t.file("/sys/devices/system/cpu/isolated", "2-5,8\n");
    t.file("/sys/devices/system/cpu/nohz_full", "2-3\n");
    const cpu_facts facts = read_cpu_facts(t.root);
    BOOST_TEST(facts.isolated == (std::vector<unsigned>{2, 3, 4, 5, 8}), boost::test_tools::per_element());
    BOOST_TEST(facts.tickless == (std::vector<unsigned>{2, 3}), boost::test_tools::per_element());
    BOOST_TEST(!facts.quota);
}

BOOST_AUTO_TEST_CASE(a_host_that_says_nothing_has_nothing) {
    const tree t;
    t.file("/sys/devices/system/cpu/isolated", "\n");
    t.file("/sys/devices/system/cpu/nohz_full", "(null)\n");
    const cpu_facts facts = read_cpu_facts(t.root);
    BOOST_TEST(facts.isolated.empty());
    BOOST_TEST(facts.tickless.empty());
    BOOST_TEST(!read_cpu_facts("/nonexistent").quota);
    BOOST_TEST(interface_queues("eth0", t.root) == 0u);
    BOOST_TEST(interface_names(t.root).empty());
}

BOOST_AUTO_TEST_CASE(the_tightest_quota_on_the_way_up_counts) {
    const tree t;
    t.file("/proc/self/cgroup", "1:name=systemd:/\n0::/kube/pod/box\n");
    t.file("/sys/fs/cgroup/cpu.max", "max 100000\n");
    t.file("/sys/fs/cgroup/kube/cpu.max", "800000 100000\n");
    t.file("/sys/fs/cgroup/kube/pod/cpu.max", "350000 100000\n");
    t.file("/sys/fs/cgroup/kube/pod/box/cpu.max", "max 100000\n");
    BOOST_TEST(read_cpu_facts(t.root).quota.value() == 3.5);
}

BOOST_AUTO_TEST_CASE(version_1_has_two_files) {
    const tree t;
    t.file("/proc/self/cgroup", "4:cpu,cpuacct:/box\n0::/\n");
    t.file("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "400000\n");
    t.file("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    BOOST_TEST(read_cpu_facts(t.root).quota.value() == 4.0);
    t.file("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
    BOOST_TEST(!read_cpu_facts(t.root).quota);
}

BOOST_AUTO_TEST_CASE(a_quota_is_one_that_a_machine_takes_or_none) {
    const tree t;
    t.file("/proc/self/cgroup", "0::/\n");
    const auto quota_of = [&](const char* text) {
        t.file("/sys/fs/cgroup/cpu.max", text);
        return read_cpu_facts(t.root).quota;
    };
    const auto taken = [](double quota) { // as machine::detect() keeps it
        std::string xml = machine::synthetic("core:2 pu:1").to_xml();
        xml.insert(xml.find("<info "), fmt::format("<info name=\"CorewireCpuQuota\" value=\"{:.2f}\"/>", quota));
        return machine::from_xml(xml).quota().value();
    };
    for (const char* small : {"1000 1000000", "4999 1000000", "1 4000000000", "10000 1000000"}) {
        BOOST_TEST(quota_of(small).value() == 0.01, small);
        BOOST_TEST(taken(quota_of(small).value()) == 0.01, small);
    }
    BOOST_TEST(taken(quota_of("819200000 100000").value()) == 8192.0);
    for (const char* no_limit : {"1000000000 100000", "819200001 100000", "4000000000 1"}) BOOST_TEST(!quota_of(no_limit), no_limit);
    for (const double odd : {0.0, -1.0, 8192.01}) BOOST_CHECK_THROW(taken(odd), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(interfaces_and_their_queues_are_counted) {
    const tree t;
    for (const char* queue : {"rx-0", "rx-1", "tx-0"}) fs::create_directories(t.root + "/sys/class/net/eth0/queues/" + queue);
    fs::create_directories(t.root + "/sys/class/net/cw0");
    BOOST_TEST(interface_queues("eth0", t.root) == 2u);
    BOOST_TEST(interface_names(t.root) == (std::vector<std::string>{"cw0", "eth0"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_file_without_end_is_read_to_its_bound) {
    BOOST_TEST(read_small_file("/dev/zero").value().size() == 65'536u);
    BOOST_TEST(!read_small_file("/nonexistent"));
}

BOOST_AUTO_TEST_SUITE_END()
