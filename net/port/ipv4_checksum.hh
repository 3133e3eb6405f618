// The IPv4 header's checksum, where a port does it for the stack (offload::ipv4_checksum_needed).
#pragma once

#include <corewire/net/wire/checksum.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstdint>

namespace corewire {

/// Where the IP header of an Ethernet frame starts: behind a VLAN's tag, if there is one.
inline std::uint32_t ip_offset(byte_span frame) noexcept {
    return frame.size() > 18 && load_be16(frame.data() + 12) == 0x8100 ? 18 : 14;
}

/// Of the frame whose whole IPv4 header the stack has written, but for that field.
inline void fill_ipv4_checksum(mutable_byte_span frame) noexcept {
    std::byte* const ip = frame.data() + ip_offset(frame);
    store_be16(ip + 10, 0);
    store_be16(ip + 10, wire::internet_checksum({ip, (load_u8(ip) & 0xfu) * std::size_t{4}}));
}

} // namespace corewire
