// The `sim` port: a NIC of a host in a sim_network. Its pool is its own: packets are copied from pool to pool, as a wire
// would. Bound: the inbox, as a NIC's receive ring is; what comes when it is full is dropped and counted.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/net/port/sim/sim_link.hh>

#include <vector>

namespace corewire {

struct sim_port_options {
    std::uint32_t frames = 4096;  ///< in the pool
    std::uint32_t inbox = 1024;   ///< packets that wait to be received
    std::uint32_t mtu = 1500;     ///< bytes of IP packet
    bool vouch_for_checksums = false; ///< true: as a NIC that has checked them; corruption then goes unnoticed
};

/// What a cable ends in.
class sim_endpoint {
public:
    virtual ~sim_endpoint() = default;

private:
    friend class sim_network;
    friend class sim_switch;
    friend class sim_port;
    sim_link::one_way* out_ = nullptr;
    /// Takes over the frame.
    virtual void deliver(frame& f, std::uint32_t size) = 0;
};

class sim_network;

class sim_port final : public port, public sim_endpoint {
public:
    ~sim_port() override;
    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override { return count_ == 0; }
    /// The host is off: what waits is lost, and what comes until it is on again (receive_no_buffer).
    void set_deaf(bool deaf) noexcept;
    /// Packets that wait to be received.
    std::size_t waiting() const noexcept { return count_; }

private:
    friend class sim_network;
    struct arrival {
        frame* what = nullptr;
        std::uint32_t size = 0;
    };
    sim_port(sim_network& network, mac_address mac, const sim_port_options& options);
    void deliver(frame& f, std::uint32_t size) override;
    void network_gone() noexcept;
    void drop_all() noexcept;

    sim_network* network_;
    frame_pool frames_;
    std::vector<arrival> inbox_; ///< a ring
    std::size_t first_ = 0, count_ = 0;
    bool vouch_;
    bool deaf_ = false;
};

} // namespace corewire
