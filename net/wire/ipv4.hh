// The IPv4 header (RFC 791 3.1, RFC 1122 3.2.1), its options, and its checksum.
// The view borrows the packet's bytes for the length of a call; the struct is a plain value.
//
//     0               8               16    19              31
//     | version  IHL  |  DSCP    ECN  |     total length      |
//     |        identification         | flags | frag. offset  |
//     |      TTL      |   protocol    |        checksum       |
//     |                         source                        |
//     |                       destination                     |
//     |                 options, 0 to 40 bytes                |
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>

namespace corewire::wire {

class ipv4_view {
public:
    static constexpr std::size_t min_header_size = 20; ///< bytes
    static constexpr std::size_t max_header_size = 60; ///< bytes

    /// Checks version, IHL and total length. Bytes behind the total length (the padding of a short frame) are cut off.
    /// The checksum is not looked at, since a port may have: see checksum_ok().
    [[nodiscard]] static parse_error parse(byte_span packet, ipv4_view& out) noexcept {
        const parse_error error = parse_header(packet, out);
        if (error != parse_error::none) return error;
        if (out.total_length() > packet.size()) return parse_error::truncated;
        out.present_ = out.total_length();
        return parse_error::none;
    }

    /// For a datagram of which only the beginning is in `packet`: the one quoted in an ICMP error (RFC 792: the header
    /// and at least 8 bytes of what follows it), or one whose rest lies in another buffer. The header must be whole.
    /// payload() is what there is here; total_length() says what there was.
    [[nodiscard]] static parse_error parse_quoted(byte_span packet, ipv4_view& out) noexcept {
        const parse_error error = parse_header(packet, out);
        if (error != parse_error::none) return error;
        out.present_ =
            out.total_length() < packet.size() ? out.total_length() : static_cast<std::uint16_t>(packet.size());
        return parse_error::none;
    }

    std::size_t header_size() const noexcept { return header_size_; }         ///< bytes, options included
    std::uint16_t total_length() const noexcept { return load_be16(p_ + 2); } ///< bytes, header included
    std::uint8_t dscp() const noexcept { return load_u8(p_ + 1) >> 2; }       ///< 6 bits, RFC 2474
    std::uint8_t ecn() const noexcept { return load_u8(p_ + 1) & 3; }         ///< 2 bits, RFC 3168
    std::uint16_t identification() const noexcept { return load_be16(p_ + 4); }
    bool dont_fragment() const noexcept { return (load_be16(p_ + 6) & 0x4000) != 0; }
    bool more_fragments() const noexcept { return (load_be16(p_ + 6) & 0x2000) != 0; }
    /// Where this fragment's payload stands in the datagram's, bytes (a multiple of 8).
    std::uint16_t fragment_offset() const noexcept { return static_cast<std::uint16_t>(load_be16(p_ + 6) << 3); }
    /// Anything but a whole datagram.
    bool is_fragment() const noexcept { return (load_be16(p_ + 6) & 0x3fff) != 0; }
    std::uint8_t ttl() const noexcept { return load_u8(p_ + 8); }
    ip_protocol protocol() const noexcept { return static_cast<ip_protocol>(load_u8(p_ + 9)); }
    std::uint16_t checksum() const noexcept { return load_be16(p_ + 10); }
    ipv4_address source() const noexcept { return ipv4_address::load(p_ + 12); }
    ipv4_address destination() const noexcept { return ipv4_address::load(p_ + 16); }

    byte_span header() const noexcept { return {p_, header_size_}; }
    byte_span options() const noexcept { return header().subspan(min_header_size); }
    byte_span payload() const noexcept {
        return {p_ + header_size_, static_cast<std::size_t>(present_ - header_size_)};
    }

    /// RFC 1122 3.2.1.2 (MUST): a host verifies the header checksum of every datagram and silently discards bad ones.
    bool checksum_ok() const noexcept {
        if (header_size_ == min_header_size) return wire::checksum_ok(byte_span(p_, min_header_size));
        return wire::checksum_ok(header());
    }

private:
    static parse_error parse_header(byte_span packet, ipv4_view& out) noexcept {
        if (packet.size() < min_header_size) return parse_error::truncated;
        const std::byte* p = packet.data();
        const std::uint8_t first = load_u8(p);
        if (first >> 4 != 4) return parse_error::bad_version;
        const std::size_t header_size = (first & 0xfu) * 4;
        if (header_size < min_header_size) return parse_error::bad_header_length;
        if (header_size > packet.size()) return parse_error::truncated;
        if (load_be16(p + 2) < header_size) return parse_error::bad_length;
        out.p_ = p;
        out.header_size_ = static_cast<std::uint16_t>(header_size);
        return parse_error::none;
    }

    const std::byte* p_ = nullptr;
    std::uint16_t header_size_ = 0;
    std::uint16_t present_ = 0; ///< bytes of the datagram that are there
};

struct ipv4_header {
    std::uint16_t total_length = 20;  ///< bytes, header and options included
    std::uint8_t dscp = 0;            ///< 6 bits
    std::uint8_t ecn = 0;             ///< 2 bits
    std::uint16_t identification = 0; ///< may repeat when dont_fragment is set (RFC 6864 4.1)
    bool dont_fragment = true;
    bool more_fragments = false;
    std::uint16_t fragment_offset = 0; ///< bytes, a multiple of 8
    std::uint8_t ttl = 64;             ///< RFC 1700's default
    ip_protocol protocol = ip_protocol::tcp;
    ipv4_address source;
    ipv4_address destination;

    static constexpr std::size_t min_size = ipv4_view::min_header_size;
    static constexpr std::size_t checksum_offset = 10; ///< bytes from the start of the header

    static ipv4_header from(const ipv4_view& v) noexcept {
        return {v.total_length(),    v.dscp(), v.ecn(),      v.identification(), v.dont_fragment(), v.more_fragments(),
                v.fragment_offset(), v.ttl(),  v.protocol(), v.source(),         v.destination()};
    }

    /// Writes the header, checksum included, and `options` (a multiple of 4 bytes, at most 40, already in the form of
    /// the wire) to the front of `out`; returns the bytes written. Asserts that they fit.
    std::size_t emit(mutable_byte_span out, byte_span options = {}) const noexcept {
        const std::size_t size = min_size + options.size();
        CW_ASSERT(out.size() >= size, "no room for an IPv4 header");
        CW_ASSERT(options.size() % 4 == 0 && size <= ipv4_view::max_header_size, "IPv4 options of an impossible size");
        CW_DEBUG_ASSERT(fragment_offset % 8 == 0, "a fragment offset that is no multiple of 8");
        // Put together in registers and summed there: reading back what was just stored would wait for the stores.
        const std::uint32_t first =
            static_cast<std::uint32_t>(0x40 | size / 4) << 24 | (dscp & 63u) << 18 | (ecn & 3u) << 16 | total_length;
        const std::uint32_t second = std::uint32_t{identification} << 16 | (dont_fragment ? 0x4000u : 0u) |
                                     (more_fragments ? 0x2000u : 0u) | fragment_offset / 8u;
        std::uint32_t third = std::uint32_t{ttl} << 24 | static_cast<std::uint32_t>(protocol) << 16;
        std::uint64_t sum = std::uint64_t{first} + second + third + source.value() + destination.value();
        std::byte* p = out.data();
        if (!options.empty()) {
            std::memcpy(p + min_size, options.data(), options.size());
            for (std::size_t i = 0; i < options.size(); i += 4)
                sum += load_be32(options.data() + i);
        }
        third |= static_cast<std::uint16_t>(~detail::fold16(sum));
        store_be32(p, first);
        store_be32(p + 4, second);
        store_be32(p + 8, third);
        source.store(p + 12);
        destination.store(p + 16);
        return size;
    }

    friend bool operator==(const ipv4_header&, const ipv4_header&) = default;
};

/// Takes one off the TTL of a header in place and corrects its checksum (RFC 1141 3, by RFC 1624's equation). The
/// caller has seen that the TTL is above zero.
inline void decrement_ttl(std::byte* header) noexcept {
    const std::uint16_t before = load_be16(header + 8);
    const auto after = static_cast<std::uint16_t>(before - 0x100);
    store_be16(header + 8, after);
    store_be16(header + 10, update_checksum(load_be16(header + 10), before, after));
}

/// IANA "IP Option Numbers": the whole type octet, with its copied flag and class.
enum class ipv4_option_type : std::uint8_t {
    end = 0,
    no_operation = 1,
    record_route = 7,
    timestamp = 68,
    security = 130,
    loose_source_route = 131,
    strict_source_route = 137,
    router_alert = 148,
};

/// Router Alert (RFC 2113), which IGMP messages carry (RFC 2236 2, RFC 3376 4).
inline constexpr std::byte ipv4_router_alert[4] = {std::byte{148}, std::byte{4}, std::byte{0}, std::byte{0}};

struct ipv4_option {
    ipv4_option_type type = ipv4_option_type::end;
    byte_span data; ///< behind the type and length octets; inside the packet

    /// It goes into every fragment, not into the first alone (RFC 791 3.1).
    bool copied() const noexcept { return (static_cast<std::uint8_t>(type) & 0x80) != 0; }
    bool is_source_route() const noexcept {
        return type == ipv4_option_type::loose_source_route || type == ipv4_option_type::strict_source_route;
    }
};

/// Walks over the options, skipping no-operations, to the end-of-list or the end of the header:
///     ipv4_option_cursor cursor(ip.options());
///     for (ipv4_option o; cursor.next(o);) ...
///     if (cursor.error() != parse_error::none) ...
class ipv4_option_cursor {
public:
    explicit ipv4_option_cursor(byte_span options) noexcept : rest_(options) {}

    /// False at the end and at an option whose length is below 2 or goes beyond the header.
    bool next(ipv4_option& out) noexcept {
        while (!rest_.empty()) {
            const std::uint8_t type = load_u8(rest_.data());
            if (type == static_cast<std::uint8_t>(ipv4_option_type::end)) break;
            if (type == static_cast<std::uint8_t>(ipv4_option_type::no_operation)) {
                rest_ = rest_.subspan(1);
                continue;
            }
            const std::size_t length = rest_.size() < 2 ? 0 : load_u8(rest_.data() + 1);
            if (length < 2 || length > rest_.size()) {
                error_ = parse_error::bad_option;
                break;
            }
            out.type = static_cast<ipv4_option_type>(type);
            out.data = rest_.subspan(2, length - 2);
            rest_ = rest_.subspan(length);
            return true;
        }
        rest_ = {};
        return false;
    }
    /// bad_option once next() has met a malformed one.
    parse_error error() const noexcept { return error_; }

private:
    byte_span rest_;
    parse_error error_ = parse_error::none;
};

} // namespace corewire::wire
