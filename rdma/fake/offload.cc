#include <corewire/rdma/fake/offload.hh>

#include <corewire/net/wire/checksum.hh>

#include <algorithm>
#include <cstring>

namespace corewire::fake {

namespace {

constexpr std::size_t ethernet = 14;

/// Where the parts of an unfragmented TCP or UDP packet over IPv4, or over IPv6 without extension headers, are; `ok` false for anything
/// else.
struct layout {
    bool ok = false, ipv6 = false;
    std::size_t ip = 0, ip_header = 0, l4 = 0, l4_size = 0, field = 0;
    std::uint8_t protocol = 0;
};

constexpr std::uint16_t ipv4_type = 0x0800, ipv6_type = 0x86dd;
constexpr std::size_t ipv6_header = 40;

/// Where the header of an IP packet of this type starts; 0: it is none.
std::size_t ip_offset(byte_span frame, std::uint16_t type = ipv4_type) {
    const std::size_t least = type == ipv4_type ? 20 : ipv6_header;
    if (frame.size() < ethernet + least) return 0;
    if (load_be16(frame.data() + 12) == type) return ethernet;
    if (load_be16(frame.data() + 12) == 0x8100 && frame.size() >= ethernet + 4 + least && load_be16(frame.data() + 16) == type)
        return ethernet + 4;
    return 0;
}

layout parse_ipv6(byte_span frame) {
    layout l;
    l.ip = ip_offset(frame, ipv6_type);
    if (l.ip == 0) return l;
    l.ipv6 = true;
    l.ip_header = ipv6_header;
    l.l4 = l.ip + ipv6_header;
    l.l4_size = load_be16(frame.data() + l.ip + 4);
    l.protocol = load_u8(frame.data() + l.ip + 6);
    if ((l.protocol != 6 && l.protocol != 17) || l.l4_size > frame.size() - l.l4) return l;
    l.field = l.protocol == 6 ? 16 : 6;
    l.ok = l.l4_size >= l.field + 2;
    return l;
}

layout parse(byte_span frame) {
    layout l;
    l.ip = ip_offset(frame);
    if (l.ip == 0) return parse_ipv6(frame);
    const std::byte* ip = frame.data() + l.ip;
    l.ip_header = (load_u8(ip) & 0xfu) * 4;
    const std::size_t total = load_be16(ip + 2);
    l.protocol = load_u8(ip + 9);
    if (l.ip_header < 20 || total < l.ip_header || total > frame.size() - l.ip) return l;
    if ((load_be16(ip + 6) & 0x3fff) != 0 || (l.protocol != 6 && l.protocol != 17)) return l;
    l.l4 = l.ip + l.ip_header;
    l.l4_size = total - l.ip_header;
    l.field = l.protocol == 6 ? 16 : 6;
    l.ok = l.l4_size >= l.field + 2;
    return l;
}

wire::internet_sum pseudo(byte_span frame, const layout& l) {
    const std::byte* ip = frame.data() + l.ip;
    if (l.ipv6)
        return wire::pseudo_header_sum(ipv6::load(ip + 8), ipv6::load(ip + 24), static_cast<wire::ip_protocol>(l.protocol), l.l4_size);
    return wire::pseudo_header_sum(wire::ipv4_address(load_be32(ip + 12)), wire::ipv4_address(load_be32(ip + 16)),
                                   static_cast<wire::ip_protocol>(l.protocol), l.l4_size);
}

} // namespace

void complete_checksums(mutable_byte_span frame) {
    if (const std::size_t ip = ip_offset(frame); ip != 0) {
        const std::size_t header = (load_u8(frame.data() + ip) & 0xfu) * 4;
        if (header < 20 || ip + header > frame.size()) return;
        store_be16(frame.data() + ip + 10, 0);
        store_be16(frame.data() + ip + 10, wire::internet_checksum({frame.data() + ip, header}));
    }
    const layout l = parse(frame);
    if (!l.ok) return;
    store_be16(frame.data() + l.l4 + l.field, 0);
    const auto sum = pseudo(frame, l).add(byte_span{frame.data() + l.l4, l.l4_size});
    store_be16(frame.data() + l.l4 + l.field, l.protocol == 17 ? sum.udp_checksum() : sum.checksum());
}

bool checksums_are_good(byte_span frame) {
    const layout l = parse(frame);
    if (!l.ok || l.ipv6 || !wire::checksum_ok({frame.data() + l.ip, l.ip_header})) return false;
    if (l.protocol == 17 && load_be16(frame.data() + l.l4 + l.field) == 0) return true; // none was sent
    return pseudo(frame, l).add(byte_span{frame.data() + l.l4, l.l4_size}).verifies();
}

bool cut_segments(byte_span headers, byte_span payload, std::uint32_t size, const std::function<void(byte_span)>& emit) {
    const std::size_t ipv4 = ip_offset(headers);
    const std::size_t ip = ipv4 != 0 ? ipv4 : ip_offset(headers, ipv6_type);
    if (ip == 0 || size == 0) return false;
    const std::size_t tcp = ip + (ipv4 != 0 ? (load_u8(headers.data() + ip) & 0xfu) * 4 : ipv6_header);
    if (load_u8(headers.data() + ip + (ipv4 != 0 ? 9 : 6)) != 6 || tcp + 20 > headers.size()) return false;
    const std::uint32_t sequence = load_be32(headers.data() + tcp + 4);
    const std::uint16_t id = load_be16(headers.data() + ip + 4);
    const std::uint8_t flags = load_u8(headers.data() + tcp + 13);
    std::vector<std::byte> one;
    std::uint32_t number = 0;
    for (std::size_t at = 0; at < payload.size(); at += size, ++number) {
        const std::size_t now = std::min<std::size_t>(size, payload.size() - at);
        one.assign(headers.begin(), headers.end());
        one.insert(one.end(), payload.begin() + static_cast<std::ptrdiff_t>(at),
                   payload.begin() + static_cast<std::ptrdiff_t>(at + now));
        if (ipv4 != 0) {
            store_be16(one.data() + ip + 2, static_cast<std::uint16_t>(one.size() - ip));
            store_be16(one.data() + ip + 4, static_cast<std::uint16_t>(id + number));
        } else {
            store_be16(one.data() + ip + 4, static_cast<std::uint16_t>(one.size() - tcp));
        }
        store_be32(one.data() + tcp + 4, sequence + static_cast<std::uint32_t>(at));
        const bool last = at + now == payload.size();
        one[tcp + 13] = static_cast<std::byte>(last ? flags : flags & ~0x09u); // FIN and PSH belong to the last one
        complete_checksums(one);
        emit(one);
    }
    return true;
}

namespace {

void add_ports(flow_fields& f, const std::byte* at) {
    f.tcp = f.protocol == 6;
    f.udp = f.protocol == 17;
    if (!f.tcp && !f.udp) return;
    f.source_port = load_be16(at);
    f.destination_port = load_be16(at + 2);
}

flow_fields fields_of_ipv6(byte_span frame) {
    flow_fields f;
    const std::size_t ip = ip_offset(frame, ipv6_type);
    if (ip == 0) return f;
    const std::byte* at = frame.data() + ip;
    f.ipv6 = true;
    f.source = ipv6::load(at + 8);
    f.destination = ipv6::load(at + 24);
    f.protocol = load_u8(at + 6);
    f.fragment = f.protocol == 44;
    if (ip + ipv6_header + 4 <= frame.size()) add_ports(f, at + ipv6_header);
    return f;
}

} // namespace

flow_fields fields_of(byte_span frame) {
    flow_fields f;
    const std::size_t ip = ip_offset(frame);
    if (ip == 0) return fields_of_ipv6(frame);
    const std::byte* at = frame.data() + ip;
    const std::size_t header = (load_u8(at) & 0xfu) * 4;
    if (header < 20) return f;
    f.ipv4 = true;
    f.source = wire::ipv4_address(load_be32(at + 12));
    f.destination = wire::ipv4_address(load_be32(at + 16));
    f.protocol = load_u8(at + 9);
    f.fragment = (load_be16(at + 6) & 0x3fff) != 0;
    if (f.fragment || ip + header + 4 > frame.size()) return f;
    add_ports(f, at + header);
    return f;
}

} // namespace corewire::fake
