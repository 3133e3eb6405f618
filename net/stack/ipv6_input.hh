// IPv6's way in: whose the packet is, its extension headers, ICMPv6 and neighbour discovery, and up to TCP and UDP.
//
//     link_input --> input(): checks --> extension headers --> deliver --> tcp_layer | udp_layer
//                                                                     \--> icmpv6_layer --> reply, report
//                                                                     \--> neighbour discovery (ipv6_output)
//
// One stack's, part of its network_stack; there is none unless stack_config::ipv6 is set.
#pragma once

#include <corewire/net/ip/icmpv6.hh>
#include <corewire/net/ip/reassembly.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/flow_steering.hh>
#include <corewire/net/stack/ipv6_output.hh>
#include <corewire/net/wire/ipv6_extensions.hh>

namespace corewire {

class tcp_layer;
class udp_layer;

class ipv6_input {
public:
    ipv6_input(ipv6_output& out, tcp_layer& tcp, udp_layer& udp, reassembler& fragments, frame_pool& pool, const stack_config& config,
               stack_statistics& statistics);

    /// A frame with an IPv6 packet; `p.head` starts at its Ethernet header. `link_group`: it went to a group MAC address. True:
    /// `report` is what an ICMPv6 error says of a flow.
    bool input(time_point now, packet& p, bool link_group, bool handed_over, flow_steering* steering, icmp_report& report);
    /// A datagram whose pieces have not come in time: `quote` is what there was of it, fragment 0 first.
    void on_expired(time_point now, byte_span quote) noexcept;
    const icmpv6_layer& icmp() const noexcept { return icmp_; }

private:
    /// A packet on its way through the steps below.
    struct arrived {
        wire::ipv6_view ip;       ///< of what lies in p.head
        std::uint32_t ip_at = 0;  ///< where it starts in p.head
        std::uint32_t size = 0;   ///< of the packet, its header included
        bool group = false;       ///< the packet, or its frame, went to many
        bool handed_over = false;
        bool in_our_name = false; ///< its source is an address of ours: by somebody who has it, too, or who lies
        wire::ipv6_chain chain;
        byte_span bytes(const packet& p) const noexcept;
        std::uint32_t transport_size() const noexcept { return size - chain.offset; }
    };
    bool acceptable(arrived& a);
    bool take_chain(time_point now, arrived& a, const packet& p);
    bool is_datagram(const arrived& a, const packet& p) const noexcept;
    bool steer_away(const arrived& a, packet& p, flow_steering& steering);
    bool reassemble(time_point now, const arrived& a, const packet& p, flow_steering* steering, icmp_report& report);
    bool deliver(time_point now, arrived& a, packet& p, flow_steering* steering, icmp_report& report);
    void deliver_udp(time_point now, const arrived& a, packet& p, flow_steering* steering);
    bool is_for_dhcp(time_point now, const arrived& a, packet& p, flow_steering* steering);
    bool deliver_icmp(time_point now, const arrived& a, packet& p, flow_steering* steering, icmp_report& report);
    void discover(time_point now, const arrived& a, const packet& p, const wire::icmpv6_view& message, flow_steering* steering);
    void refuse(time_point now, const arrived& a, const packet& p, const icmpv6_error& error);

    ipv6_output& out_;
    tcp_layer& tcp_;
    udp_layer& udp_;
    reassembler& fragments_;
    frame_pool& pool_;
    stack_statistics& statistics_;
    icmpv6_layer icmp_;
};

} // namespace corewire
