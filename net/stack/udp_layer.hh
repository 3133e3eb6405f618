// UDP of one stack: endpoints bound to ports, and the sockets that wait on them.
//
//     ip_input --datagram--> udp_demux --queue--> udp_endpoint --> stack_udp_socket --> receive_from()
//     send_to() --> udp_headers (kept for the last destination) --> egress
//
// One shard's. Bounded by udp_demux_options, each socket's queue, and egress: a send that finds it full waits.
#pragma once

#include <corewire/net/link/multicast_filter.hh>
#include <corewire/net/socket/provider.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/egress.hh>
#include <corewire/net/stack/flow_name.hh>
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/udp/udp_demux.hh>
#include <corewire/net/udp/udp_output.hh>

#include <algorithm>
#include <functional>
#include <memory>

namespace corewire {

class reactor;
class udp_layer;

class stack_udp_socket final : public udp_backend, public list_hook {
public:
    stack_udp_socket(udp_layer& layer, const socket_address& at, const udp_options& options);
    ~stack_udp_socket() override;

    bool start_receive(receive_operation& op) noexcept override;
    bool start_send(send_operation& op) noexcept override;
    void cancel(socket_operation& op) noexcept override { op.unlink(); }
    std::errc connect(const socket_address& peer) override;
    socket_address local_address() const override;
    std::errc join(const net_address& group, const net_address& on) override;
    std::errc leave(const net_address& group, const net_address& on) override;
    std::errc set_multicast(const multicast_options& how) override;
    std::errc set_datagram_size(datagram_size how) override;
    std::uint32_t path_mtu() const override;
    buffer allocate(std::uint32_t size) override;
    void close() noexcept override;

    /// A stop was asked for: fails with ECANCELED who waits for a datagram that `which` names.
    void end_waits(ended_waits which) noexcept;
    /// A datagram or an error has come: wakes the first receiver.
    void on_ready() noexcept;
    void forget_way() noexcept { // also of a datagram to [::]:0, which is nobody's way
        aimed_at_ = {};
        via_ = {};
    }
    /// Fails with ENETDOWN who waits at an address that is not ours any more: in vain, and who sends from it would lie.
    void on_address_gone() noexcept;
    bool is_bound_to(ipv4 address) const noexcept;
    /// It is connected to `remote`, or that is among its last destinations.
    bool sends_to(const udp_address& remote) const noexcept;
    /// Bound to one that is_claimed() no more.
    bool has_lost_address() const noexcept;
    /// Tries a send that waited, in so many slots of egress; what it uses is taken off. False: still too few.
    bool retry(send_operation& op, std::size_t& room) noexcept { return try_send(op, room); }

private:
    std::errc may_join(const net_address& group, const net_address& on) const noexcept;
    void cancel_receivers() noexcept;
    void claim_port(const socket_address& wanted);
    void claim_port_at_home() noexcept;
    void release_port() noexcept;
    bool take(receive_operation& op) noexcept;
    /// True when finished (sent, or failed: op.error); false when it needs more than `room`.
    bool try_send(send_operation& op, std::size_t& room) noexcept;
    bool send_generally(send_operation& op, const udp_address& to, std::size_t ip_total, std::size_t& room) noexcept;
    std::size_t pieces_of(const udp_address& to, std::size_t ip_total) const noexcept;
    bool needs_long_frame(const send_operation& op) const noexcept;
    std::errc send_large(send_operation& op, const udp_address& to) noexcept;
    bool way_takes(std::size_t ip_total) const noexcept;
    bool aim(time_point now, const udp_address& to, const datagram_options& how) noexcept;
    std::errc may_leave_from(const net_address& from, const net_address& to) const noexcept;
    net_address source_for(const net_address& to, const datagram_options& how) const noexcept;
    std::uint8_t hops_to(const net_address& to, const datagram_options& how) const noexcept;
    /// Bytes of IP packet that leave whole.
    std::uint32_t most_to(const net_address& to) const noexcept;

    udp_layer& layer_;
    udp_endpoint endpoint_;
    bool closed_ = false;
    datagram_size size_ = datagram_size::cut;
    std::uint16_t claimed_ = 0; ///< port that we hold of a host_share
    net_address claimed_at_;      ///< in shared mode: of which address
    intrusive_list<waiter> receivers_;
    // The headers of the last destination, and the neighbour they are right for.
    udp_headers headers_;
    hop_kind hop_ = hop_kind::unreachable;
    std::uint32_t way_mtu_ = 0;        ///< bytes, to the last destination
    std::uint32_t way_mtu_heard_ = 0;  ///< udp_layer::path_mtus_heard() that it is right for
    neighbor_ref via_;
    udp_address aimed_at_;
    datagram_options aimed_how_;
    std::array<udp_address, 8> destinations_{}; ///< the last ones, each once in a row
    std::uint32_t destinations_seen_ = 0;
    multicast_options multicast_;
};

/// An IPv6 group, and how many sockets here are members.
struct group_members {
    ipv6 group;
    std::uint32_t members = 0;
};

class udp_layer {
public:
    udp_layer(reactor& loop, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config,
              stack_statistics& statistics, frame_pool& large_frames);

    /// A whole UDP datagram for us.
    udp_verdict input(time_point now, const wire::ipv4_view& ip, packet& p) noexcept;
    /// The same over IPv6: udp_demux::input().
    udp_verdict input(const net_address& source, const net_address& destination, std::uint32_t offset, std::uint32_t length,
                      packet& p) noexcept {
        return tell(demux_.input(source, destination, offset, length, p));
    }
    void on_report(const icmp_report& report) noexcept;
    /// What the report quotes goes where a socket here has sent just now: who says so knows more than a port that is open.
    bool has_flow(const icmp_report& report) const noexcept { return sender_of(report) != nullptr; }
    /// Retries sends that waited for room.
    bool flush(time_point now) noexcept { return (!senders_.empty() || egress_.kept() != 0) && retry_sends(now); }
    std::unique_ptr<udp_backend> bind(const socket_address& at, const udp_options& options);
    void set_home_predicate(std::function<bool(const flow_name&)> is_home) { is_home_ = std::move(is_home); }
    /// Routes are others: every socket looks for its way anew.
    void on_routes_changed() noexcept {
        sockets_.for_each([](stack_udp_socket& each) { each.forget_way(); });
    }
    /// Sockets that are bound to an address of IPv6 that is no more hear that it is gone.
    void on_ipv6_addresses_changed() noexcept;
    /// Another address from now on (any(): none). Sockets that are bound to the one before hear that it is gone.
    void set_address(ipv4 address) noexcept;
    multicast_filter& groups() noexcept { return groups_; }
    udp_demux& demux() noexcept { return demux_; }
    void end_waits(ended_waits which) noexcept {
        sockets_.for_each([which](stack_udp_socket& each) { each.end_waits(which); });
    }

private:
    friend class stack_udp_socket;
    static udp_verdict tell(const udp_delivery& delivery) noexcept;
    net_address source_for(const udp_address& local, const net_address& to) const noexcept;
    std::uint8_t hops_to(const net_address& to) const noexcept;
    std::errc join(const net_address& group) noexcept;
    void leave(const net_address& group) noexcept;
    bool is_ours(const net_address& address) const noexcept;
    void loop_back(const packet& p, const net_address& source, const net_address& group) noexcept;
    bool retry_sends(time_point now) noexcept;
    home_hash home() const noexcept;
    stack_udp_socket* sender_of(const icmp_report& report) const noexcept;
    std::uint32_t path_mtu_to(time_point now, const net_address& to) const noexcept {
        return std::min(out_.path_mtu_to(now, to), told_mtus_.find(now, to).bytes);
    }
    std::uint32_t path_mtus_heard() const noexcept { return out_.path_mtus().generation() + told_mtus_.generation(); }

    reactor& reactor_;
    ip_output& out_;
    egress& egress_;
    frame_pool& pool_;
    frame_pool& large_frames_; ///< 64 KiB each: datagrams to be cut
    ipv4 address_;
    host_share* share_;
    group_follower* group_follower_;
    stack_statistics& statistics_;
    bool checksum_by_port_;
    udp_demux demux_;
    /// What routers said about datagrams. A forger needs no sequence number there, so connections do not heed it.
    path_mtu_cache told_mtus_;
    multicast_filter groups_;                ///< IPv4's
    std::array<group_members, ipv6_output::max_joined> groups6_{};
    intrusive_list<stack_udp_socket> sockets_;
    intrusive_list<waiter> senders_; ///< send_operations that found no room in egress, of all sockets, first come first served
    bool crowded_ = false; ///< egress drains more slowly than it fills: sends take their turn with connections
    std::function<bool(const flow_name&)> is_home_;
};

} // namespace corewire
