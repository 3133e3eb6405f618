// --shared over verbs: a NIC's rules match addresses and ports, and look into no ICMP error, which is the kernel's with everything else of
// its address. It knows none of our connections; so it hands over copies (kernel_copies.hh), and the stacks take those that are about
// what they have sent: a path's MTU, a port that nobody has.
//
//     NIC --no rule--> kernel --packet(7), filtered: ICMP errors of both families--> icmp_error_listener --> network_stack
#pragma once

#include <corewire/apps/runtime/kernel_copies.hh>

namespace corewire {

class metric_group;

class icmp_error_listener : public kernel_copies {
public:
    /// Hears interface number `interface`. Throws std::system_error.
    icmp_error_listener(reactor& loop, unsigned interface, network_stack& to);

    /// The group goes before this does.
    void register_metrics(metric_group& group) const;
};

} // namespace corewire
