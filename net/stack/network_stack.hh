// One shard's network: a port, a host of IPv4 and IPv6 behind it, and TCP and UDP above. The loop polls it once a turn.
//
//     port --receive burst--> link_input --> arp | ip_input, ipv6_input --> icmp | udp | tcp --> sockets
//     sockets, timers --> tcp_layer::flush, send() --> ip_output --> egress --transmit burst--> port
//
// Received data flows left to right only; sending is a separate chain downward. Owns its port and everything above it.
// Exclusive mode: the stack has an address of its own and answers ARP for it. Shared mode (host_share.hh): the address is
// the kernel's, which answers ARP and resolves neighbours.
#pragma once

#include <corewire/net/ip/icmp.hh>
#include <corewire/net/ip/reassembly.hh>
#include <corewire/net/port/port.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/egress.hh>
#include <corewire/net/stack/flow_steering.hh>
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/stack/ipv6_input.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/stack/udp_layer.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <memory>

namespace corewire {

class dhcp_link;
class vlan_port;

class network_stack final : public poller, public socket_provider {
public:
    /// Joins the loop's pollers and announces its address. Throws std::invalid_argument for a gateway off the network, and
    /// for a number that is no VLAN's.
    network_stack(reactor& loop, std::unique_ptr<port> device, const stack_config& config);
    ~network_stack() override;

    // ---- poller ----
    bool poll(time_point now) override;
    bool flush(time_point now) override;
    bool prepare_sleep() override;
    void finish_sleep() override;
    void watch(sleeper& sleeping) const override;
    int wake_fd() const override { return device_->wake_fd(); }

    // ---- socket_provider ----
    std::unique_ptr<listener_backend> listen(const socket_address& at, const listen_options& options) override;
    std::unique_ptr<tcp_backend> connect(const socket_address& to, const socket_address& local,
                                         const tcp_options_set& options) override;
    bool start_connected(tcp_backend& backend, plain_operation& op) noexcept override;
    void cancel_connected(tcp_backend& backend, socket_operation& op) noexcept override;
    std::unique_ptr<udp_backend> bind_udp(const socket_address& at, const udp_options& options) override;
    std::optional<chosen_source> source_for(const net_address& destination) const override;
    std::string describe() const override;
    void end_waits(ended_waits which) noexcept override;

    /// Several shards behind one address: which of them owns a flow, and the way there. Set once, before traffic.
    void set_steering(std::unique_ptr<flow_steering> steering);
    /// A frame that another shard received for a flow of ours.
    void take_over(time_point now, packet& p);

    // ---- with DHCP ----
    /// The address, routes, name servers and MTU are the lease's from now on; null: there is no address any more. The shard that asks
    /// does it by itself.
    void follow_lease(const dhcp_lease* lease);
    void follow_lease6(const dhcp6_lease& lease);
    /// Gives the lease back: at the end.
    void release_lease() noexcept;
    /// Null where another shard asks, or nobody.
    const dhcp_link* dhcp() const noexcept { return dhcp_.get(); }

    // ---- in shared mode: what the host knows ----
    /// Replaces all routes. Those over a gateway that is not on the link are left out, and those that find no room: how many.
    std::size_t follow_routes(std::span<const route> routes, std::span<const ipv6_route> routes6 = {}) noexcept;
    /// Its interface takes so many bytes of IP packet now.
    void follow_link_mtu(std::uint32_t bytes) noexcept;
    void follow_neighbor(const net_address& address, mac_address mac, bool reachable) noexcept;
    void follow_permanent_neighbor(const net_address& address, mac_address mac) noexcept;
    void follow_unknown_neighbor(const net_address& address) noexcept;

    const stack_statistics& statistics() const noexcept { return statistics_; }
    const icmp_layer& icmp() const noexcept { return icmp_; }
    const reassembler& fragments() const noexcept { return reassembler_; }
    const egress& output_queue() const noexcept { return egress_; }
    port& device() noexcept { return *device_; }
    /// Null without a VLAN.
    const vlan_port* vlan() const noexcept { return vlan_; }
    tcp_layer& tcp() noexcept { return tcp_; }
    udp_layer& udp() noexcept { return udp_; }
    ip_output& ip() noexcept { return output_; }
    ipv4 address() const noexcept { return config_.address.address(); } ///< 0.0.0.0: none
    /// Null without stack_config::ipv6.
    ipv6_input* six() noexcept { return six_.get(); }
    /// Of all of it but UDP's ports, which are 65,536: udp().demux() has a check of its own.
    void check_invariants() const;

private:
    static constexpr std::size_t receive_burst = 32;

    // The way of a TCP segment that header prediction (tcp_layer::take_expected) has passed on, and of all the rest:
    bool take_in(std::size_t n);
    void link_input(time_point now, packet& p, bool handed_over);
    void ip_input(time_point now, packet& p, bool link_broadcast, bool handed_over);
    // and what leaves it:
    bool poll_with_steering(time_point now);
    void not_ipv4(time_point now, packet& p, wire::ether_type type, bool link_group, bool handed_over);
    void ipv6_arrives(time_point now, packet& p, bool link_group, bool handed_over);
    void arp_input(time_point now, const packet& p, bool handed_over);
    void no_address_yet(time_point now, packet& p, bool handed_over);
    bool is_for_dhcp(time_point now, wire::ipv4_view ip, packet& p, bool handed_over);
    void after_dhcp(time_point now);
    void after_ipv6();
    void tell_of_ipv6_ways() noexcept;
    void learn_names();
    void tagged_input(time_point now, packet& p, bool handed_over);
    bool acceptable(wire::ipv4_view ip, const packet& p, bool link_broadcast, bool handed_over);
    void deliver(time_point now, wire::ipv4_view ip, packet& p, arrival how);
    void deliver_tcp(time_point now, wire::ipv4_view ip, packet& p);
    void reassemble(time_point now, wire::ipv4_view ip, packet& p, arrival how);
    void on_report(time_point now, const icmp_report& report);
    void on_redirect(time_point now, const icmp_report& report);
    void tell_unreachable();
    bool steer_away(wire::ipv4_view ip, packet& p, bool handed_over);
    std::string describe_addresses() const;
    void require_local(const socket_address& at, const char* what) const;
    /// Of the address's family; null: we do not speak it.
    neighbor_table* neighbors_of(const net_address& address) noexcept;
    void drain_neighbors() noexcept;
    bool flush_all(time_point now);
    bool do_chores(time_point now);
    void on_timer(time_point now);
    void arm_timer() noexcept;

    struct stack_timer : timer {
        network_stack* owner;
        explicit stack_timer(network_stack* s) noexcept;
    };

    static std::unique_ptr<port> in_vlan(std::unique_ptr<port> device, std::uint16_t id, vlan_port*& made);

    reactor& reactor_;
    vlan_port* vlan_ = nullptr; ///< what device_ is, with a VLAN
    /// 64 KiB each. Before device_, which may have packets that lie there.
    struct long_frames {
        frame_pool received; ///< datagrams put together from fragments
        frame_pool sent;     ///< datagrams to be cut
        explicit long_frames(std::uint32_t count);
    };
    std::shared_ptr<long_frames> long_frames_;
    std::unique_ptr<port> device_;
    stack_config config_;
    stack_statistics statistics_;
    egress egress_;
    ip_output output_;
    reassembler reassembler_;
    icmp_layer icmp_;
    tcp_layer tcp_;
    udp_layer udp_;
    std::unique_ptr<ipv6_input> six_;
    std::uint32_t ipv6_ways_ = 0; ///< the generations of routes and addresses, together, that UDP's sockets were last told of
    std::unique_ptr<flow_steering> steering_;
    std::unique_ptr<dhcp_link> dhcp_;
    learned_names names4_, names6_;     ///< as DHCP and DHCPv6 say
    std::uint32_t advertised_names_ = 0; ///< the generation of what routers say that is learned
    stack_timer timer_;
    std::array<packet, receive_burst> received_;
};

} // namespace corewire
