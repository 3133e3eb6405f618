// The ports of the kernel's own address that are ours (shared mode): steered to us by the XDP program, and held in the kernel
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
#include <unordered_map>

namespace corewire {

class owned_ports {
public:
    owned_ports(std::shared_ptr<xdp_device> device, ipv4 address) : device_(std::move(device)), address_(address) {}

    /// Throws std::system_error: EADDRINUSE when a socket of the kernel's has the port, ENOBUFS when the map is full.
    void claim(wire::ip_protocol protocol, std::uint16_t port);
    void release(wire::ip_protocol protocol, std::uint16_t port) noexcept;
    xdp_device& device() noexcept { return *device_; }
    ipv4 address() const noexcept { return address_; }

private:
    struct held {
        unsigned claims = 0;
        unique_fd placeholder;
    };
    unique_fd reserve(wire::ip_protocol protocol, std::uint16_t port) const;
    xdp_flow flow_of(wire::ip_protocol protocol, std::uint16_t port) const noexcept {
        return {.protocol = static_cast<std::uint8_t>(protocol), .local = address_, .local_port = port};
    }

    std::shared_ptr<xdp_device> device_;
    ipv4 address_;
    std::mutex mutex_;
    std::unordered_map<std::uint32_t, held> ports_; ///< by protocol << 16 | port
};

} // namespace corewire
