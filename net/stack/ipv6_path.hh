// How one IPv6 flow's packets leave: output_path.hh's counterpart. The Ethernet and IPv6 headers that they share, built once,
// and the neighbour they go to. IPv6 has no header checksum, so that only the payload length changes from packet to packet.
//
// Kept behind a pointer of its connection, so that IPv4's connections are not larger for it.
#pragma once

#include <corewire/net/ip/ipv6_routes.hh>
#include <corewire/net/link/neighbor.hh>
#include <corewire/net/stack/flow_name.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv6.hh>

#include <array>
#include <cstring>

namespace corewire {

inline constexpr std::uint32_t link_and_ipv6_size = wire::ethernet_header::size + wire::ipv6_header::size;

struct ipv6_path {
    static constexpr std::uint32_t transport_at = link_and_ipv6_size;
    neighbor_ref via; ///< current while the Ethernet header below is right
    ipv6_next_hop hop;
    std::uint32_t routes = 0; ///< ipv6_routes::generation() that `hop` is right for
    std::uint32_t fits = 0;        ///< as output_path's
    std::uint32_t pseudo_base = 0; ///< sum of the pseudo-header's words, its length being zero, host order, not folded
    std::uint16_t pseudo_sum = 0;  ///< with the length that `headers` fits
    std::uint8_t own_hop_limit = 0; ///< what the socket asked for; 0: the host's, which routers may change
    /// Ethernet and IPv6, with the payload length as fit() left it; behind them what TCP keeps there (plain_frame.hh).
    alignas(16) std::array<std::byte, link_and_ipv6_size + 14> headers{};

    /// Makes `headers` right for segments of `l4_size` bytes. Segments come in runs of one size, and then it does nothing.
    void fit(std::uint32_t l4_size) noexcept {
        if (l4_size == fits) [[likely]] return;
        fits = l4_size;
        store_be16(headers.data() + wire::ethernet_header::size + 4, static_cast<std::uint16_t>(l4_size));
        std::uint32_t sum = pseudo_base + l4_size;
        sum = (sum & 0xffff) + (sum >> 16);
        pseudo_sum = static_cast<std::uint16_t>(sum + (sum >> 16));
    }
    /// Puts the headers at `at`, in front of a segment of `l4_size` bytes that starts at `at` + link_and_ipv6_size.
    void stamp(std::byte* at, std::uint32_t l4_size) noexcept {
        fit(l4_size);
        std::memcpy(at, headers.data(), link_and_ipv6_size);
    }
    /// ECT(0) into headers that stamp() has put at `at` (RFC 3168 5).
    static void mark_ecn_capable(std::byte* at) noexcept { at[wire::ethernet_header::size + 1] |= std::byte{0x20}; }
    /// Other marks than ipv6_output::prepare() gave. `traffic_class`: ECN's bits zero. `hop_limit`: 0: as it is.
    void set_marks(std::uint8_t traffic_class, std::uint8_t hop_limit) noexcept {
        own_hop_limit = hop_limit;
        std::byte* const ip = headers.data() + wire::ethernet_header::size;
        store_be32(ip, (load_be32(ip) & 0xf00f'ffff) | std::uint32_t{traffic_class} << 20);
        if (hop_limit != 0) store_u8(ip + 7, hop_limit);
    }
    ipv6 source() const noexcept { return ipv6::load(headers.data() + wire::ethernet_header::size + 8); }
};

/// What a connection over IPv6 has besides.
struct ipv6_flow {
    flow_name name;
    ipv6_path path;
    std::uint32_t addresses = 0; ///< ipv6_addresses::generation() under which what comes in to `name` was for us
};

} // namespace corewire
