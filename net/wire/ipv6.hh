// The IPv6 header (RFC 8200 3), 40 bytes. Extension headers are walked elsewhere.
// The view borrows the packet's bytes for the length of a call; the struct is a plain value.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>

namespace corewire::wire {

class ipv6_view {
public:
    static constexpr std::size_t header_size = 40; ///< bytes

    /// Checks version and payload length. Bytes behind the payload length (the padding of a short frame) are cut off.
    /// A jumbogram (RFC 2675, payload length 0) is taken as an empty packet.
    [[nodiscard]] static parse_error parse(byte_span packet, ipv6_view& out) noexcept {
        if (packet.size() < header_size) return parse_error::truncated;
        if (load_u8(packet.data()) >> 4 != 6) return parse_error::bad_version;
        const std::size_t length = load_be16(packet.data() + 4);
        if (length > packet.size() - header_size) return parse_error::truncated;
        out.p_ = packet.data();
        out.present_ = length;
        return parse_error::none;
    }

    /// For the packet quoted in an ICMPv6 error: the payload may be cut short.
    [[nodiscard]] static parse_error parse_quoted(byte_span packet, ipv6_view& out) noexcept {
        if (packet.size() < header_size) return parse_error::truncated;
        if (load_u8(packet.data()) >> 4 != 6) return parse_error::bad_version;
        const std::size_t length = load_be16(packet.data() + 4);
        out.p_ = packet.data();
        out.present_ = length < packet.size() - header_size ? length : packet.size() - header_size;
        return parse_error::none;
    }

    std::uint8_t traffic_class() const noexcept { return static_cast<std::uint8_t>(load_be16(p_) >> 4); }
    std::uint8_t dscp() const noexcept { return traffic_class() >> 2; }
    std::uint8_t ecn() const noexcept { return traffic_class() & 3; }
    std::uint32_t flow_label() const noexcept { return load_be32(p_) & 0xfffff; } ///< 20 bits
    std::uint16_t payload_length() const noexcept { return load_be16(p_ + 4); }   ///< bytes behind these 40
    ip_protocol next_header() const noexcept { return static_cast<ip_protocol>(load_u8(p_ + 6)); }
    std::uint8_t hop_limit() const noexcept { return load_u8(p_ + 7); }
    ipv6_address source() const noexcept { return ipv6_address::load(p_ + 8); }
    ipv6_address destination() const noexcept { return ipv6_address::load(p_ + 24); }
    byte_span payload() const noexcept { return {p_ + header_size, present_}; }

private:
    const std::byte* p_ = nullptr;
    std::size_t present_ = 0; ///< bytes of the payload that are there
};

struct ipv6_header {
    std::uint8_t traffic_class = 0;
    std::uint32_t flow_label = 0;     ///< 20 bits
    std::uint16_t payload_length = 0; ///< bytes behind these 40
    ip_protocol next_header = ip_protocol::tcp;
    std::uint8_t hop_limit = 64;
    ipv6_address source;
    ipv6_address destination;

    static constexpr std::size_t size = ipv6_view::header_size;

    static ipv6_header from(const ipv6_view& v) noexcept {
        return {v.traffic_class(), v.flow_label(), v.payload_length(), v.next_header(),
                v.hop_limit(),     v.source(),     v.destination()};
    }
    /// Writes 40 bytes to the front of `out`; returns 40. Asserts that they fit.
    std::size_t emit(mutable_byte_span out) const noexcept {
        CW_ASSERT(out.size() >= size, "no room for an IPv6 header");
        std::byte* p = out.data();
        store_be32(p, 6u << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xfffff));
        store_be32(p + 4,
                   std::uint32_t{payload_length} << 16 | static_cast<std::uint32_t>(next_header) << 8 | hop_limit);
        source.store(p + 8);
        destination.store(p + 24);
        return size;
    }

    friend bool operator==(const ipv6_header&, const ipv6_header&) = default;
};

} // namespace corewire::wire
