#include <corewire/net/wire/ipv6_extensions.hh>

#include <corewire/net/wire/ipv6.hh>

namespace corewire::wire {

namespace {

constexpr std::uint32_t next_header_at = 6; ///< in the IPv6 header

void fail(ipv6_chain& chain, ipv6_chain_verdict verdict) noexcept { chain.verdict = verdict; }

void complain(ipv6_chain& chain, std::uint8_t code, std::uint32_t at) noexcept {
    chain.verdict = ipv6_chain_verdict::problem;
    chain.problem_code = code;
    chain.problem_at = at;
}

bool is_extension(ip_protocol kind) noexcept {
    return kind == ip_protocol::hop_by_hop || kind == ip_protocol::ipv6_destination || kind == ip_protocol::ipv6_routing ||
           kind == ip_protocol::ipv6_fragment;
}

/// Bytes of such a header, of which the first eight lie at `header`.
std::uint32_t extension_size(ip_protocol kind, const std::byte* header) noexcept {
    return kind == ip_protocol::ipv6_fragment ? ipv6_chain::fragment_size : 8u + 8u * load_u8(header + 1);
}

/// RFC 8200 4.2: what an option that nobody knows asks for stands in its two highest bits.
bool take_option(ipv6_chain& chain, std::uint8_t type, std::uint32_t at) noexcept {
    switch (type >> 6) {
    case 0: return true;
    case 1: fail(chain, ipv6_chain_verdict::refused); return false;
    case 2: chain.problem_told_to_group = true; [[fallthrough]];
    default: complain(chain, 2, at); return false;
    }
}

/// The options of a hop-by-hop or destination options header that fills [at, end). False: the packet goes no further.
bool take_options(ipv6_chain& chain, byte_span packet, std::uint32_t at, std::uint32_t end, bool hop_by_hop) noexcept {
    constexpr std::uint8_t pad_1 = 0, pad_n = 1, router_alert = 5;
    unsigned options = 0;
    for (at += 2; at < end;) {
        const std::uint8_t type = load_u8(packet.data() + at);
        if (type == pad_1) {
            ++at;
            continue;
        }
        if (end - at < 2 || load_u8(packet.data() + at + 1) > end - at - 2) return fail(chain, ipv6_chain_verdict::malformed), false;
        if (type != pad_n && ++options > ipv6_chain::max_options) return fail(chain, ipv6_chain_verdict::too_long), false;
        if (type == router_alert && hop_by_hop) {
            // RFC 2711 2.1: two bytes, 0 for MLD.
            chain.router_alert |= load_u8(packet.data() + at + 1) == 2 && load_be16(packet.data() + at + 2) == 0;
        } else if (type != pad_n && !take_option(chain, type, at)) {
            return false;
        }
        at += 2u + load_u8(packet.data() + at + 1);
    }
    return true;
}

/// RFC 8200 4.4, RFC 5095: we are no router, so only one that has come to its end is skipped.
bool take_routing(ipv6_chain& chain, byte_span packet, std::uint32_t at) noexcept {
    if (load_u8(packet.data() + at + 3) == 0) return true;
    complain(chain, 0, at + 2);
    return false;
}

/// True: it says that this packet is whole, and the walk goes on.
bool take_fragment(ipv6_chain& chain, byte_span packet, std::uint32_t at, std::uint32_t named_at) noexcept {
    const std::uint16_t word = load_be16(packet.data() + at + 2);
    chain.fragment_header = true;
    if ((word & 0xfff9) == 0) return true; // RFC 6946: an atomic fragment
    chain.fragment = true;
    chain.fragment_offset = static_cast<std::uint16_t>(word & 0xfff8);
    chain.more_fragments = (word & 1) != 0;
    chain.identification = load_be32(packet.data() + at + 4);
    chain.fragment_at = at;
    chain.fragment_named_at = named_at;
    chain.protocol = static_cast<ip_protocol>(load_u8(packet.data() + at));
    chain.offset = at + ipv6_chain::fragment_size;
    return false;
}

} // namespace

ipv6_chain walk_extensions(byte_span packet) noexcept {
    ipv6_chain chain;
    std::uint32_t at = ipv6_view::header_size;
    std::uint32_t named_at = next_header_at;
    for (unsigned headers = 0;; ++headers) {
        const auto kind = static_cast<ip_protocol>(load_u8(packet.data() + named_at));
        const bool options = kind == ip_protocol::hop_by_hop || kind == ip_protocol::ipv6_destination;
        if (!is_extension(kind)) {
            chain.protocol = kind;
            chain.offset = at;
            chain.named_at = named_at;
            return chain;
        }
        if (kind == ip_protocol::hop_by_hop && headers != 0) { // RFC 8200 4.1: at the start alone
            complain(chain, 1, named_at);
            return chain;
        }
        if (packet.size() < at + 8) return fail(chain, ipv6_chain_verdict::malformed), chain;
        const std::uint32_t size = extension_size(kind, packet.data() + at);
        if (headers == ipv6_chain::max_headers || at + size > ipv6_view::header_size + ipv6_chain::max_size)
            return fail(chain, ipv6_chain_verdict::too_long), chain;
        if (packet.size() < at + size) return fail(chain, ipv6_chain_verdict::malformed), chain;
        if (options && !take_options(chain, packet, at, at + size, kind == ip_protocol::hop_by_hop)) return chain;
        if (kind == ip_protocol::ipv6_routing && !take_routing(chain, packet, at)) return chain;
        if (kind == ip_protocol::ipv6_fragment && !take_fragment(chain, packet, at, named_at)) return chain;
        named_at = at;
        at += size;
    }
}

std::optional<ipv6_upper_layer> find_upper_layer(byte_span packet) noexcept {
    std::uint32_t at = ipv6_view::header_size;
    auto kind = static_cast<ip_protocol>(load_u8(packet.data() + next_header_at));
    while (is_extension(kind)) {
        if (packet.size() < at + 8) return std::nullopt;
        const bool later_fragment = kind == ip_protocol::ipv6_fragment && (load_be16(packet.data() + at + 2) & 0xfff8) != 0;
        const std::uint32_t size = extension_size(kind, packet.data() + at);
        kind = static_cast<ip_protocol>(load_u8(packet.data() + at));
        if (later_fragment) { // what follows is somewhere in the datagram
            if (is_extension(kind)) return std::nullopt;
            return ipv6_upper_layer{kind, static_cast<std::uint32_t>(packet.size())};
        }
        at += size;
    }
    return ipv6_upper_layer{kind, at};
}

bool has_all_headers(byte_span packet, const ipv6_chain& first_fragment) noexcept {
    std::size_t at = first_fragment.offset;
    ip_protocol kind = first_fragment.protocol;
    for (unsigned headers = 0; headers < ipv6_chain::max_headers; ++headers) {
        const std::size_t left = packet.size() > at ? packet.size() - at : 0;
        std::size_t size = 1; // of what we do not know the beginning at least
        switch (kind) {
        case ip_protocol::hop_by_hop:
        case ip_protocol::ipv6_destination:
        case ip_protocol::ipv6_routing:
            if (left < 8) return false;
            size = extension_size(kind, packet.data() + at);
            kind = static_cast<ip_protocol>(load_u8(packet.data() + at));
            at += size;
            continue;
        case ip_protocol::ipv6_no_next: return true;
        case ip_protocol::tcp: size = left < 20 ? 20 : 4u * (load_u8(packet.data() + at + 12) >> 4); break;
        case ip_protocol::udp:
        case ip_protocol::icmpv6:
        case ip_protocol::ipv6_fragment: size = 8; break;
        default: break;
        }
        return left >= size;
    }
    return true;
}

} // namespace corewire::wire
