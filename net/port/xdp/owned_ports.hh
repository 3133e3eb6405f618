// The ports of the kernel's own addresses that are ours (shared mode): steered to us by the XDP program, and held in the kernel
// by a socket that is bound and never listens, so that nobody else there gets them.
//
//     claim(7) --> [kernel: bound socket] --> xdp_device::own(port 7)         release(7), the last one --> both gone
//
// One a process, for all shards; any thread (a mutex: nothing here is on the data path). Sockets and program go with the
// process, however it ends. Bounded by the process's descriptors and the program's flow map.
#pragma once

#include <corewire/net/port/xdp/xdp_device.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace corewire {

class owned_ports {
public:
    /// `addresses`: one of each family, or one.
    owned_ports(std::shared_ptr<xdp_device> device, std::vector<net_address> addresses)
        : device_(std::move(device)), addresses_(std::move(addresses)) {}

    /// `address` is one of addresses(). Throws std::system_error: EADDRINUSE when a socket of the kernel's has the port, ENOBUFS when
    /// the map is full.
    void claim(wire::ip_protocol protocol, const net_address& address, std::uint16_t port);
    void release(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept;
    xdp_device& device() noexcept { return *device_; }
    std::span<const net_address> addresses() const noexcept { return addresses_; }
    /// What stands for a port of an address here and in shared_host: the two families do not meet.
    static constexpr std::uint32_t key_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
        return (address.is_v4() ? 0u : 1u << 24) | static_cast<std::uint32_t>(protocol) << 16 | port;
    }

private:
    struct held {
        unsigned claims = 0;
        unique_fd placeholder;
    };
    unique_fd reserve(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) const;
    static xdp_flow flow_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
        return {.protocol = static_cast<std::uint8_t>(protocol), .local = address, .local_port = port};
    }

    std::shared_ptr<xdp_device> device_;
    std::vector<net_address> addresses_;
    std::mutex mutex_;
    std::unordered_map<std::uint32_t, held> ports_; ///< by key_of()
};

} // namespace corewire
