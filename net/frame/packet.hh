// A packet on its way through a port: contiguous headers (and often payload) in `head`, and at most one further
// piece of payload, sent by reference, in `body`. One cache line, move-only.
#pragma once

#include <corewire/net/frame/buffer.hh>

namespace corewire {

/// What a port did for a received packet, or is asked to do for one to be sent.
enum class offload : std::uint8_t {
    none = 0,
    ipv4_checksum_good = 1 << 0,   ///< receive: the port (or a peer that shares our memory) vouches for the IPv4 header
    l4_checksum_good = 1 << 1,     ///< receive: it vouches for the TCP or UDP checksum
    l4_checksum_needed = 1 << 2,   ///< transmit: the field holds the pseudo-header's sum; the port completes it
    ipv4_checksum_needed = 1 << 3, ///< transmit: the IPv4 header checksum is zero and the port fills it in
    segment = 1 << 4,              ///< transmit: cut into segments of `segment_size` (TSO)
    joins = 1 << 5,                ///< transmit: the sender means one packet with the segment before; ports may do so
};
constexpr offload operator|(offload a, offload b) noexcept {
    return static_cast<offload>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr offload operator&(offload a, offload b) noexcept {
    return static_cast<offload>(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}
constexpr bool has(offload set, offload one) noexcept {
    return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(one)) != 0;
}

struct packet {
    buffer head;                    ///< starts at the Ethernet header when it crosses a port
    buffer body;                    ///< usually empty
    offload flags = offload::none;
    std::uint8_t l4_checksum_offset = 0; ///< transmit: of the checksum field, from the start of the L4 header
    std::uint16_t l4_offset = 0;         ///< transmit: where the L4 header starts in head (checksum offload)
    std::uint16_t segment_size = 0;      ///< TSO: payload bytes a segment
    std::uint32_t rss_hash = 0;          ///< receive: the NIC's hash, if its capabilities say so

    std::uint32_t size() const noexcept { return head.size() + body.size(); }
};

} // namespace corewire
