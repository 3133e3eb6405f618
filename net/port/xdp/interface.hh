// What the kernel says about a network interface of the namespace that the calling thread is in. Asked at set-up only.
#pragma once

#include <corewire/net/wire/address.hh>

#include <cstdint>
#include <string>

namespace corewire {

struct interface_info {
    unsigned index = 0;
    mac_address mac;
    std::uint32_t mtu = 0;     ///< largest IP packet, bytes
    bool up = false;
    std::string driver;        ///< "veth", "mlx5_core", ...; empty when the kernel does not say
    unsigned queues = 1;       ///< receive/transmit queue pairs
    bool strips_vlan_tags = false; ///< received tags are taken out of the frame and kept beside it (rx-vlan-offload)
};

/// Throws std::system_error with a sentence if there is no such interface.
interface_info query_interface(const std::string& name);

} // namespace corewire
