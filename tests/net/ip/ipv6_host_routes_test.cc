// The host's routes of IPv6 in shared mode: longest prefix first, gateways on the link, bounded.
#include <corewire/net/ip/ipv6_routes.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

using namespace corewire;

namespace {

ipv6 a6(const char* text) { return *ipv6::parse(text); }
ipv6_route to(const char* destination, const char* gateway = "::") { return {*ipv6_prefix::parse(destination), a6(gateway)}; }
ipv6_next_hop unicast(const char* address) { return {hop_kind::unicast, a6(address)}; }

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_host_routes)

BOOST_AUTO_TEST_CASE(the_longest_prefix_wins_whatever_the_order) {
    const std::vector<ipv6_route> all{to("::/0", "fe80::1"), to("2001:db8:5::/48", "2001:db8::9"), to("2001:db8::/64"),
                                      to("2001:db8:5:5::/64", "fe80::5"), to("2001:db8:5:5::7/128")};
    for (const bool backwards : {false, true}) {
        std::vector<ipv6_route> order = all;
        if (backwards) std::reverse(order.begin(), order.end());
        ipv6_routes r;
        r.set_routes(order);
        BOOST_TEST((r.find(a6("2001:db8::77")) == unicast("2001:db8::77")));
        BOOST_TEST((r.find(a6("2001:db8:5::1")) == unicast("2001:db8::9")));
        BOOST_TEST((r.find(a6("2001:db8:5:5::1")) == unicast("fe80::5")));
        BOOST_TEST((r.find(a6("2001:db8:5:5::7")) == unicast("2001:db8:5:5::7")));
        BOOST_TEST((r.find(a6("2001:db8:ffff::1")) == unicast("fe80::1")));
        BOOST_TEST((r.find(a6("fe80::77")) == unicast("fe80::77")));
        BOOST_TEST((r.find(a6("ff02::1")).kind == hop_kind::multicast));
    }
}

BOOST_AUTO_TEST_CASE(a_route_that_refuses_counts_as_any_other_and_leads_nowhere) {
    const auto refusal = [](const char* destination) {
        ipv6_route r = to(destination);
        r.refuses = true;
        return r;
    };
    ipv6_routes r;
    BOOST_TEST(r.set_routes(std::vector<ipv6_route>{to("::/0", "fe80::1"), to("2001:db8::/64"), refusal("2001:db8:5::/48"),
                                                    to("2001:db8:5:5::/64", "fe80::5"), refusal("2001:db8::8000/113")}) == 0u);
    BOOST_TEST((r.find(a6("2001:db8:5::1")).kind == hop_kind::unreachable));
    BOOST_TEST((r.find(a6("2001:db8:5:5::1")) == unicast("fe80::5")));
    BOOST_TEST((r.find(a6("2001:db8::8001")).kind == hop_kind::unreachable));
    BOOST_TEST((r.find(a6("2001:db8::1")) == unicast("2001:db8::1")));
    BOOST_TEST((r.find(a6("2001:db8:ffff::1")) == unicast("fe80::1")));
    // It makes no gateway a neighbour; and everything may be refused.
    BOOST_TEST(r.set_routes(std::vector<ipv6_route>{refusal("::/0"), to("2001:db8:5::/48", "2001:db8:9::1")}) == 1u);
    BOOST_TEST((r.find(a6("2001:db8:ffff::1")).kind == hop_kind::unreachable));
    BOOST_TEST((r.find(a6("fe80::77")) == unicast("fe80::77")));
}

BOOST_AUTO_TEST_CASE(a_gateway_that_is_not_on_the_link_leads_nowhere_and_new_routes_replace_all) {
    ipv6_routes r;
    r.set_routes(std::vector<ipv6_route>{to("::/0", "2001:db8:9::1"), to("2001:db8::/64")});
    BOOST_TEST((r.find(a6("2001:db8:ffff::1")).kind == hop_kind::unreachable));
    const std::uint32_t before = r.generation();
    r.set_routes({});
    BOOST_TEST(r.generation() != before); // who keeps a next hop asks again
    BOOST_TEST((r.find(a6("2001:db8::77")).kind == hop_kind::unreachable));
}

BOOST_AUTO_TEST_CASE(sizes_are_those_of_the_route_that_leads_there) {
    const ipv6_route told[] = {{{a6("2001:db8::"), 64}, {}},
                               {{a6("2001:db8:5::"), 48}, a6("fe80::1"), false, false, {.mtu = 1400}},
                               {{ipv6::any(), 0}, a6("fe80::2"), false, false, {.mtu = 1300, .segment = 1000}}};
    ipv6_routes r;
    BOOST_TEST(r.set_routes(told) == 0u);
    BOOST_TEST((r.sizes_to(a6("2001:db8::7")) == route_sizes{}));
    BOOST_TEST((r.sizes_to(a6("2001:db8:5::7")) == route_sizes{.mtu = 1400}));
    BOOST_TEST((r.sizes_to(a6("2001:db8:6::7")) == route_sizes{.mtu = 1300, .segment = 1000}));
    const std::uint32_t before = r.generation();
    BOOST_TEST(r.set_routes(told) == 0u);
    BOOST_TEST(r.generation() == before); // nothing is new
    ipv6_route others[] = {told[0], told[1], told[2]};
    others[2].sizes = {};
    BOOST_TEST(r.set_routes(others) == 0u);
    BOOST_TEST(r.generation() != before);
    BOOST_TEST((r.sizes_to(a6("2001:db8:6::7")) == route_sizes{}));
}

BOOST_AUTO_TEST_CASE(a_gateway_may_be_on_the_link_whatever_the_routes_say) {
    for (const char* destination : {"::/0", "2001:db8:5::/48"}) {
        ipv6_routes r;
        ipv6_route by_word = to(destination, "2001:db8:9::1");
        BOOST_TEST(r.set_routes(std::vector<ipv6_route>{by_word}) == 1u);
        by_word.gateway_on_link = true;
        BOOST_TEST(r.set_routes(std::vector<ipv6_route>{by_word}) == 0u);
        BOOST_TEST((r.find(a6("2001:db8:5::5")) == unicast("2001:db8:9::1")));
    }
}

BOOST_AUTO_TEST_CASE(of_several_default_routers_one_that_does_not_answer_comes_last_and_stays_there) {
    const ipv6 far = a6("2001:db8:ffff::1");
    std::vector<ipv6_route> all{to("::/0", "fe80::1"), to("::/0", "fe80::2"), to("2001:db8::/64")};
    ipv6_routes r;
    BOOST_TEST(r.set_routes(all) == 0u);
    BOOST_TEST((r.find(far) == unicast("fe80::1")));
    r.demote_router(a6("fe80::1"));
    BOOST_TEST((r.find(far) == unicast("fe80::2")));
    const std::uint32_t before = r.generation();
    r.set_routes(all); // nothing is new
    BOOST_TEST(r.generation() == before);
    all.push_back(to("::/0", "fe80::3"));
    all.push_back(to("2001:db8:5::/48", "fe80::5"));
    r.set_routes(all);
    BOOST_TEST(r.generation() != before);
    for (const char* next : {"fe80::2", "fe80::3", "fe80::1", "fe80::2"}) {
        BOOST_TEST((r.find(far) == unicast(next)), next);
        r.demote_router(a6(next));
    }
    BOOST_TEST((r.find(a6("2001:db8::77")) == unicast("2001:db8::77")));
    for (std::uint64_t i = 0; i < ipv6_routes::max_routers; ++i)
        all.push_back({ipv6_prefix(), wire::with_identifier(a6("fe80::"), 100 + i), false});
    BOOST_TEST(r.set_routes(all) == 3u); // more than there are places for
}

BOOST_AUTO_TEST_CASE(a_router_that_is_the_only_one_left_has_another_chance) { // RFC 4191 3.1, RFC 4861 6.3.6
    const ipv6 far = a6("2001:db8:ffff::1"), preferred = a6("fe80::1"), other = a6("fe80::2");
    ipv6_routes r;
    BOOST_TEST(r.add_router(preferred, never, wire::router_preference::high));
    BOOST_TEST(r.add_router(other, time_point{} + std::chrono::hours{1}, wire::router_preference::medium));
    r.demote_router(preferred);
    BOOST_TEST((r.find(far) == unicast("fe80::2")));
    r.remove_router(other);
    BOOST_TEST((r.find(far) == unicast("fe80::1")));
    BOOST_TEST(r.add_router(other, time_point{} + std::chrono::hours{1}, wire::router_preference::medium));
    BOOST_TEST((r.find(far) == unicast("fe80::1")));

    std::vector<ipv6_route> all{to("::/0", "fe80::1"), to("::/0", "fe80::2")}; // a host's, in its order
    ipv6_routes of_host;
    BOOST_TEST(of_host.set_routes(all) == 0u);
    of_host.demote_router(preferred);
    BOOST_TEST(of_host.set_routes(std::vector<ipv6_route>{all[0]}) == 0u);
    BOOST_TEST(of_host.set_routes(all) == 0u);
    BOOST_TEST((of_host.find(far) == unicast("fe80::1")));
}

BOOST_AUTO_TEST_CASE(routes_beyond_the_limit_are_refused_and_counted) {
    std::vector<ipv6_route> many;
    for (std::uint64_t i = 0; i < ipv6_routes::max_routes + 5; ++i)
        many.push_back({ipv6_prefix(wire::with_identifier(a6("2001:db8::"), i), 128), ipv6::any()});
    ipv6_routes r;
    r.set_routes(many);
    BOOST_TEST(r.refused() == 5u);
}

BOOST_AUTO_TEST_CASE(a_full_table_does_not_cost_the_default_route) {
    for (const char* gateway : {"fe80::1", "2001:db8:7::1", "2001:db8:9::1"}) {
        std::vector<ipv6_route> many{to("2001:db8:7::/64")};
        for (std::uint64_t i = 0; i < ipv6_routes::max_routes; ++i)
            many.push_back({ipv6_prefix(wire::with_identifier(a6("2001:db8::"), i), 128), ipv6::any()});
        many.push_back(to("::/0", gateway));
        ipv6_routes r;
        r.set_routes(many);
        const bool on_link = std::string_view(gateway) != "2001:db8:9::1";
        BOOST_TEST((r.find(a6("2001:db8:ffff::1")).kind == (on_link ? hop_kind::unicast : hop_kind::unreachable)), gateway);
        if (on_link) BOOST_TEST((r.find(a6("2001:db8:ffff::1")) == unicast(gateway)));
        BOOST_TEST((r.find(a6("2001:db8:7::9")) == unicast("2001:db8:7::9")));
        BOOST_TEST(r.refused() == 1u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
