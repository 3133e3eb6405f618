// Who steers flows and ports to us and leaves the rest to the kernel (shared mode): an XDP program's map, or a NIC's flow rules.
//
// Implemented by xdp_device and verbs_device; asked by owned_ports (listening ports) and by shared_host (connections that we open).
// Any thread; set-up of a port or connection only, never a packet.
#pragma once

#include <corewire/net/wire/net_address.hh>

#include <cerrno>
#include <cstdint>
#include <tuple>

namespace corewire {

/// A connection, or (remote any, port 0) a port of ours, on one address or (local any) on all of both families.
struct steered_flow {
    std::uint8_t protocol = 6; ///< 6 TCP, 17 UDP
    net_address local{};
    std::uint16_t local_port = 0;
    net_address remote{};
    std::uint16_t remote_port = 0;

    /// By any order: for a map.
    friend bool operator<(const steered_flow& a, const steered_flow& b) noexcept {
        const auto fields = [](const steered_flow& f) {
            return std::tuple(f.protocol, f.local.high(), f.local.low(), f.local_port, f.remote.high(), f.remote.low(), f.remote_port);
        };
        return fields(a) < fields(b);
    }
};

class flow_owner {
public:
    virtual ~flow_owner() = default;
    /// From now on `flow` comes to us. 0, or an errno: ENOBUFS the table is full, EADDRINUSE another program has it, ENODEV the device
    /// has gone. Then it stays the kernel's.
    [[nodiscard]] virtual int own_flow(const steered_flow& flow) noexcept = 0;
    virtual void disown_flow(const steered_flow& flow) noexcept = 0;
    /// Both may keep their caller waiting, for commands to a device: who may not wait has a helper call them.
    virtual bool keeps_waiting() const noexcept { return false; }
};

/// What own_flow()'s errno means, as a sentence goes on.
constexpr const char* why_not_steered(int error) noexcept {
    switch (error) {
    case ENOBUFS: return "no more ports and flows can be steered away from the kernel (the table is full)";
    case EADDRINUSE: return "another program has it, on the kernel's sockets or steered to itself";
    case EMFILE:
    case ENFILE: return "no descriptor is left to hold its local port in the kernel (ulimit -n)";
    case ENODEV: return "the device has gone";
    case EPERM: return "steering it away from the kernel is not permitted (CAP_NET_RAW)";
    default: return "it cannot be steered away from the kernel";
    }
}

} // namespace corewire
