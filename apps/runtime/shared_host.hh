// --shared: one shard's stack on the kernel's own addresses. Puts together who owns what (owned_ports; flows in the XDP program's map,
// or rules of the NIC) and what the kernel knows (kernel_mirror), so that the stack knows neither.
//
//     stack --claim, release--> owned_ports, flow_claims --> flow_owner    stack --resolve--> kernel_mirror --routes, neighbours--> stack
//
// Made before its shard's stack and destroyed after it; follow() when the stack stands, stop() before it goes.
#pragma once

#include <corewire/apps/runtime/flow_claims.hh>
#include <corewire/net/netlink/kernel_mirror.hh>
#include <corewire/net/port/owned_ports.hh>
#include <corewire/net/stack/host_share.hh>

#include <memory>
#include <unordered_map>

namespace corewire {

class metric_group;
class network_stack;

struct shared_statistics {
    std::uint64_t ports = 0, flows = 0; ///< that are ours now: each port once, however many connections it has
    std::uint64_t ports_refused = 0;    ///< a program of the kernel's has it, or the table is full
    std::uint64_t routes_refused = 0;   ///< of the kernel's: there are too many, or the gateway is of the other family
    std::uint64_t routes_left_out = 0;  ///< now, by the stack: its table is full, or the gateway is not on the link
    std::uint64_t resyncs = 0;          ///< all that the kernel knows was asked for anew
    std::uint64_t flows_refused = 0;    ///< the table is full, or another program has it
    std::uint64_t local_ports_refused = 0; ///< of connections that we open: a socket of the kernel's has the port, another one is taken
    std::uint64_t no_port_left = 0;        ///< connections that were refused, since none of the ports that are lent was free
    std::uint64_t given_up = 0;            ///< connections that were refused, since the kernel had 256 of those ports in a row in use
};

class shared_host final : public host_share, private kernel_follower {
public:
    explicit shared_host(owned_ports& ports) noexcept : ports_(ports) {}

    /// Tells `stack` the kernel's routes and neighbours, now and from now on. Throws std::system_error.
    void follow(network_stack& stack);
    void stop() noexcept;

    void claim_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) override;
    void release_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) noexcept override;
    std::optional<std::span<const std::uint16_t>> lent() const noexcept override { return ports_.lent().all(); }
    void on_no_port_left(bool gave_up) noexcept override { ++(gave_up ? statistics_.given_up : statistics_.no_port_left); }
    int claim_flow(const flow_name& flow) noexcept override;
    void release_flow(const flow_name& flow) noexcept override;
    void resolve(const net_address& neighbor) noexcept override;

    const shared_statistics& statistics() const noexcept { return statistics_; }
    /// The group goes before this does.
    void register_metrics(metric_group& group) const;

private:
    void on_routes(std::span<const netlink::route_change> routes) override;
    void on_route_refused(const netlink::route_change& route) override;
    void on_neighbor(const netlink::neighbor_change& neighbor) override;
    void on_address_gone(const net_address& address) override;
    void on_link_mtu(std::uint32_t bytes) override;
    void on_claimed(const steered_flow& flow, int error) noexcept;
    void let_go(const steered_flow& flow) noexcept { ports_.let_go(wire::ip_protocol::tcp, flow.local, flow.local_port); }

    void claim(wire::ip_protocol protocol, const net_address& address, std::uint16_t port);
    void release(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept;

    owned_ports& ports_;
    network_stack* stack_ = nullptr;
    std::unordered_map<std::uint32_t, unsigned> claims_; ///< this shard's, by owned_ports::key_of(): one of them stands in ports_
    shared_statistics statistics_;
    bool told_left_out_ = false, told_refused_ = false, told_anothers_ = false; ///< in the log
    std::unique_ptr<kernel_mirror> mirror_;
    std::unique_ptr<flow_claims> flows_; ///< where claiming keeps its caller waiting, and there are helpers
};

} // namespace corewire
