// ICMPv6 (RFC 4443) and the shapes of neighbour discovery (RFC 4861): parse and emit, no behaviour.
// Views and cursors borrow the message's bytes for the length of a call; the structs are plain values.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace corewire::wire {

/// Any octet is a valid value of the enum. Below 128: errors.
enum class icmpv6_type : std::uint8_t {
    unreachable = 1,
    packet_too_big = 2,
    time_exceeded = 3,
    parameter_problem = 4,
    echo_request = 128,
    echo_reply = 129,
    group_query = 130,  ///< MLD (RFC 3810 5.1)
    group_report_v1 = 131, ///< MLDv1 (RFC 2710)
    group_report = 143, ///< MLDv2 (RFC 3810 5.2)
    router_solicitation = 133,
    router_advertisement = 134,
    neighbor_solicitation = 135,
    neighbor_advertisement = 136,
    redirect = 137,
};

class icmpv6_view {
public:
    static constexpr std::size_t header_size = 8; ///< bytes, of every message we handle

    /// `message`: what follows the IPv6 (and extension) headers. The checksum is not looked at: see checksum_ok().
    [[nodiscard]] static parse_error parse(byte_span message, icmpv6_view& out) noexcept {
        if (message.size() < header_size) return parse_error::truncated;
        out.message_ = message;
        return parse_error::none;
    }

    icmpv6_type type() const noexcept { return static_cast<icmpv6_type>(load_u8(message_.data())); }
    std::uint8_t code() const noexcept { return load_u8(message_.data() + 1); }
    std::uint16_t checksum() const noexcept { return load_be16(message_.data() + 2); }
    /// Over the pseudo-header too (RFC 4443 2.3).
    bool checksum_ok(const ipv6_address& source, const ipv6_address& destination) const noexcept {
        return pseudo_header_sum(source, destination, ip_protocol::icmpv6, message_.size()).add(message_).verifies();
    }
    /// The second word, which each type uses in its own way.
    std::uint32_t rest() const noexcept { return load_be32(message_.data() + 4); }
    std::uint16_t identifier() const noexcept { return load_be16(message_.data() + 4); } ///< of an echo
    std::uint16_t sequence() const noexcept { return load_be16(message_.data() + 6); }   ///< of an echo
    std::uint32_t mtu() const noexcept { return rest(); }                                ///< bytes, of packet_too_big
    std::uint32_t pointer() const noexcept { return rest(); }                            ///< of a parameter problem
    bool is_error() const noexcept { return load_u8(message_.data()) < 128; }

    byte_span message() const noexcept { return message_; }
    /// Behind the first 8 bytes: an echo's data, or the packet that an error quotes (ipv6_view::parse_quoted()).
    byte_span payload() const noexcept { return message_.subspan(header_size); }

private:
    byte_span message_;
};

struct icmpv6_header {
    icmpv6_type type = icmpv6_type::echo_request;
    std::uint8_t code = 0;
    std::uint32_t rest = 0; ///< the second word

    static constexpr std::size_t size = icmpv6_view::header_size;

    static icmpv6_header from(const icmpv6_view& v) noexcept { return {v.type(), v.code(), v.rest()}; }
    static icmpv6_header echo_request(std::uint16_t identifier, std::uint16_t sequence) noexcept {
        return {icmpv6_type::echo_request, 0, std::uint32_t{identifier} << 16 | sequence};
    }
    static icmpv6_header echo_reply(std::uint16_t identifier, std::uint16_t sequence) noexcept {
        return {icmpv6_type::echo_reply, 0, std::uint32_t{identifier} << 16 | sequence};
    }
    static icmpv6_header packet_too_big(std::uint32_t mtu) noexcept { return {icmpv6_type::packet_too_big, 0, mtu}; }

    /// Writes the header and a copy of `payload`, with the checksum over the pseudo-header and both; returns the bytes
    /// written, 8 + payload. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, const ipv6_address& source, const ipv6_address& destination,
                     byte_span payload = {}) const noexcept {
        const std::size_t total = size + payload.size();
        CW_ASSERT(out.size() >= total, "no room for an ICMPv6 message");
        const std::uint32_t first = static_cast<std::uint32_t>(type) << 24 | std::uint32_t{code} << 16;
        internet_sum sum = pseudo_header_sum(source, destination, ip_protocol::icmpv6, total);
        sum.add_and_copy(out.subspan(size), payload).add_u32(first).add_u32(rest);
        store_be32(out.data(), first | sum.checksum());
        store_be32(out.data() + 4, rest);
        return total;
    }

    friend bool operator==(const icmpv6_header&, const icmpv6_header&) = default;
};

/// RFC 4861 4.6. Any octet is a valid value of the enum.
enum class nd_option_type : std::uint8_t {
    source_link_layer = 1,
    target_link_layer = 2,
    prefix_information = 3,
    redirected_header = 4,
    mtu = 5,
    recursive_dns_server = 25, ///< RFC 8106 5.1
    dns_search_list = 31,      ///< RFC 8106 5.2
};

struct nd_option {
    nd_option_type type = nd_option_type::source_link_layer;
    byte_span data; ///< behind the type and length octets: 6 bytes and a multiple of 8 more

    mac_address mac() const noexcept { return mac_address::load(data.data()); } ///< of a link-layer address option
};

/// Walks over the options of a neighbour discovery message, as ipv4_option_cursor does over IPv4's.
class nd_option_cursor {
public:
    explicit nd_option_cursor(byte_span options) noexcept : rest_(options) {}

    /// False at the end and at an option of length zero (RFC 4861 4.6 MUST discard the packet) or beyond the message.
    bool next(nd_option& out) noexcept {
        if (rest_.empty()) return false;
        const std::size_t length = rest_.size() < 2 ? 0 : load_u8(rest_.data() + 1) * std::size_t{8};
        if (length == 0 || length > rest_.size()) {
            error_ = parse_error::bad_option;
            rest_ = {};
            return false;
        }
        out = {static_cast<nd_option_type>(load_u8(rest_.data())), rest_.subspan(2, length - 2)};
        rest_ = rest_.subspan(length);
        return true;
    }
    parse_error error() const noexcept { return error_; }

private:
    byte_span rest_;
    parse_error error_ = parse_error::none;
};

namespace detail {
/// The last link-layer address of the wanted kind among `options`; none when there is no such option.
inline parse_error find_link_layer(byte_span options, nd_option_type wanted, std::optional<mac_address>& out) noexcept {
    out.reset();
    nd_option_cursor cursor(options);
    for (nd_option option; cursor.next(option);) {
        if (option.type == wanted) out = option.mac();
    }
    return cursor.error();
}
/// Writes a link-layer address option, if there is an address; returns the bytes written, 0 or 8.
inline std::size_t emit_link_layer(std::byte* out, nd_option_type type,
                                   const std::optional<mac_address>& mac) noexcept {
    if (!mac) return 0;
    store_u8(out, static_cast<std::uint8_t>(type));
    store_u8(out + 1, 1);
    mac->store(out + 2);
    return 8;
}
} // namespace detail

/// RFC 4861 4.3. The receiver checks besides that the hop limit is 255 and the checksum right (7.1.1).
struct neighbor_solicitation {
    ipv6_address target;
    std::optional<mac_address> source_mac; ///< absent in duplicate address detection

    static constexpr std::size_t max_size = 32; ///< bytes

    [[nodiscard]] static parse_error parse(const icmpv6_view& v, neighbor_solicitation& out) noexcept {
        if (v.type() != icmpv6_type::neighbor_solicitation) return parse_error::unsupported;
        if (v.payload().size() < ipv6_address::size) return parse_error::truncated;
        const ipv6_address target = ipv6_address::load(v.payload().data());
        if (v.code() != 0 || target.is_multicast()) return parse_error::bad_value; // RFC 4861 7.1.1
        out.target = target;
        return detail::find_link_layer(v.payload().subspan(ipv6_address::size), nd_option_type::source_link_layer,
                                       out.source_mac);
    }
    /// Returns the bytes written, 24 or 32. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, const ipv6_address& source,
                     const ipv6_address& destination) const noexcept {
        std::byte body[24];
        target.store(body);
        const std::size_t size = 16 + detail::emit_link_layer(body + 16, nd_option_type::source_link_layer, source_mac);
        return icmpv6_header{icmpv6_type::neighbor_solicitation, 0, 0}.emit(out, source, destination,
                                                                            byte_span(body).first(size));
    }
    friend bool operator==(const neighbor_solicitation&, const neighbor_solicitation&) = default;
};

/// RFC 4861 4.4.
struct neighbor_advertisement {
    bool router = false;    ///< R
    bool solicited = false; ///< S
    bool override = false;  ///< O: replaces what the cache holds
    ipv6_address target;
    std::optional<mac_address> target_mac;

    static constexpr std::size_t max_size = 32; ///< bytes

    [[nodiscard]] static parse_error parse(const icmpv6_view& v, neighbor_advertisement& out) noexcept {
        if (v.type() != icmpv6_type::neighbor_advertisement) return parse_error::unsupported;
        if (v.payload().size() < ipv6_address::size) return parse_error::truncated;
        const ipv6_address target = ipv6_address::load(v.payload().data());
        if (v.code() != 0 || target.is_multicast()) return parse_error::bad_value; // RFC 4861 7.1.2
        out.router = (v.rest() >> 31 & 1) != 0;
        out.solicited = (v.rest() >> 30 & 1) != 0;
        out.override = (v.rest() >> 29 & 1) != 0;
        out.target = target;
        return detail::find_link_layer(v.payload().subspan(ipv6_address::size), nd_option_type::target_link_layer,
                                       out.target_mac);
    }
    /// Returns the bytes written, 24 or 32. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, const ipv6_address& source,
                     const ipv6_address& destination) const noexcept {
        std::byte body[24];
        target.store(body);
        const std::size_t size = 16 + detail::emit_link_layer(body + 16, nd_option_type::target_link_layer, target_mac);
        const std::uint32_t flags = (router ? 1u << 31 : 0) | (solicited ? 1u << 30 : 0) | (override ? 1u << 29 : 0);
        return icmpv6_header{icmpv6_type::neighbor_advertisement, 0, flags}.emit(out, source, destination,
                                                                                 byte_span(body).first(size));
    }
    friend bool operator==(const neighbor_advertisement&, const neighbor_advertisement&) = default;
};

/// RFC 4861 4.5. What it quotes of the packet that it is about is not looked at.
struct neighbor_redirect {
    ipv6_address target;      ///< the better first hop; the destination itself: it is a neighbour
    ipv6_address destination;
    std::optional<mac_address> target_mac;

    static constexpr std::size_t max_size = 48; ///< bytes, without the packet

    /// Checks what RFC 4861 8.1 says of the message itself.
    [[nodiscard]] static parse_error parse(const icmpv6_view& v, neighbor_redirect& out) noexcept {
        constexpr std::size_t addresses = 2 * ipv6_address::size;
        if (v.type() != icmpv6_type::redirect) return parse_error::unsupported;
        if (v.payload().size() < addresses) return parse_error::truncated;
        out.target = ipv6_address::load(v.payload().data());
        out.destination = ipv6_address::load(v.payload().data() + ipv6_address::size);
        const bool good_target = out.target.is_link_local() || out.target == out.destination;
        if (v.code() != 0 || out.destination.is_multicast() || !good_target) return parse_error::bad_value;
        return detail::find_link_layer(v.payload().subspan(addresses), nd_option_type::target_link_layer, out.target_mac);
    }
    /// Returns the bytes written, 40 or 48. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, const ipv6_address& source, const ipv6_address& to) const noexcept {
        std::byte body[40];
        target.store(body);
        destination.store(body + ipv6_address::size);
        const std::size_t size = 32 + detail::emit_link_layer(body + 32, nd_option_type::target_link_layer, target_mac);
        return icmpv6_header{icmpv6_type::redirect, 0, 0}.emit(out, source, to, byte_span(body).first(size));
    }
    friend bool operator==(const neighbor_redirect&, const neighbor_redirect&) = default;
};

/// RFC 4861 4.1.
struct router_solicitation {
    std::optional<mac_address> source_mac;

    static constexpr std::size_t max_size = 16; ///< bytes

    [[nodiscard]] static parse_error parse(const icmpv6_view& v, router_solicitation& out) noexcept {
        if (v.type() != icmpv6_type::router_solicitation) return parse_error::unsupported;
        if (v.code() != 0) return parse_error::bad_value; // RFC 4861 6.1.1
        return detail::find_link_layer(v.payload(), nd_option_type::source_link_layer, out.source_mac);
    }
    /// Returns the bytes written, 8 or 16. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, const ipv6_address& source,
                     const ipv6_address& destination) const noexcept {
        std::byte body[8];
        const std::size_t size = detail::emit_link_layer(body, nd_option_type::source_link_layer, source_mac);
        return icmpv6_header{icmpv6_type::router_solicitation, 0, 0}.emit(out, source, destination,
                                                                          byte_span(body).first(size));
    }
    friend bool operator==(const router_solicitation&, const router_solicitation&) = default;
};

/// RFC 4191 2.1: what a default router is worth beside others.
enum class router_preference : std::int8_t { low = -1, medium = 0, high = 1 };

/// RFC 4861 4.2: the fixed part. The options (prefixes, MTU) are walked with nd_option_cursor, and written by the
/// caller in the form of the wire.
struct router_advertisement {
    std::uint8_t hop_limit = 0;        ///< 0: unspecified by this router
    bool managed = false;              ///< M: addresses by DHCPv6
    bool other = false;                ///< O: other settings by DHCPv6
    router_preference preference = router_preference::medium; ///< Prf (RFC 4191 2.2)
    std::uint16_t lifetime = 0;        ///< seconds as a default router; 0: it is none
    std::uint32_t reachable_time = 0;  ///< milliseconds; 0: unspecified
    std::uint32_t retransmit_time = 0; ///< milliseconds; 0: unspecified
    byte_span options;                 ///< borrowed

    static constexpr std::size_t fixed_size = 16; ///< bytes, without options

    [[nodiscard]] static parse_error parse(const icmpv6_view& v, router_advertisement& out) noexcept {
        if (v.type() != icmpv6_type::router_advertisement) return parse_error::unsupported;
        if (v.message().size() < fixed_size) return parse_error::truncated;
        if (v.code() != 0) return parse_error::bad_value; // RFC 4861 6.1.2
        const std::uint32_t rest = v.rest();
        out.hop_limit = static_cast<std::uint8_t>(rest >> 24);
        out.managed = (rest >> 23 & 1) != 0;
        out.other = (rest >> 22 & 1) != 0;
        const std::uint32_t prf = rest >> 19 & 3; // 2 is reserved, and counts as medium
        out.preference = prf == 1 ? router_preference::high : prf == 3 ? router_preference::low : router_preference::medium;
        out.lifetime = static_cast<std::uint16_t>(rest);
        out.reachable_time = load_be32(v.payload().data());
        out.retransmit_time = load_be32(v.payload().data() + 4);
        out.options = v.payload().subspan(8);
        nd_option_cursor cursor(out.options);
        for (nd_option option; cursor.next(option);) {
        }
        return cursor.error();
    }
    /// Returns the bytes written, 16 + options. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, const ipv6_address& source,
                     const ipv6_address& destination) const noexcept {
        CW_ASSERT(out.size() >= fixed_size + options.size(), "no room for a router advertisement");
        const std::uint32_t rest =
            std::uint32_t{hop_limit} << 24 | (managed ? 1u << 23 : 0) | (other ? 1u << 22 : 0) |
            (static_cast<std::uint32_t>(preference) & 3) << 19 | lifetime;
        const icmpv6_header header{icmpv6_type::router_advertisement, 0, rest};
        std::byte times[8];
        store_be32(times, reachable_time);
        store_be32(times + 4, retransmit_time);
        header.emit(out, source, destination, times);
        if (options.empty()) return fixed_size;
        // The body is in two pieces, so the checksum is made over the message as it now stands.
        std::memcpy(out.data() + fixed_size, options.data(), options.size());
        const std::size_t size = fixed_size + options.size();
        store_be16(out.data() + 2, 0);
        store_be16(out.data() + 2,
                   pseudo_header_sum(source, destination, ip_protocol::icmpv6, size).add(out.first(size)).checksum());
        return size;
    }
};

} // namespace corewire::wire
