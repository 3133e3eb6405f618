// A stack with IPv6 at one end of a cable, in virtual time; at the other a bare port that says what a test makes it say.
#pragma once

#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/port/wrap/vlan_port.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv6.hh>
#include <tests/support/virtual_clock.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

namespace corewire {

struct ipv6_link {
    using bytes = std::vector<std::byte>;
    static ipv6 a6(const char* text) { return *ipv6::parse(text); }
    const ipv6 us = a6("2001:db8::1"), peer = a6("2001:db8::2"), peer_local = a6("fe80::2");
    const ipv6 our_group = us.solicited_node();

    /// `probes` 0: the addresses are good at once. `peers_vlan`: of the port at the other end; 0: none, and tags stand in its frames.
    explicit ipv6_link(unsigned probes = 0, const stack_config& common = {}, std::uint16_t peers_vlan = 0) {
        auto nic = net.make_port(mac_address(2, 0, 0, 0, 0, 1)), far = net.make_port(mac_address(2, 0, 0, 0, 0, 2));
        net.connect(*nic, *far);
        end = std::move(far);
        if (peers_vlan != 0) end = std::make_unique<vlan_port>(std::move(end), peers_vlan);
        stack_config config = common;
        if (config.address.address().is_any()) config.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
        if (!config.ipv6) config.ipv6.emplace();
        if (!config.ipv6->address) config.ipv6->address = ipv6_prefix(us, 64);
        config.ipv6->duplicate_probes = probes;
        config.seed = 1;
        stack = std::make_unique<network_stack>(loop, std::move(nic), config);
        pass(std::chrono::milliseconds{1});
        heard();
    }

    /// A packet of the peer's in a frame to `mac` (nothing: where the address says).
    void send(const bytes& payload, ipv6 from, ipv6 to, wire::ip_protocol protocol, std::uint8_t hop_limit = 64,
              std::optional<mac_address> mac = {}) {
        packet p;
        p.head = end->pool().allocate_buffer();
        BOOST_REQUIRE(p.head.underlying_frame() != nullptr);
        if (!mac) mac = to.is_multicast() ? wire::multicast_mac(to) : stack->device().mac();
        wire::ethernet_header{.destination = *mac, .source = end->mac(), .type = wire::ether_type::ipv6}.emit({p.head.append(14), 14});
        wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(payload.size()), .next_header = protocol, .hop_limit = hop_limit,
                          .source = from, .destination = to}
            .emit({p.head.append(40), 40});
        if (!payload.empty()) std::memcpy(p.head.append(static_cast<std::uint32_t>(payload.size())), payload.data(), payload.size());
        end->transmit({&p, 1});
        pass(std::chrono::milliseconds{1});
    }
    template <typename Message>
    static bytes message(const Message& m, ipv6 from, ipv6 to) {
        bytes b(64);
        b.resize(m.emit(b, from, to));
        return b;
    }
    static bytes icmp(const wire::icmpv6_header& h, ipv6 from, ipv6 to, byte_span payload = {}) {
        bytes b(8 + payload.size());
        h.emit(b, from, to, payload);
        return b;
    }
    /// Makes the peer known to the stack.
    void introduce() {
        send(message(wire::neighbor_solicitation{us, end->mac()}, peer, our_group), peer, our_group, wire::ip_protocol::icmpv6, 255);
        heard();
    }
    void pass(duration d) {
        const time_point until = clock.now() + d;
        while (clock.now() < until) {
            const duration step = std::min<duration>(until - clock.now(), std::chrono::milliseconds{1});
            clock.advance(step);
            net.advance_to(net.now() + step);
            for (int i = 0; i < 4; ++i) loop.poll_once();
        }
        net.advance_to(net.now() + std::chrono::milliseconds{1});
    }
    /// Every frame that has come from the stack since the last call.
    std::vector<bytes> frames() {
        std::vector<bytes> out;
        for (packet got; end->receive({&got, 1}) != 0; got = {}) {
            bytes whole(got.head.bytes().begin(), got.head.bytes().end());
            whole.insert(whole.end(), got.body.bytes().begin(), got.body.bytes().end());
            out.push_back(std::move(whole));
        }
        return out;
    }
    /// The IPv6 packets among them, without Ethernet; reports of groups only if asked for.
    std::vector<bytes> heard(bool reports = false) {
        std::vector<bytes> out;
        for (const bytes& f : frames()) {
            const bool report = load_u8(f.data() + 20) == 0; // behind hop-by-hop options
            if (load_be16(f.data() + 12) == 0x86dd && (reports || !report)) out.emplace_back(f.begin() + 14, f.end());
        }
        return out;
    }
    static wire::ipv6_view view(const bytes& packet) {
        wire::ipv6_view v;
        BOOST_REQUIRE((wire::ipv6_view::parse(packet, v) == wire::parse_error::none));
        return v;
    }
    /// The ICMPv6 message in a packet, its checksum checked.
    static wire::icmpv6_view icmp_of(const bytes& packet) {
        const wire::ipv6_view ip = view(packet);
        wire::icmpv6_view m;
        BOOST_REQUIRE((ip.next_header() == wire::ip_protocol::icmpv6));
        BOOST_REQUIRE((wire::icmpv6_view::parse(ip.payload(), m) == wire::parse_error::none));
        BOOST_TEST(m.checksum_ok(ip.source(), ip.destination()));
        return m;
    }

    virtual_clock clock;
    reactor loop{{.clock = &clock}};
    sim_network net;
    std::unique_ptr<port> end;
    std::unique_ptr<network_stack> stack;
    reactor::scope here{loop};
};

} // namespace corewire
