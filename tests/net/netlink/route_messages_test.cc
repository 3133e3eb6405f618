// What the kernel says, read: ordinary messages, and hostile ones.
#include "messages.hh"

#include <corewire/reactor/base/random.hh>
#include <tests/fuzz/netlink_targets.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::netlink;
using verdict = message_reader::verdict;

namespace {

const ipv4 gateway(192, 0, 2, 1), host(192, 0, 2, 9);
const mac_address mac(0x02'00'00'00'00'09);

verdict read(const std::vector<std::byte>& bytes, change& out) { return message_reader(byte_span(bytes)).next(out); }

std::vector<std::vector<std::byte>> ordinary() {
    return {netlink_test::route(RTM_NEWROUTE, 24, ipv4(198, 51, 100, 0), gateway, 3, 100),
            netlink_test::route(RTM_NEWROUTE, 0, {}, gateway, 3),
            netlink_test::neighbor(RTM_NEWNEIGH, host, mac, NUD_REACHABLE, 3),
            netlink_test::address(RTM_NEWADDR, 24, host, host, 3),
            netlink_test::route(RTM_NEWROUTE, 64, *ipv6::parse("2001:db8::"), *ipv6::parse("fe80::1"), 3, 1024),
            netlink_test::neighbor(RTM_NEWNEIGH, *ipv6::parse("2001:db8::2"), mac, NUD_REACHABLE, 3),
            netlink_test::address(RTM_NEWADDR, 64, *ipv6::parse("2001:db8::2"), *ipv6::parse("2001:db8::2"), 3, IFA_F_PERMANENT),
            netlink_test::link(RTM_NEWLINK, 3, IFF_UP),
            netlink_test::nexthop(RTM_DELNEXTHOP, 3)};
}

} // namespace

BOOST_AUTO_TEST_SUITE(route_messages)

BOOST_AUTO_TEST_CASE(a_route_is_told) {
    change out;
    BOOST_REQUIRE((read(netlink_test::route(RTM_NEWROUTE, 24, ipv4(198, 51, 100, 0), gateway, 3, 100), out) == verdict::told));
    const auto r = std::get<route_change>(out);
    BOOST_TEST(!r.gone);
    BOOST_TEST((r.destination == ip_prefix(ipv4(198, 51, 100, 0), 24) && r.gateway == gateway));
    BOOST_TEST(r.interface == 3u);
    BOOST_TEST(r.metric == 100u);
    BOOST_REQUIRE((read(netlink_test::route(RTM_DELROUTE, 0, {}, gateway, 3), out) == verdict::told));
    BOOST_TEST(std::get<route_change>(out).gone);
    BOOST_TEST((std::get<route_change>(out).destination == ip_prefix(ipv4::any(), 0)));
}

BOOST_AUTO_TEST_CASE(what_a_route_and_a_link_say_of_sizes_is_told) {
    const rtmsg fixed{.rtm_family = AF_INET, .rtm_dst_len = 0, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    const auto sized = [&](auto put) {
        return netlink_test::message(RTM_NEWROUTE, fixed, [&](nlmsghdr* h) {
            mnl_attr_put_u32(h, RTA_OIF, 3);
            nlattr* const all = mnl_attr_nest_start(h, RTA_METRICS);
            put(h);
            mnl_attr_nest_end(h, all);
        });
    };
    change out;
    const auto locked = sized([](nlmsghdr* h) {
        mnl_attr_put_u32(h, RTAX_LOCK, 1u << RTAX_MTU | 1u << RTAX_RTT);
        mnl_attr_put_u32(h, RTAX_HOPLIMIT, 7);
        mnl_attr_put_u32(h, RTAX_MTU, 1400);
        mnl_attr_put_u32(h, RTAX_ADVMSS, 1000);
    });
    BOOST_REQUIRE((read(locked, out) == verdict::told));
    auto r = std::get<route_change>(out);
    BOOST_TEST((r.mtu == 1400u && r.segment == 1000u));
    BOOST_REQUIRE((read(sized([](nlmsghdr* h) { mnl_attr_put_u32(h, RTAX_MTU, 1400); }), out) == verdict::told));
    BOOST_TEST((std::get<route_change>(out).mtu == 1400u && std::get<route_change>(out).segment == 0u));
    BOOST_TEST((read(sized([](nlmsghdr* h) { mnl_attr_put_u16(h, RTAX_MTU, 1400); }), out) == verdict::malformed));
    BOOST_REQUIRE((read(netlink_test::route(RTM_NEWROUTE, 0, {}, gateway, 3), out) == verdict::told));
    r = std::get<route_change>(out);
    BOOST_TEST((r.mtu == 0u && r.segment == 0u));
    const ifinfomsg link{.ifi_family = AF_UNSPEC, .__ifi_pad = 0, .ifi_type = 1, .ifi_index = 3, .ifi_flags = IFF_UP, .ifi_change = 0};
    BOOST_REQUIRE((read(netlink_test::message(RTM_NEWLINK, link, [](nlmsghdr* h) { mnl_attr_put_u32(h, IFLA_MTU, 1350); }), out) ==
                   verdict::told));
    BOOST_TEST(std::get<link_change>(out).mtu == 1350u);
    BOOST_TEST((read(netlink_test::message(RTM_NEWLINK, link, [](nlmsghdr* h) { mnl_attr_put_u16(h, IFLA_MTU, 1350); }), out) ==
                verdict::malformed));
}

BOOST_AUTO_TEST_CASE(only_routes_of_the_main_table_that_lead_on_or_refuse_are_told) {
    change out;
    rtmsg fixed{.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_UNICAST};
    const auto read_fixed = [&] {
        return read(netlink_test::message(RTM_NEWROUTE, fixed, [](nlmsghdr* h) { netlink_test::put(h, RTA_DST, host); }), out);
    };
    BOOST_TEST((read_fixed() == verdict::ignored));
    fixed.rtm_table = RT_TABLE_MAIN;
    BOOST_TEST((read_fixed() == verdict::told));
    for (const std::uint8_t type : {RTN_LOCAL, RTN_BROADCAST}) {
        fixed.rtm_type = type;
        BOOST_TEST((read_fixed() == verdict::ignored));
    }
    fixed.rtm_type = RTN_UNICAST;
    fixed.rtm_family = AF_INET6; // whose addresses are longer
    BOOST_TEST((read_fixed() == verdict::malformed));
    fixed.rtm_family = AF_UNIX;
    BOOST_TEST((read_fixed() == verdict::ignored));
    fixed.rtm_family = AF_INET;
    fixed.rtm_dst_len = 33;
    BOOST_TEST((read_fixed() == verdict::malformed));
}

BOOST_AUTO_TEST_CASE(ipv6_is_told_as_ipv4_is) {
    const net_address router = *ipv6::parse("fe80::1"), far = *ipv6::parse("2001:db8:5::"), us6 = *ipv6::parse("2001:db8::2");
    change out;
    BOOST_REQUIRE((read(netlink_test::route(RTM_NEWROUTE, 48, far, router, 3, 1024), out) == verdict::told));
    auto r = std::get<route_change>(out);
    BOOST_TEST((r.destination == prefix(far, 48) && r.gateway == router && r.metric == 1024u));
    BOOST_TEST(!r.replaces); // beside another router's, perhaps
    BOOST_REQUIRE((read(netlink_test::route(RTM_NEWROUTE, 0, {}, router, 3, 1024, NLM_F_REPLACE), out) == verdict::told));
    r = std::get<route_change>(out);
    BOOST_TEST((r.destination == prefix(ipv6::any(), 0) && r.replaces));
    BOOST_TEST((read(netlink_test::route(RTM_NEWROUTE, 129, far, router, 3), out) == verdict::malformed));
    BOOST_REQUIRE((read(netlink_test::neighbor(RTM_NEWNEIGH, us6, mac, NUD_STALE, 3), out) == verdict::told));
    BOOST_TEST((std::get<neighbor_change>(out).address == us6 && std::get<neighbor_change>(out).word == neighbor_word::usable));
    BOOST_TEST((read(netlink_test::neighbor(RTM_NEWNEIGH, *ipv6::parse("ff02::1"), mac, NUD_NOARP, 3), out) == verdict::ignored));
    const std::pair<std::uint32_t, bool> kinds[] = {{IFA_F_PERMANENT, true}, {IFA_F_TENTATIVE, false}, {IFA_F_DADFAILED, false},
                                                    {IFA_F_DEPRECATED, false}, {IFA_F_TENTATIVE | IFA_F_OPTIMISTIC, true},
                                                    {IFA_F_PERMANENT | IFA_F_STABLE_PRIVACY, true}};
    for (const auto& [flags, usable] : kinds) {
        const bool proven = usable || flags == IFA_F_DEPRECATED; // what is sent there is still received
        BOOST_REQUIRE((read(netlink_test::address(RTM_NEWADDR, 64, us6, us6, 4, flags), out) == verdict::told));
        BOOST_TEST((std::get<address_change>(out).address == prefix(us6, 64)));
        BOOST_TEST(std::get<address_change>(out).usable == usable);
        BOOST_TEST(std::get<address_change>(out).proven == proven);
    }
    BOOST_TEST((read(netlink_test::address(RTM_NEWADDR, 129, us6, us6, 4), out) == verdict::malformed));
}

BOOST_AUTO_TEST_CASE(where_a_route_of_ipv4_stands_among_its_rivals_is_told) { // fib_table_insert()
    struct row {
        unsigned flags;
        bool replaces, goes_first;
    };
    for (const row& r : {row{0, false, false} /* of a dump */, row{NLM_F_CREATE, false, true},
                         row{NLM_F_CREATE | NLM_F_APPEND, false, false}, row{NLM_F_CREATE | NLM_F_REPLACE, true, false},
                         row{NLM_F_REPLACE, true, false}}) {
        change out;
        const auto flags = static_cast<std::uint16_t>(r.flags);
        BOOST_REQUIRE((read(netlink_test::route(RTM_NEWROUTE, 24, host, gateway, 3, 0, flags), out) == verdict::told));
        BOOST_TEST(std::get<route_change>(out).replaces == r.replaces);
        BOOST_TEST(std::get<route_change>(out).goes_first == r.goes_first);
    }
}

BOOST_AUTO_TEST_CASE(what_takes_a_routes_place_and_leads_nowhere_is_told) {
    for (const std::uint8_t type : {RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT, RTN_THROW, RTN_LOCAL}) {
        const bool refuses = type != RTN_LOCAL;
        for (const bool replaces : {false, true}) {
            const rtmsg fixed{.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_table = RT_TABLE_MAIN, .rtm_type = type};
            const auto bytes = netlink_test::message(RTM_NEWROUTE, fixed, [&](nlmsghdr* h) {
                if (replaces) h->nlmsg_flags = NLM_F_REPLACE;
                netlink_test::put(h, RTA_DST, host);
                mnl_attr_put_u32(h, RTA_OIF, 3); // IPv6 says the loopback interface
                netlink_test::put(h, RTA_GATEWAY, gateway);
            });
            change out;
            BOOST_REQUIRE((read(bytes, out) == (replaces || refuses ? verdict::told : verdict::ignored)));
            if (!replaces && !refuses) continue;
            const auto r = std::get<route_change>(out);
            BOOST_TEST((r.replaces == replaces && r.refuses == refuses && r.interface == 0u && r.destination == prefix(host, 32)));
        }
    }
}

BOOST_AUTO_TEST_CASE(each_way_of_a_route_of_ipv6_is_told) {
    const net_address one = *ipv6::parse("fe80::11"), two = *ipv6::parse("fe80::22"), three = *ipv6::parse("fe80::33");
    const prefix everywhere(ipv6::any(), 0);
    for (const bool gone : {false, true}) {
        auto bytes = netlink_test::several_ways(gone ? RTM_DELROUTE : RTM_NEWROUTE, {{3, one}, {4, two}, {3, three}}, NLM_F_REPLACE);
        const auto next_one = netlink_test::address(RTM_NEWADDR, 24, host, host, 3);
        bytes.insert(bytes.end(), next_one.begin(), next_one.end());
        message_reader reader{byte_span(bytes)};
        change out;
        for (const auto& [interface, to] : {std::pair{3u, one}, {4u, two}, {3u, three}}) {
            BOOST_REQUIRE((reader.next(out) == verdict::told));
            const auto r = std::get<route_change>(out);
            BOOST_TEST((r.gone == gone && r.interface == interface && r.gateway == to && r.destination == everywhere && r.metric == 1024u));
            BOOST_TEST(r.replaces == (to == one && !gone)); // the others stand beside it
        }
        BOOST_REQUIRE((reader.next(out) == verdict::told));
        BOOST_TEST(std::holds_alternative<address_change>(out));
        BOOST_TEST((reader.next(out) == verdict::end));
    }
}

BOOST_AUTO_TEST_CASE(a_way_whose_length_lies_ends_the_route_and_not_the_datagram) {
    const net_address one = *ipv6::parse("fe80::11"), two = *ipv6::parse("fe80::22");
    const auto good = netlink_test::several_ways(RTM_NEWROUTE, {{3, one}, {3, two}});
    const std::size_t second = good.size() - 28; // where its length stands
    for (const std::uint16_t length : {0, 7, 11, 29, 0xffff}) {
        std::vector<std::byte> bytes = good;
        std::memcpy(bytes.data() + second, &length, sizeof length);
        bytes.insert(bytes.end(), good.begin(), good.end());
        message_reader reader{byte_span(bytes)};
        change out;
        BOOST_TEST((reader.next(out) == verdict::told));
        BOOST_TEST((reader.next(out) == (length == 11 ? verdict::told : verdict::malformed))); // 11: one without a gateway, and a rest
        if (length == 11) BOOST_TEST((reader.next(out) == verdict::malformed));
        for (int i = 0; i < 2; ++i) BOOST_TEST((reader.next(out) == verdict::told));
        BOOST_TEST((reader.next(out) == verdict::end));
    }
}

BOOST_AUTO_TEST_CASE(each_way_of_a_route_of_ipv4_is_told_too) {
    for (const std::uint16_t flags : {NLM_F_CREATE, NLM_F_REPLACE}) {
        const auto bytes = netlink_test::several_ways(RTM_NEWROUTE, {{4, gateway}, {3, host, RTNH_F_ONLINK}}, flags);
        message_reader reader{byte_span(bytes)};
        change out;
        BOOST_REQUIRE((reader.next(out) == verdict::told));
        auto r = std::get<route_change>(out);
        BOOST_TEST((r.interface == 4u && r.gateway == gateway && r.more && !r.further && !r.gateway_on_link));
        BOOST_TEST((r.replaces == (flags == NLM_F_REPLACE) && r.goes_first == (flags == NLM_F_CREATE)));
        BOOST_REQUIRE((reader.next(out) == verdict::told));
        r = std::get<route_change>(out);
        BOOST_TEST((r.interface == 3u && r.gateway == host && r.metric == 1024u && r.destination == prefix(ipv4::any(), 0)));
        BOOST_TEST((r.further && !r.more && r.gateway_on_link && !r.replaces && !r.goes_first));
        BOOST_TEST((reader.next(out) == verdict::end));
    }
}

BOOST_AUTO_TEST_CASE(a_gateway_that_is_on_the_link_by_the_routes_own_word_is_told_as_such) {
    for (const bool on_link : {false, true}) {
        const rtmsg fixed{.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST,
                          .rtm_flags = on_link ? unsigned{RTNH_F_ONLINK} : 0u};
        const auto bytes = netlink_test::message(RTM_NEWROUTE, fixed, [](nlmsghdr* h) { netlink_test::put(h, RTA_GATEWAY, gateway); });
        change out;
        BOOST_REQUIRE((read(bytes, out) == verdict::told));
        BOOST_TEST((std::get<route_change>(out).gateway_on_link == on_link && std::get<route_change>(out).gateway == gateway));
    }
}

BOOST_AUTO_TEST_CASE(a_gateway_of_the_other_family_is_not_taken_for_none) {
    const rtmsg fixed{.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    const std::byte via[18]{std::byte{AF_INET6}};
    const auto bytes = netlink_test::message(RTM_NEWROUTE, fixed, [&](nlmsghdr* h) { mnl_attr_put(h, RTA_VIA, sizeof via, via); });
    change out;
    BOOST_REQUIRE((read(bytes, out) == verdict::told));
    BOOST_TEST(std::get<route_change>(out).of_other_family);
    const auto ways = netlink_test::several_ways(RTM_NEWROUTE, {{3, gateway}, {3, *ipv6::parse("fe80::1")}});
    message_reader reader{byte_span(ways)};
    for (const bool of_other_family : {false, true}) {
        BOOST_REQUIRE((reader.next(out) == verdict::told));
        BOOST_TEST(std::get<route_change>(out).of_other_family == of_other_family);
    }
}

BOOST_AUTO_TEST_CASE(a_link_that_goes_up_or_down_and_a_next_hop_that_goes_are_told) {
    change out;
    for (const unsigned flags : {0u, unsigned{IFF_UP}, unsigned{IFF_RUNNING}}) {
        BOOST_REQUIRE((read(netlink_test::link(RTM_NEWLINK, 3, flags), out) == verdict::told));
        const auto link = std::get<link_change>(out);
        BOOST_TEST((link.interface == 3u && link.up == (flags == IFF_UP) && !link.gone));
    }
    BOOST_REQUIRE((read(netlink_test::link(RTM_DELLINK, 3, IFF_UP), out) == verdict::told));
    BOOST_TEST((std::get<link_change>(out).gone && !std::get<link_change>(out).up));
    BOOST_TEST((read(netlink_test::link(RTM_DELLINK, 3, IFF_UP, AF_BRIDGE), out) == verdict::ignored)); // it has left a bridge
    for (const std::uint32_t interface : {0u, 3u}) {
        BOOST_REQUIRE((read(netlink_test::nexthop(RTM_DELNEXTHOP, interface), out) == verdict::told));
        BOOST_TEST(std::get<nexthop_gone>(out).interface == interface);
        BOOST_TEST((read(netlink_test::nexthop(RTM_NEWNEXTHOP, interface), out) == verdict::ignored));
    }
}

BOOST_AUTO_TEST_CASE(a_way_of_ipv4_that_is_cut_short_is_malformed) {
    const rtmsg fixed{.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    change out;
    for (const std::uint16_t cut : {0, 1, 8, 15}) {
        const auto bytes = netlink_test::message(RTM_NEWROUTE, fixed, [&](nlmsghdr* h) {
            std::byte way[16]{};
            const rtnexthop hop{.rtnh_len = 16, .rtnh_flags = 0, .rtnh_hops = 0, .rtnh_ifindex = 5};
            std::memcpy(way, &hop, sizeof hop);
            const nlattr to{.nla_len = 8, .nla_type = RTA_GATEWAY};
            std::memcpy(way + 8, &to, sizeof to);
            gateway.store(way + 12);
            mnl_attr_put(h, RTA_MULTIPATH, static_cast<std::size_t>(16 - cut), way);
        });
        BOOST_TEST((read(bytes, out) == (cut == 0 ? verdict::told : verdict::malformed)));
    }
    BOOST_TEST(true);
}

BOOST_AUTO_TEST_CASE(a_neighbor_is_told_with_what_its_mac_is_worth) {
    const std::pair<std::uint16_t, neighbor_word> states[] = {
        {NUD_REACHABLE, neighbor_word::reachable}, {NUD_STALE, neighbor_word::usable},    {NUD_DELAY, neighbor_word::usable},
        {NUD_PROBE, neighbor_word::usable},        {NUD_FAILED, neighbor_word::unknown},  {NUD_INCOMPLETE, neighbor_word::unknown},
        {NUD_PERMANENT, neighbor_word::permanent}, {NUD_NOARP, neighbor_word::permanent}, {0, neighbor_word::unknown}};
    for (const auto& [state, word] : states) {
        change out;
        BOOST_REQUIRE((read(netlink_test::neighbor(RTM_NEWNEIGH, host, mac, state, 3), out) == verdict::told));
        const auto n = std::get<neighbor_change>(out);
        BOOST_TEST((n.word == word));
        BOOST_TEST((n.address == host && n.mac == mac && n.interface == 3u));
        BOOST_REQUIRE((read(netlink_test::neighbor(RTM_DELNEIGH, host, mac, state, 3), out) == verdict::told));
        BOOST_TEST((std::get<neighbor_change>(out).word == neighbor_word::unknown));
        BOOST_REQUIRE((read(netlink_test::neighbor(RTM_NEWNEIGH, host, {}, state, 3), out) == verdict::told));
        BOOST_TEST((std::get<neighbor_change>(out).word == neighbor_word::unknown)); // nothing to send to
    }
}

BOOST_AUTO_TEST_CASE(neighbors_that_are_groups_are_ignored) {
    change out;
    BOOST_TEST((read(netlink_test::neighbor(RTM_NEWNEIGH, ipv4(224, 0, 0, 1), mac, NUD_NOARP, 3), out) == verdict::ignored));
    BOOST_REQUIRE((read(netlink_test::neighbor(RTM_NEWNEIGH, host, mac_address::broadcast(), NUD_REACHABLE, 3), out) == verdict::told));
    BOOST_TEST((std::get<neighbor_change>(out).word == neighbor_word::unknown));
}

BOOST_AUTO_TEST_CASE(an_address_is_our_end_of_the_link) {
    change out;
    BOOST_REQUIRE((read(netlink_test::address(RTM_NEWADDR, 32, host, gateway, 4), out) == verdict::told));
    BOOST_TEST((std::get<address_change>(out).address == ip_prefix(host, 32)));
    BOOST_TEST((read(netlink_test::address(RTM_NEWADDR, 33, host, host, 4), out) == verdict::malformed));
    BOOST_TEST((read(netlink_test::address(RTM_NEWADDR, 24, {}, {}, 4), out) == verdict::malformed));
}

BOOST_AUTO_TEST_CASE(a_datagram_of_several_messages_is_read_to_its_end) {
    std::vector<std::byte> all;
    for (const auto& each : ordinary()) all.insert(all.end(), each.begin(), each.end());
    const auto done = netlink_test::message(NLMSG_DONE, std::uint32_t{0}, [](nlmsghdr* h) { h->nlmsg_flags = NLM_F_DUMP_INTR; });
    all.insert(all.end(), done.begin(), done.end());
    message_reader reader{byte_span(all)};
    change out;
    for (std::size_t i = 0; i < ordinary().size(); ++i) BOOST_TEST((reader.next(out) == verdict::told));
    BOOST_TEST(!reader.interrupted());
    BOOST_TEST((reader.next(out) == verdict::done));
    BOOST_TEST(reader.interrupted());
    BOOST_TEST((reader.next(out) == verdict::end));
}

BOOST_AUTO_TEST_CASE(a_refusal_says_why) {
    for (const auto& [sent, meant] : {std::pair{-ENOENT, ENOENT}, {0, 0}, {7, 0}, {-100'000, 0}}) {
        const auto bytes = netlink_test::message(NLMSG_ERROR, sent, [](nlmsghdr*) {});
        message_reader reader{byte_span(bytes)};
        change out;
        BOOST_TEST((reader.next(out) == verdict::failed));
        BOOST_TEST(reader.error() == meant);
    }
}

BOOST_AUTO_TEST_CASE(lengths_that_lie_end_the_datagram) {
    for (const auto& bytes : ordinary()) {
        for (std::size_t size = 1; size < bytes.size(); ++size) {
            const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
            message_reader reader{byte_span(cut)};
            change out;
            BOOST_TEST((reader.next(out) == verdict::malformed)); // the header promises more
            BOOST_TEST((reader.next(out) == verdict::end));
        }
        for (const std::uint32_t length : {0u, 1u, 15u, 0x7fffffffu, 0xffffffffu}) {
            std::vector<std::byte> lying = bytes;
            std::memcpy(lying.data(), &length, sizeof length);
            change out;
            BOOST_TEST((read(lying, out) == verdict::malformed));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_attribute_of_the_wrong_size_is_malformed) {
    const rtmsg fixed{.rtm_family = AF_INET, .rtm_dst_len = 24, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    const std::byte zeros[16]{};
    for (const std::uint16_t type : {RTA_DST, RTA_GATEWAY, RTA_OIF, RTA_PRIORITY, RTA_TABLE})
        for (const std::size_t size : {0u, 1u, 3u, 5u, 16u}) {
            change out;
            const auto bytes = netlink_test::message(RTM_NEWROUTE, fixed, [&](nlmsghdr* h) { mnl_attr_put(h, type, size, zeros); });
            BOOST_TEST((read(bytes, out) == verdict::malformed), "type " << type << ", " << size << " bytes");
        }
}

BOOST_AUTO_TEST_CASE(any_bytes_are_read_to_their_end) {
    constexpr std::uint64_t seed = 20'261'121;
    BOOST_TEST_MESSAGE("seed " << seed);
    random_generator random(seed);
    auto points = ordinary();
    points.push_back(netlink_test::several_ways(RTM_NEWROUTE, {{3, *ipv6::parse("fe80::11")}, {3, *ipv6::parse("fe80::22")}}));
    for (int i = 0; i < 100'000; ++i) {
        std::vector<std::byte> bytes;
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
            const auto& more = points[random.below(points.size())];
            bytes.insert(bytes.end(), more.begin(), more.end());
        }
        for (std::uint64_t n = random.below(5); n > 0; --n) bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
        if (random.chance(0.3)) bytes.resize(random.below(bytes.size() + 1));
        netlink_fuzz::messages(byte_span(bytes));
    }
}

BOOST_AUTO_TEST_SUITE_END()
