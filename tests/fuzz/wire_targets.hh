// One function a parser of net/wire: takes any bytes at all, calls everything that a view offers, and asserts what must
// hold. Also played by wire_corpus_test.cc, which needs no fuzzer.
//
// What holds for all of them: no byte outside the input is read (AddressSanitizer's part), every span that comes out
// lies inside the input, and a header that parsed survives emit and parse.
#pragma once

#include <corewire/net/ip/advertised_names.hh>
#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/igmp.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/net/wire/vlan.hh>

#include <cstdint>
#include <string_view>

namespace wire_fuzz {

using namespace corewire::wire;
using corewire::byte_span;
using corewire::mutable_byte_span;

/// Keeps a value alive, so that the read behind it is not optimised away.
template <typename T>
void use(const T& value) noexcept {
    asm volatile("" : : "r"(&value) : "memory");
}

/// `part` lies inside `whole`; each of its bytes is read.
inline void inside(byte_span part, byte_span whole) {
    if (part.empty()) return;
    CW_ASSERT(part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size(),
              "a span that reaches outside the input");
    for (const std::byte b : part)
        use(b);
}

inline bool failed(parse_error error) noexcept {
    CW_ASSERT(static_cast<std::size_t>(error) < parse_error_count, "an error that is none of the enum's");
    return error != parse_error::none;
}

inline void ethernet(byte_span bytes) {
    ethernet_view v;
    if (failed(ethernet_view::parse(bytes, v))) return;
    inside(v.payload(), bytes);
    std::byte out[ethernet_header::size];
    const ethernet_header h = ethernet_header::from(v);
    h.emit(out);
    CW_ASSERT(std::memcmp(out, bytes.data(), sizeof out) == 0, "an Ethernet header that changed");
}

inline void vlan(byte_span bytes) {
    vlan_view v;
    if (failed(vlan_view::parse(bytes, v))) return;
    inside(v.payload(), bytes);
    std::byte out[vlan_tag::size];
    vlan_tag::from(v).emit(out);
    CW_ASSERT(std::memcmp(out, bytes.data(), sizeof out) == 0, "a VLAN tag that changed");
}

inline void arp(byte_span bytes) {
    arp_view v;
    if (failed(arp_view::parse(bytes, v))) return;
    use(v.is_gratuitous());
    use(v.is_probe());
    std::byte out[arp_packet::size];
    arp_packet::from(v).emit(out);
    CW_ASSERT(std::memcmp(out, bytes.data(), sizeof out) == 0, "an ARP packet that changed");
    use(arp_packet::reply_to(v, mac_address(1)));
}

inline void ipv4(byte_span bytes) {
    ipv4_view v;
    ipv4_view quoted;
    const bool cut = failed(ipv4_view::parse_quoted(bytes, quoted));
    if (!cut) {
        inside(quoted.payload(), bytes);
        inside(quoted.options(), bytes);
    }
    if (failed(ipv4_view::parse(bytes, v))) return;
    CW_ASSERT(!cut, "a datagram that parses whole but not as a quote");
    inside(v.header(), bytes);
    inside(v.payload(), bytes);
    CW_ASSERT(v.header().size() + v.payload().size() == v.total_length(), "lengths that do not add up");
    use(v.checksum_ok());
    ipv4_option_cursor cursor(v.options());
    std::size_t count = 0;
    for (ipv4_option option; cursor.next(option); ++count)
        inside(option.data, v.options());
    CW_ASSERT(count <= 20, "more options than a header can hold");
    std::byte out[ipv4_view::max_header_size];
    const std::size_t size = ipv4_header::from(v).emit(out, v.options());
    CW_ASSERT(size == v.header_size(), "a header of another size");
    ipv4_view again;
    CW_ASSERT(ipv4_view::parse_quoted(byte_span(out).first(size), again) == parse_error::none, "emitted, but refused");
    CW_ASSERT(ipv4_header::from(again) == ipv4_header::from(v) && again.checksum_ok(), "an IPv4 header that changed");
}

inline void icmp(byte_span bytes) {
    icmp_view v;
    if (failed(icmp_view::parse(bytes, v))) return;
    use(v.checksum_ok());
    inside(v.payload(), bytes);
    inside(v.quoted(), bytes);
    if (v.is_error()) {
        ipv4_view quoted;
        if (!failed(ipv4_view::parse_quoted(v.quoted(), quoted))) {
            quoted_transport transport;
            use(failed(quoted_transport::parse(quoted.payload(), transport)));
        }
    }
    std::byte out[2048];
    const byte_span payload = v.payload().first(std::min<std::size_t>(v.payload().size(), 2000));
    const std::size_t size = icmp_header::from(v).emit(out, payload);
    icmp_view again;
    CW_ASSERT(icmp_view::parse(byte_span(out).first(size), again) == parse_error::none, "emitted, but refused");
    CW_ASSERT(icmp_header::from(again) == icmp_header::from(v), "an ICMP header that changed");
}

inline void igmp(byte_span bytes) {
    igmp_view v;
    if (failed(igmp_view::parse(bytes, v))) return;
    use(v.checksum_ok());
    use(v.max_response());
    if (v.is_v3_query()) {
        use(v.robustness());
        use(v.query_interval());
        for (std::size_t i = 0; i < v.source_count(); ++i)
            use(v.source(i));
    }
    if (v.type() == igmp_type::v3_report) {
        igmp_record_cursor cursor = v.records();
        for (igmp_record_view record; cursor.next(record);) {
            inside(record.sources, bytes);
            for (std::size_t i = 0; i < record.source_count(); ++i)
                use(record.source(i));
        }
        CW_ASSERT(cursor.left() == 0, "a report that parsed has all its records");
    }
}

inline void udp(byte_span bytes) {
    udp_view v;
    if (failed(udp_view::parse(bytes, v))) return;
    inside(v.datagram(), bytes);
    inside(v.payload(), bytes);
    use(v.checksum_ok(ipv4_address(1), ipv4_address(2)));
    use(v.checksum_ok(ipv6_address::loopback(), ipv6_address::any()));
    std::byte out[udp_header::size];
    udp_header::from(v).emit(out);
    CW_ASSERT(std::memcmp(out, bytes.data(), sizeof out) == 0, "a UDP header that changed");
}

inline void tcp_option_list(byte_span bytes) {
    // A header has room for 40 bytes; more never reaches the parser, but must not hurt it either.
    tcp_options o;
    const bool bad = failed(tcp_options::parse(bytes, o));
    CW_ASSERT(o.sack_count <= tcp_options::max_sack_blocks, "too many SACK blocks");
    CW_ASSERT(o.cookie_size <= tcp_options::max_cookie_size, "too long a cookie");
    CW_ASSERT(o.window_scale <= tcp_options::max_window_scale, "too large a window scale");
    use(o.fast_open_cookie());
    for (const option_order order : {option_order::linux_kernel, option_order::freebsd}) {
        std::byte out[tcp_options::max_size];
        const std::size_t size = o.emit(out, order);
        CW_ASSERT(size % 4 == 0 && size == o.size(order), "options of a wrong size");
        tcp_options again;
        CW_ASSERT(tcp_options::parse(byte_span(out).first(size), again) == parse_error::none, "emitted, but refused");
        // SACK blocks, AccECN's counters and the user timeout give way where there is no room.
        using enum tcp_option_set;
        for (const tcp_option_set stays : {mss, window_scale, sack_permitted, timestamps, fast_open})
            CW_ASSERT(!o.has(stays) || again.has(stays), "an option that vanished");
        const bool all = again.present == o.present && again.sack_count == o.sack_count &&
                         again.accurate_ecn.fields == o.accurate_ecn.fields;
        if (!bad && all) CW_ASSERT(again == o, "options that changed");
    }
}

inline void tcp(byte_span bytes) {
    tcp_view v;
    if (failed(tcp_view::parse(bytes, v))) return;
    inside(v.options(), bytes);
    inside(v.payload(), bytes);
    CW_ASSERT(v.header_size() + v.payload().size() == bytes.size(), "lengths that do not add up");
    use(v.checksum_ok(ipv4_address(1), ipv4_address(2)));
    use(v.checksum_ok(ipv6_address::loopback(), ipv6_address::any()));
    use(v.sequence_length());
    tcp_option_list(v.options());
    std::byte out[tcp_view::max_header_size];
    tcp_header::from(v).emit(out, v.options().size());
    tcp_view again;
    CW_ASSERT(tcp_view::parse(byte_span(out).first(v.header_size()), again) == parse_error::none,
              "emitted, but refused");
    CW_ASSERT(tcp_header::from(again) == tcp_header::from(v), "a TCP header that changed");
}

inline void ipv6(byte_span bytes) {
    ipv6_view quoted;
    const bool cut = failed(ipv6_view::parse_quoted(bytes, quoted));
    if (!cut) inside(quoted.payload(), bytes);
    ipv6_view v;
    if (failed(ipv6_view::parse(bytes, v))) return;
    CW_ASSERT(!cut, "a packet that parses whole but not as a quote");
    inside(v.payload(), bytes);
    CW_ASSERT(v.payload().size() == v.payload_length(), "lengths that do not add up");
    std::byte out[ipv6_header::size];
    ipv6_header::from(v).emit(out);
    CW_ASSERT(std::memcmp(out, bytes.data(), sizeof out) == 0, "an IPv6 header that changed");
}

/// An IPv6 header and what follows it: the walk stays inside, within its bounds, and says one thing.
inline void ipv6_extensions(byte_span bytes) {
    ipv6_view v;
    if (failed(ipv6_view::parse_quoted(bytes, v))) return;
    const byte_span packet = bytes.first(ipv6_header::size + v.payload().size());
    const ipv6_chain chain = walk_extensions(packet);
    if (chain.verdict == ipv6_chain_verdict::problem)
        CW_ASSERT(chain.problem_at < packet.size() && chain.problem_code <= 2, "a problem that is nowhere");
    const std::optional<ipv6_upper_layer> carried = find_upper_layer(packet);
    if (chain.verdict != ipv6_chain_verdict::good) return;
    CW_ASSERT(chain.fragment || (carried && carried->protocol == chain.protocol && carried->offset == chain.offset),
              "two ways to the upper layer that part");
    CW_ASSERT(chain.offset >= ipv6_header::size && chain.offset <= packet.size(), "a payload that starts outside");
    CW_ASSERT(chain.offset <= ipv6_header::size + ipv6_chain::max_size, "more extension headers than there may be");
    const std::size_t named_at = chain.fragment ? chain.fragment_at : chain.named_at;
    CW_ASSERT(corewire::load_u8(packet.data() + named_at) == static_cast<std::uint8_t>(chain.protocol),
              "a protocol that nobody has named");
    CW_ASSERT(!chain.fragment || corewire::load_u8(packet.data() + chain.fragment_named_at) == 44, "a fragment that nobody has named");
}

inline void icmpv6(byte_span bytes) {
    icmpv6_view v;
    if (failed(icmpv6_view::parse(bytes, v))) return;
    inside(v.payload(), bytes);
    const ipv6_address a = ipv6_address::loopback();
    use(v.checksum_ok(a, a));
    std::byte out[64];
    icmpv6_view emitted;
    if (neighbor_solicitation m; !failed(neighbor_solicitation::parse(v, m))) {
        const std::size_t size = m.emit(out, a, a);
        neighbor_solicitation again;
        CW_ASSERT(icmpv6_view::parse(byte_span(out).first(size), emitted) == parse_error::none &&
                      neighbor_solicitation::parse(emitted, again) == parse_error::none && again == m,
                  "a neighbour solicitation that changed");
    }
    if (neighbor_advertisement m; !failed(neighbor_advertisement::parse(v, m))) {
        const std::size_t size = m.emit(out, a, a);
        neighbor_advertisement again;
        CW_ASSERT(icmpv6_view::parse(byte_span(out).first(size), emitted) == parse_error::none &&
                      neighbor_advertisement::parse(emitted, again) == parse_error::none && again == m,
                  "a neighbour advertisement that changed");
    }
    if (router_solicitation m; !failed(router_solicitation::parse(v, m))) m.emit(out, a, a);
    if (router_advertisement m; !failed(router_advertisement::parse(v, m))) {
        nd_option_cursor cursor(m.options);
        for (nd_option option; cursor.next(option);) {
            inside(option.data, m.options);
            use(option.mac());
        }
        CW_ASSERT(cursor.error() == parse_error::none, "options that parsed and then did not");
        corewire::advertised_names names;
        for (const corewire::time_point now : {corewire::time_point{}, corewire::time_point{} + std::chrono::minutes{1}}) {
            names.on_advertisement(now, m.options);
            for (const auto& domain : names.domains())
                CW_ASSERT(!domain.value.empty() && domain.value.items[0] != '.', "a domain without a name");
            names.on_timer(now);
            CW_ASSERT(names.next_timeout() > now, "what has ended stays");
        }
    }
}

inline void checksum(byte_span bytes) {
    // The first byte says where to cut; both ways to sum agree, and so does the copy.
    if (bytes.empty()) return;
    const std::size_t at = std::min<std::size_t>(corewire::load_u8(bytes.data()), bytes.size());
    const std::uint16_t whole = internet_sum{}.add(bytes).folded();
    CW_ASSERT(internet_sum{}.add(bytes.first(at)).add(bytes.subspan(at)).folded() == whole,
              "a cut that changes the sum");
    std::byte out[2048];
    const byte_span part = bytes.first(std::min<std::size_t>(bytes.size(), sizeof out));
    CW_ASSERT(copy_and_checksum(out, part).folded() == internet_sum{}.add(part).folded(),
              "a copy that changes the sum");
    CW_ASSERT(std::memcmp(out, part.data(), part.size()) == 0, "a copy that is none");
}

inline void address_text(byte_span bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const auto a = ipv4_address::parse(text)) CW_ASSERT(to_string(*a) == text, "IPv4 text that changed");
    if (const auto p = ip_prefix::parse(text)) CW_ASSERT(to_string(*p) == text, "prefix text that changed");
    if (const auto m = mac_address::parse(text))
        CW_ASSERT(mac_address::parse(to_string(*m)) == m, "MAC text that changed");
    if (const auto a = ipv6_address::parse(text))
        CW_ASSERT(ipv6_address::parse(to_string(*a)) == a, "IPv6 text that changed");
}

/// A frame as a port hands it over, through every layer.
inline void frame(byte_span bytes) {
    ethernet_view e;
    if (failed(ethernet_view::parse(bytes, e))) return;
    ether_type type = e.type();
    byte_span payload = e.payload();
    if (vlan_view tag; type == ether_type::vlan && !failed(vlan_view::parse(payload, tag))) {
        type = tag.type();
        payload = tag.payload();
    }
    switch (type) {
    case ether_type::arp:
        arp(payload);
        break;
    case ether_type::ipv4: {
        ipv4_view ip;
        if (failed(ipv4_view::parse(payload, ip))) return;
        switch (ip.protocol()) {
        case ip_protocol::icmp:
            icmp(ip.payload());
            break;
        case ip_protocol::igmp:
            igmp(ip.payload());
            break;
        case ip_protocol::tcp:
            tcp(ip.payload());
            break;
        case ip_protocol::udp:
            udp(ip.payload());
            break;
        default:
            break;
        }
        break;
    }
    case ether_type::ipv6: {
        ipv6_view ip;
        if (failed(ipv6_view::parse(payload, ip))) return;
        switch (ip.next_header()) {
        case ip_protocol::icmpv6:
            icmpv6(ip.payload());
            break;
        case ip_protocol::tcp:
            tcp(ip.payload());
            break;
        case ip_protocol::udp:
            udp(ip.payload());
            break;
        default:
            break;
        }
        break;
    }
    default:
        break;
    }
}

struct target {
    const char* name;
    void (*run)(byte_span);
};
inline constexpr target all_targets[] = {
    {"ethernet", ethernet},
    {"vlan", vlan},
    {"arp", arp},
    {"ipv4", ipv4},
    {"icmp", icmp},
    {"igmp", igmp},
    {"udp", udp},
    {"tcp", tcp},
    {"tcp_options", tcp_option_list},
    {"ipv6", ipv6},
    {"icmpv6", icmpv6},
    {"ipv6_extensions", ipv6_extensions},
    {"checksum", checksum},
    {"address_text", address_text},
    {"frame", frame},
};

} // namespace wire_fuzz
