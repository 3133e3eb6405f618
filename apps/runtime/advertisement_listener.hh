// --slaac over AF_XDP: router advertisements to all nodes (ff02::1) are the kernel's, which configures itself by them, and an XDP
// program can't give one frame to two. So the kernel hands over copies (kernel_copies.hh).
//
//     XDP program --not ours--> kernel: its own autoconfiguration
//                                     \--packet(7), filtered: ICMPv6, type 134--> advertisement_listener --> network_stack
#pragma once

#include <corewire/apps/runtime/kernel_copies.hh>

namespace corewire {

class metric_group;

class advertisement_listener : public kernel_copies {
public:
    /// Hears interface number `interface`, there the VLAN `vlan` (0: none). Throws std::system_error.
    advertisement_listener(reactor& loop, unsigned interface, std::uint16_t vlan, network_stack& to);

    /// The group goes before this does.
    void register_metrics(metric_group& group) const;
};

} // namespace corewire
