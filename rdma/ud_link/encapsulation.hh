// What stands in an IPoIB datagram (RFC 4391 6): 4 bytes, and behind them an IP packet or ARP.
//
//     the wire        | GRH, or room for it: 40 | type, 0: 4 | IP ...               } in the same bytes, the payload where
//     the stack                        | Ethernet header: 14 | IP ...               } it is: only headers are written over
//
// ARP has addresses of 20 bytes there, and of 6 here; it is rewritten (56 bytes to 28, and back).
#pragma once

#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/rdma/ud_link/link_address.hh>
#include <corewire/rdma/verbs/datagram_header.hh>

namespace corewire {

inline constexpr std::uint32_t grh_size = verbs::datagram_header::size;
inline constexpr std::uint32_t encapsulation_size = 4;

/// ARP over InfiniBand (RFC 4391 9.1.1): hardware type 32, addresses of 20 and 4 bytes.
struct link_arp {
    static constexpr std::size_t size = 56; ///< bytes
    wire::arp_operation operation = wire::arp_operation::request;
    link_address sender;
    ipv4 sender_ip;
    link_address target; ///< zero in a request
    ipv4 target_ip;

    /// unsupported: another hardware or protocol type, or other lengths.
    [[nodiscard]] static wire::parse_error parse(byte_span packet, link_arp& out) noexcept {
        if (packet.size() < size) return wire::parse_error::truncated;
        const std::byte* const p = packet.data();
        if (load_be32(p) != 0x0020'0800 || load_be16(p + 4) != 0x1404) return wire::parse_error::unsupported;
        out = {static_cast<wire::arp_operation>(load_be16(p + 6)), link_address::load(p + 8), ipv4::load(p + 28),
               link_address::load(p + 32), ipv4::load(p + 52)};
        return wire::parse_error::none;
    }
    /// Writes `size` bytes.
    void emit(std::byte* p) const noexcept {
        store_be32(p, 0x0020'0800);
        store_be16(p + 4, 0x1404);
        store_be16(p + 6, static_cast<std::uint16_t>(operation));
        sender.store(p + 8);
        sender_ip.store(p + 28);
        target.store(p + 32);
        target_ip.store(p + 52);
    }
};

} // namespace corewire
