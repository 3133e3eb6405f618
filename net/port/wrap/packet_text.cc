#include <corewire/net/port/wrap/packet_text.hh>

#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/net/wire/vlan.hh>

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

std::string describe_tcp(const wire::ipv4_view& ip) {
    wire::tcp_view tcp;
    if (const auto error = wire::tcp_view::parse(ip.payload(), tcp); error != parse_error::none) {
        return fmt::format("{} > {} tcp, {}", to_string(ip.source()), to_string(ip.destination()), wire::to_string(error));
    }
    return fmt::format("{}:{} > {}:{} tcp{} seq {} ack {} win {} len {}", to_string(ip.source()), tcp.source_port(),
                       to_string(ip.destination()), tcp.destination_port(), flag_names(tcp.flags()), tcp.sequence(),
                       tcp.acknowledgment(), tcp.window(), tcp.payload().size());
}

std::string describe_udp(const wire::ipv4_view& ip) {
    wire::udp_view udp;
    if (const auto error = wire::udp_view::parse(ip.payload(), udp); error != parse_error::none) {
        return fmt::format("{} > {} udp, {}", to_string(ip.source()), to_string(ip.destination()), wire::to_string(error));
    }
    return fmt::format("{}:{} > {}:{} udp len {}", to_string(ip.source()), udp.source_port(), to_string(ip.destination()),
                       udp.destination_port(), udp.payload().size());
}

std::string describe_ipv4(byte_span packet) {
    wire::ipv4_view ip;
    if (const auto error = wire::ipv4_view::parse(packet, ip); error != parse_error::none) {
        return fmt::format("ipv4, {}", wire::to_string(error));
    }
    const auto protocol = static_cast<unsigned>(ip.protocol());
    if (ip.is_fragment()) {
        return fmt::format("{} > {} fragment of protocol {} at {} len {}", to_string(ip.source()),
                           to_string(ip.destination()), protocol, ip.fragment_offset(), ip.payload().size());
    }
    if (protocol == 6) return describe_tcp(ip);
    if (protocol == 17) return describe_udp(ip);
    const byte_span payload = ip.payload();
    if (protocol == 1 && payload.size() >= 2) {
        return fmt::format("{} > {} icmp type {} code {} len {}", to_string(ip.source()), to_string(ip.destination()),
                           load_u8(payload.data()), load_u8(payload.data() + 1), payload.size());
    }
    return fmt::format("{} > {} protocol {} len {}", to_string(ip.source()), to_string(ip.destination()), protocol,
                       payload.size());
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
