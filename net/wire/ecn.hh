// The ECN field of an IP header (RFC 3168 5), IPv4's and IPv6's alike. A plain value.
#pragma once

#include <cstdint>

namespace corewire::wire {

enum class ecn_codepoint : std::uint8_t {
    not_ect = 0, ///< not ECN-capable
    ect_1 = 1,   ///< ECN-capable, the L4S identifier (RFC 9331)
    ect_0 = 2,   ///< ECN-capable
    ce = 3,      ///< congestion was met
};

/// The octet of IP's header around it: without its two bits, the DSCP stands where it belongs (RFC 2474 3).
constexpr std::uint8_t without_ecn(unsigned octet) noexcept { return static_cast<std::uint8_t>(octet & 0xfc); }

} // namespace corewire::wire
