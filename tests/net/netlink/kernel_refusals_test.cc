// The kernel's routes that refuse what would go there (blackholes and the like), followed live.
// ctest: root=yes resource_lock=network_namespaces timeout=60 processors=2
#include "followed_kernel.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace mirror_test;
using corewire::test::have_root;

namespace {

const prefix far(ip_prefix(ipv4(198, 51, 100, 0), 24));

std::ptrdiff_t refusals(const notes& told) { return std::ranges::count_if(told.routes, &route_change::refuses); }

/// To 198.51.100.0/24, in order: last octets of the gateways, "no" for one that refuses.
std::string ways(const notes& told) {
    std::string out;
    for (const route_change& r : told.routes)
        if (r.destination == far) out += (out.empty() ? "" : " ") + (r.refuses ? "no" : std::to_string(r.gateway.v4().value() & 255));
    return out;
}

/// They are so after `command`, and whoever comes then is told the same.
void become(followed& f, const std::string& command, const std::string& wanted) {
    f.ip("route " + command);
    BOOST_TEST(f.eventually([&] { return ways(f.told) == wanted; }), command << ": " << ways(f.told));
    notes later;
    const corewire::kernel_mirror another(f.loop, f.interface, f.addresses, later);
    BOOST_TEST(ways(later) == wanted);
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_refusals)

BOOST_AUTO_TEST_CASE(one_that_is_added_stands_among_the_routes_with_its_destination) {
    if (!have_root()) return;
    for (const std::string kind : {"blackhole", "unreachable", "prohibit", "throw"}) {
        followed f;
        become(f, "add 198.51.100.0/24 via 10.9.0.2", "2");
        become(f, "prepend " + kind + " 198.51.100.0/24", "no 2");
        become(f, "replace 198.51.100.0/24 via 10.9.0.3", "3 2"); // the first, which is not ours
        become(f, "append " + kind + " 198.51.100.0/24", "3 2 no");
        become(f, "del 198.51.100.0/24 via 10.9.0.3", "2 no");
        become(f, "replace " + kind + " 198.51.100.0/24 metric 5", "2 no no");
        BOOST_TEST(f.told.routes.back().metric == 5u);
        become(f, "del " + kind + " 198.51.100.0/24 metric 5", "2 no");
        become(f, "del " + kind + " 198.51.100.0/24", "2");
        BOOST_TEST(f.mirror.statistics().resyncs == 0u);
    }
}

BOOST_AUTO_TEST_CASE(two_that_refuse_alike_are_one_until_both_have_gone) {
    if (!have_root()) return;
    followed f;
    f.ip("route add prohibit 198.51.100.0/24");
    become(f, "append blackhole 198.51.100.0/24", "no");
    f.ip("route del prohibit 198.51.100.0/24");
    BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs == 1 && f.mirror.is_current(); }));
    BOOST_TEST(ways(f.told) == "no");
    become(f, "del blackhole 198.51.100.0/24", "");
}

BOOST_AUTO_TEST_CASE(a_link_that_goes_down_takes_none_of_them_along) {
    if (!have_root()) return;
    followed f;
    f.ip("route add blackhole 198.51.101.0/24");
    become(f, "add 198.51.100.0/24 via 10.9.0.2", "2");
    f.ip("link set cwa0 down");
    BOOST_TEST(f.eventually([&] { return ways(f.told).empty(); }));
    BOOST_TEST(refusals(f.told) == 1);
}

BOOST_AUTO_TEST_CASE(many_of_them_leave_room_for_routes_that_lead_somewhere) {
    if (!have_root()) return;
    followed f;
    constexpr std::ptrdiff_t most = corewire::kernel_mirror::max_refusals, all = most + 100;
    const auto each = [&](const char* what, std::ptrdiff_t count) {
        f.ours.check("for i in $(seq 0 " + std::to_string(count - 1) + "); do echo route " + what +
                     " blackhole 198.18.$((i / 250)).$((i % 250))/32; done | ip -batch -");
    };
    each("add", all);
    become(f, "add 198.51.100.0/24 via 10.9.0.2", "2");
    BOOST_TEST(refusals(f.told) == most);
    BOOST_TEST(f.told.left_out == 100);
    notes later;
    const corewire::kernel_mirror another(f.loop, f.interface, f.addresses, later);
    BOOST_TEST((refusals(later) == most && later.left_out == 100));
    each("del", 150); // there is room for the others
    BOOST_TEST(f.eventually([&] { return refusals(f.told) == all - 150; }));
}

BOOST_AUTO_TEST_CASE(those_of_ipv6_come_and_go_too) {
    if (!have_root() || !have_ipv6()) return;
    followed f;
    const prefix far6(*ipv6::parse("2001:db8:5::"), 48);
    const auto refused = [&] { return f.told.to(far6) != nullptr && f.told.to(far6)->refuses; };
    f.ip("-6 route add blackhole 2001:db8:5::/48");
    BOOST_TEST(f.eventually(refused));
    notes later;
    const corewire::kernel_mirror another(f.loop, f.interface, f.addresses, later);
    BOOST_TEST((later.to(far6) != nullptr && later.to(far6)->refuses));
    f.ip("-6 route replace 2001:db8:5::/48 via 2001:db8::2");
    BOOST_TEST(f.eventually([&] { return f.told.to(far6) != nullptr && !refused(); }));
    f.ip("-6 route replace unreachable 2001:db8:5::/48");
    BOOST_TEST(f.eventually(refused));
    BOOST_TEST(std::ranges::count(f.told.routes, far6, &route_change::destination) == 1);
    f.ip("-6 route del unreachable 2001:db8:5::/48");
    BOOST_TEST(f.eventually([&] { return f.told.to(far6) == nullptr; }));
}

BOOST_AUTO_TEST_SUITE_END()
