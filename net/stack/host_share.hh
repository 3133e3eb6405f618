// What a stack asks of the host whose address it shares: that the kernel leaves our ports and flows to us, and resolves
// neighbours for us. One shard's; its implementation knows the port and the kernel.
//
// In shared mode the stack says nothing by ARP, nor by neighbour discovery: the kernel does, with the same MAC and IP.
#pragma once

#include <corewire/net/stack/flow_name.hh>
#include <corewire/net/wire/ip_protocol.hh>

#include <cstdint>
#include <optional>
#include <span>

namespace corewire {

class host_share {
public:
    virtual ~host_share() = default;
    /// What to tell claim_port() of a socket at `bound`. For IPv6 alone an address of its own stands for all that `::` is.
    static net_address claimed_by(const net_address& bound, bool ipv6_only) noexcept {
        return ipv6_only && bound.is_any_of_both() ? net_address(ipv6::loopback()) : bound;
    }
    /// Everything that is sent to this port of our address of `at`'s family (`::`: of both) is ours until as many release_port() have
    /// been called. Throws std::system_error, EADDRINUSE when the kernel has given the port to somebody.
    virtual void claim_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) = 0;
    virtual void release_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) noexcept = 0;
    /// The local ports that a connection which we open, or a UDP socket, may have, if nobody has named one: always the same. Nothing: any.
    virtual std::optional<std::span<const std::uint16_t>> lent() const noexcept { return std::nullopt; }
    /// None of those was to be had for a connection, which has been refused. `gave_up`: not all of them were tried, since the host itself
    /// has so many of them.
    virtual void on_no_port_left(bool gave_up) noexcept { static_cast<void>(gave_up); }
    /// The segments of one connection that we open. 0, or why not: ENOBUFS there is no room for another, EADDRINUSE somebody has it
    /// or its local port (another port may do), ENODEV the device has gone. EINPROGRESS: tcp_layer::follow_claim() will be told, and
    /// nothing is sent before.
    [[nodiscard]] virtual int claim_flow(const flow_name& flow) noexcept = 0;
    /// Also of one that is in progress: then nothing more is told of it.
    virtual void release_flow(const flow_name& flow) noexcept = 0;
    /// Find out about this neighbour: network_stack::follow_neighbor() will be told.
    virtual void resolve(const net_address& neighbor) noexcept = 0;
};

} // namespace corewire
