// The extension headers between an IPv6 header and what it carries (RFC 8200 4): walked once, within bounds.
// A plain function over the bytes of one packet; what it says is offsets into them.
//
// Bounds (RFC 8504 5.3 allows them): 8 headers, 256 bytes of them, 8 options a header that are no padding.
#pragma once

#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstdint>
#include <optional>

namespace corewire::wire {

enum class ipv6_chain_verdict : std::uint8_t {
    good,
    malformed, ///< a header that does not fit where it stands: dropped
    too_long,  ///< beyond the bounds: dropped
    refused,   ///< an option says: dropped without a word
    problem,   ///< dropped, and told by an ICMPv6 parameter problem (RFC 4443 3.4)
};

struct ipv6_chain {
    static constexpr unsigned max_headers = 8;
    static constexpr std::uint32_t max_size = 256;   ///< bytes of extension headers
    static constexpr unsigned max_options = 8;       ///< in one header, padding not counted
    static constexpr std::uint32_t fragment_size = 8; ///< bytes of a fragment header

    ipv6_chain_verdict verdict = ipv6_chain_verdict::good;
    ip_protocol protocol{};          ///< what follows the extension headers (or a fragment header that is no whole packet's)
    std::uint32_t offset = 0;        ///< where it starts, bytes from the IPv6 header's first
    std::uint32_t named_at = 0;      ///< where the octet stands that says so
    bool router_alert = false;       ///< some router on the way was to look at it (RFC 2711)
    bool fragment_header = false;    ///< there was one, of a fragment or of a whole packet
    // A fragment (RFC 8200 4.5). One that is all there is (RFC 6946) is none.
    bool fragment = false;
    bool more_fragments = false;
    std::uint16_t fragment_offset = 0;  ///< bytes
    std::uint32_t identification = 0;
    std::uint32_t fragment_at = 0;      ///< where its header starts
    std::uint32_t fragment_named_at = 0; ///< where the octet stands that says that it comes
    // A problem:
    std::uint8_t problem_code = 0;      ///< 0: a field; 1: a next header; 2: an option
    std::uint32_t problem_at = 0;       ///< the octet, from the IPv6 header's first
    bool problem_told_to_group = false; ///< also about a packet to a group (RFC 8200 4.2, option type 10)
};

/// `packet` starts at a whole IPv6 header and ends where the packet does, or where its first piece does: extension headers
/// that reach into a second piece are malformed.
ipv6_chain walk_extensions(byte_span packet) noexcept;

struct ipv6_upper_layer {
    ip_protocol protocol{};
    std::uint32_t offset = 0; ///< from the IPv6 header's first byte; a later fragment's: beyond the packet
};
/// What `packet`, which may have been cut off, carries, by the lengths of its extension headers alone: nothing in them is judged. Nothing:
/// its bytes do not say.
std::optional<ipv6_upper_layer> find_upper_layer(byte_span packet) noexcept;

/// A first fragment, of which walk_extensions() has said so, brings every header of its datagram, the upper layer's whole one included (RFC
/// 7112 5, RFC 8200 4.5). Headers beyond our bounds are not judged.
bool has_all_headers(byte_span packet, const ipv6_chain& first_fragment) noexcept;

} // namespace corewire::wire
