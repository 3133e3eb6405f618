#include "packet_text.hh"

#include <corewire/net/wire/checksum.hh>
#include <corewire/reactor/base/bytes.hh>

#include <sstream>
#include <stdexcept>

namespace corewire::conformance {

namespace {

class bytes_out {
public:
    void u8(std::uint64_t v) { out.push_back(static_cast<std::byte>(v)); }
    void u16(std::uint64_t v) { u8(v >> 8), u8(v); }
    void u32(std::uint64_t v) { u16(v >> 16), u16(v); }
    void zeros(std::size_t n) { out.insert(out.end(), n, std::byte{0}); }
    std::vector<std::byte> out;
};

constexpr std::pair<char, unsigned> flag_bits[] = {{'F', 1}, {'S', 2}, {'R', 4}, {'P', 8}, {'.', 16}, {'U', 32},
                                                  {'E', 64}, {'W', 128}, {'A', 256}};

unsigned bits_of(const std::string& flags) {
    unsigned bits = 0;
    for (const char f : flags) {
        for (const auto& [letter, bit] : flag_bits) bits |= letter == f ? bit : 0;
    }
    return bits;
}

std::string flags_of(unsigned bits) {
    std::string s;
    for (const char letter : std::string("SFRPEWUA.")) {
        for (const auto& [l, bit] : flag_bits) {
            if (l == letter && (bits & bit) != 0) s += l;
        }
    }
    return s;
}

void write_option(bytes_out& o, const tcp_option_text& t, const connection_text& c) {
    const auto value = [&](std::size_t i) { return static_cast<std::uint64_t>(t.numbers.at(i)); };
    if (t.name == "mss") {
        o.u8(2), o.u8(4), o.u16(value(0));
    } else if (t.name == "wscale") {
        o.u8(3), o.u8(3), o.u8(value(0));
    } else if (t.name == "sackOK") {
        o.u8(4), o.u8(2);
    } else if (t.name == "nop") {
        o.u8(1);
    } else if (t.name == "eol") {
        o.u8(0);
    } else if (t.name == "TS") {
        o.u8(8), o.u8(10), o.u32(value(0)), o.u32(value(1) == 0 ? 0 : value(1) + c.stamp_offset);
    } else if (t.name == "sack") {
        o.u8(5), o.u8(2 + 4 * t.numbers.size());
        for (std::size_t i = 0; i < t.numbers.size(); ++i) o.u32(value(i) + c.local_isn);
    } else if (t.name == "FO") {
        o.u8(34), o.u8(2 + t.numbers.size());
        for (std::size_t i = 0; i < t.numbers.size(); ++i) o.u8(value(i));
    } else if (t.name == "FOEXP") {
        o.u8(254), o.u8(4 + t.numbers.size()), o.u16(0xf989);
        for (std::size_t i = 0; i < t.numbers.size(); ++i) o.u8(value(i));
    } else if (t.name == "md5") {
        o.u8(19), o.u8(18), o.zeros(16);
    } else if (t.name == "AO") {
        o.u8(29), o.u8(16), o.zeros(14);
    } else if (t.name == "ACC0" || t.name == "ACC1") {
        o.u8(t.name == "ACC0" ? 172 : 174), o.u8(2 + 3 * t.numbers.size());
        for (std::size_t i = 0; i < t.numbers.size(); ++i) o.u8(value(i) >> 16), o.u16(value(i));
    } else {
        throw std::runtime_error("unknown TCP option " + t.name);
    }
}

void write_address(bytes_out& o, const net_address& a) {
    const auto octets = a.v6().octets();
    for (std::size_t i = a.is_v4() ? 12 : 0; i < octets.size(); ++i) o.u8(octets[i]);
}

/// `said_size`: of the payload, by the header.
std::vector<std::byte> ip_packet(wire::ip_protocol protocol, const net_address& from, const net_address& to, unsigned ecn,
                                 const std::vector<std::byte>& payload, std::size_t said_size, unsigned hops = 64) {
    bytes_out o;
    if (from.is_v4()) {
        o.u8(0x45), o.u8(ecn), o.u16(20 + said_size), o.u16(0), o.u16(0x4000);
        o.u8(hops), o.u8(static_cast<std::uint8_t>(protocol)), o.u16(0);
    } else {
        o.u16(0x6000 | ecn << 4), o.u16(0), o.u16(said_size), o.u8(static_cast<std::uint8_t>(protocol)), o.u8(hops);
    }
    write_address(o, from), write_address(o, to);
    if (from.is_v4()) store_be16(o.out.data() + 10, wire::internet_sum().add(o.out).checksum());
    o.out.insert(o.out.end(), payload.begin(), payload.end());
    return std::move(o.out);
}

/// The packet with 20 bytes of IPv4 options, or a destination option, that read like the header it would have without.
std::vector<std::byte> with_feigned_header(std::vector<std::byte> packet, unsigned hops) {
    const bool four = load_u8(packet.data()) >> 4 == 4;
    const auto header = packet.begin() + (four ? 20 : 40);
    std::vector<std::byte> feigned(packet.begin(), header);
    if (four) {
        store_u8(feigned.data() + 1, 20); // the first octet is the kind of an option that nobody knows, the second its size
        store_u8(feigned.data() + 8, static_cast<std::uint8_t>(hops));
        store_u8(packet.data(), 0x4a);
        store_be16(packet.data() + 2, static_cast<std::uint16_t>(packet.size() + 20));
    } else {
        store_u8(feigned.data() + 7, static_cast<std::uint8_t>(hops));
        bytes_out o;
        o.u8(6), o.u8(5), o.u8(0x1e), o.u8(44), o.zeros(4); // an option to be skipped (RFC 4727), whose data ends with the header
        feigned.insert(feigned.begin(), o.out.begin(), o.out.end());
        store_u8(packet.data() + 6, 60);
        store_be16(packet.data() + 4, static_cast<std::uint16_t>(load_be16(packet.data() + 4) + feigned.size()));
    }
    packet.insert(header, feigned.begin(), feigned.end());
    if (four) {
        store_be16(packet.data() + 10, 0);
        store_be16(packet.data() + 10, wire::internet_sum().add(std::span(packet).first(40)).checksum());
    }
    return packet;
}

std::uint16_t checksum(wire::ip_protocol protocol, const net_address& from, const net_address& to, std::span<const std::byte> segment) {
    return wire::pseudo_header_sum(from, to, protocol, segment.size()).add(segment).checksum();
}

std::vector<tcp_option_text> read_options(std::span<const std::byte> o) {
    std::vector<tcp_option_text> out;
    for (std::size_t i = 0; i < o.size();) {
        const unsigned kind = load_u8(o.data() + i);
        if (kind <= 1) {
            out.push_back({kind == 1 ? "nop" : "eol", {}});
            ++i;
            continue;
        }
        if (i + 1 >= o.size()) throw std::runtime_error("a TCP option without a length");
        const std::size_t size = load_u8(o.data() + i + 1);
        if (size < 2 || i + size > o.size()) throw std::runtime_error("a TCP option of a wrong length");
        const std::byte* p = o.data() + i + 2;
        tcp_option_text t;
        switch (kind) {
        case 2: t = {"mss", {load_be16(p)}}; break;
        case 3: t = {"wscale", {load_u8(p)}}; break;
        case 4: t = {"sackOK", {}}; break;
        case 5:
            t.name = "sack";
            for (std::size_t n = 0; n + 4 <= size - 2; n += 4) t.numbers.push_back(load_be32(p + n));
            break;
        case 8: t = {"TS", {load_be32(p), load_be32(p + 4)}}; break;
        case 34:
            t.name = "FO";
            for (std::size_t n = 0; n < size - 2; ++n) t.numbers.push_back(load_u8(p + n));
            break;
        case 254:
            if (size < 4 || load_be16(p) != 0xf989) throw std::runtime_error("an experimental TCP option that is not Fast Open");
            t.name = "FOEXP";
            for (std::size_t n = 2; n < size - 2; ++n) t.numbers.push_back(load_u8(p + n));
            break;
        case 172:
        case 174:
            t.name = kind == 172 ? "ACC0" : "ACC1";
            for (std::size_t n = 0; n + 3 <= size - 2; n += 3) t.numbers.push_back(load_be32(p + n - 1) & 0xffffff);
            break;
        default: t = {"kind" + std::to_string(kind), {}};
        }
        out.push_back(std::move(t));
        i += size;
    }
    return out;
}

} // namespace

std::vector<std::byte> build(const packet_step& p, const connection_text& c) {
    bytes_out options;
    for (const tcp_option_text& t : p.options) write_option(options, t, c);
    while (options.out.size() % 4 != 0) options.u8(0);
    bytes_out o;
    const auto size = static_cast<std::size_t>(p.end - p.first);
    o.u16(c.remote_port), o.u16(c.local_port);
    o.u32(static_cast<std::uint64_t>(p.first) + c.remote_isn);
    o.u32(p.ack ? static_cast<std::uint64_t>(*p.ack) + c.local_isn : 0);
    o.u16((20 + options.out.size()) / 4 << 12 | bits_of(p.flags));
    o.u16(static_cast<std::uint64_t>(p.window.value_or(65'535)));
    o.u16(0), o.u16(static_cast<std::uint64_t>(p.urgent.value_or(0)));
    o.out.insert(o.out.end(), options.out.begin(), options.out.end());
    for (std::size_t i = 0; i < size; ++i) o.u8(static_cast<std::uint64_t>(p.first) + i);
    store_be16(o.out.data() + 16, checksum(wire::ip_protocol::tcp, c.remote, c.local, o.out));
    auto packet = ip_packet(wire::ip_protocol::tcp, c.remote, c.local, p.ecn, o.out, o.out.size(), p.hops);
    return p.feigned_hops != 0 ? with_feigned_header(std::move(packet), p.feigned_hops) : packet;
}

std::vector<std::byte> build(const icmp_step& p, const connection_text& c) {
    const bool six = !c.local.is_v4(), too_big = p.kind == "frag_needed", too_far = p.kind == "time_exceeded";
    bytes_out o;
    if (six) { // RFC 4443 3.1, 3.2
        const bool no_route = p.kind == "net_unreachable" || too_big || too_far;
        const unsigned code = no_route ? 0 : p.kind == "prohibited" ? 1 : p.kind == "host_unreachable" ? 3 : 4;
        o.u8(too_big ? 2 : too_far ? 3 : 1), o.u8(code), o.u16(0), o.u32(too_big ? p.mtu + 20 : 0);
    } else {
        const unsigned code = p.kind == "net_unreachable" || too_far ? 0
                              : p.kind == "host_unreachable" ? 1
                              : p.kind == "port_unreachable" ? 3
                              : p.kind == "prohibited"       ? 13
                                                             : 4;
        o.u8(too_far ? 11 : 3), o.u8(code), o.u16(0), o.u16(0), o.u16(p.mtu);
    }
    bytes_out quoted; // the first 8 bytes of TCP: ports and sequence number; IPv6's routers quote all that they can
    quoted.u16(c.local_port), quoted.u16(c.remote_port), quoted.u32(static_cast<std::uint64_t>(p.first) + c.local_isn);
    if (six) quoted.u32(0), quoted.u16(0x5010), quoted.u16(0), quoted.u32(0);
    const auto said_size = 20 + static_cast<std::size_t>(p.end - p.first); // the quoted header says how long the packet was
    const std::vector<std::byte> quote = ip_packet(wire::ip_protocol::tcp, c.local, c.remote, 0, quoted.out, said_size);
    o.out.insert(o.out.end(), quote.begin(), quote.end());
    const wire::ip_protocol protocol = six ? wire::ip_protocol::icmpv6 : wire::ip_protocol::icmp;
    store_be16(o.out.data() + 2, six ? checksum(protocol, c.remote, c.local, o.out) : wire::internet_sum().add(o.out).checksum());
    return ip_packet(protocol, c.remote, c.local, 0, o.out, o.out.size());
}

namespace {

/// The IP header of `b`; what is behind it.
std::span<const std::byte> read_ip(std::span<const std::byte> b, live_packet& p) {
    const unsigned version = b.empty() ? 0 : load_u8(b.data()) >> 4;
    const std::size_t header = version == 6 ? 40 : 20;
    if (b.size() < header || (version != 6 && load_u8(b.data()) != 0x45)) throw std::runtime_error("no packet ever left");
    const unsigned octet = version == 6 ? load_be16(b.data()) >> 4 & 0xff : load_u8(b.data() + 1);
    p.type_of_service = octet & 0xfc;
    p.ecn = octet & 3;
    if (version == 6) {
        p.source = ipv6::load(b.data() + 8);
        p.destination = ipv6::load(b.data() + 24);
        p.hops = load_u8(b.data() + 7);
        p.is_tcp = load_u8(b.data() + 6) == 6;
        p.checksums_good = true;
    } else {
        p.source = ipv4::load(b.data() + 12);
        p.destination = ipv4::load(b.data() + 16);
        p.hops = load_u8(b.data() + 8);
        p.dont_fragment = (load_u8(b.data() + 6) & 0x40) != 0;
        p.is_tcp = load_u8(b.data() + 9) == 6;
        p.checksums_good = wire::internet_sum().add(b.first(20)).verifies();
    }
    const std::size_t size = version == 6 ? load_be16(b.data() + 4) + header : load_be16(b.data() + 2);
    if (size != b.size()) throw std::runtime_error("the IP header's length is not the packet's");
    return b.subspan(header);
}

} // namespace

live_packet parse_packet(std::span<const std::byte> b) {
    live_packet p;
    const std::span<const std::byte> t = read_ip(b, p);
    if (!p.is_tcp) return p;
    if (t.size() < 20) throw std::runtime_error("no whole TCP header");
    p.checksums_good &= wire::pseudo_header_sum(p.source, p.destination, wire::ip_protocol::tcp, t.size()).add(t).verifies();
    p.source_port = load_be16(t.data());
    p.destination_port = load_be16(t.data() + 2);
    p.sequence = load_be32(t.data() + 4);
    p.acknowledgment = load_be32(t.data() + 8);
    p.flags = flags_of(load_be16(t.data() + 12) & 0x1ff);
    p.window = load_be16(t.data() + 14);
    p.urgent = load_be16(t.data() + 18);
    const std::size_t header = (load_u8(t.data() + 12) >> 4) * std::size_t{4};
    if (header < 20 || header > t.size()) throw std::runtime_error("a wrong data offset");
    p.options = read_options(t.subspan(20, header - 20));
    p.payload = static_cast<std::uint32_t>(t.size() - header);
    return p;
}

std::string to_text(const std::vector<tcp_option_text>& options) {
    std::string s = "<";
    for (const tcp_option_text& t : options) {
        if (s.size() > 1) s += ',';
        s += t.name;
        for (std::size_t i = 0; i < t.numbers.size(); ++i) s += (t.name == "sack" && i % 2 == 1 ? ':' : ' ') + std::to_string(t.numbers[i]);
    }
    return s + '>';
}

std::string to_text(const live_packet& p, const connection_text& c) {
    if (!p.is_tcp) return "(not TCP)";
    std::ostringstream s;
    const auto first = static_cast<std::int32_t>(p.sequence - c.local_isn);
    s << p.flags << ' ' << first << ':' << first + static_cast<std::int64_t>(p.payload) << '(' << p.payload << ')';
    if (p.flags.find('.') != p.flags.npos) s << " ack " << static_cast<std::int32_t>(p.acknowledgment - c.remote_isn);
    if (p.urgent != 0) s << " urg " << p.urgent;
    s << " win " << p.window << ' ' << to_text(p.options);
    return s.str();
}

} // namespace corewire::conformance
