// A local sender (a container's kernel at the other end of a veth pair) leaves its TCP and UDP checksums to a NIC that is
// never there: the field holds the pseudo-header's sum alone. That is recognised exactly, by computing that sum.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <cstdint>

namespace corewire {

namespace detail {

/// Ones' complement sums may be taken in either byte order (RFC 1071 1 (B)): of 32-bit words as they lie in memory.
inline std::uint16_t folded_sum(std::uint64_t sum) noexcept {
    sum = (sum >> 32) + (sum & 0xffffffff);
    for (int i = 0; i < 3; ++i) sum = (sum >> 16) + (sum & 0xffff);
    return static_cast<std::uint16_t>(sum);
}

inline bool has_partial_ipv4(byte_span packet) noexcept {
    if (packet.size() < 28) return false;
    const std::byte* ip = packet.data();
    const std::size_t header = (load_u8(ip) & 0xfu) * 4;
    const std::uint8_t protocol = load_u8(ip + 9);
    const std::size_t field = header + (protocol == 6 ? 16 : 6);
    if ((protocol != 6 && protocol != 17) || header < 20 || packet.size() < field + 2) return false;
    if ((load_be16(ip + 6) & 0x3fff) != 0) return false; // a fragment
    const std::uint32_t length = load_be16(ip + 2) - static_cast<std::uint32_t>(header);
    std::uint64_t sum = std::uint64_t{load_native<std::uint32_t>(ip + 12)} + load_native<std::uint32_t>(ip + 16);
    sum += host_to_be(static_cast<std::uint16_t>(length)) + (std::uint32_t{protocol} << 8);
    return load_native<std::uint16_t>(ip + field) == folded_sum(sum);
}

/// Without extension headers, as Linux sends them.
inline bool has_partial_ipv6(byte_span packet) noexcept {
    constexpr std::size_t header = 40;
    if (packet.size() < header + 8) return false;
    const std::byte* ip = packet.data();
    const std::uint8_t protocol = load_u8(ip + 6);
    const std::size_t field = header + (protocol == 6 ? 16 : 6);
    if ((protocol != 6 && protocol != 17) || packet.size() < field + 2) return false;
    std::uint64_t sum = host_to_be(load_be16(ip + 4)) + (std::uint64_t{protocol} << 8);
    for (std::size_t i = 8; i < header; i += 4) sum += load_native<std::uint32_t>(ip + i);
    return load_native<std::uint16_t>(ip + field) == folded_sum(sum);
}

} // namespace detail

/// True if `frame` (from its Ethernet header on, with a VLAN's tag or without) is an unfragmented TCP or UDP packet over IPv4 or IPv6
/// whose checksum field holds the folded sum of the pseudo-header, as Linux leaves it for hardware to complete (CHECKSUM_PARTIAL). No
/// bounds are assumed. A frame that is right as it stands, or damaged, passes for one by chance with probability 2^-16.
inline bool has_partial_checksum(byte_span frame) noexcept {
    constexpr std::size_t ethernet = 14;
    if (frame.size() < ethernet + 4) return false;
    std::uint16_t type = load_be16(frame.data() + 12);
    if (type == 0x8100) {
        type = load_be16(frame.data() + 16);
        frame = frame.subspan(4); // behind a VLAN's tag things stand as behind none
    }
    if (frame.size() < ethernet) return false;
    if (type == 0x0800) return detail::has_partial_ipv4(frame.subspan(ethernet));
    return type == 0x86dd && detail::has_partial_ipv6(frame.subspan(ethernet));
}

} // namespace corewire
