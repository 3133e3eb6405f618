// Frames that a string of bytes decides, with the addresses, lengths and sums that get them past the first checks; and what is learnt of
// the frames that a stack answers with. For stack_target.hh.
#pragma once

#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/net/wire/vlan.hh>

#include "decisions.hh"

#include <optional>
#include <vector>

namespace stack_fuzz {

using namespace corewire;
using fuzz::decisions;
using byte_vector = std::vector<std::byte>;
using wire::ip_protocol;

inline constexpr mac_address our_mac{0x02'00'00'00'00'01}, peer_mac{0x02'00'00'00'00'02};
inline constexpr ipv4 our_v4{10, 0, 0, 1}, peer_v4{10, 0, 0, 2};
inline const ipv6 our_v6 = *ipv6::parse("2001:db8::1"), peer_v6 = *ipv6::parse("2001:db8::2"), our_local = *ipv6::parse("fe80::ff:fe00:1"),
                  peer_local = *ipv6::parse("fe80::2"), group_v6 = *ipv6::parse("ff02::77");

/// Of the stack's last TCP segment: what an answer must say.
struct tcp_told {
    bool six = false;
    ipv4 from_v4, to_v4;
    ipv6 from_v6, to_v6;
    std::uint16_t from_port = 0, to_port = 0;
    std::uint32_t next = 0, acknowledged = 0;
};

/// Looks at what leaves the stack: every length and sum must be right.
struct heard {
    std::uint16_t vlan = 0;
    int frames = 0;         ///< since this was set to zero
    std::uint32_t dhcp = 0; ///< the number of the last question
    std::optional<tcp_told> tcp;

    void look(byte_span frame, bool tagged) {
        ++frames;
        wire::ethernet_view e;
        CW_ASSERT(wire::ethernet_view::parse(frame, e) == wire::parse_error::none, "a frame without a header leaves");
        wire::ether_type type = e.type();
        byte_span payload = e.payload();
        CW_ASSERT((type == wire::ether_type::vlan) == tagged, "a tag where there is none, or none where there is one");
        if (wire::vlan_view tag; tagged) {
            CW_ASSERT(wire::vlan_view::parse(payload, tag) == wire::parse_error::none && tag.id() == vlan, "another VLAN's frame leaves");
            type = tag.type();
            payload = tag.payload();
        }
        if (type == wire::ether_type::ipv4) return look_v4(payload);
        if (type == wire::ether_type::ipv6) return look_v6(payload);
        wire::arp_view arp;
        CW_ASSERT(type == wire::ether_type::arp && wire::arp_view::parse(payload, arp) == wire::parse_error::none, "no ARP, and no IP");
    }

private:
    void look_v4(byte_span packet) {
        wire::ipv4_view ip;
        CW_ASSERT(wire::ipv4_view::parse(packet, ip) == wire::parse_error::none && ip.checksum_ok(), "a wrong IPv4 header leaves");
        CW_ASSERT(!ip.source().is_multicast() && !ip.source().is_broadcast(), "a group sends");
        if (ip.more_fragments() || ip.fragment_offset() != 0) return;
        look_transport(ip.protocol(), ip.payload(), ip.source(), ip.destination());
        if (ip.protocol() == ip_protocol::icmp || ip.protocol() == ip_protocol::igmp)
            CW_ASSERT(wire::checksum_ok(ip.payload()), "an ICMP or IGMP message with a wrong sum leaves");
        if (tcp && ip.protocol() == ip_protocol::tcp) tcp->six = false, tcp->from_v4 = ip.source(), tcp->to_v4 = ip.destination();
        if (ip.protocol() == ip_protocol::udp && ip.payload().size() > 16 && load_be16(ip.payload().data()) == 68)
            dhcp = load_be32(ip.payload().data() + 12);
    }
    void look_v6(byte_span packet) {
        wire::ipv6_view ip;
        CW_ASSERT(wire::ipv6_view::parse(packet, ip) == wire::parse_error::none, "a wrong IPv6 header leaves");
        CW_ASSERT(!ip.source().is_multicast(), "a group sends");
        const byte_span whole = packet.first(40 + ip.payload().size());
        const wire::ipv6_chain chain = wire::walk_extensions(whole);
        CW_ASSERT(chain.verdict == wire::ipv6_chain_verdict::good, "extension headers that nobody takes leave");
        if (chain.fragment) return;
        const byte_span payload = whole.subspan(chain.offset);
        look_transport(chain.protocol, payload, ip.source(), ip.destination());
        wire::icmpv6_view m;
        if (chain.protocol == ip_protocol::icmpv6)
            CW_ASSERT(wire::icmpv6_view::parse(payload, m) == wire::parse_error::none && m.checksum_ok(ip.source(), ip.destination()),
                      "an ICMPv6 message with a wrong sum leaves");
        if (tcp && chain.protocol == ip_protocol::tcp) tcp->six = true, tcp->from_v6 = ip.source(), tcp->to_v6 = ip.destination();
    }
    template <typename Address>
    void look_transport(ip_protocol protocol, byte_span payload, const Address& from, const Address& to) {
        if (wire::udp_view udp; protocol == ip_protocol::udp)
            CW_ASSERT(wire::udp_view::parse(payload, udp) == wire::parse_error::none && udp.checksum_ok(from, to),
                      "a wrong UDP header leaves");
        if (protocol != ip_protocol::tcp) return;
        wire::tcp_view v;
        wire::tcp_options options;
        CW_ASSERT(wire::tcp_view::parse(payload, v) == wire::parse_error::none && v.checksum_ok(from, to), "a wrong TCP header leaves");
        CW_ASSERT(wire::tcp_options::parse(v.options(), options) == wire::parse_error::none, "TCP options that nobody takes leave");
        tcp.emplace();
        tcp->from_port = v.source_port();
        tcp->to_port = v.destination_port();
        tcp->next = v.sequence() + v.sequence_length();
        tcp->acknowledged = v.acknowledgment();
    }
};

inline void append(byte_vector& to, byte_span bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }
inline void append_zeros(byte_vector& to, std::size_t n) { to.insert(to.end(), n, std::byte{0}); }

inline byte_vector link_header(const heard& of, mac_address to, wire::ether_type type) {
    byte_vector out(14);
    wire::ethernet_header{.destination = to, .source = peer_mac, .type = of.vlan != 0 ? wire::ether_type::vlan : type}.emit(out);
    if (of.vlan == 0) return out;
    append_zeros(out, 4);
    store_be16(out.data() + 14, of.vlan);
    store_be16(out.data() + 16, static_cast<std::uint16_t>(type));
    return out;
}

/// The field of an L4 header that holds the sum is made right, and UDP's length; the ports are ours when `how` says so.
template <typename Address>
void complete(mutable_byte_span l4, ip_protocol protocol, const Address& from, const Address& to, std::uint8_t how) {
    const bool ports = protocol == ip_protocol::udp || protocol == ip_protocol::tcp;
    if (ports && l4.size() >= 4 && (how & 4) != 0) store_be16(l4.data() + 2, how & 8 ? 68 : 7);
    std::size_t at = 2;
    if (protocol == ip_protocol::tcp) at = 16;
    if (protocol == ip_protocol::udp) at = 6;
    if (l4.size() < at + 2) return;
    if (protocol == ip_protocol::udp) store_be16(l4.data() + 4, static_cast<std::uint16_t>(l4.size()));
    store_be16(l4.data() + at, 0);
    const bool with_addresses = ports || protocol == ip_protocol::icmpv6;
    wire::internet_sum sum = with_addresses ? wire::pseudo_header_sum(from, to, protocol, l4.size()) : wire::internet_sum{};
    store_be16(l4.data() + at, sum.add(l4).udp_checksum());
}

inline byte_vector raw_frame(decisions& in, const heard& of) {
    const std::uint8_t how = in.byte();
    byte_vector out = how & 1 ? link_header(of, our_mac, static_cast<wire::ether_type>(in.word())) : byte_vector{};
    append(out, in.bytes(in.byte() * (how & 2 ? 4u : 1u)));
    return out;
}

inline byte_vector arp_frame(decisions& in, const heard& of) {
    const std::uint8_t how = in.byte();
    byte_vector out = link_header(of, how & 1 ? our_mac : mac_address::broadcast(), wire::ether_type::arp);
    const std::size_t at = out.size();
    append_zeros(out, 28);
    std::byte* p = out.data() + at;
    store_be32(p, 0x0001'0800);
    store_be32(p + 4, 0x0604'0000u | (how & 2 ? 1 : 2));
    (how & 4 ? mac_address(in.number()) : peer_mac).store(p + 8);
    (how & 8 ? ipv4(in.number()) : how & 16 ? our_v4 : peer_v4).store(p + 14);
    our_mac.store(p + 18);
    (how & 32 ? ipv4(in.number()) : how & 64 ? peer_v4 : our_v4).store(p + 24);
    return out;
}

inline byte_vector ipv4_frame(decisions& in, const heard& of) {
    const std::uint8_t how = in.byte(), kind = in.byte();
    constexpr ip_protocol usual[] = {ip_protocol::icmp, ip_protocol::igmp, ip_protocol::udp, ip_protocol::tcp};
    const ip_protocol protocol = kind < 240 ? usual[kind & 3] : static_cast<ip_protocol>(in.byte());
    const ipv4 from = how & 1 ? ipv4(in.number()) : peer_v4;
    const ipv4 to = how & 2 ? ipv4(in.number()) : kind & 16 ? ipv4::all_hosts() : kind & 32 ? ipv4::broadcast() : our_v4;
    const std::uint16_t fragment = how & 4 ? in.word() : 0;
    byte_vector options;
    if (how & 8) append(options, in.bytes(in.byte() % 41));
    options.resize((options.size() + 3) / 4 * 4);
    byte_vector payload;
    if (kind & 64) append_zeros(payload, in.word() % 1400u);
    append(payload, in.bytes(in.byte()));
    if (protocol == ip_protocol::udp && (kind & 64) && payload.size() > 16) store_be32(payload.data() + 12, of.dhcp);
    if (!(how & 16)) complete(payload, protocol, from, to, kind);
    byte_vector out = link_header(of, to.is_multicast() ? mac_address::of_multicast(to) : our_mac, wire::ether_type::ipv4);
    const std::size_t at = out.size();
    append_zeros(out, 60);
    const wire::ipv4_header h{.total_length = static_cast<std::uint16_t>(20 + options.size() + payload.size()), .identification = 7,
                              .dont_fragment = (fragment & 0x4000) != 0, .more_fragments = (fragment & 0x2000) != 0,
                              .fragment_offset = static_cast<std::uint16_t>(fragment % 0x2000 * 8), .protocol = protocol, .source = from,
                              .destination = to};
    out.resize(at + h.emit(mutable_byte_span(out).subspan(at), options));
    append(out, payload);
    return out;
}

inline byte_vector ipv6_frame(decisions& in, const heard& of) {
    const std::uint8_t how = in.byte(), kind = in.byte();
    constexpr ip_protocol usual[] = {ip_protocol::icmpv6, ip_protocol::icmpv6, ip_protocol::udp, ip_protocol::tcp};
    const ip_protocol protocol = kind < 224 ? usual[kind & 3] : static_cast<ip_protocol>(in.byte());
    ipv6 from = how & 1 ? peer_local : peer_v6, to = how & 2 ? our_local : our_v6;
    if (kind & 16) to = how & 2 ? ipv6::all_nodes() : to.solicited_node();
    if (how & 4) from = how & 1 ? ipv6::any() : our_v6;
    byte_vector payload;
    append(payload, in.bytes(in.byte()));
    if (kind & 32) append_zeros(payload, in.word() % 1200u);
    byte_vector out = link_header(of, to.is_multicast() ? wire::multicast_mac(to) : our_mac, wire::ether_type::ipv6);
    const std::size_t at = out.size();
    append_zeros(out, 40);
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(payload.size()), .next_header = protocol,
                      .hop_limit = static_cast<std::uint8_t>(how & 8 ? in.byte() : 255), .source = from, .destination = to}
        .emit(mutable_byte_span(out).subspan(at));
    append(out, payload);
    if (how & 16) return out;
    const wire::ipv6_chain chain = wire::walk_extensions(byte_span(out).subspan(at));
    if (chain.verdict == wire::ipv6_chain_verdict::good)
        complete(mutable_byte_span(out).subspan(at + chain.offset), chain.protocol, from, to, kind);
    return out;
}

/// What its connection expects, or nearly; a SYN while there is none.
inline byte_vector tcp_frame(decisions& in, const heard& of) {
    const std::uint8_t how = in.byte(), kind = in.byte();
    tcp_told t;
    wire::tcp_header h;
    if (of.tcp && how < 224) {
        t = *of.tcp;
        h = {.source_port = t.to_port, .destination_port = t.from_port, .sequence = t.acknowledged, .acknowledgment = t.next};
        constexpr auto ack = wire::tcp_flags::ack;
        constexpr wire::tcp_flags usual[] = {ack, ack, ack | wire::tcp_flags::psh, ack | wire::tcp_flags::syn, ack | wire::tcp_flags::fin,
                                             wire::tcp_flags::rst};
        h.flags = kind < 248 ? usual[kind % 6] : static_cast<wire::tcp_flags>(in.word() & 0x1ff);
    } else {
        t.six = how & 1;
        t.from_v4 = our_v4, t.to_v4 = peer_v4, t.from_v6 = our_v6, t.to_v6 = peer_v6;
        h = {.source_port = static_cast<std::uint16_t>(1000 + (how & 6)), .destination_port = 7, .sequence = in.number(),
             .flags = wire::tcp_flags::syn};
    }
    if (how & 8) h.sequence += static_cast<std::uint32_t>(static_cast<std::int16_t>(in.word()));
    if (how & 16) h.acknowledgment += static_cast<std::uint32_t>(static_cast<std::int16_t>(in.word()));
    h.window = how & 32 ? in.word() : 0xffff;
    byte_vector options;
    if (how & 64) append(options, in.bytes(in.byte() % 41));
    options.resize((options.size() + 3) / 4 * 4);
    byte_vector segment(20);
    h.emit(segment, 0);
    segment[12] = static_cast<std::byte>((20 + options.size()) / 4 << 4) | (segment[12] & std::byte{1});
    append(segment, options);
    if (kind & 64) append(segment, in.bytes(in.byte()));
    if (kind & 128) append_zeros(segment, in.word() % 1200u);
    byte_vector out = link_header(of, our_mac, t.six ? wire::ether_type::ipv6 : wire::ether_type::ipv4);
    const std::size_t at = out.size();
    append_zeros(out, t.six ? 40 : 20);
    const mutable_byte_span room = mutable_byte_span(out).subspan(at);
    if (t.six) {
        wire::store_tcp_checksum(segment, t.to_v6, t.from_v6);
        wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(segment.size()), .source = t.to_v6, .destination = t.from_v6}
            .emit(room);
    } else {
        wire::store_tcp_checksum(segment, t.to_v4, t.from_v4);
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + segment.size()), .source = t.to_v4, .destination = t.from_v4}
            .emit(room);
    }
    append(out, segment);
    return out;
}

} // namespace stack_fuzz
