#include <corewire/net/port/wrap/packet_text.hh>

#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/net/wire/vlan.hh>

#include <algorithm>
#include <fmt/format.h>

namespace corewire {

namespace {

using wire::parse_error;

std::string flag_names(wire::tcp_flags flags) {
    static constexpr const char* names[] = {"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"};
    std::string text;
    for (unsigned bit = 0; bit < 8; ++bit) {
        if ((static_cast<unsigned>(flags) >> bit & 1) != 0) text += std::string(" ") + names[bit];
    }
    return text;
}

/// What an IP packet of either family carries, and between whom.
struct carried {
    std::string source, destination, source_host, destination_host; ///< hosts: as they stand before a port
    unsigned protocol = 0;
    byte_span payload;
};

std::string describe_tcp(const carried& c) {
    wire::tcp_view tcp;
    if (const auto error = wire::tcp_view::parse(c.payload, tcp); error != parse_error::none)
        return fmt::format("{} > {} tcp, {}", c.source, c.destination, wire::to_string(error));
    return fmt::format("{}:{} > {}:{} tcp{} seq {} ack {} win {} len {}", c.source_host, tcp.source_port(), c.destination_host,
                       tcp.destination_port(), flag_names(tcp.flags()), tcp.sequence(), tcp.acknowledgment(), tcp.window(),
                       tcp.payload().size());
}

std::string describe_udp(const carried& c) {
    wire::udp_view udp;
    if (const auto error = wire::udp_view::parse(c.payload, udp); error != parse_error::none)
        return fmt::format("{} > {} udp, {}", c.source, c.destination, wire::to_string(error));
    return fmt::format("{}:{} > {}:{} udp len {}", c.source_host, udp.source_port(), c.destination_host, udp.destination_port(),
                       udp.payload().size());
}

std::string describe_carried(const carried& c) {
    if (c.protocol == static_cast<unsigned>(wire::ip_protocol::tcp)) return describe_tcp(c);
    if (c.protocol == static_cast<unsigned>(wire::ip_protocol::udp)) return describe_udp(c);
    const bool six = c.protocol == static_cast<unsigned>(wire::ip_protocol::icmpv6);
    if ((six || c.protocol == static_cast<unsigned>(wire::ip_protocol::icmp)) && c.payload.size() >= 2)
        return fmt::format("{} > {} {} type {} code {} len {}", c.source, c.destination, six ? "icmp6" : "icmp", load_u8(c.payload.data()),
                           load_u8(c.payload.data() + 1), c.payload.size());
    return fmt::format("{} > {} protocol {} len {}", c.source, c.destination, c.protocol, c.payload.size());
}

std::string describe_fragment(const carried& c, unsigned offset) {
    return fmt::format("{} > {} fragment of protocol {} at {} len {}", c.source, c.destination, c.protocol, offset, c.payload.size());
}

std::string describe_ipv4(byte_span packet) {
    wire::ipv4_view ip;
    if (const auto error = wire::ipv4_view::parse(packet, ip); error != parse_error::none)
        return fmt::format("ipv4, {}", wire::to_string(error));
    const std::string from = to_string(ip.source()), to = to_string(ip.destination());
    const carried c{from, to, from, to, static_cast<unsigned>(ip.protocol()), ip.payload()};
    return ip.is_fragment() ? describe_fragment(c, ip.fragment_offset()) : describe_carried(c);
}

std::string describe_ipv6(byte_span packet) {
    wire::ipv6_view ip;
    if (const auto error = wire::ipv6_view::parse(packet, ip); error != parse_error::none)
        return fmt::format("ipv6, {}", wire::to_string(error));
    const std::string from = to_string(ip.source()), to = to_string(ip.destination());
    const byte_span whole = packet.first(wire::ipv6_view::header_size + ip.payload().size());
    const wire::ipv6_chain chain = wire::walk_extensions(whole);
    if (chain.verdict == wire::ipv6_chain_verdict::malformed || chain.verdict == wire::ipv6_chain_verdict::too_long)
        return fmt::format("{} > {} ipv6, its extension headers are no chain", from, to);
    const carried c{from, to, '[' + from + ']', '[' + to + ']', static_cast<unsigned>(chain.protocol),
                    whole.subspan(std::min<std::size_t>(chain.offset, whole.size()))};
    return chain.fragment ? describe_fragment(c, chain.fragment_offset) : describe_carried(c);
}

std::string describe_arp(byte_span bytes) {
    wire::arp_view arp;
    if (wire::arp_view::parse(bytes, arp) != parse_error::none) return "arp, not for IPv4 over Ethernet";
    if (arp.operation() == wire::arp_operation::request) {
        return fmt::format("arp who has {} tell {}", to_string(arp.target_ip()), to_string(arp.sender_ip()));
    }
    return fmt::format("arp {} is at {}", to_string(arp.sender_ip()), to_string(arp.sender_mac()));
}

std::string describe_payload(const wire::ethernet_view& frame, wire::ether_type type, byte_span payload) {
    if (type == wire::ether_type::ipv4) return describe_ipv4(payload);
    if (type == wire::ether_type::ipv6) return describe_ipv6(payload);
    if (type == wire::ether_type::arp) return describe_arp(payload);
    return fmt::format("{} > {} type 0x{:04x} len {}", to_string(frame.source()), to_string(frame.destination()),
                       static_cast<unsigned>(type), payload.size());
}

} // namespace

std::string describe_frame(byte_span frame) {
    wire::ethernet_view ethernet;
    if (wire::ethernet_view::parse(frame, ethernet) != parse_error::none) {
        return fmt::format("{} bytes, too short for Ethernet", frame.size());
    }
    wire::vlan_view tag;
    if (ethernet.type() == wire::ether_type::vlan && wire::vlan_view::parse(ethernet.payload(), tag) == parse_error::none)
        return fmt::format("vlan {} {}", tag.id(), describe_payload(ethernet, tag.type(), tag.payload()));
    return describe_payload(ethernet, ethernet.type(), ethernet.payload());
}

} // namespace corewire
