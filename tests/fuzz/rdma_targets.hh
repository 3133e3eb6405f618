// What RDMA peers send: the hello of a channel, its introduction over a stream, the header of a message, announcements of large ones, the
// key of a region; and datagrams of IP over InfiniBand (ARP and neighbour discovery with link addresses of 20 bytes).
//
// What must hold: what was taken is within its bounds and survives the wire; rewritten messages have right lengths and sums.
#pragma once

#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/rdma/channel/introduction.hh>
#include <corewire/rdma/channel/remote_region.hh>
#include <corewire/rdma/channel/rendezvous.hh>
#include <corewire/rdma/ud_link/discovery.hh>
#include <corewire/rdma/ud_link/encapsulation.hh>
#include <corewire/reactor/base/assert.hh>

#include <cstring>
#include <vector>

namespace rdma_fuzz {

using namespace corewire;

inline void channel(byte_span bytes) {
    using namespace rdma;
    if (const auto hello = rc_hello::from_wire(bytes)) {
        CW_ASSERT(hello->receive_depth >= 1 && hello->receive_depth <= 4096 && hello->large_messages <= most_large_messages,
                  "a hello out of bounds");
        const auto wire = hello->to_wire();
        CW_ASSERT(std::memcmp(wire.data(), bytes.data(), wire.size()) == 0, "a hello that changed");
    }
    if (const auto region = remote_region::from_wire(bytes)) {
        const auto wire = region->to_wire();
        CW_ASSERT(std::memcmp(wire.data(), bytes.data(), wire.size()) == 0, "a region that changed");
        CW_ASSERT(region->contains(0, region->size) && !region->contains(region->size, 1), "a region that is larger than it says");
    }
    if (const auto told = rc_announcement::from_wire(bytes)) {
        std::byte wire[rc_announcement::largest_wire];
        const std::uint32_t size = told->to_wire(wire);
        CW_ASSERT(size == bytes.size() && std::memcmp(wire, bytes.data(), size) == 0, "an announcement that changed");
        CW_ASSERT(told->count <= most_regions && told->size() >= told->count, "an announcement of nothing");
    }
    if (const auto frame = rc_frame::from_wire(bytes)) {
        CW_ASSERT(frame->what != rc_frame::kind::refusal || frame->size <= rc_frame::longest_sentence, "a sentence without an end");
        const auto wire = frame->to_wire();
        CW_ASSERT(std::memcmp(wire.data(), bytes.data(), wire.size()) == 0, "a frame that changed");
        bytes = bytes.subspan(rc_frame::wire_size);
    }
    if (const auto said = rc_introduction::from_wire(bytes)) {
        const auto wire = said->to_wire();
        CW_ASSERT(std::memcmp(wire.data(), bytes.data(), wire.size()) == 0, "an introduction that changed");
        const verbs::remote_end& end = said->end;
        CW_ASSERT(end.queue_pair > 1 && end.queue_pair < 0xff'ffff && end.first_sequence <= 0xff'ffff && end.gid.raw[0] != 0xff &&
                      end.lid < 0xc000 && said->path_mtu >= IBV_MTU_256 && said->path_mtu <= IBV_MTU_4096,
                  "an introduction out of bounds");
        CW_ASSERT(said->refused_by(*said).empty() == (may_be_asked(said->retries, said->not_ready_retries) && said->partition >> 15 != 0),
                  "who is like us, and refused");
    }
    if (bytes.size() < 4) return;
    const std::uint32_t immediate = load_be32(bytes.data());
    if (const auto header = rc_header::from_wire(immediate)) CW_ASSERT(header->to_wire() == immediate, "a header that changed");
}

inline void link_arp_packet(byte_span bytes) {
    link_arp arp;
    if (link_arp::parse(bytes, arp) != wire::parse_error::none) return;
    std::byte out[link_arp::size];
    arp.emit(out);
    link_arp again;
    CW_ASSERT(link_arp::parse(out, again) == wire::parse_error::none && again.sender == arp.sender && again.target == arp.target &&
                  again.sender_ip == arp.sender_ip && again.target_ip == arp.target_ip && again.operation == arp.operation,
              "an ARP packet that changed");
    CW_ASSERT(!arp.sender.is_host() || arp.sender.mac().is_unicast(), "a host with a group's MAC");
}

/// The first byte says how much is made right before: the length, and the sum.
inline void discovery(byte_span bytes) {
    if (bytes.size() < 1 + 48) return;
    const unsigned how = std::to_integer<unsigned>(bytes[0]);
    std::vector<std::byte> ip(bytes.begin() + 1, bytes.end());
    const auto message = static_cast<std::uint16_t>(ip.size() - 40);
    if (how & 1) {
        store_be32(ip.data(), 0x60000000);
        store_be16(ip.data() + 4, message);
        store_be16(ip.data() + 6, 0x3aff);
        ip[40] = static_cast<std::byte>(133 + how / 2 % 5);
        store_be16(ip.data() + 42, 0);
        const auto sum = wire::pseudo_header_sum(ipv6::load(ip.data() + 8), ipv6::load(ip.data() + 24), wire::ip_protocol::icmpv6, message)
                             .add(byte_span(ip).subspan(40));
        store_be16(ip.data() + 42, wire::internet_sum(sum).checksum());
    }
    if (!is_discovery(ip)) return;
    const auto check = [](byte_span packet) {
        wire::ipv6_view v;
        wire::icmpv6_view m;
        CW_ASSERT(wire::ipv6_view::parse(packet, v) == wire::parse_error::none && v.payload().size() + 40 == packet.size(),
                  "a wrong length");
        CW_ASSERT(wire::icmpv6_view::parse(v.payload(), m) == wire::parse_error::none && m.checksum_ok(v.source(), v.destination()),
                  "a wrong sum");
    };
    static link_peers peers;
    link_address ours;
    ours.queue_pair = 17;
    ours.gid.raw[15] = 9;
    std::byte out[2048];
    constexpr mac_address our_mac(0x02'00'00'00'00'07);
    const std::uint32_t expanded = expand_discovery(ip, {out, how & 128 ? 200u : sizeof out}, peers, our_mac, ours);
    CW_ASSERT(expanded <= sizeof out, "more than there is room for");
    if (expanded != 0) {
        check({out, expanded});
        std::byte back[2048];
        std::memcpy(back, out, expanded);
        check({back, shrink_discovery({back, expanded}, peers, 1)});
    }
    const std::uint32_t shrunk = shrink_discovery(ip, peers, 1);
    CW_ASSERT(shrunk <= ip.size() && (expanded == 0 || shrunk >= 48), "a message that grew");
    if (expanded != 0) check({ip.data(), shrunk});
}

inline void link(byte_span bytes) {
    link_arp_packet(bytes);
    discovery(bytes);
    if (bytes.size() < grh_size) return;
    const auto of_roce = verbs::datagram_header::load(bytes.data(), true);
    const auto of_infiniband = verbs::datagram_header::load(bytes.data(), false);
    CW_ASSERT(of_infiniband && std::memcmp(of_infiniband->from.raw, bytes.data() + 8, 16) == 0, "InfiniBand has GRHs only");
    CW_ASSERT(of_roce || (load_u8(bytes.data()) >> 4 != 6 && load_u8(bytes.data() + 20) >> 4 != 4), "a header that was not read");
}

} // namespace rdma_fuzz
