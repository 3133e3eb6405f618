// The kernel's routes and neighbours followed live, in a namespace of the test's own.
// ctest: root=yes resource_lock=network_namespaces timeout=60
#include <corewire/net/netlink/kernel_mirror.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <map>

using namespace corewire;
using namespace corewire::netlink;
using corewire::test::have_root;
using corewire::test::network_namespace;
using corewire::test::veth_pair;

namespace {

struct notes final : kernel_follower {
    void on_routes(std::span<const route_change> now) override { routes.assign(now.begin(), now.end()); }
    void on_neighbor(const neighbor_change& n) override { neighbors[n.address.value()] = n; }
    void on_address_gone() override { ++gone; }
    std::vector<route_change> routes;
    std::map<std::uint32_t, neighbor_change> neighbors;
    int gone = 0;

    const route_change* to(ip_prefix destination) const {
        const auto found = std::ranges::find(routes, destination, &route_change::destination);
        return found == routes.end() ? nullptr : &*found;
    }
    neighbor_word word(ipv4 a) const {
        const auto found = neighbors.find(a.value());
        return found == neighbors.end() ? neighbor_word::unknown : found->second.word;
    }
};

struct followed {
    network_namespace ours, peer;
    veth_pair link{ours, "10.9.0.1/24", peer, "10.9.0.2/24"};
    network_namespace::scope inside{ours};
    reactor loop;
    reactor::scope here{loop};
    notes told;
    unsigned interface = query_interface(link.first()).index;
    kernel_mirror mirror{loop, interface, us, told};

    static constexpr ipv4 us{10, 9, 0, 1}, them{10, 9, 0, 2}, nobody{10, 9, 0, 99};

    template <typename Condition>
    bool eventually(Condition condition) {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!condition() && std::chrono::steady_clock::now() < give_up) loop.poll_once();
        return condition();
    }
    void ip(const std::string& what) { ours.check("ip " + what); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_mirror)

BOOST_AUTO_TEST_CASE(what_there_is_is_told_at_once) {
    if (!have_root()) return;
    followed f;
    BOOST_REQUIRE(f.told.to(ip_prefix(ipv4(10, 9, 0, 0), 24)) != nullptr);
    BOOST_TEST(f.told.to(ip_prefix(ipv4(10, 9, 0, 0), 24))->gateway.is_any());
    BOOST_TEST(f.told.gone == 0);
    const auto addresses = kernel_addresses(f.interface);
    BOOST_REQUIRE_EQUAL(addresses.size(), 1u);
    BOOST_TEST((addresses.front() == ip_prefix(followed::us, 24)));
    BOOST_TEST(f.mirror.statistics().malformed == 0u);
}

BOOST_AUTO_TEST_CASE(routes_come_change_and_go) {
    if (!have_root()) return;
    followed f;
    const ip_prefix far(ipv4(198, 51, 100, 0), 24);
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.to(far) != nullptr && f.told.to(far)->gateway == followed::them; }));
    f.ip("route replace 198.51.100.0/24 via 10.9.0.99");
    BOOST_TEST(f.eventually([&] { return f.told.to(far)->gateway == followed::nobody; }));
    BOOST_TEST(std::ranges::count(f.told.routes, far, &route_change::destination) == 1);
    f.ip("route del 198.51.100.0/24");
    BOOST_TEST(f.eventually([&] { return f.told.to(far) == nullptr; }));
    f.ip("route add default via 10.9.0.2 metric 50");
    BOOST_TEST(f.eventually([&] { return f.told.to(ip_prefix(ipv4::any(), 0)) != nullptr; }));
    BOOST_TEST(f.told.to(ip_prefix(ipv4::any(), 0))->metric == 50u);
    f.ip("route add 203.0.113.0/24 dev lo"); // another interface's
    f.ip("route add 203.0.114.0/24 via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.to(ip_prefix(ipv4(203, 0, 114, 0), 24)) != nullptr; }));
    BOOST_TEST(f.told.to(ip_prefix(ipv4(203, 0, 113, 0), 24)) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_neighbor_that_is_asked_for_is_resolved_by_the_kernel) {
    if (!have_root()) return;
    followed f;
    BOOST_TEST((f.told.word(followed::them) == neighbor_word::unknown));
    f.mirror.ask(followed::them);
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::them) != neighbor_word::unknown; }));
    const network_namespace::scope there(f.peer);
    BOOST_TEST((f.told.neighbors[followed::them.value()].mac == query_interface(f.link.second()).mac));
}

BOOST_AUTO_TEST_CASE(a_neighbor_that_the_kernel_knows_is_told_when_asked_for) {
    if (!have_root()) return;
    followed f;
    f.ip("neighbour replace 10.9.0.99 lladdr 02:00:00:00:00:99 dev cwa0 nud permanent");
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::permanent; }));
    f.told.neighbors.clear();
    f.mirror.ask(followed::nobody);
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::permanent; }));
    f.ip("neighbour replace 10.9.0.99 lladdr 02:00:00:00:00:98 dev cwa0 nud permanent");
    const mac_address changed(0x02'00'00'00'00'98);
    BOOST_TEST(f.eventually([&] { return f.told.neighbors[followed::nobody.value()].mac == changed; }));
    f.ip("neighbour del 10.9.0.99 dev cwa0");
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::unknown; }));
}

BOOST_AUTO_TEST_CASE(an_address_that_goes_is_told) {
    if (!have_root()) return;
    followed f;
    f.ip("address add 10.9.0.7/24 dev cwa0");
    f.ip("address del 10.9.0.7/24 dev cwa0");
    f.ip("address del 10.9.0.1/24 dev cwa0");
    BOOST_TEST(f.eventually([&] { return f.told.gone == 1; }));
    f.ip("address add 10.9.0.1/24 dev cwa0");
    f.ip("address del 10.9.0.1/24 dev cwa0");
    BOOST_TEST(f.eventually([&] { return f.told.gone == 2; }));
}

BOOST_AUTO_TEST_CASE(what_was_said_too_fast_is_asked_for_anew) {
    if (!have_root()) return;
    followed f;
    // More than the socket holds, while nobody listens: 4 x 1000 routes come and go, one stays.
    f.ours.check("for r in 1 2 3 4; do for w in add del; do for i in $(seq 0 999); do "
                 "echo route $w 198.18.$((i / 250)).$((i % 250))/32 via 10.9.0.2; done; done; done | ip -batch -");
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.to(ip_prefix(ipv4(198, 51, 100, 0), 24)) != nullptr; }));
    BOOST_TEST(f.eventually([&] { return f.told.routes.size() == 2; })); // and the link's own
    BOOST_TEST(f.mirror.statistics().resyncs >= 1u);
}

BOOST_AUTO_TEST_SUITE_END()
