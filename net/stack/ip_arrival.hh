// What the IP header that a segment came under tells TCP.
#pragma once

#include <corewire/net/wire/ecn.hh>

#include <cstdint>

namespace corewire {

struct ip_arrival {
    wire::ecn_codepoint ecn = wire::ecn_codepoint::not_ect;
    std::uint8_t hops_left = 0;   ///< time to live, hop limit
    std::uint16_t header_size = 0; ///< bytes, with options and extension headers; it lies in front of TCP's header still
};

} // namespace corewire
