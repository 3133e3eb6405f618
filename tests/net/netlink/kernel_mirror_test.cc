// The kernel's routes and neighbours followed live, in a namespace of the test's own.
// ctest: root=yes resource_lock=network_namespaces timeout=120 processors=2
#include "followed_kernel.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <liburing.h>
#include <utility>
#include <vector>

using namespace mirror_test;
using corewire::test::have_root;

namespace {

/// Has the kernel say something after the news of a turn has been taken in, and before its timers.
struct late_word final : poller {
    explicit late_word(std::function<void()> word) : say(std::move(word)) {}
    bool poll(time_point) override {
        if (say) std::exchange(say, nullptr)();
        return true;
    }
    std::function<void()> say;
};

bool proven_link_local(const address_change& a) {
    return !a.address.is_v4() && a.address.address.v6().is_link_local() && a.proven;
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_mirror)

BOOST_AUTO_TEST_CASE(what_there_is_is_told_at_once) {
    if (!have_root()) return;
    followed f;
    BOOST_REQUIRE(f.told.to(ip_prefix(ipv4(10, 9, 0, 0), 24)) != nullptr);
    BOOST_TEST(f.told.to(ip_prefix(ipv4(10, 9, 0, 0), 24))->gateway.is_any());
    BOOST_TEST(f.told.gone == 0);
    const auto addresses = kernel_addresses(f.interface);
    BOOST_REQUIRE(!addresses.empty());
    BOOST_TEST((addresses.front().address == prefix(ip_prefix(followed::us, 24)) && addresses.front().usable));
    BOOST_TEST(f.mirror.statistics().malformed == 0u);
    if (!have_ipv6()) return;
    BOOST_TEST(std::ranges::count(addresses, prefix(followed::us6(), 64), &address_change::address) == 1);
    BOOST_TEST((f.told.to(prefix(*ipv6::parse("2001:db8::"), 64)) != nullptr));
}

BOOST_AUTO_TEST_CASE(an_address_that_is_deprecated_is_told_as_such) {
    if (!have_root() || !have_ipv6()) return;
    followed f;
    f.ip("address add 2001:db8::9/128 dev cwa0 nodad preferred_lft 0");
    const auto addresses = kernel_addresses(f.interface);
    const auto found = std::ranges::find(addresses, prefix(*ipv6::parse("2001:db8::9"), 128), &address_change::address);
    BOOST_REQUIRE((found != addresses.end()));
    BOOST_TEST((!found->usable && found->proven));
}

BOOST_AUTO_TEST_CASE(routes_come_change_and_go) {
    if (!have_root()) return;
    followed f;
    const prefix far(ip_prefix(ipv4(198, 51, 100, 0), 24));
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

BOOST_AUTO_TEST_CASE(sizes_of_routes_and_of_the_interface_are_followed) {
    if (!have_root()) return;
    followed f;
    BOOST_TEST(f.told.link_mtu == 1500u);
    const auto follows = [&](const std::string& route, const prefix& to) {
        f.ip("route add " + route + " mtu lock 1400 advmss 1000");
        BOOST_TEST(f.eventually([&] { return f.told.to(to) != nullptr; }));
        BOOST_TEST((f.told.to(to)->mtu == 1400u && f.told.to(to)->segment == 1000u));
        f.ip("route replace " + route + " mtu 1300"); // the same but for that
        BOOST_TEST(f.eventually([&] { return f.told.to(to) != nullptr && f.told.to(to)->mtu == 1300u; }));
        BOOST_TEST(f.told.to(to)->segment == 0u);
    };
    follows("198.51.100.0/24 via 10.9.0.2", ip_prefix(ipv4(198, 51, 100, 0), 24));
    if (kernel_has_ipv6()) follows("2001:db8:5::/48 via 2001:db8::2", ipv6_prefix(*ipv6::parse("2001:db8:5::"), 48));
    f.ip("link set cwa0 mtu 1350");
    BOOST_TEST(f.eventually([&] { return f.told.link_mtu == 1350u; }));
}

BOOST_AUTO_TEST_CASE(a_route_of_ipv4_that_moves_to_another_interface_or_nowhere_is_gone) {
    if (!have_root()) return;
    followed f;
    for (const auto& [third, elsewhere] : {std::pair{100, "%/24 dev lo"}, {101, "blackhole %/24"}}) {
        const prefix far(ip_prefix(ipv4(198, 51, static_cast<std::uint8_t>(third), 0), 24));
        const auto there = [&] { return f.told.to(far) != nullptr; };
        const std::string name = "198.51." + std::to_string(third) + ".0";
        f.ip("route add " + name + "/24 via 10.9.0.2");
        f.ip("route add " + name + "/24 via 10.9.0.99 metric 7"); // another route
        BOOST_TEST(f.eventually([&] { return std::ranges::count(f.told.routes, far, &route_change::destination) == 2; }));
        f.ip("route replace " + std::string(elsewhere).replace(std::string(elsewhere).find('%'), 1, name));
        BOOST_TEST(f.eventually([&] { return there() && f.led() == 1; }));
        f.ip("route replace " + name + "/24 via 10.9.0.2"); // and back
        BOOST_TEST(f.eventually([&] { return std::ranges::count(f.told.routes, far, &route_change::destination) == 2 && f.led() == 2; }));
        f.ip("route del " + name + "/24 metric 7");
        f.ip("route del " + name + "/24");
        BOOST_TEST(f.eventually([&] { return !there(); }));
    }
    BOOST_TEST(f.mirror.statistics().resyncs == 0u);
}

BOOST_AUTO_TEST_CASE(of_routes_of_ipv4_with_one_destination_and_metric_the_kernels_choice_comes_first) {
    if (!have_root()) return;
    followed f;
    const prefix far(ip_prefix(ipv4(198, 51, 100, 0), 24));
    const auto last_octets = [&](const notes& told) {
        std::string out;
        for (const route_change& r : told.routes)
            if (r.destination == far) out += ' ' + std::to_string(r.gateway.v4().value() & 255);
        return out;
    };
    const auto become = [&](const char* what, const std::string& wanted) {
        f.ip(std::string("route ") + what);
        BOOST_TEST(f.eventually([&] { return last_octets(f.told) == wanted; }), what << ":" << last_octets(f.told));
        notes later; // who comes now is told the same
        const corewire::kernel_mirror another(f.loop, f.interface, f.addresses, later);
        BOOST_TEST(last_octets(later) == wanted);
    };
    become("add 198.51.100.0/24 via 10.9.0.2", " 2");
    become("append 198.51.100.0/24 via 10.9.0.3", " 2 3");
    become("prepend 198.51.100.0/24 via 10.9.0.4", " 4 2 3");
    become("replace 198.51.100.0/24 via 10.9.0.5", " 5 2 3");
    become("del 198.51.100.0/24 via 10.9.0.2", " 5 3");
    become("replace 198.51.100.0/24 dev lo", " 3");
    become("del 198.51.100.0/24 via 10.9.0.3", "");
    // Of two routes that have a way in common the one that is deleted goes, and no more.
    f.ip("route flush 198.51.100.0/24");
    const std::string both = " nexthop via 10.9.0.2 dev cwa0 nexthop via 10.9.0.3 dev cwa0";
    become(("add 198.51.100.0/24" + both).c_str(), " 2 3");
    become("append 198.51.100.0/24 via 10.9.0.2", " 2 3 2");
    become(("del 198.51.100.0/24" + both).c_str(), " 2");
    become(("prepend 198.51.100.0/24" + both).c_str(), " 2 3 2");
    become("del 198.51.100.0/24 via 10.9.0.2", " 2"); // the first that has such a way first, and all of it
    become(("append 198.51.100.0/24" + both).c_str(), " 2 2 3");
    BOOST_TEST(f.mirror.statistics().resyncs == 0u);
    become("replace 198.51.100.0/24 via 10.9.0.4", " 4 2 3"); // once it was by another interface: it is looked at anew
    f.ip("route flush 198.51.100.0/24");
    BOOST_TEST(f.eventually([&] { return last_octets(f.told).empty(); }));
}

BOOST_AUTO_TEST_CASE(routes_that_look_alike_over_our_interface_are_told_apart_or_asked_for_anew) {
    if (!have_root()) return;
    two_links f;
    const char* const by_both = "198.51.100.0/24 nexthop via 10.9.0.2 dev cwa0 nexthop via 10.8.0.2 dev other0";
    for (const char* goes : {"198.51.100.0/24 via 10.9.0.2 dev cwa0", by_both}) { // the other one stays
        f.ip(std::string("route add ") + by_both);
        f.ip("route append 198.51.100.0/24 via 10.9.0.2 dev cwa0");
        BOOST_TEST(f.become("2 2"), f.ways());
        f.ip(std::string("route del ") + goes);
        BOOST_TEST(f.become("2"), f.ways());
        BOOST_TEST((f.mirror.statistics().resyncs == 0u && f.told.fewest != 0));
        f.ip("route flush 198.51.100.0/24");
        BOOST_TEST(f.become(""));
    }
    // Two of which the source alone differs are one here, until both have gone.
    f.ip("address add 10.9.0.7/32 dev cwa0");
    f.ip("route add 198.51.100.0/24 via 10.9.0.2 src 10.9.0.1");
    f.ip("route append 198.51.100.0/24 via 10.9.0.2 src 10.9.0.7");
    BOOST_TEST(f.become("2"), f.ways());
    f.ip("route del 198.51.100.0/24 via 10.9.0.2 src 10.9.0.1");
    BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs == 1 && f.mirror.is_current(); }));
    BOOST_TEST(f.ways() == "2");
    f.ip("route del 198.51.100.0/24 via 10.9.0.2 src 10.9.0.7");
    BOOST_TEST(f.become(""), f.ways());
}

BOOST_AUTO_TEST_CASE(a_route_that_is_replaced_may_have_been_of_another_interface) {
    if (!have_root()) return;
    for (const auto& [by, ways] : {std::pair{"via 10.8.0.3 dev other0", "2"}, {"via 10.9.0.3 dev cwa0", "3 2"}}) {
        two_links f;
        f.ip("route add 198.51.100.0/24 via 10.8.0.2 dev other0");
        f.ip("route append 198.51.100.0/24 via 10.9.0.2 dev cwa0");
        BOOST_TEST(f.become("2"), f.ways());
        f.ip(std::string("route replace 198.51.100.0/24 ") + by); // its first one
        BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs == 1 && f.mirror.is_current(); }));
        BOOST_TEST(f.ways() == ways);
    }
}

BOOST_AUTO_TEST_CASE(a_route_of_ipv6_that_is_replaced_elsewhere_leaves_ours) { // fib6_add_rt2node() replaces one
    if (!have_root() || !have_ipv6()) return;
    two_links f;
    with_ipv6(f.ours, "other0", "2001:db8:8::1/64");
    const prefix to(*ipv6::parse("2001:db8:9::"), 64);
    f.ip("-6 route add 2001:db8:9::/64 dev other0 metric 256");
    f.ip("-6 route append 2001:db8:9::/64 dev cwa0 metric 256");
    BOOST_TEST(f.eventually([&] { return f.told.to(to) != nullptr; }));
    f.ip("-6 route replace 2001:db8:9::/64 dev other0 metric 256");
    f.ip("-6 route add 2001:db8:99::/64 dev cwa0"); // told behind it
    BOOST_TEST(f.eventually([&] { return f.told.to(prefix(*ipv6::parse("2001:db8:99::"), 64)) != nullptr; }));
    BOOST_TEST(f.eventually([&] { return f.told.to(to) != nullptr; }));
}

BOOST_AUTO_TEST_CASE(routes_over_a_next_hop_that_lost_its_carrier_go) { // the kernel flushes them without a word (nexthop_flush_dev())
    if (!have_root()) return;
    followed f;
    const prefix to(ipv4(198, 51, 100, 0), 24);
    f.ip("nexthop add id 7 via 10.9.0.2 dev cwa0");
    f.ip("route add 198.51.100.0/24 nhid 7");
    BOOST_TEST(f.eventually([&] { return f.told.to(to) != nullptr; }));
    f.peer.check("ip link set " + f.link.second() + " down");
    BOOST_TEST(f.eventually([&] { return f.told.to(to) == nullptr; }));
}

BOOST_AUTO_TEST_CASE(many_neighbors_are_asked_for_at_once) {
    if (!have_root()) return;
    followed f;
    for (unsigned i = 0; i < 200; ++i) f.mirror.ask(ipv4(10, 9, 0, static_cast<std::uint8_t>(20 + i)));
    const auto known = [&] { return f.ours.check("ip neighbour show dev cwa0 | grep -c '^10.9.0.' || true"); };
    for (int i = 0; i < 50; ++i) f.loop.poll_once();
    BOOST_TEST(std::stoi(known()) >= 190, known());
}

BOOST_AUTO_TEST_CASE(a_route_by_two_interfaces_goes_with_the_other_one) {
    if (!have_root()) return;
    two_links f;
    f.ip("route add 198.51.100.0/24 nexthop via 10.9.0.2 dev cwa0 nexthop via 10.8.0.2 dev other0");
    BOOST_TEST(f.become("2"), f.ways());
    f.ip("link del other0"); // without a word
    BOOST_TEST(f.become(""), f.ways());
}

BOOST_AUTO_TEST_CASE(a_neighbor_that_is_asked_for_is_resolved_by_the_kernel) {
    if (!have_root()) return;
    followed f;
    BOOST_TEST((f.told.word(followed::them) == neighbor_word::unknown));
    f.mirror.ask(followed::them);
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::them) != neighbor_word::unknown; }));
    const network_namespace::scope there(f.peer);
    BOOST_TEST((f.told.neighbors[to_string(followed::them)].mac == query_interface(f.link.second()).mac));
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
    BOOST_TEST(f.eventually([&] { return f.told.neighbors[to_string(followed::nobody)].mac == changed; }));
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
    if (!have_ipv6()) return;
    f.ip("address del 2001:db8::1/64 dev cwa0");
    BOOST_TEST(f.eventually([&] { return f.told.gone == 102; }));
}

BOOST_AUTO_TEST_CASE(several_routers_to_one_destination_come_and_go_as_the_kernel_says) {
    if (!have_root() || !have_ipv6()) return;
    followed f;
    const prefix all(ipv6::any(), 0);
    const net_address first = *ipv6::parse("fe80::11"), second = *ipv6::parse("fe80::22");
    const auto both = [&](const notes& told) { return std::ranges::count(told.routes, all, &route_change::destination) == 2; };
    const auto only = [&](const notes& told, const net_address& gateway) {
        return std::ranges::count(told.routes, all, &route_change::destination) == 1 && told.to(all)->gateway == gateway;
    };
    const auto appended = [&] {
        f.ip("-6 route append default via fe80::11 dev cwa0 metric 1024");
        f.ip("-6 route append default via fe80::22 dev cwa0 metric 1024");
        return f.eventually([&] { return both(f.told); });
    };
    BOOST_TEST(appended());
    f.ip("-6 route del default"); // one message about both
    BOOST_TEST(f.eventually([&] { return f.told.to(all) == nullptr; }));
    BOOST_TEST(appended());
    f.ip("-6 route replace default via fe80::11 dev cwa0 metric 1024"); // which is there: nothing is said of the other
    BOOST_TEST(f.eventually([&] { return only(f.told, first); }));
    f.ip("-6 route del default");
    f.ip("-6 route add default metric 1024 nexthop via fe80::11 dev cwa0 nexthop via fe80::22 dev cwa0");
    BOOST_TEST(f.eventually([&] { return both(f.told); }));
    notes later; // who comes when they are there
    corewire::kernel_mirror another(f.loop, f.interface, f.addresses, later);
    BOOST_TEST(both(later));
    f.ip("-6 route del default via fe80::11 dev cwa0");
    BOOST_TEST(f.eventually([&] { return only(f.told, second) && only(later, second); }));
}

BOOST_AUTO_TEST_CASE(routes_and_neighbours_of_ipv6_are_followed_too) {
    if (!have_root() || !have_ipv6()) return;
    followed f;
    const prefix all(ipv6::any(), 0);
    const net_address first = *ipv6::parse("fe80::11"), second = *ipv6::parse("fe80::22"), them6 = *ipv6::parse("2001:db8::2");
    const auto ways = [&] { return std::ranges::count(f.told.routes, all, &route_change::destination); };
    // Two routers: one goes, the other stays.
    f.ip("-6 route append default via fe80::11 dev cwa0 metric 1024");
    f.ip("-6 route append default via fe80::22 dev cwa0 metric 1024");
    BOOST_TEST(f.eventually([&] { return ways() == 2; }));
    f.ip("-6 route del default via fe80::22 dev cwa0");
    BOOST_TEST(f.eventually([&] { return ways() == 1 && f.told.to(all)->gateway == first; }));
    f.ip("-6 route replace default via fe80::22 dev cwa0 metric 1024");
    BOOST_TEST(f.eventually([&] { return ways() == 1 && f.told.to(all)->gateway == second; }));
    f.ip("-6 route del default");
    BOOST_TEST(f.eventually([&] { return ways() == 0; }));
    // Resolved by the kernel when it is asked to, and told when somebody sets it. It asks three times, a second apart, from its
    // link-local address, and says nothing as long as that is not proven.
    BOOST_TEST(f.eventually([&] { return std::ranges::any_of(kernel_addresses(f.interface), proven_link_local); }));
    with_ipv6(f.peer, f.link.second(), "2001:db8::2/64");
    BOOST_TEST((f.told.word(them6) == neighbor_word::unknown));
    f.mirror.ask(them6);
    BOOST_TEST(f.eventually([&] { return f.told.word(them6) != neighbor_word::unknown; }));
    f.ip("neighbour replace 2001:db8::99 lladdr 02:00:00:00:00:99 dev cwa0 nud permanent");
    BOOST_TEST(f.eventually([&] { return f.told.word(*ipv6::parse("2001:db8::99")) == neighbor_word::permanent; }));
    BOOST_TEST(f.mirror.statistics().malformed == 0u);
}

BOOST_AUTO_TEST_CASE(what_was_said_too_fast_is_asked_for_anew) {
    if (!have_root()) return;
    followed f;
    // More than the socket holds (two megabytes at most), while nobody listens: 2 x 1000 routes come and go, one stays.
    f.ours.check("for r in 1 2; do for w in add del; do for i in $(seq 0 999); do "
                 "echo route $w 198.18.$((i / 250)).$((i % 250))/32 via 10.9.0.2; done; done; done | ip -batch -");
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    f.ip("link set cwa0 mtu 1450");
    BOOST_TEST(f.eventually([&] { return f.told.to(ip_prefix(ipv4(198, 51, 100, 0), 24)) != nullptr; }));
    BOOST_TEST(f.eventually([&] { return f.told.of_ipv4() == 2; })); // and the link's own
    BOOST_TEST(f.told.link_mtu == 1450u);
    BOOST_TEST(f.mirror.statistics().resyncs >= 1u);
    BOOST_TEST(f.told.fewest >= 1u); // never none, though everything was asked for anew
}

BOOST_AUTO_TEST_CASE(a_neighbor_that_was_set_by_hand_and_went_unheard_is_told_as_unknown) {
    if (!have_root()) return;
    followed f;
    f.ip("neighbour replace 10.9.0.98 lladdr 02:00:00:00:00:98 dev cwa0 nud permanent");
    f.ip("neighbour replace 10.9.0.99 lladdr 02:00:00:00:00:99 dev cwa0 nud permanent");
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::permanent; }));
    f.ours.check("(for r in 1 2; do for w in add del; do for i in $(seq 0 999); do "
                 "echo route $w 198.18.$((i / 250)).$((i % 250))/32 via 10.9.0.2; done; done; done; "
                 "echo neighbour del 10.9.0.99 dev cwa0) | ip -batch -");
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::unknown; }));
    BOOST_TEST(f.mirror.statistics().resyncs >= 1u);
    BOOST_TEST((f.told.word(ipv4(10, 9, 0, 98)) == neighbor_word::permanent));
}

BOOST_AUTO_TEST_CASE(what_goes_with_the_link_without_a_word_is_gone) {
    if (!have_root()) return;
    followed f;
    const prefix far(ip_prefix(ipv4(198, 51, 100, 0), 24)), all(ip_prefix(ipv4::any(), 0)), link(ip_prefix(ipv4(10, 9, 0, 0), 24));
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    f.ip("route add default via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.to(far) != nullptr && f.told.to(all) != nullptr; }));
    f.ip("link set cwa0 down");
    BOOST_TEST(f.eventually([&] { return f.told.of_ipv4() == 0; }));
    f.ip("link set cwa0 up");
    f.ip("route add default via 10.9.0.99 metric 50");
    BOOST_TEST(f.eventually([&] { return f.told.of_ipv4() == 2 && f.told.to(link) != nullptr && f.told.to(all) != nullptr; }));
    BOOST_TEST((f.told.to(all)->gateway == followed::nobody));
    // The same while nobody listens.
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.to(far) != nullptr; }));
    f.ip("link set cwa0 down");
    f.ip("link set cwa0 up");
    BOOST_TEST(f.eventually([&] { return f.told.of_ipv4() == 1 && f.told.to(link) != nullptr; }));
    BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs != 0 && f.mirror.is_current(); }));
    BOOST_TEST(f.told.of_ipv4() == 1);
}

BOOST_AUTO_TEST_CASE(what_goes_with_an_address_or_a_shared_next_hop_without_a_word_is_gone) {
    if (!have_root()) return;
    followed f;
    const prefix far(ip_prefix(ipv4(198, 51, 100, 0), 24));
    const auto there = [&] { return f.told.to(far) != nullptr; };
    f.ip("address add 10.9.0.7/32 dev cwa0");
    f.ip("route add 198.51.100.0/24 via 10.9.0.2 src 10.9.0.7");
    BOOST_TEST(f.eventually(there));
    f.ip("address del 10.9.0.7/32 dev cwa0");
    BOOST_TEST(f.eventually([&] { return !there(); }));
    f.ip("nexthop add id 7 via 10.9.0.2 dev cwa0");
    f.ip("route add 198.51.100.0/24 nhid 7");
    BOOST_TEST(f.eventually(there));
    f.ip("nexthop del id 7");
    BOOST_TEST(f.eventually([&] { return !there(); }));
}

BOOST_AUTO_TEST_CASE(news_that_comes_as_all_is_asked_for_does_not_put_that_off) {
    if (!have_root()) return;
    followed f;
    for (const char* address : {"10.9.0.7", "10.9.0.8"}) f.ip(std::string("address add ") + address + "/32 dev cwa0");
    BOOST_TEST(f.eventually([&] { return f.mirror.statistics().changes != 0; }));
    f.ip("address del 10.9.0.7/32 dev cwa0");
    const std::uint64_t heard = f.mirror.statistics().changes;
    BOOST_TEST(f.eventually([&] { return f.mirror.statistics().changes > heard; }));
    const auto due = std::chrono::steady_clock::now() + corewire::kernel_mirror::pause;
    while (std::chrono::steady_clock::now() < due) {}
    late_word again([&] { f.ip("address del 10.9.0.8/32 dev cwa0"); });
    f.loop.add_poller(again);
    f.loop.poll_once();
    BOOST_TEST(f.mirror.statistics().resyncs == 1u);
}

BOOST_AUTO_TEST_CASE(a_large_table_is_asked_for_in_many_turns_and_what_was_known_holds_meanwhile) {
    if (!have_root()) return;
    two_links f;
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    f.ours.check("for i in $(seq 0 19999); do echo route add 198.18.$((i / 250)).$((i % 250))/32 via 10.8.0.2; done | ip -batch -");
    BOOST_TEST(f.eventually([&] { return f.mirror.is_current() && f.ways() == "2"; }));
    for (const bool link_goes_down : {false, true}) {
        const std::uint64_t resyncs = f.mirror.statistics().resyncs;
        f.ip("address add 10.9.0.7/32 dev cwa0"); // when it goes, routes may go without a word
        f.ip("address del 10.9.0.7/32 dev cwa0");
        BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs > resyncs; }));
        BOOST_TEST((!f.mirror.is_current() && f.ways() == "2"));
        const int told = f.told.times;
        if (link_goes_down) f.ip("link set cwa0 down");
        int turns = 0;
        for (; !f.mirror.is_current() && turns < 100'000; ++turns) {
            f.loop.poll_once();
            if (link_goes_down && turns == 4) BOOST_TEST((f.ways().empty() && !f.mirror.is_current()));
            if (!link_goes_down && f.told.times == told) BOOST_TEST(f.ways() == "2");
        }
        BOOST_TEST((turns > 8 && turns < 100'000), turns);
        BOOST_TEST(f.ways() == (link_goes_down ? "" : "2"));
    }
}

BOOST_AUTO_TEST_CASE(a_route_that_found_no_room_is_told_when_another_has_gone) {
    if (!have_root()) return;
    followed f;
    constexpr std::ptrdiff_t limit = corewire::kernel_mirror::max_routes;
    f.ip("-6 route flush dev cwa0");
    f.ours.check("for i in $(seq 0 1029); do echo route add 198.18.$((i / 250)).$((i % 250))/32 via 10.9.0.2; done | ip -batch -");
    BOOST_TEST(f.eventually([&] { return f.told.left_out != 0 && std::ssize(f.told.routes) == limit; }));
    // As long as there are too many, it is asked more and more rarely, and none is told twice to be left out.
    const auto all_told = [&] { return f.told.to(ip_prefix(ipv4(198, 18, 4, 30), 32)) != nullptr; };
    for (const int wait : {1, 2}) {
        const auto before = std::chrono::steady_clock::now();
        const int left_out = f.told.left_out;
        const std::uint64_t resyncs = f.mirror.statistics().resyncs;
        f.ip("route del 198.18.0." + std::to_string(100 + wait) + "/32");
        BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs > resyncs && f.mirror.is_current(); }));
        BOOST_TEST((std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(1000 * wait - 100)));
        BOOST_TEST((f.told.left_out == left_out && std::ssize(f.told.routes) == limit));
    }
    f.ip("route add 198.18.4.30/32 via 10.9.0.2"); // finds no room yet
    BOOST_TEST(!all_told());
    f.ours.check("for i in $(seq 0 19); do echo route del 198.18.0.$i/32; done | ip -batch -");
    BOOST_TEST(f.eventually([&] { return f.told.of_ipv4() == 1030 + 1 - 20 - 2 + 1 && all_told(); }));
    BOOST_TEST(f.told.to(ip_prefix(ipv4(198, 18, 4, 29), 32)) != nullptr);
}

BOOST_AUTO_TEST_CASE(ways_of_ipv4_on_other_links_or_by_gateways_of_ipv6_are_left_to_the_kernel) {
    if (!have_root()) return;
    followed f;
    const prefix far(ip_prefix(ipv4(198, 51, 100, 0), 24));
    const auto only = [&](ipv4 gateway) {
        return std::ranges::count(f.told.routes, far, &route_change::destination) == 1 && f.told.to(far)->gateway == gateway;
    };
    f.ip("route add 198.51.100.0/24 nexthop dev lo nexthop via 10.9.0.2 dev cwa0");
    BOOST_TEST(f.eventually([&] { return only(followed::them); }));
    f.ip("route replace 198.51.100.0/24 via 10.9.0.99");
    BOOST_TEST(f.eventually([&] { return only(followed::nobody); }));
    f.ip("route replace 198.51.100.0/24 nexthop dev lo nexthop via 10.9.0.2 dev cwa0");
    BOOST_TEST(f.eventually([&] { return only(followed::them); }));
    f.ip("route prepend 198.51.100.0/24 nexthop via 10.9.0.3 dev cwa0 nexthop via 10.9.0.4 dev cwa0");
    BOOST_TEST(f.eventually([&] { return std::ranges::count(f.told.routes, far, &route_change::destination) == 3; }));
    BOOST_TEST((f.told.to(far)->gateway == ipv4(10, 9, 0, 3)));
    f.ip("route del 198.51.100.0/24 nexthop via 10.9.0.3 dev cwa0 nexthop via 10.9.0.4 dev cwa0");
    f.ip("route del 198.51.100.0/24");
    BOOST_TEST(f.eventually([&] { return f.told.to(far) == nullptr; }));
    f.ip("route add 198.51.100.0/24 nexthop via 10.9.0.2 dev cwa0 nexthop via 10.9.0.3 dev cwa0");
    BOOST_TEST(f.eventually([&] { return std::ranges::count(f.told.routes, far, &route_change::destination) == 2; }));
    f.ip("route replace 198.51.100.0/24 via 10.9.0.99"); // both ways go
    BOOST_TEST(f.eventually([&] { return only(followed::nobody); }));
    f.ip("route del 198.51.100.0/24");
    BOOST_TEST(f.eventually([&] { return f.told.to(far) == nullptr; }));
    if (!have_ipv6()) return;
    f.ip("route add 198.51.100.0/24 via inet6 fe80::2 dev cwa0");
    BOOST_TEST(f.eventually([&] { return f.told.left_out == 1; }));
    BOOST_TEST(f.told.to(far) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_gateway_beyond_the_links_networks_is_told_to_be_on_it) {
    if (!have_root()) return;
    followed f;
    const prefix all(ip_prefix(ipv4::any(), 0));
    f.ip("route add default via 172.16.0.1 dev cwa0 onlink");
    BOOST_TEST(f.eventually([&] { return f.told.to(all) != nullptr; }));
    BOOST_TEST((f.told.to(all)->gateway_on_link && f.told.to(all)->gateway == ipv4(172, 16, 0, 1)));
    if (!have_ipv6()) return;
    const prefix all6(ipv6::any(), 0);
    f.ip("-6 route add default via 2001:db8:9::1 dev cwa0 onlink");
    BOOST_TEST(f.eventually([&] { return f.told.to(all6) != nullptr; }));
    BOOST_TEST(f.told.to(all6)->gateway_on_link);
}

BOOST_AUTO_TEST_CASE(routes_that_could_not_be_taken_are_told_again) {
    if (!have_root()) return;
    followed f;
    f.told.routes_refused = 1;
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.to(ip_prefix(ipv4(198, 51, 100, 0), 24)) != nullptr; }));
    BOOST_TEST(f.told.routes_refused == 0);
    // Other news may have had them told before.
    BOOST_TEST(f.eventually([&] { return f.mirror.statistics().resyncs == 1 && f.mirror.is_current(); }));
}

BOOST_AUTO_TEST_CASE(what_is_asked_for_anew_in_vain_is_asked_for_once_more) {
    if (!have_root()) return;
    followed f;
    f.ip("neighbour replace 10.9.0.99 lladdr 02:00:00:00:00:99 dev cwa0 nud permanent");
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::permanent; }));
    f.told.neighbors.clear();
    f.told.refuse_during_resync = &f.mirror.statistics().resyncs;
    f.told.routes_refused = 1; // so that there is one
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::nobody) == neighbor_word::permanent && f.mirror.is_current(); }));
    BOOST_TEST((f.told.refuse_during_resync == nullptr));
    BOOST_TEST(f.mirror.statistics().resyncs == 2u);
    BOOST_TEST(f.told.to(ip_prefix(ipv4(198, 51, 100, 0), 24)) != nullptr);
}

BOOST_AUTO_TEST_CASE(it_ends_though_there_is_news_that_nobody_has_looked_at) {
    if (!have_root()) return;
    followed f;
    f.loop.poll_once(); // the kernel has the request
    f.ip("route add 198.51.100.0/24 via 10.9.0.2");
    io_uring& ring = f.loop.io().native();
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (io_uring_cq_ready(&ring) == 0 && std::chrono::steady_clock::now() < give_up) io_uring_get_events(&ring);
    BOOST_TEST(io_uring_cq_ready(&ring) != 0u); // too late to be cancelled; the destructor waits for what is in the kernel
}

BOOST_AUTO_TEST_CASE(without_io_uring_it_follows_all_the_same) {
    if (!have_root()) return;
    followed f({.allow_uring = false});
    for (unsigned i = 1; i <= 20; ++i) {
        const std::string route = "198.51.100." + std::to_string(i) + "/32";
        const auto there = [&] { return f.told.to(ip_prefix(ipv4(198, 51, 100, static_cast<std::uint8_t>(i)), 32)) != nullptr; };
        f.ip("route add " + route + " via 10.9.0.2");
        BOOST_TEST(f.eventually(there));
        f.ip("route del " + route);
        BOOST_TEST(f.eventually([&] { return !there(); }));
    }
    f.mirror.ask(followed::them);
    BOOST_TEST(f.eventually([&] { return f.told.word(followed::them) != neighbor_word::unknown; }));
    f.ip("route add 198.51.100.0/24 via 10.9.0.2"); // news that nobody looks at
}

BOOST_AUTO_TEST_SUITE_END()
