// How one flow's packets leave: the Ethernet and IPv4 headers they all share, built once, and the neighbour they go to;
// and what the checksum over the layer above starts from.
//
// Kept inside a connection. ip_output::ready() says in a few loads whether it is still right, and refreshes it if not.
#pragma once

#include <corewire/net/ip/routes.hh>
#include <corewire/net/link/neighbor.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace corewire {

inline constexpr std::uint32_t link_and_ip_size = wire::ethernet_header::size + wire::ipv4_header::min_size;

struct output_path {
    static constexpr std::uint32_t transport_at = link_and_ip_size;
    neighbor_ref via;  ///< current while the Ethernet header below is right
    next_hop hop;
    /// Ethernet and IPv4, with total length and checksum as fit() left them; behind them what TCP keeps there (plain_frame.hh).
    std::array<std::byte, 48> headers{};
    std::uint32_t fits = 0;          ///< size of the segments that `headers` fits; 0: none yet
    std::uint16_t pseudo_sum = 0;    ///< the pseudo-header's for that size: what a port that completes the checksum starts from
    std::uint32_t checksum_base = 0; ///< sum of the IPv4 header's words, total length and checksum zero, host order, not folded
    std::uint32_t pseudo_base = 0;   ///< the same of the pseudo-header's (RFC 9293 3.1), its length being zero

    /// Makes `headers` right for segments of `l4_size` bytes. Segments come in runs of one size, and then it does nothing.
    void fit(std::uint32_t l4_size) noexcept {
        if (l4_size == fits) [[likely]] return;
        fits = l4_size;
        const std::uint32_t total = l4_size + static_cast<std::uint32_t>(wire::ipv4_header::min_size);
        std::byte* const ip = headers.data() + wire::ethernet_header::size;
        store_be16(ip + 2, static_cast<std::uint16_t>(total));
        store_be16(ip + wire::ipv4_header::checksum_offset, static_cast<std::uint16_t>(~folded(checksum_base + total)));
        pseudo_sum = folded(pseudo_base + l4_size);
    }
    /// Other marks than ip_output::prepare() gave. `type_of_service`: ECN's bits zero. `time_to_live`: 0: as it is.
    void set_marks(std::uint8_t type_of_service, std::uint8_t time_to_live) noexcept {
        std::byte* const ip = headers.data() + wire::ethernet_header::size;
        checksum_base -= std::uint32_t{load_be16(ip)} + load_be16(ip + 8);
        store_u8(ip + 1, type_of_service);
        if (time_to_live != 0) store_u8(ip + 8, time_to_live);
        checksum_base += std::uint32_t{load_be16(ip)} + load_be16(ip + 8);
        fits = 0;
    }
    /// Puts the headers at `at`, in front of a segment of `l4_size` bytes that starts at `at` + link_and_ip_size.
    void stamp(std::byte* at, std::uint32_t l4_size) noexcept {
        fit(l4_size);
        std::memcpy(at, headers.data(), link_and_ip_size);
    }
    /// ECT(0) into headers that stamp() has put at `at` (RFC 3168 5): the checksum follows (RFC 1624).
    static void mark_ecn_capable(std::byte* at) noexcept {
        constexpr std::uint8_t ect_0 = 2;
        std::byte* ip = at + wire::ethernet_header::size;
        ip[1] |= std::byte{ect_0};
        const std::uint32_t sum = load_be16(ip + wire::ipv4_header::checksum_offset) + 0xffffu - ect_0;
        store_be16(ip + wire::ipv4_header::checksum_offset, folded(sum));
    }

private:
    static std::uint16_t folded(std::uint32_t sum) noexcept {
        sum = (sum & 0xffff) + (sum >> 16);
        return static_cast<std::uint16_t>(sum + (sum >> 16));
    }
};

} // namespace corewire
