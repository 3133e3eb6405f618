// What a packet to somewhere would leave from: for who chooses between destinations (net/resolve).
#include <corewire/net/stack/network_stack.hh>

namespace corewire {

std::optional<chosen_source> network_stack::source_for(const net_address& destination) const {
    if (destination.is_v4()) {
        const ipv4 to = destination.v4();
        if (address().is_any() || (to != address() && !output_.reachable(destination))) return {};
        return chosen_source{.address = address(), .prefix_length = config_.address.length()};
    }
    const ipv6_output* const six = output_.six();
    if (six == nullptr) return {};
    const ipv6 to = destination.v6();
    const own_ipv6_address* from = six->addresses().source_for(to);
    if (from == nullptr) from = six->addresses().source_for(to, true);
    if (from == nullptr || (from->address != to && !six->reachable(to))) return {};
    return chosen_source{
        .address = from->address, .prefix_length = from->prefix_length, .deprecated = from->phase == ipv6_address_phase::deprecated};
}

} // namespace corewire
