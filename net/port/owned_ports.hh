// The ports of the kernel's own addresses that are ours (shared mode): steered to us by an XDP program or a NIC's flow rules, and held in
// the kernel by a socket that is bound and never listens, so that nobody else there gets them.
//
//     claim(7) --> [kernel: bound socket] --> flow_owner::own_flow(port 7)         release(7), the last one --> both gone
//     hold(40000) --> [kernel: bound socket]   connections that we open from there, which are steered one by one   let_go(40000)
//
// One a process, for all shards; any thread (a mutex: nothing here is on the data path; it is not held while a port is steered, which may
// be a command to a NIC: only who claims the same port waits). Sockets, program and rules go with the
// process, however it ends. Bounded by the process's descriptors (the soft limit is raised to the hard one when it is reached, and
// the last 256 of those are left for other things) and by the table of the flow_owner: what is refused is said.
#pragma once

#include <corewire/net/port/flow_owner.hh>
#include <corewire/net/port/lent_ports.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace corewire {

class owned_ports {
public:
    /// The network interface that the kernel has the addresses on.
    struct interface {
        unsigned index = 0;
        std::string name{};
    };
    /// `addresses`: one of each family, or one; of the calling thread's network namespace.
    owned_ports(std::shared_ptr<flow_owner> steering, interface on, std::vector<net_address> addresses)
        : steering_(std::move(steering)), interface_(std::move(on)), addresses_(std::move(addresses)) {}

    /// `address` is one of addresses(). Throws std::system_error: EADDRINUSE when a socket of the kernel's has the port, or another program
    /// has steered it to itself; ENOBUFS when the table is full.
    void claim(wire::ip_protocol protocol, const net_address& address, std::uint16_t port);
    void release(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept;
    /// The port in the kernel alone: no socket there gets a 4-tuple of the connections that we open from it, nor has one already. 0, or an
    /// errno: EADDRINUSE when a socket of the kernel's has the port. As many let_go() must follow.
    [[nodiscard]] int hold(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept;
    void let_go(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept;
    /// Those that connections may be opened from, and UDP sockets have, unless somebody names the port.
    const lent_ports& lent() const noexcept { return lent_; }
    const std::shared_ptr<flow_owner>& steering() const noexcept { return steering_; }
    const interface& on() const noexcept { return interface_; }
    std::span<const net_address> addresses() const noexcept { return addresses_; }
    /// What stands for a port of an address here and in shared_host: the two families do not meet.
    static constexpr std::uint32_t key_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
        return (address.is_v4() ? 0u : 1u << 24) | static_cast<std::uint32_t>(protocol) << 16 | port;
    }

private:
    struct held {
        unsigned claims = 0, holds = 0;
        bool being_steered = false; ///< by somebody who does not hold the mutex, and erases it if nobody has it then
        unique_fd placeholder{};
    };
    using held_ports = std::unordered_map<std::uint32_t, held>;
    held_ports::iterator find_settled(std::unique_lock<std::mutex>& lock, std::uint32_t key);
    int steer(std::unique_lock<std::mutex>& lock, held_ports::iterator at, const steered_flow& flow, bool to_us);
    int bind(wire::ip_protocol protocol, const net_address& address, std::uint16_t port, unique_fd& placeholder) const noexcept;
    static steered_flow flow_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
        return {.protocol = static_cast<std::uint8_t>(protocol), .local = address, .local_port = port};
    }

    std::shared_ptr<flow_owner> steering_;
    interface interface_;
    std::vector<net_address> addresses_;
    const lent_ports lent_{kernel_port_range(), kernel_reserved_ports()};
    std::mutex mutex_;
    std::condition_variable steered_; ///< a port is no longer being_steered
    held_ports ports_; ///< by key_of()
};

} // namespace corewire
