// Groups that sockets join, as the cable sees them: what is told to routers (IGMP, MLD), what is let in, how datagrams to groups leave.
#include "ipv6_link.hh"

#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/wire/igmp.hh>
#include <corewire/net/wire/udp.hh>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

const ipv4 feed(239, 1, 2, 3), us4(10, 0, 0, 1), peer4(10, 0, 0, 2);
const ipv6 feed6 = *ipv6::parse("ff05::4321");

struct notes : group_follower {
    std::vector<std::string> said;
    bool full = false;
    bool on_join(const net_address& group) noexcept override {
        said.push_back("+" + to_string(group));
        return !full;
    }
    void on_leave(const net_address& group) noexcept override { said.push_back("-" + to_string(group)); }
};

struct told {
    notes follower;
};

struct group_link : told, ipv6_link {
    static stack_config with(group_follower& follower) {
        stack_config config;
        config.groups = &follower;
        return config;
    }
    group_link() : ipv6_link(0, with(follower)) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        follower.said.clear(); // the stack's own IPv6 addresses, and their groups
        frames();
    }
    /// IPv4 packets of a protocol that have come from the stack, the header included.
    std::vector<bytes> packets(wire::ip_protocol protocol) {
        std::vector<bytes> out;
        for (const bytes& f : frames())
            if (load_be16(f.data() + 12) == 0x0800 && load_u8(f.data() + 14 + 9) == static_cast<std::uint8_t>(protocol))
                out.emplace_back(f.begin() + 14, f.end());
        return out;
    }
    void send4(const bytes& payload, ipv4 to, wire::ip_protocol protocol, std::uint8_t ttl) {
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = mac_address::of_multicast(to), .source = end->mac(), .type = wire::ether_type::ipv4}
            .emit({p.head.append(14), 14});
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + payload.size()), .ttl = ttl, .protocol = protocol,
                          .source = peer4, .destination = to}
            .emit({p.head.append(20), 20});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(payload.size())), payload.data(), payload.size());
        end->transmit({&p, 1});
        pass(2ms);
    }
    static bytes datagram(std::uint16_t port) {
        bytes d(12);
        wire::udp_header{.source_port = 9, .destination_port = port, .length = 12}.emit(d);
        return d;
    }
    static bytes query(ipv4 group) {
        bytes q(12);
        q[0] = std::byte{0x11};
        q[1] = std::byte{10}; // a second
        group.store(q.data() + 4);
        store_be16(q.data() + 2, wire::internet_checksum(q));
        return q;
    }
    std::uint64_t delivered() { return stack->udp().demux().statistics().delivered; }
};

/// The record of a version 3 report that tells of one group; 0: it is none.
unsigned record_of(const group_link::bytes& packet, ipv4 group) {
    const std::size_t at = (load_u8(packet.data()) & 15u) * 4;
    if (load_u8(packet.data() + at) != 0x22 || ipv4::load(packet.data() + at + 12) != group) return 0;
    BOOST_TEST(wire::checksum_ok(byte_span(packet).subspan(at)));
    return load_u8(packet.data() + at + 8);
}

/// `to`: port 0, where the socket is connected to.
task<> send_four_bytes(udp_socket& from, socket_address to) {
    const group_link::bytes text(4);
    if (to.port == 0) co_await from.send(byte_span(text));
    else co_await from.send_to(byte_span(text), to);
}

} // namespace

BOOST_AUTO_TEST_SUITE(groups)

BOOST_FIXTURE_TEST_CASE(a_membership_is_told_to_routers_and_its_end_too, group_link) { // RFC 3376 4, 5.1
    udp_socket s = udp_socket::bind({ipv4::any(), 7});
    s.join(feed);
    pass(2s);
    auto told_of = packets(wire::ip_protocol::igmp);
    BOOST_REQUIRE(told_of.size() == 2u);
    for (const bytes& p : told_of) {
        wire::ipv4_view ip;
        BOOST_REQUIRE((wire::ipv4_view::parse(p, ip) == wire::parse_error::none && ip.checksum_ok()));
        BOOST_TEST((ip.ttl() == 1 && ip.source() == us4 && ip.destination() == ipv4::igmp_v3_routers()));
        BOOST_TEST(std::ranges::equal(ip.options(), wire::ipv4_router_alert));
        BOOST_TEST(record_of(p, feed) == 4u);
    }
    send4(query(ipv4::any()), ipv4::all_hosts(), wire::ip_protocol::igmp, 1);
    pass(1100ms);
    told_of = packets(wire::ip_protocol::igmp);
    BOOST_REQUIRE(told_of.size() == 1u);
    BOOST_TEST(record_of(told_of[0], feed) == 2u);
    send4(query(feed), feed, wire::ip_protocol::igmp, 2); // from beyond a router
    pass(1100ms);
    BOOST_TEST(packets(wire::ip_protocol::igmp).empty());
    s.leave(feed);
    pass(2s);
    told_of = packets(wire::ip_protocol::igmp);
    BOOST_REQUIRE(told_of.size() == 2u);
    BOOST_TEST(record_of(told_of[0], feed) == 3u);
}

BOOST_FIXTURE_TEST_CASE(the_port_is_told_of_the_first_member_and_the_last, group_link) {
    {
        udp_socket a = udp_socket::bind({ipv4::any(), 7}), b = udp_socket::bind({ipv4::any(), 8});
        a.join(feed);
        b.join(feed);
        a.join(ipv4(239, 1, 2, 4));
        a.leave(feed);
        BOOST_TEST((follower.said == std::vector<std::string>{"+239.1.2.3", "+239.1.2.4"}));
        udp_socket c = udp_socket::bind({ipv6::any(), 9});
        c.join(feed6);
    }
    BOOST_TEST(follower.said.size() == 6u); // sockets that go have left
    follower.full = true;
    udp_socket d = udp_socket::bind({ipv4::any(), 7});
    BOOST_CHECK_THROW(d.join(feed), std::system_error);
    BOOST_TEST(stack->udp().groups().groups().empty());
}

BOOST_FIXTURE_TEST_CASE(only_groups_with_members_are_let_in_and_only_members_hear_them, group_link) {
    udp_socket member = udp_socket::bind({ipv4::any(), 7}), other = udp_socket::bind({ipv4::any(), 8});
    const std::uint64_t dropped = stack->statistics().not_for_us;
    send4(datagram(7), feed, wire::ip_protocol::udp, 1);
    BOOST_TEST(stack->statistics().not_for_us == dropped + 1);
    member.join(feed);
    send4(datagram(7), feed, wire::ip_protocol::udp, 1);
    BOOST_TEST(delivered() == 1u);
    send4(datagram(8), feed, wire::ip_protocol::udp, 1); // the host is a member, that socket is not
    BOOST_TEST(delivered() == 1u);
    send4(datagram(8), ipv4::all_hosts(), wire::ip_protocol::udp, 1); // nobody has to join that
    BOOST_TEST(delivered() == 2u);
    member.close();
    send4(datagram(7), feed, wire::ip_protocol::udp, 1);
    BOOST_TEST(delivered() == 2u);
    BOOST_TEST(packets(wire::ip_protocol::icmp).empty()); // nobody is told that it did not get through (RFC 1122 3.2.2)
}

BOOST_FIXTURE_TEST_CASE(a_datagram_to_a_group_has_the_hops_that_were_chosen_and_the_groups_mac, group_link) { // RFC 1112 6.1, 6.4
    udp_socket s = udp_socket::bind({ipv4::any(), 7});
    const auto ttl_of = [&](const multicast_options& how) {
        s.set_multicast(how);
        const bytes text(5);
        auto sending = [](udp_socket& from, byte_span what) -> task<> { co_await from.send_to(what, {feed, 7}); };
        loop.root_group().spawn(sending(s, text));
        pass(2ms);
        int ttl = -1;
        for (const bytes& f : frames()) {
            if (load_be16(f.data() + 12) != 0x0800 || load_u8(f.data() + 23) != 17) continue;
            BOOST_TEST((mac_address::load(f.data()) == mac_address::of_multicast(feed)));
            ttl = load_u8(f.data() + 22);
        }
        return ttl;
    };
    BOOST_TEST(ttl_of({}) == 1);
    BOOST_TEST(ttl_of({.hops = 9}) == 9);
    BOOST_TEST(ttl_of({.hops = 0}) == -1);
}

BOOST_FIXTURE_TEST_CASE(groups_of_ipv6_are_joined_told_and_heard, group_link) { // RFC 3810 5.2
    udp_socket s = udp_socket::bind({ipv6::any(), 7});
    bytes d(12);
    wire::udp_header{.source_port = 9, .destination_port = 7, .length = 12}.emit(d);
    store_be16(d.data() + 6, wire::pseudo_header_sum(peer, feed6, wire::ip_protocol::udp, 12).add(d).udp_checksum());
    send(d, peer, feed6, wire::ip_protocol::udp);
    BOOST_TEST(delivered() == 0u);
    s.join(feed6);
    send(d, peer, feed6, wire::ip_protocol::udp);
    BOOST_TEST(delivered() == 1u);
    pass(2s);
    const auto mentions = [&](std::uint8_t record) {
        unsigned times = 0;
        for (const bytes& p : heard(true))
            if (load_u8(p.data() + 6) == 0 && load_u8(p.data() + 48) == 143)
                for (std::size_t at = 56; at + 20 <= p.size(); at += 20)
                    times += load_u8(p.data() + at) == record && ipv6::load(p.data() + at + 4) == feed6;
        return times;
    };
    BOOST_TEST(mentions(4) == 2u);
    s.leave(feed6);
    pass(2s);
    BOOST_TEST(mentions(3) == 2u);
    send(d, peer, feed6, wire::ip_protocol::udp);
    BOOST_TEST(delivered() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_socket_may_be_bound_or_connected_to_a_group_of_ipv6, group_link) {
    udp_socket s = udp_socket::bind({feed6, 7});
    s.join(feed6);
    bytes d(12);
    wire::udp_header{.source_port = 9, .destination_port = 7, .length = 12}.emit(d);
    store_be16(d.data() + 6, wire::pseudo_header_sum(peer, feed6, wire::ip_protocol::udp, 12).add(d).udp_checksum());
    send(d, peer, feed6, wire::ip_protocol::udp);
    BOOST_TEST(delivered() == 1u);
    udp_socket feeds = udp_socket::connect({feed6, 7});
    heard();
    for (udp_socket* each : {&s, &feeds}) {
        loop.root_group().spawn(send_four_bytes(*each, {feed6, static_cast<std::uint16_t>(each == &feeds ? 0 : 9)}));
        pass(2ms);
        unsigned sent = 0;
        for (const bytes& p : heard())
            if (view(p).next_header() == wire::ip_protocol::udp) sent += view(p).source() == us && view(p).destination() == feed6;
        BOOST_TEST(sent == 1u);
    }
}

BOOST_FIXTURE_TEST_CASE(groups_of_the_interface_stay_here, group_link) { // RFC 4291 2.7, RFC 3810 6
    const ipv6 own = *ipv6::parse("ff01::5");
    udp_socket s = udp_socket::bind({ipv6::any(), 7});
    s.join(own);
    pass(2s);
    for (const bytes& p : heard(true))
        for (std::size_t at = 56; load_u8(p.data() + 6) == 0 && at + 20 <= p.size(); at += 20)
            BOOST_TEST((ipv6::load(p.data() + at + 4) != own));
    loop.root_group().spawn(send_four_bytes(s, {own, 7}));
    pass(2ms);
    BOOST_TEST(delivered() == 1u); // to ourselves
    BOOST_TEST(heard().empty());
    bytes d(12);
    wire::udp_header{.source_port = 9, .destination_port = 7, .length = 12}.emit(d);
    store_be16(d.data() + 6, wire::pseudo_header_sum(peer, own, wire::ip_protocol::udp, 12).add(d).udp_checksum());
    const std::uint64_t before = stack->statistics().martian;
    send(d, peer, own, wire::ip_protocol::udp);
    BOOST_TEST(delivered() == 1u);
    BOOST_TEST(stack->statistics().martian == before + 1);
}

BOOST_FIXTURE_TEST_CASE(groups_of_all_sockets_together_are_bounded, group_link) {
    std::vector<udp_socket> sockets;
    unsigned joined = 0;
    for (std::uint16_t n = 0; n < 4; ++n) {
        sockets.push_back(udp_socket::bind({ipv6::any(), 0}));
        for (std::uint8_t i = 0; i < 8; ++i) {
            try {
                ipv6::octet_array octets = feed6.octets();
                octets[15] = static_cast<std::uint8_t>(n * 8 + i);
                sockets.back().join(ipv6(octets));
                ++joined;
            } catch (const std::system_error& error) {
                BOOST_TEST((error.code() == std::errc::no_buffer_space));
            }
        }
    }
    BOOST_TEST(joined == ipv6_output::max_joined);
    sockets.pop_back();
    sockets.front().leave(*ipv6::parse("ff05::4300"));
    sockets.back().join(feed6);
}

BOOST_AUTO_TEST_CASE(who_is_silent_tells_of_the_groups_it_joins_and_not_of_those_that_it_was_in_before) {
    stack_config config;
    config.announce = false; // another shard speaks, until a socket of this one joins
    ipv6_link w(0, config);
    ipv6_output& six = *w.stack->ip().six();
    for (unsigned n = 100; n < 140; n += 4) {
        dhcp6_lease lease;
        for (unsigned i = n; i < n + 4; ++i) lease.addresses.push({w.a6(("2001:db8:1::" + std::to_string(i)).c_str()), never, never});
        six.follow_lease(w.clock.now(), lease);
        w.pass(2s);
    }
    w.heard(true);
    w.stack->ip().on_join(w.clock.now(), feed6);
    w.pass(10ms);
    bool told = false;
    for (const auto& packet : w.heard(true)) {
        if (w.view(packet).next_header() != wire::ip_protocol::hop_by_hop) continue;
        for (std::size_t at = 56; at + 20 <= packet.size(); at += 20) {
            BOOST_TEST(load_u8(packet.data() + at) == 4); // begins
            told |= ipv6::load(packet.data() + at + 4) == feed6;
        }
    }
    BOOST_TEST(told);
}

BOOST_AUTO_TEST_SUITE_END()
