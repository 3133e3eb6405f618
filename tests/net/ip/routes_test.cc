#include <corewire/net/ip/routes.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;

namespace {
const ip_prefix own(ipv4(10, 0, 0, 1), 24);
const ipv4 gateway(10, 0, 0, 254);
next_hop unicast(ipv4 a) { return {hop_kind::unicast, a}; }
} // namespace

BOOST_AUTO_TEST_SUITE(routes)

BOOST_AUTO_TEST_CASE(hosts_of_our_network_are_neighbours_and_the_rest_goes_to_the_gateway) {
    route_table t(own);
    BOOST_TEST((t.find(ipv4(10, 0, 0, 7)) == unicast(ipv4(10, 0, 0, 7))));
    BOOST_TEST((t.find(ipv4(192, 0, 2, 1)).kind == hop_kind::unreachable));
    BOOST_TEST((t.set_default(gateway) == route_error::none));
    BOOST_TEST((t.find(ipv4(192, 0, 2, 1)) == unicast(gateway)));
    BOOST_TEST((t.find(ipv4(10, 0, 0, 7)) == unicast(ipv4(10, 0, 0, 7))));
    t.check_invariants();
}

BOOST_AUTO_TEST_CASE(the_longest_prefix_wins_whatever_the_order_of_adding) {
    const std::pair<ip_prefix, ipv4> wanted[] = {
        {{ipv4(172, 16, 0, 0), 12}, ipv4(10, 0, 0, 2)},
        {{ipv4(172, 16, 5, 0), 24}, ipv4(10, 0, 0, 3)},
        {{ipv4(172, 16, 5, 9), 32}, ipv4(10, 0, 0, 4)},
        {{ipv4::any(), 0}, ipv4(10, 0, 0, 5)},
    };
    for (std::size_t rotation = 0; rotation < 4; ++rotation) {
        route_table t(own);
        for (std::size_t i = 0; i < 4; ++i) {
            const auto& [destination, via] = wanted[(i + rotation) % 4];
            BOOST_TEST((t.add(destination, via) == route_error::none));
        }
        t.check_invariants();
        BOOST_TEST((t.find(ipv4(172, 16, 5, 9)) == unicast(ipv4(10, 0, 0, 4))));
        BOOST_TEST((t.find(ipv4(172, 16, 5, 8)) == unicast(ipv4(10, 0, 0, 3))));
        BOOST_TEST((t.find(ipv4(172, 31, 0, 1)) == unicast(ipv4(10, 0, 0, 2))));
        BOOST_TEST((t.find(ipv4(8, 8, 8, 8)) == unicast(ipv4(10, 0, 0, 5))));
    }
}

BOOST_AUTO_TEST_CASE(a_route_that_refuses_counts_as_any_other_and_leads_nowhere) {
    const auto refusal = [](ip_prefix to) { return route{.destination = to, .gateway = ipv4::any(), .refuses = true}; };
    route_table t(own);
    BOOST_TEST((t.set_default(gateway) == route_error::none));
    BOOST_TEST((t.add_route(refusal({ipv4(172, 16, 0, 9), 12})) == route_error::none));
    BOOST_TEST((t.add({ipv4(172, 16, 5, 0), 24}, gateway) == route_error::none));
    BOOST_TEST((t.find(ipv4(172, 16, 4, 1)).kind == hop_kind::unreachable));
    BOOST_TEST((t.find(ipv4(172, 31, 255, 255)).kind == hop_kind::unreachable)); // it has no broadcast address
    BOOST_TEST((t.find(ipv4(172, 16, 5, 1)) == unicast(gateway)));
    BOOST_TEST((t.find(ipv4(8, 8, 8, 8)) == unicast(gateway)));
    BOOST_TEST((t.add({ipv4(8, 0, 0, 0), 8}, ipv4(172, 16, 4, 1)) == route_error::gateway_not_on_link));
    BOOST_TEST((t.add_route(refusal({ipv4(10, 0, 0, 128), 25})) == route_error::none)); // of our own network
    BOOST_TEST((t.find(ipv4(10, 0, 0, 129)).kind == hop_kind::unreachable));
    BOOST_TEST((t.find(ipv4(10, 0, 0, 7)) == unicast(ipv4(10, 0, 0, 7))));
    BOOST_TEST((!t.is_martian_source(ipv4(10, 0, 0, 129)) && !t.is_martian_source(ipv4(10, 0, 0, 128))));
    t.check_invariants();
}

BOOST_AUTO_TEST_CASE(addresses_that_are_no_single_host_are_told_apart) {
    route_table t(own);
    BOOST_TEST((t.set_default(gateway) == route_error::none));
    BOOST_TEST((t.find(ipv4(10, 0, 0, 1)).kind == hop_kind::local));
    BOOST_TEST((t.find(ipv4(127, 0, 0, 1)).kind == hop_kind::local));
    BOOST_TEST((t.find(ipv4::broadcast()).kind == hop_kind::broadcast));
    BOOST_TEST((t.find(ipv4(10, 0, 0, 255)).kind == hop_kind::broadcast));
    BOOST_TEST((t.find(ipv4(10, 0, 0, 0)).kind == hop_kind::broadcast));
    BOOST_TEST((t.add({ipv4(172, 16, 0, 0), 16}, gateway) == route_error::none));
    BOOST_TEST((t.find(ipv4(172, 16, 255, 255)) == unicast(gateway))); // of another network: its routers know
    BOOST_TEST((t.find(ipv4(172, 16, 0, 0)) == unicast(gateway)));
    BOOST_TEST((t.find(ipv4(239, 1, 1, 1)).kind == hop_kind::multicast));
    BOOST_TEST((t.find(ipv4(0, 1, 2, 3)).kind == hop_kind::unreachable));
    BOOST_TEST((t.find(ipv4(240, 0, 0, 1)).kind == hop_kind::unreachable));
}

BOOST_AUTO_TEST_CASE(a_point_to_point_network_has_two_hosts_and_no_broadcast) {
    route_table t({ipv4(10, 0, 0, 0), 31}); // RFC 3021
    BOOST_TEST((t.find(ipv4(10, 0, 0, 1)) == unicast(ipv4(10, 0, 0, 1))));
    BOOST_TEST(!t.is_broadcast(ipv4(10, 0, 0, 1)));
    route_table other({ipv4(10, 0, 0, 1), 31});
    BOOST_TEST((other.find(ipv4(10, 0, 0, 0)) == unicast(ipv4(10, 0, 0, 0))));
}

BOOST_AUTO_TEST_CASE(martian_sources_are_known) {
    route_table t(own);
    for (const ipv4 bad : {ipv4(10, 0, 0, 1), ipv4(10, 0, 0, 255), ipv4(10, 0, 0, 0), ipv4::broadcast(), ipv4::any(),
                           ipv4(127, 0, 0, 1), ipv4(224, 0, 0, 1), ipv4(240, 0, 0, 1), ipv4(0, 0, 0, 7)}) {
        BOOST_TEST(t.is_martian_source(bad), bad);
    }
    for (const ipv4 good : {ipv4(10, 0, 0, 2), ipv4(192, 0, 2, 1), ipv4(169, 254, 0, 1)}) {
        BOOST_TEST(!t.is_martian_source(good), good);
    }
}

BOOST_AUTO_TEST_CASE(a_gateway_must_be_on_the_link_and_a_destination_is_added_once) {
    route_table t(own);
    BOOST_TEST((t.set_default(ipv4(10, 0, 1, 1)) == route_error::gateway_not_on_link));
    BOOST_TEST((t.set_default(gateway) == route_error::none));
    BOOST_TEST((t.set_default(ipv4(10, 0, 0, 253)) == route_error::exists));
    // Reachable, but only through another gateway:
    BOOST_TEST((t.add({ipv4(172, 16, 0, 0), 12}, ipv4(192, 0, 2, 1)) == route_error::gateway_not_on_link));
    BOOST_TEST(t.remove({ipv4::any(), 0}));
    BOOST_TEST(!t.remove({ipv4::any(), 0}));
    BOOST_TEST((t.find(ipv4(8, 8, 8, 8)).kind == hop_kind::unreachable));
}

BOOST_AUTO_TEST_CASE(the_table_holds_as_many_routes_as_it_says_and_refuses_the_next) {
    route_table t(own);
    const auto one_of_many = [](std::uint32_t i) { return ip_prefix(ipv4(ipv4(172, 16, 0, 0).value() + (i << 8)), 24); };
    for (std::uint32_t i = 1; i < route_table::max_routes; ++i) BOOST_TEST((t.add(one_of_many(i), gateway) == route_error::none));
    BOOST_TEST((t.add(one_of_many(0), gateway) == route_error::full));
    BOOST_TEST(t.refused() == 1u);
    BOOST_TEST(t.routes().size() == route_table::max_routes);
    t.check_invariants();
}

BOOST_AUTO_TEST_CASE(a_gateway_may_be_on_the_link_whatever_the_routes_say) {
    route_table t(ip_prefix(ipv4(192, 168, 0, 250), 32));
    const ipv4 beyond(192, 168, 0, 1);
    BOOST_TEST((t.set_default(beyond) == route_error::gateway_not_on_link));
    BOOST_TEST((t.add({ipv4::any(), 0}, beyond, true) == route_error::none));
    BOOST_TEST((t.find(ipv4(8, 8, 8, 8)) == next_hop{hop_kind::unicast, beyond}));
    BOOST_TEST((t.find(beyond) == next_hop{hop_kind::unicast, beyond}));
}

BOOST_AUTO_TEST_CASE(many_routes_are_found_as_one_by_one) {
    constexpr std::uint64_t seed = 20'261'123;
    BOOST_TEST_MESSAGE("seed " << seed);
    random_generator random(seed);
    route_table t(own);
    const auto near = [&] { return ipv4(ipv4(10, 0, 0, 0).value() + static_cast<std::uint32_t>(random.below(1u << 20))); };
    std::vector<route> added{{{own.network(), own.length()}, ipv4::any()}};
    while (added.size() < 600) {
        const ip_prefix to(near(), static_cast<std::uint8_t>(8 + random.below(25)));
        const ipv4 by = random.chance(0.7) ? gateway : ipv4::any();
        if (t.add(to, by) == route_error::none) added.push_back({{to.network(), to.length()}, by});
    }
    t.check_invariants();
    for (int i = 0; i < 20'000; ++i) {
        if (i % 100 == 0) { // some go
            const std::size_t which = random.below(added.size());
            BOOST_TEST(t.remove(added[which].destination));
            added.erase(added.begin() + static_cast<std::ptrdiff_t>(which));
        }
        const ipv4 to = random.chance(0.3) ? added[random.below(added.size())].destination.broadcast() : near();
        const route* best = nullptr;
        bool broadcast = to.is_broadcast();
        for (const route& r : added) {
            const bool network = r.gateway.is_any() && r.destination.length() < 31;
            broadcast |= network && (to == r.destination.broadcast() || to == r.destination.address());
            if (r.destination.contains(to) && (best == nullptr || best->destination.length() < r.destination.length())) best = &r;
        }
        BOOST_REQUIRE(t.is_broadcast(to) == broadcast);
        if (broadcast || to == own.address()) continue;
        const next_hop expected = best == nullptr ? next_hop{}
                                                  : next_hop{hop_kind::unicast, best->gateway.is_any() ? to : best->gateway};
        BOOST_REQUIRE((t.find(to) == expected));
    }
}

BOOST_AUTO_TEST_CASE(a_new_address_replaces_the_old_connected_route) {
    route_table t(own);
    t.set_address({ipv4(192, 168, 1, 5), 16});
    BOOST_TEST((t.find(ipv4(10, 0, 0, 7)).kind == hop_kind::unreachable));
    BOOST_TEST((t.find(ipv4(192, 168, 200, 1)).kind == hop_kind::unicast));
    BOOST_TEST(t.routes().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
