// The kernel joins the groups that our sockets join over a port of its interface, once for all shards, and leaves with the last.
// ctest: root=yes resource_lock=network_namespaces timeout=60
#include <corewire/apps/runtime/group_host.hh>

#include "tests/support/netns.hh"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <net/if.h>
#include <sstream>

using namespace corewire;
using namespace corewire::test;

namespace {

/// What the kernel says of its memberships in this thread's namespace (igmp, igmp6).
bool kernel_is_member(const char* file, const std::string& group) {
    std::ifstream in(std::string("/proc/thread-self/net/") + file);
    std::stringstream all;
    all << in.rdbuf();
    return all.str().find(group) != std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_SUITE(group_host_memberships)

BOOST_AUTO_TEST_CASE(the_kernel_is_a_member_while_any_shard_is) {
    if (!have_root()) return;
    network_namespace ours, peer;
    veth_pair link{ours, "10.9.0.1/24", peer, "10.9.0.2/24"};
    const network_namespace::scope inside(ours);
    const unsigned index = ::if_nametoindex(link.first().c_str());
    BOOST_REQUIRE(index != 0u);
    const ipv4 feed(239, 1, 2, 3);
    const std::string told = "030201EF"; // as the kernel prints it
    {
        group_host groups(nullptr, nullptr, index);
        BOOST_TEST(!kernel_is_member("igmp", told));
        BOOST_TEST((groups.on_join(feed) && groups.on_join(feed)));
        BOOST_TEST(kernel_is_member("igmp", told));
        groups.on_leave(feed);
        BOOST_TEST(kernel_is_member("igmp", told)); // another shard's
        groups.on_leave(feed);
        BOOST_TEST(!kernel_is_member("igmp", told));
        groups.on_leave(feed); // nobody's
        BOOST_TEST(groups.on_join(feed));
    }
    BOOST_TEST(!kernel_is_member("igmp", told)); // nothing is left when the run ends
    group_host nowhere(nullptr, nullptr, 4711);
    BOOST_TEST(!nowhere.on_join(feed));
    BOOST_TEST(!nowhere.on_join(*ipv6::parse("ff05::4321")));
}

BOOST_AUTO_TEST_SUITE_END()
