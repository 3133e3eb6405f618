// Router advertisements: routes and addresses that come of them, and go; stable identifiers; what is told to routers (MLD).
#include "ipv6_link.hh"

#include <corewire/net/ip/autoconfiguration.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/stack/group_reports.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/reactor/task/task_group.hh>

#include "tests/reactor/log/log_fixture.hh"

#include <algorithm>
#include <map>

using namespace corewire;
using namespace std::chrono_literals;
using wire::icmpv6_type;
using wire::ip_protocol;

namespace {

stack_config autoconfigured() {
    stack_config config;
    config.ipv6.emplace().autoconfigure = true;
    config.ipv6->address = ipv6_prefix(ipv6_link::a6("2001:db8:aaaa::77"), 64);
    config.ipv6->secret = siphash_key{1, 2};
    return config;
}

struct routed_link : ipv6_link {
    explicit routed_link(unsigned probes = 0, const stack_config& config = autoconfigured()) : ipv6_link(probes, config) {}
    const ipv6 router = a6("fe80::99"), prefix = a6("2001:db8:1::");

    struct prefix_option {
        ipv6 prefix;
        std::uint32_t valid = 86'400, preferred = 14'400;
        std::uint8_t length = 64, flags = 0xc0;
    };
    /// `more_of_it`: what its header says besides.
    bytes advertisement(std::uint16_t lifetime, const std::vector<prefix_option>& prefixes, std::uint32_t mtu = 0,
                        wire::router_advertisement more_of_it = {}) const {
        bytes options;
        for (const prefix_option& p : prefixes) {
            bytes o(32);
            o[0] = std::byte{3};
            o[1] = std::byte{4};
            o[2] = static_cast<std::byte>(p.length);
            o[3] = static_cast<std::byte>(p.flags);
            store_be32(o.data() + 4, p.valid);
            store_be32(o.data() + 8, p.preferred);
            p.prefix.store(o.data() + 16);
            options.insert(options.end(), o.begin(), o.end());
        }
        bytes more(8);
        more[0] = std::byte{1}; // its link-layer address
        more[1] = std::byte{1};
        end->mac().store(more.data() + 2);
        options.insert(options.end(), more.begin(), more.end());
        if (mtu != 0) {
            bytes o(8);
            o[0] = std::byte{5};
            o[1] = std::byte{1};
            store_be32(o.data() + 4, mtu);
            options.insert(options.end(), o.begin(), o.end());
        }
        bytes out(16 + options.size());
        more_of_it.lifetime = lifetime;
        more_of_it.options = options;
        more_of_it.emit(out, router, ipv6::all_nodes());
        return out;
    }
    void advertise(std::uint16_t lifetime, const std::vector<prefix_option>& prefixes = {}, std::uint32_t mtu = 0) {
        send(advertisement(lifetime, prefixes, mtu), router, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    }
    void advertise(const wire::router_advertisement& header) {
        send(advertisement(1800, {}, 0, header), router, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    }
    /// A general query for groups, with 100 ms to answer in: 24 bytes are MLD's version 1, 28 version 2. `alert`: with a router alert, as
    /// it has to be; `header`: the one that it is in.
    void ask_for_groups(std::size_t size, bool alert = true, ip_protocol header = ip_protocol::hop_by_hop) {
        say_of_groups({.size = size, .from = router, .alert = alert, .header = header});
    }
    struct about_groups {
        std::uint8_t type = 130;
        std::size_t size = 24;
        ipv6 from, group = ipv6::any();
        std::uint8_t hop_limit = 1;
        bool alert = true;
        ip_protocol header = ip_protocol::hop_by_hop;
    };
    /// MLD's query or report; a report goes to its group.
    void say_of_groups(const about_groups& how) {
        bytes m(how.size);
        m[0] = std::byte{how.type};
        if (how.type == 130) store_be16(m.data() + 4, 100); // milliseconds
        how.group.store(m.data() + 8);
        const ipv6 to = how.group.is_any() ? ipv6::all_nodes() : how.group;
        store_be16(m.data() + 2, wire::pseudo_header_sum(how.from, to, ip_protocol::icmpv6, m.size()).add(m).checksum());
        if (!how.alert) return send(m, how.from, to, ip_protocol::icmpv6, how.hop_limit);
        bytes packet = {std::byte{58}, {}, std::byte{5}, std::byte{2}, {}, {}, std::byte{1}, {}}; // RFC 2711: for MLD; PadN
        packet.insert(packet.end(), m.begin(), m.end());
        send(packet, how.from, to, how.header, how.hop_limit);
    }
    /// RFC 2711 2.1, of MLD: hop-by-hop options that begin with it.
    static bool has_router_alert(const bytes& packet) {
        return load_be32(packet.data() + 40) == 0x3a00'0502u && load_be16(packet.data() + 44) == 0;
    }
    /// The groups of the reports of version 1 that it says within 200 ms.
    std::vector<ipv6> told_by_themselves() {
        pass(std::chrono::milliseconds{200});
        std::vector<ipv6> told;
        for (const bytes& packet : heard(true))
            if (load_u8(packet.data() + 6) == 0 && load_u8(packet.data() + 48) == 131 && has_router_alert(packet))
                told.push_back(ipv6::load(packet.data() + 56));
        return told;
    }
    ipv6_output& six() { return *stack->ip().six(); }
    std::vector<own_ipv6_address> made() {
        std::vector<own_ipv6_address> out;
        for (const own_ipv6_address& a : six().addresses().all())
            if (a.origin == ipv6_address_origin::autoconfigured) out.push_back(a);
        return out;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_autoconfiguration)

BOOST_FIXTURE_TEST_CASE(routers_are_asked_more_and_more_rarely_until_one_answers, routed_link) { // RFC 4861 6.3.7, RFC 7559
    const auto asked = [this] {
        int n = 0;
        for (const auto& packet : heard()) {
            if (view(packet).next_header() != ip_protocol::icmpv6) continue;
            if (icmp_of(packet).type() != icmpv6_type::router_solicitation) continue;
            BOOST_TEST((view(packet).destination() == ipv6::all_routers() && view(packet).hop_limit() == 255));
            ++n;
        }
        return n;
    };
    pass(18s); // within the first second, then after 4, 8, 16 s, a tenth more or less
    BOOST_TEST(asked() == 3);
    pass(22s); // a switch may not have let any of them through
    BOOST_TEST(asked() == 1);
    advertise(0); // no router
    pass(60s);
    BOOST_TEST(asked() >= 1);
    advertise(1800);
    pass(200s);
    BOOST_TEST(asked() == 0);
    advertise(100);
    pass(99s);
    BOOST_TEST(asked() == 0);
    pass(12s); // it has not been heard again: its time is over
    BOOST_TEST(asked() == 2); // within a second, and after 4 s, 8 s, ...
    advertise(1800);
    pass(60s);
    BOOST_TEST(asked() == 0);
    advertise(0); // it is none any more
    pass(2s);
    BOOST_TEST(asked() == 1);
    for (int i = 0; i < 10; ++i) advertise(1800), advertise(0); // whatever it says, the next question is four seconds after the last
    pass(1500ms);
    BOOST_TEST(asked() == 0);
    pass(2s);
    BOOST_TEST(asked() == 1);
}

BOOST_AUTO_TEST_CASE(who_has_no_address_yet_asks_for_a_router_without_its_mac) { // RFC 4861 4.1 (MUST NOT)
    routed_link link(1);
    int from_nowhere = 0, from_address = 0;
    for (int i = 0; i < 100; ++i) {
        link.pass(100ms);
        for (const auto& packet : link.heard()) {
            wire::router_solicitation asked;
            if (link.view(packet).next_header() != ip_protocol::icmpv6) continue;
            if (wire::router_solicitation::parse(link.icmp_of(packet), asked) != wire::parse_error::none) continue;
            const bool nowhere = link.view(packet).source().is_any();
            BOOST_TEST(asked.source_mac.has_value() == !nowhere);
            if (!nowhere) BOOST_TEST((asked.source_mac == link.stack->device().mac() && link.view(packet).source().is_link_local()));
            ++(nowhere ? from_nowhere : from_address);
        }
    }
    BOOST_TEST((from_nowhere == 1 && from_address >= 1)); // the next one is four seconds later
}

BOOST_AUTO_TEST_CASE(a_router_is_asked_for_once_an_hour_in_the_end) {
    ipv6_addresses addresses({}, 1);
    ipv6_routes routes;
    random_generator random(7);
    autoconfiguration automatic(mac_address(2, 0, 0, 0, 0, 1), {1, 2}, addresses, routes);
    automatic.start(from_ns(0), random);
    for (int i = 0; i < 20; ++i) BOOST_TEST(automatic.poll_solicitation(automatic.next_timeout(), random));
    const time_point last = automatic.next_timeout();
    BOOST_TEST(automatic.poll_solicitation(last, random));
    BOOST_TEST((automatic.next_timeout() - last >= 54min && automatic.next_timeout() - last <= 66min));
}

BOOST_AUTO_TEST_CASE(each_wait_for_a_router_is_twice_the_last_and_a_tenth_of_that_more_or_less) { // RFC 8415 15
    ipv6_addresses addresses({}, 1);
    ipv6_routes routes;
    double least = 9, most = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        random_generator random(seed);
        autoconfiguration automatic(mac_address(2, 0, 0, 0, 0, 1), {1, 2}, addresses, routes);
        automatic.start(from_ns(0), random);
        duration before{};
        for (int i = 0; i < 5; ++i) {
            const time_point at = automatic.next_timeout();
            BOOST_TEST(automatic.poll_solicitation(at, random));
            const duration wait = automatic.next_timeout() - at;
            const double times = static_cast<double>(wait.count()) / static_cast<double>((i == 0 ? duration{4s} : before).count());
            least = std::min(least, i == 0 ? times + 1 : times), most = std::max(most, i == 0 ? times + 1 : times);
            before = wait;
        }
    }
    BOOST_TEST((least >= 1.9 && least < 1.92 && most <= 2.1 && most > 2.08), least << " to " << most);
}

BOOST_AUTO_TEST_CASE(an_address_is_asked_for_once_unless_something_else_is_said) { // RFC 4862 5.1
    routed_link link(ipv6_config{}.duplicate_probes);
    link.pass(10s);
    int asked = 0;
    for (const auto& packet : link.heard()) {
        if (link.view(packet).next_header() != ip_protocol::icmpv6 || !link.view(packet).source().is_any()) continue;
        if (link.icmp_of(packet).type() == icmpv6_type::neighbor_solicitation) ++asked;
    }
    BOOST_TEST(asked == 2); // the configured one and the link-local one
}

BOOST_FIXTURE_TEST_CASE(an_advertised_prefix_makes_an_address_and_a_route, routed_link) { // RFC 4862 5.5.3, RFC 7217 5
    BOOST_TEST(!six().reachable(a6("2001:db8:ffff::1")));
    advertise(1800, {{.prefix = prefix}});
    BOOST_REQUIRE(made().size() == 1u);
    const std::uint64_t identifier = autoconfiguration::stable_identifier(prefix, stack->device().mac(), 0, {1, 2});
    BOOST_TEST((made()[0].address == wire::with_identifier(prefix, identifier)));
    BOOST_TEST((identifier != wire::interface_identifier(stack->device().mac())));
    BOOST_TEST((six().route(a6("2001:db8:1::77")).address == a6("2001:db8:1::77"))); // on the link
    BOOST_TEST((six().route(a6("2001:db8:ffff::1")).address == router));
    BOOST_TEST((six().source_for(a6("2001:db8:1::77")) == made()[0].address));
    advertise(1800, {{.prefix = prefix}});
    BOOST_TEST(made().size() == 1u);
    advertise(0);
    pass(1ms);
    BOOST_TEST(!six().reachable(a6("2001:db8:ffff::1"))); // it is a router no more
}

namespace {

/// What a port that brings only what it was asked for would be asked for.
struct asked_of_the_port final : group_follower {
    std::vector<net_address> wanted;
    std::size_t room = 100;
    bool on_join(const net_address& d) noexcept override {
        BOOST_TEST((std::find(wanted.begin(), wanted.end(), d) == wanted.end())); // once
        if (wanted.size() == room) return false;
        wanted.push_back(d);
        return true;
    }
    void on_leave(const net_address& d) noexcept override { BOOST_TEST(std::erase(wanted, d) == 1u); }
    bool has(const net_address& d) const { return std::find(wanted.begin(), wanted.end(), d) != wanted.end(); }
};

stack_config followed(asked_of_the_port& port) {
    stack_config config = autoconfigured();
    config.groups = &port;
    return config;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_port_is_told_of_addresses_and_their_groups_as_they_come_and_go) {
    asked_of_the_port port;
    routed_link link(1, followed(port));
    const ipv6 configured = ipv6_link::a6("2001:db8:aaaa::77"), local = wire::link_local_address(link.stack->device().mac());
    for (const ipv6& each : {configured, local}) BOOST_TEST((port.has(each) && port.has(each.solicited_node())));
    BOOST_TEST(port.wanted.size() == 4u);
    link.advertise(1800, {{.prefix = link.prefix, .valid = 10, .preferred = 5}});
    BOOST_REQUIRE(link.made().size() == 1u);
    const ipv6 first = link.made()[0].address;
    BOOST_TEST((port.has(first) && port.has(first.solicited_node()))); // before it is asked whether somebody has it
    // Somebody has: the next one takes its place (RFC 7217 6).
    link.send(ipv6_link::message(wire::neighbor_advertisement{false, false, true, first, link.end->mac()}, first, ipv6::all_nodes()), first,
              ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    BOOST_REQUIRE(link.made().size() == 1u);
    const ipv6 second = link.made()[0].address;
    BOOST_TEST((second != first && port.has(second) && !port.has(first) && !port.has(first.solicited_node())));
    link.pass(11s);
    BOOST_TEST(link.made().empty());
    BOOST_TEST(port.wanted.size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_port_without_room_is_counted_and_asked_again) {
    asked_of_the_port port;
    port.room = 4;
    routed_link link(0, followed(port));
    link.advertise(1800, {{.prefix = link.prefix}});
    BOOST_TEST(link.stack->statistics().ipv6_not_steered == 2u);
    port.room = 100;
    link.advertise(1800, {{.prefix = link.prefix}});
    BOOST_TEST(link.stack->statistics().ipv6_not_steered == 2u);
    BOOST_TEST(port.wanted.size() == 6u);
}

BOOST_AUTO_TEST_CASE(a_router_that_says_it_is_none_goes_and_a_configured_gateway_stays) { // RFC 4861 7.2.5, 6.3.5
    for (const bool configured : {true, false}) {
        stack_config config = autoconfigured();
        const ipv6 gateway = ipv6_link::a6(configured ? "2001:db8:aaaa::99" : "fe80::99"), far = ipv6_link::a6("2001:db8:ffff::1");
        if (configured) config.ipv6->gateway = gateway;
        routed_link w(0, config);
        if (!configured) w.advertise(1800);
        w.send(w.message(wire::neighbor_solicitation{w.a6("2001:db8:aaaa::77"), w.end->mac()}, gateway, w.a6("2001:db8:aaaa::77")), gateway,
               w.a6("2001:db8:aaaa::77"), ip_protocol::icmpv6, 255);
        for (const bool router : {true, false}) {
            const wire::neighbor_advertisement na{router, false, true, gateway, w.end->mac()};
            w.send(w.message(na, gateway, ipv6::all_nodes()), gateway, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
            BOOST_TEST((w.six().route(far).address == gateway) == (router || configured));
        }
    }
}

BOOST_FIXTURE_TEST_CASE(a_router_that_advertises_without_its_mac_goes_when_it_says_it_is_none, routed_link) { // RFC 4861 6.3.4, 7.2.5
    const ipv6 far = a6("2001:db8:ffff::1");
    const auto own = a6("2001:db8:aaaa::77");
    send(message(wire::neighbor_solicitation{own, end->mac()}, router, own), router, own, ip_protocol::icmpv6, 255);
    bytes out(wire::router_advertisement::fixed_size);
    wire::router_advertisement{.lifetime = 1800}.emit(out, router, ipv6::all_nodes());
    send(out, router, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    BOOST_TEST((six().route(far).address == router));
    const wire::neighbor_advertisement none_any_more{false, false, true, router, end->mac()};
    send(message(none_any_more, router, ipv6::all_nodes()), router, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    BOOST_TEST((six().route(far).kind == hop_kind::unreachable));
}

BOOST_FIXTURE_TEST_CASE(life_times_are_shortened_to_two_hours_at_most, routed_link) { // RFC 4862 5.5.3 (e)
    advertise(1800, {{.prefix = prefix, .valid = 86'400}});
    advertise(1800, {{.prefix = prefix, .valid = 10, .preferred = 5}}); // forged, perhaps
    const auto left = [&] { return made()[0].valid_until - clock.now(); };
    BOOST_TEST((left() > 7'190s && left() <= 7'200s));
    pass(6s);
    BOOST_TEST((made()[0].phase == ipv6_address_phase::deprecated)); // the preferred one is as it says
    advertise(1800, {{.prefix = prefix, .valid = 90'000}});
    BOOST_TEST((left() > 80'000s));
    BOOST_TEST((made()[0].phase == ipv6_address_phase::preferred));
}

BOOST_FIXTURE_TEST_CASE(what_is_shorter_than_two_hours_stays_and_what_is_longer_is_as_a_router_says, routed_link) { // RFC 4862 5.5.3 (e)
    const auto left = [&] { return made()[0].valid_until - clock.now(); };
    advertise(1800, {{.prefix = prefix, .valid = 86'400}});
    advertise(1800, {{.prefix = prefix, .valid = 10'800, .preferred = 600}}); // less than was left, and more than two hours
    BOOST_TEST((left() > 10'790s && left() <= 10'800s));
    advertise(1800, {{.prefix = prefix, .valid = 10, .preferred = 5}});
    pass(2s);
    const time_point until = made()[0].valid_until; // two hours are not left any more
    advertise(1800, {{.prefix = prefix, .valid = 10, .preferred = 5}});
    BOOST_TEST((made()[0].valid_until == until));
    advertise(1800, {{.prefix = prefix, .valid = 7'199, .preferred = 600}}); // longer than what is left
    BOOST_TEST((left() > 7'190s && made()[0].valid_until > until));
}

BOOST_FIXTURE_TEST_CASE(a_prefix_is_on_the_link_if_a_router_says_so_and_for_as_long, routed_link) { // RFC 4861 4.6.2, 6.3.4
    const ipv6 near = a6("2001:db8:1::77");
    const auto on_link = [&] {
        const ipv6_next_hop hop = six().route(near);
        BOOST_TEST((hop.address == near || hop.address == router));
        return hop.address == near;
    };
    advertise(1800, {{.prefix = prefix, .flags = 0x40}}); // for an address alone
    BOOST_TEST(made().size() == 1u);
    BOOST_TEST(!on_link());
    advertise(1800, {{.prefix = prefix, .valid = 10, .preferred = 5, .flags = 0x80}});
    BOOST_TEST(on_link());
    pass(9s);
    BOOST_TEST(on_link());
    advertise(1800, {{.prefix = prefix, .valid = 10, .preferred = 5, .flags = 0x80}}); // anew
    pass(9s);
    BOOST_TEST(on_link());
    pass(1s);
    BOOST_TEST(!on_link());
    advertise(1800, {{.prefix = prefix, .flags = 0x80}});
    BOOST_TEST(on_link());
    advertise(1800, {{.prefix = prefix, .valid = 0, .preferred = 0, .flags = 0x40}}); // says nothing of the link
    BOOST_TEST(on_link());
    advertise(1800, {{.prefix = prefix, .valid = 0, .preferred = 0, .flags = 0x80}}); // not on it any more
    BOOST_TEST(!on_link());
}

BOOST_FIXTURE_TEST_CASE(what_makes_no_address_is_ignored, routed_link) { // RFC 4862 5.5.3 (a) to (d)
    advertise(1800, {{.prefix = prefix, .flags = 0x80}, {.prefix = a6("fe80::")},
                     {.prefix = a6("2001:db8:2::"), .valid = 5, .preferred = 6},
                     {.prefix = a6("2001:db8:3::"), .length = 63}, {.prefix = a6("2001:db8:4::"), .valid = 0, .preferred = 0}});
    BOOST_TEST(made().empty());
    // From no link-local address, through a router, with an option of no length: ignored altogether (RFC 4861 6.1.2).
    const ipv6 all = ipv6::all_nodes();
    auto ra = advertisement(1800, {{.prefix = prefix}});
    const auto say = [&](const ipv6& from, std::uint8_t hops) {
        store_be16(ra.data() + 2, 0);
        store_be16(ra.data() + 2, wire::pseudo_header_sum(from, all, ip_protocol::icmpv6, ra.size()).add(ra).checksum());
        send(ra, from, all, ip_protocol::icmpv6, hops);
    };
    say(peer, 255);
    say(router, 254);
    ra[ra.size() - 7] = {}; // the length of its last option
    say(router, 255);
    BOOST_TEST(made().empty());
    BOOST_TEST(stack->statistics().ipv6_discovery_invalid == 3u);
}

BOOST_FIXTURE_TEST_CASE(a_flood_of_advertisements_changes_little, routed_link) { // each has all flows look for their next hop anew
    const std::uint32_t before = six().routes().generation();
    const std::uint64_t heard_before = six().automatic()->statistics().advertisements;
    for (unsigned i = 0; i < 200; ++i) advertise(1800, {}, 1280 + i % 2 * 100); // in 200 ms
    const std::uint64_t taken = six().automatic()->statistics().advertisements - heard_before;
    BOOST_TEST((taken >= 38u && taken <= 42u)); // 20, and 100 a second
    BOOST_TEST(six().routes().generation() - before <= 2 * taken);
    BOOST_TEST(stack->statistics().advertisements_refused == 200 - taken);
    pass(1s);
    advertise(1800, {}, 1300);
    BOOST_TEST(six().mtu() == 1300u);
}

BOOST_FIXTURE_TEST_CASE(a_router_says_what_the_link_takes, routed_link) { // RFC 4861 6.3.4
    advertise(1800, {}, 1400);
    BOOST_TEST(six().mtu() == 1400u);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), peer) == 1400u);
    advertise(1800, {}, 600); // below what IPv6 needs
    BOOST_TEST(six().mtu() == 1400u);
    advertise(1800, {}, 9000); // more than the port takes
    BOOST_TEST(six().mtu() == 1500u);
}

/// A neighbour on the link that the stack knows, and sockets of the stack's.
struct spoken_to : routed_link {
    explicit spoken_to(unsigned probes = 0) : routed_link(probes) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        socket = udp_socket::bind({ipv6::any(), 7});
        send(message(wire::neighbor_solicitation{own, end->mac()}, near, own.solicited_node()), near, own.solicited_node(),
             ip_protocol::icmpv6, 255);
        heard();
    }
    ~spoken_to() { group.destroy_all(); }
    static task<> send_out(spoken_to& w, ipv6 where, std::size_t size, std::uint16_t port = 4000) {
        const std::vector<std::byte> data(size, std::byte{'x'});
        const socket_address to(where, port);
        try {
            co_await w.socket.send_to(byte_span{data}, to);
        } catch (const std::system_error& e) {
            w.error = e.code();
        }
    }
    /// The packets that come of a datagram of ours.
    std::vector<bytes> say(std::size_t size, const ipv6& where) {
        group.spawn(send_out(*this, where, size));
        pass(1ms);
        return heard();
    }
    const ipv6 own = a6("2001:db8:aaaa::77"), near = a6("2001:db8:aaaa::5");
    task_group group{"autoconfiguration"};
    udp_socket socket;
    std::error_code error;
};

/// Its socket at :: sends to what lies behind the router from `passing`, while there is that address.
struct passing_address : spoken_to {
    const ipv6 far = a6("2001:db8:1:5::9");
    ipv6 passing;

    void have(std::uint32_t valid, std::uint32_t preferred) {
        advertise(1800, {{prefix, valid, preferred, 64, 0x40}}); // no route of its own: the routes stay as they are
        stack->ip().six()->neighbors().set_permanent(router, end->mac());
        for (const own_ipv6_address& a : six().addresses().all())
            if (ipv6_prefix(prefix, 64).contains(a.address)) passing = a.address;
        heard();
    }
    ipv6 source_of_next() {
        const auto sent = say(10, far);
        return sent.size() == 1 ? view(sent[0]).source() : ipv6::any();
    }
};

BOOST_FIXTURE_TEST_CASE(datagrams_leave_from_no_address_that_has_gone, passing_address) { // RFC 4862 5.5.4
    have(5, 5);
    BOOST_TEST(source_of_next() == passing);
    pass(6s);
    heard();
    BOOST_TEST(!six().addresses().is_claimed(passing));
    BOOST_TEST(source_of_next() == own);
}

BOOST_FIXTURE_TEST_CASE(datagrams_leave_from_a_deprecated_address_only_when_there_is_no_other, passing_address) { // RFC 6724 5, rule 3
    have(10'000, 5);
    BOOST_TEST(source_of_next() == passing);
    pass(6s);
    heard();
    BOOST_TEST(source_of_next() == own);
    have(10'000, 5'000); // and is preferred again
    BOOST_TEST(source_of_next() == passing);
}

BOOST_FIXTURE_TEST_CASE(who_waits_at_an_address_of_ipv6_hears_that_it_is_gone, passing_address) {
    have(5, 5);
    udp_socket at = udp_socket::bind({passing, 9}), everywhere = udp_socket::bind({ipv6::any(), 10});
    std::error_code of_it, of_all;
    const auto wait = [](udp_socket& s, std::error_code& why) -> task<> {
        try {
            static_cast<void>(co_await s.receive_from());
        } catch (const std::system_error& e) {
            why = e.code();
        }
    };
    group.spawn(wait(at, of_it));
    group.spawn(wait(everywhere, of_all));
    pass(4s);
    BOOST_TEST(!of_it);
    pass(2s);
    BOOST_TEST((of_it == std::errc::network_down));
    BOOST_TEST(!of_all);
    group.destroy_all();
}

BOOST_FIXTURE_TEST_CASE(who_sends_from_an_address_of_ipv6_that_is_gone_is_refused, passing_address) {
    have(5, 5);
    socket = udp_socket::bind({passing, 9});
    BOOST_TEST(source_of_next() == passing);
    pass(6s);
    heard();
    BOOST_TEST(say(10, far).empty());
    BOOST_TEST((error == std::errc::network_unreachable));
}

BOOST_FIXTURE_TEST_CASE(connections_send_nothing_from_an_address_that_is_gone, passing_address) { // RFC 4862 5.5.4
    const ipv6 given = a6("2001:db8:5::5");
    dhcp6_lease lease;
    lease.addresses.push({given, never, never});
    for (const bool leased : {false, true}) {
        have(5, 5);
        if (leased) six().follow_lease(clock.now(), lease);
        ipv6_path path;
        BOOST_REQUIRE(six().prepare(path, flow_name(leased ? given : passing, far, 1, 2), ip_protocol::tcp));
        BOOST_TEST(six().ready(clock.now(), path));
        if (leased) six().follow_lease(clock.now(), {});
        else pass(6s);
        BOOST_TEST(!six().current(path));
        BOOST_TEST(!six().ready(clock.now(), path));
    }
}

BOOST_FIXTURE_TEST_CASE(what_a_router_says_of_the_link_counts_for_datagrams_that_are_under_way_already, spoken_to) { // RFC 4861 6.3.4
    BOOST_TEST(say(1400, near).size() == 1u);
    advertise(1800, {}, 1400);
    BOOST_TEST(say(1400, near).size() == 2u); // in fragments
    advertise(1800, {}, 1500);
    BOOST_TEST(say(1400, near).size() == 1u);
    BOOST_TEST(six().automatic()->statistics().mtus_refused == 0u);
    advertise(1800, {}, 1279);
    BOOST_TEST(six().automatic()->statistics().mtus_refused == 1u);
    BOOST_TEST(six().mtu() == 1500u);
}

BOOST_FIXTURE_TEST_CASE(a_datagram_to_nobody_does_not_go_where_the_one_before_went, spoken_to) {
    advertise(1800);
    BOOST_TEST(say(100, near).size() == 1u);
    advertise(0); // all look for their way anew
    group.spawn(send_out(*this, ipv6::any(), 100, 0));
    pass(1ms);
    BOOST_TEST(heard().empty());
    BOOST_TEST((error == std::errc::invalid_argument));
}

BOOST_FIXTURE_TEST_CASE(a_router_that_ends_is_sent_no_more_datagrams, spoken_to) { // RFC 4861 6.3.4, 6.3.5
    const ipv6 far = a6("2001:db8:ffff::1");
    advertise(1800);
    BOOST_TEST(say(100, far).size() == 1u);
    advertise(0);
    BOOST_TEST(say(100, far).empty());
    BOOST_TEST((error == std::errc::network_unreachable));
    advertise(2); // its time runs out
    BOOST_TEST(say(100, far).size() == 1u);
    pass(2s);
    heard();
    error = {};
    BOOST_TEST(say(100, far).empty());
    BOOST_TEST((error == std::errc::network_unreachable));
}

BOOST_FIXTURE_TEST_CASE(a_router_that_does_not_answer_comes_last, spoken_to) { // RFC 4861 6.3.6
    const ipv6 far = a6("2001:db8:ffff::1"), second = a6("fe80::98");
    for (const ipv6& from : {router, second}) { // without its link-layer address: it is asked for
        bytes out(wire::router_advertisement::fixed_size);
        wire::router_advertisement{.lifetime = 1800}.emit(out, from, ipv6::all_nodes());
        send(out, from, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    }
    BOOST_TEST((six().route(far).address == router));
    say(100, far);
    pass(10s); // it is asked three times, and given up, though nobody sends anything more
    BOOST_TEST((six().route(far).address == second));
    say(100, far);
    pass(5s);
    BOOST_TEST((six().route(far).address == router)); // neither does
    say(100, far);
    pass(5s);
    heard();
    error = {};
    six().routes().demote_router(second);
    BOOST_TEST(say(100, far).empty()); // who is known not to answer is not asked again for a while
    BOOST_TEST((error == std::errc::host_unreachable));
}

BOOST_FIXTURE_TEST_CASE(of_routers_the_preferred_one_is_used, spoken_to) { // RFC 4191 3.1, a host of type B
    using enum wire::router_preference;
    const ipv6 far = a6("2001:db8:ffff::1"), second = a6("fe80::98"), third = a6("fe80::97");
    const auto says = [&](const ipv6& from, wire::router_preference preference, std::uint16_t lifetime = 1800) {
        bytes out(wire::router_advertisement::fixed_size);
        wire::router_advertisement{.preference = preference, .lifetime = lifetime}.emit(out, from, ipv6::all_nodes());
        send(out, from, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
        return six().route(far).address;
    };
    BOOST_TEST((says(router, low) == router));
    BOOST_TEST((says(second, medium) == second));
    BOOST_TEST((says(third, medium) == second)); // it was there before
    const std::uint32_t before = six().routes().generation();
    BOOST_TEST((says(third, high) == third));
    BOOST_TEST(six().routes().generation() != before); // connections look again
    BOOST_TEST((says(third, medium) == second));
    BOOST_TEST((says(router, high) == router));
    six().routes().demote_router(router); // it is silent
    BOOST_TEST((six().route(far).address == second));
    BOOST_TEST((says(router, high) == second));
    BOOST_TEST((says(second, medium, 0) == third));
    six().routes().add_router(a6("fe80::1")); // a configured one comes before all
    BOOST_TEST((says(third, high) == a6("fe80::1")));
}

BOOST_FIXTURE_TEST_CASE(a_router_says_how_many_hops_packets_may_take, spoken_to) { // RFC 4861 6.3.4: CurHopLimit
    tcp_listener listener = tcp_listener::bind({ipv6::any(), 9});
    bytes syn(20);
    wire::tcp_header{.source_port = 10, .destination_port = 9, .sequence = 5, .flags = wire::tcp_flags::syn, .window = 65'535}.emit(syn);
    wire::store_tcp_checksum(syn, near, own);
    send(syn, near, own, ip_protocol::tcp);
    const auto hops = [&](const std::vector<bytes>& packets) { return packets.size() == 1 ? view(packets[0]).hop_limit() : 0; };
    const auto echo = [&] {
        send(icmp(wire::icmpv6_header::echo_request(7, 9), near, own), near, own, ip_protocol::icmpv6);
        return heard();
    };
    BOOST_TEST(hops(heard()) == 64);
    BOOST_TEST(hops(say(100, near)) == 64);
    BOOST_TEST(hops(echo()) == 64);
    advertise({.hop_limit = 99});
    BOOST_TEST(hops(say(100, near)) == 99);
    BOOST_TEST(hops(echo()) == 99);
    pass(1s);
    BOOST_TEST(hops(heard()) == 99); // the SYN-ACK of a connection from before, once more
    advertise({.hop_limit = 0});     // it does not say
    advertise({.hop_limit = 1});     // no host would get far
    BOOST_TEST(hops(say(100, near)) == 99);
    BOOST_TEST(six().automatic()->statistics().hop_limits_refused == 1u);
    advertise({.hop_limit = 32});
    BOOST_TEST(hops(say(100, near)) == 32);
}

BOOST_FIXTURE_TEST_CASE(the_hops_that_a_socket_asked_for_outlive_what_routers_say, spoken_to) {
    ipv6_path path;
    BOOST_REQUIRE(six().prepare(path, flow_name(own, near, 1, 2), ip_protocol::tcp));
    const auto hops_after = [&](std::uint8_t said) {
        advertise({.hop_limit = said});
        static_cast<void>(six().ready(clock.now(), path));
        return static_cast<unsigned>(load_u8(path.headers.data() + 14 + 7));
    };
    BOOST_TEST(hops_after(99) == 99u);
    path.set_marks(0, 7);
    BOOST_TEST(hops_after(98) == 7u);
    path.set_marks(0, 0);
    BOOST_TEST(hops_after(97) == 97u);
}

BOOST_AUTO_TEST_CASE(a_router_says_the_times_of_neighbour_discovery) { // RFC 4861 6.3.4, RFC 4862 5.4
    routed_link w(1);
    w.pass(3s);
    w.heard();
    w.advertise({.reachable_time = 4000, .retransmit_time = 200});
    BOOST_TEST((w.six().neighbors().reachable_time() >= 2s && w.six().neighbors().reachable_time() <= 6s));
    const ipv6 own = w.a6("2001:db8:aaaa::77"), stranger = w.a6("2001:db8:aaaa::5");
    w.send(w.icmp(wire::icmpv6_header::echo_request(7, 9), stranger, own), stranger, own, ip_protocol::icmpv6);
    w.pass(450ms);
    BOOST_TEST(w.heard().size() == 3u); // who is it? Three times, 200 ms apart
    w.advertise(1800, {{.prefix = w.prefix}});
    BOOST_REQUIRE(w.made().size() == 1u);
    const duration until_the_question = w.made()[0].due - w.clock.now();
    w.pass(until_the_question + 190ms);
    BOOST_TEST(!w.made()[0].usable());
    w.pass(20ms);
    BOOST_TEST(w.made()[0].usable());
}

BOOST_AUTO_TEST_CASE(a_duplicate_gets_another_identifier) { // RFC 7217 6
    routed_link w(1);
    w.pass(3s);
    w.advertise(1800, {{.prefix = w.prefix}});
    const ipv6 first = w.made()[0].address, all = ipv6::all_nodes();
    const wire::neighbor_advertisement taken{false, false, true, first, w.end->mac()};
    w.send(w.message(taken, first, all), first, all, ip_protocol::icmpv6, 255);
    BOOST_REQUIRE(w.made().size() == 1u);
    BOOST_TEST((w.made()[0].address == wire::with_identifier(
                                           w.prefix, autoconfiguration::stable_identifier(w.prefix, w.stack->device().mac(), 1, {1, 2}))));
    // Not at the same moment as the other, if that does likewise (IDGEN_DELAY).
    const duration wait = w.made()[0].due - w.clock.now();
    BOOST_TEST((wait > 0s && wait <= 1s));
    w.pass(3s);
    BOOST_TEST(w.made()[0].usable());
}

BOOST_AUTO_TEST_CASE(reserved_identifiers_are_passed_over) { // RFC 7217 5 (2), RFC 5453
    const auto reserved = [](std::uint64_t i) { return autoconfiguration::is_reserved(i); };
    for (const std::uint64_t i : {0x0ul, 0x0200'5eff'fe00'0000ul, 0x0200'5eff'fe00'5213ul, 0x0200'5eff'feff'fffful, 0xfdff'ffff'ffff'ff80ul,
                                  0xfdff'ffff'ffff'fffful})
        BOOST_TEST(reserved(i));
    for (const std::uint64_t i : {0x1ul, 0x0200'5eff'fdff'fffful, 0x0200'5eff'ff00'0000ul, 0xfdff'ffff'ffff'ff7ful,
                                  0xfe00'0000'0000'0000ul})
        BOOST_TEST(!reserved(i));
    const std::uint64_t tries[] = {0, 0xfdff'ffff'ffff'ff80, 0x0200'5eff'fe00'5213, 7, 8};
    const auto hash = [&](std::span<const unsigned char> about) { return tries[about[15]]; };
    BOOST_TEST(autoconfiguration::identifier_by(ipv6_link::a6("2001:db8:1::"), mac_address(0x02'00'00'00'00'01), 0, hash) == 7u);
}

BOOST_AUTO_TEST_CASE(an_address_is_told_when_it_is_made_and_not_when_none_is_left_to_try) {
    kept_log log(2);
    routed_link w(1);
    shard_log ours(log.writer, log.writer.ring(1), w.loop);
    const auto told = [&] {
        std::vector<std::string> made;
        for (const std::string& line : log.messages()) {
            const auto before = line.find("prefix gives us "), at = before + 16;
            if (before != line.npos) made.push_back(line.substr(at, line.find(',', at) - at));
        }
        return made;
    };
    const auto somebody_has = [&](const ipv6& address) {
        const wire::neighbor_advertisement taken{false, false, true, address, w.end->mac()};
        w.send(w.message(taken, address, ipv6::all_nodes()), address, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    };
    w.advertise(1800, {{.prefix = w.prefix}});
    for (int i = 0; i < 3; ++i) {
        BOOST_REQUIRE(w.made().size() == 1u);
        const ipv6 address = w.made()[0].address;
        BOOST_TEST(told() == std::vector{to_string(address)}, boost::test_tools::per_element());
        if (i < 2) somebody_has(address);
    }
    w.advertise(1800, {{.prefix = w.a6("2001:db8:2::")}}); // another prefix, whose address is nobody's
    BOOST_REQUIRE(w.made().size() == 2u);
    BOOST_TEST(told() == std::vector{to_string(w.made()[1].address)}, boost::test_tools::per_element());
    somebody_has(w.made()[0].address); // the third of the first prefix
    BOOST_TEST(told().empty());
    BOOST_TEST(w.six().automatic()->statistics().given_up == 1u);
}

BOOST_AUTO_TEST_CASE(identifiers_are_stable_on_a_network_and_differ_between_networks) { // RFC 7217 5
    const mac_address mac(0x02'00'00'00'00'01);
    const ipv6 a = ipv6_link::a6("2001:db8:1::"), b = ipv6_link::a6("2001:db8:2::");
    const auto id = [&](const ipv6& p, std::uint8_t n, siphash_key k) { return autoconfiguration::stable_identifier(p, mac, n, k); };
    BOOST_TEST(id(a, 0, {1, 2}) == id(a, 0, {1, 2}));
    BOOST_TEST(id(a, 0, {1, 2}) != id(b, 0, {1, 2}));
    BOOST_TEST(id(a, 0, {1, 2}) != id(a, 1, {1, 2}));
    BOOST_TEST(id(a, 0, {1, 2}) != id(a, 0, {1, 3}));
    for (const std::uint64_t other : {0x02'00'00'00'00'02ul, 0x03'00'00'00'00'01ul}) // another interface
        BOOST_TEST(id(a, 0, {1, 2}) != autoconfiguration::stable_identifier(a, mac_address(other), 0, {1, 2}));
}

BOOST_FIXTURE_TEST_CASE(groups_are_told_to_routers_who_ask, routed_link) { // RFC 3810 5.2, 6.2
    pass(1s);
    heard(true);
    ask_for_groups(28);
    pass(200ms);
    int reports = 0;
    for (const auto& packet : heard(true)) {
        const wire::ipv6_view ip = view(packet);
        if (ip.next_header() != ip_protocol::hop_by_hop) continue;
        BOOST_TEST((ip.destination() == a6("ff02::16") && ip.hop_limit() == 1 && ip.source().is_link_local()));
        const wire::ipv6_chain chain = wire::walk_extensions(packet); // the router alert is an option that it knows
        BOOST_REQUIRE((chain.verdict == wire::ipv6_chain_verdict::good && chain.protocol == ip_protocol::icmpv6));
        BOOST_TEST(has_router_alert(packet));
        const byte_span m = byte_span(packet).subspan(chain.offset);
        BOOST_TEST(load_u8(m.data()) == 143);
        BOOST_TEST(wire::pseudo_header_sum(ip.source(), ip.destination(), ip_protocol::icmpv6, m.size()).add(m).verifies());
        BOOST_TEST(load_be16(m.data() + 6) == 2); // the link-local address's, and the configured one's
        ++reports;
    }
    BOOST_TEST(reports == 1);
}

BOOST_AUTO_TEST_CASE(a_link_local_address_that_another_host_has_is_told_as_an_error) { // RFC 4862 5.4.5
    kept_log log(2);
    routed_link w(1);
    shard_log ours(log.writer, log.writer.ring(1), w.loop);
    const ipv6 address = w.six().addresses().all()[0].address;
    BOOST_REQUIRE(address.is_link_local());
    w.send(w.message(wire::neighbor_advertisement{false, false, true, address, w.end->mac()}, address, ipv6::all_nodes()), address,
           ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    log.writer.drain();
    const auto errors = std::ranges::count_if(log.lines, [&](const std::string& line) {
        return line.find("error") != line.npos && line.find("our link-local address " + to_string(address)) != line.npos;
    });
    BOOST_TEST(errors == 1);
}

BOOST_AUTO_TEST_CASE(groups_are_told_anew_when_the_link_local_address_may_be_used) { // RFC 3590 4
    routed_link w(1);
    std::map<std::string, int> from_nowhere, from_address; // times that a group was told
    for (int i = 0; i < 60; ++i) {
        w.pass(100ms);
        for (const auto& packet : w.heard(true)) {
            const wire::ipv6_view ip = w.view(packet);
            if (ip.next_header() != ip_protocol::hop_by_hop) continue;
            BOOST_TEST((ip.source().is_any() ? from_address.empty() : ip.source().is_link_local()));
            const wire::ipv6_chain chain = wire::walk_extensions(packet);
            const byte_span m = byte_span(packet).subspan(chain.offset);
            for (std::size_t at = 8; at < m.size(); at += 20)
                ++(ip.source().is_any() ? from_nowhere : from_address)[to_string(ipv6::load(m.data() + at + 4))];
        }
    }
    const std::string first = to_string(w.six().addresses().all()[0].address.solicited_node());
    const std::string second = to_string(w.six().addresses().all()[1].address.solicited_node());
    BOOST_TEST(from_nowhere.size() != 0u);
    BOOST_TEST(from_address.size() == 2u);
    BOOST_TEST((from_address[first] == 2 && from_address[second] == 2));
}

BOOST_FIXTURE_TEST_CASE(who_asks_for_groups_without_a_router_alert_hears_nothing, routed_link) { // RFC 3810 6.2
    pass(2s);
    heard(true);
    for (const std::size_t size : {24u, 28u}) {
        ask_for_groups(size, false);
        pass(200ms);
        ask_for_groups(size, true, ip_protocol::ipv6_destination);
        pass(200ms);
    }
    for (const auto& packet : heard(true)) BOOST_TEST((view(packet).next_header() != ip_protocol::hop_by_hop));
}

BOOST_FIXTURE_TEST_CASE(who_asks_for_groups_from_beyond_a_router_hears_nothing, routed_link) { // RFC 3810 6.2
    pass(2s);
    heard(true);
    for (const std::size_t size : {24u, 28u}) {
        say_of_groups({.size = size, .from = router, .hop_limit = 64});
        pass(200ms);
        say_of_groups({.size = size, .from = a6("2001:db8:aaaa::99")});
        pass(200ms);
    }
    for (const auto& packet : heard(true)) BOOST_TEST((view(packet).next_header() != ip_protocol::hop_by_hop));
    ask_for_groups(24);
    BOOST_TEST(told_by_themselves().size() == 2u);
}

BOOST_FIXTURE_TEST_CASE(to_a_router_of_version_1_nobody_tells_what_somebody_else_has_told, routed_link) { // RFC 2710 3, 4
    pass(2s);
    heard(true);
    const ipv6 other = a6("fe80::98"), first = six().addresses().all()[0].address.solicited_node();
    const ipv6 second = six().addresses().all()[1].address.solicited_node();
    const about_groups report{.type = 131, .from = other, .group = first};
    ask_for_groups(24);
    say_of_groups(report);
    BOOST_TEST((told_by_themselves() == std::vector{second}));
    about_groups routed = report, global = report, bare = report; // such reports count for nothing
    routed.hop_limit = 2;
    global.from = a6("2001:db8:aaaa::99");
    bare.alert = false;
    for (const about_groups& bad : {routed, global, bare}) {
        ask_for_groups(24);
        say_of_groups(bad);
        BOOST_TEST(told_by_themselves().size() == 2u);
    }
}

BOOST_FIXTURE_TEST_CASE(a_router_that_speaks_mld_version_1_hears_of_each_group_by_itself, routed_link) { // RFC 3810 8.2.1
    pass(2s);
    heard(true);
    ask_for_groups(24);
    pass(200ms);
    std::vector<ipv6> told;
    for (const auto& packet : heard(true)) {
        const wire::ipv6_view ip = view(packet);
        if (ip.next_header() != ip_protocol::hop_by_hop) continue;
        const wire::ipv6_chain chain = wire::walk_extensions(packet);
        BOOST_REQUIRE((chain.verdict == wire::ipv6_chain_verdict::good && chain.protocol == ip_protocol::icmpv6));
        const byte_span m = byte_span(packet).subspan(chain.offset);
        BOOST_REQUIRE(m.size() == 24u);
        BOOST_TEST(load_u8(m.data()) == 131);
        BOOST_TEST((ip.hop_limit() == 1 && ip.source().is_link_local()));
        BOOST_TEST((ip.destination() == ipv6::load(m.data() + 8)));
        BOOST_TEST(wire::pseudo_header_sum(ip.source(), ip.destination(), ip_protocol::icmpv6, m.size()).add(m).verifies());
        told.push_back(ip.destination());
    }
    BOOST_TEST(told.size() == 2u); // the link-local address's, and the configured one's
}

BOOST_AUTO_TEST_SUITE_END()
