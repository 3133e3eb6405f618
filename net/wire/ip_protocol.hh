// The protocol numbers that follow an IPv4 or IPv6 header (IANA "Assigned Internet Protocol Numbers").
#pragma once

#include <cstdint>

namespace corewire::wire {

/// The protocol field of IPv4 and the next-header field of IPv6. Any octet is a valid value of the enum.
enum class ip_protocol : std::uint8_t {
    hop_by_hop = 0, ///< IPv6 only
    icmp = 1,
    igmp = 2,
    tcp = 6,
    udp = 17,
    ipv6_routing = 43,
    ipv6_fragment = 44,
    icmpv6 = 58,
    ipv6_no_next = 59,
    ipv6_destination = 60,
};

} // namespace corewire::wire
