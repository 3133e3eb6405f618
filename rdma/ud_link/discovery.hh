// IPv6 neighbour discovery between a stack with MACs and a link with addresses of 20 bytes: its link-layer address options are
// rewritten (RFC 4391 9.3: 24 bytes instead of 8), and with them the lengths and the checksum.
//
//     the stack   | type | 1 | MAC (6) |                 the wire   | type | 3 | 0 (2) | link address (20) |
//
// A message whose checksum is wrong, or whose options make no sense, is left as it is: the stack counts and drops it.
#pragma once

#include <corewire/rdma/ud_link/peers.hh>

#include <span>

namespace corewire {

/// An IPv6 packet that is a neighbour discovery message: ICMPv6 right behind the header, of types 133 to 137, hop limit 255.
inline bool is_discovery(byte_span ip) noexcept {
    return ip.size() >= 48 && load_u8(ip.data() + 6) == 58 && load_u8(ip.data() + 7) == 255 && load_u8(ip.data() + 40) >= 133 &&
           load_u8(ip.data() + 40) <= 137;
}

/// From the wire, in place: link addresses become MACs, and who is named is remembered, with `lid`. Returns the packet's new size.
std::uint32_t shrink_discovery(std::span<std::byte> ip, link_peers& peers, std::uint16_t lid) noexcept;

/// For the wire, into `out`: MACs become link addresses, `ours` for `our_mac`. An option that names a MAC of nobody we know is left
/// out. Returns the size; 0 if the message makes no sense or does not fit.
std::uint32_t expand_discovery(byte_span ip, std::span<std::byte> out, const link_peers& peers, mac_address our_mac,
                               const link_address& ours) noexcept;

} // namespace corewire
