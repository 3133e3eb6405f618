// IPv6's way down (ip_output.hh is IPv4's): our addresses and whether they may be used, routes, neighbours, and the packets that
// wait for a neighbour to be found; and what the host says by itself: solicitations, advertisements, probes for its addresses.
//
// One stack's, part of its ip_output; there is none unless stack_config::ipv6 is set. In shared mode (host_share.hh) it says nothing:
// the one address is there, and neighbours and routes are told.
#pragma once

#include <corewire/net/dhcp/dhcp6_client.hh>
#include <corewire/net/ip/autoconfiguration.hh>
#include <corewire/net/ip/ipv6_routes.hh>
#include <corewire/net/ip/mld.hh>
#include <corewire/net/ip/path_mtu.hh>
#include <corewire/net/ip/token_bucket.hh>
#include <corewire/net/link/ipv6_addresses.hh>
#include <corewire/net/link/neighbor_discovery.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/egress.hh>
#include <corewire/net/stack/ipv6_path.hh>

#include <optional>
#include <system_error>
#include <utility>

namespace corewire {

class ipv6_output {
public:
    /// Throws std::invalid_argument for a gateway that is not on the link, and for a port whose MTU is below 1,280 bytes.
    ipv6_output(port& device, egress& tx, const path_mtu_cache& mtus, const stack_config& config, stack_statistics& statistics);
    void start(time_point now) noexcept;

    // ---- for flows that keep a path ----
    /// Fills in everything but the neighbour's MAC. False if nothing leads there (counted).
    bool prepare(ipv6_path& path, const flow_name& flow, wire::ip_protocol protocol) noexcept;
    /// The path's headers may be stamped now.
    bool current(const ipv6_path& path) const noexcept { return path.via.current() && path.routes == routes_.generation(); }
    /// The same, after looking the next hop up if need be. If not, send_unresolved() takes the packet.
    bool ready(time_point now, ipv6_path& path) noexcept { return current(path) || refresh(now, path); }
    /// As ip_output's: `p.head` has room for link_and_ipv6_size bytes in front, already prepended. `p` is left empty.
    bool send_unresolved(time_point now, ipv6_path& path, packet& p, std::uint32_t l4_size,
                         on_behalf who = on_behalf::ourselves) noexcept;

    // ---- for everything else ----
    /// Sends a packet whose head starts at its IPv6 header; in fragments if it is too long for the path, or longer than `most` bytes.
    /// EMSGSIZE: longer than any.
    std::errc send(time_point now, packet&& datagram, const ipv6& destination, std::uint32_t most = ~0u) noexcept {
        return send_to(now, std::move(datagram), destination, std::min(path_mtu_to(now, destination), most), on_behalf::ourselves);
    }
    /// Never cut, whatever is known of the path: it is no longer than mtu().
    std::errc send_whole(time_point now, packet&& datagram, const ipv6& destination) noexcept {
        return send_to(now, std::move(datagram), destination, mtu(), on_behalf::ourselves);
    }
    /// The same of what answers a packet: its sender may be an invention.
    std::errc answer(time_point now, packet&& datagram, const ipv6& destination) noexcept {
        return send_to(now, std::move(datagram), destination, path_mtu_to(now, destination), on_behalf::stranger);
    }
    ipv6_next_hop route(const ipv6& destination) const noexcept;
    bool reachable(const ipv6& destination) const noexcept { return route(destination).kind == hop_kind::unicast; }
    /// The address to send from; one that may not be used yet if there is no other. `::`: we have none.
    ipv6 source_for(const ipv6& destination) const noexcept;
    /// The neighbour if it can be sent to now, from `source`.
    neighbor* use(time_point now, const ipv6& hop, const ipv6& source) noexcept;

    // ---- neighbour discovery: messages that have been validated ----
    void on_solicitation(time_point now, const ipv6& source, const wire::neighbor_solicitation& ns, bool answer) noexcept;
    /// `log`: one shard tells of a conflict.
    void on_advertisement(time_point now, const wire::neighbor_advertisement& na, bool log) noexcept;
    /// False: routers have said too much lately.
    bool may_take_advertisement(time_point now) noexcept {
        if (advertisements_.take(now)) return true;
        ++statistics_.advertisements_refused;
        return false;
    }
    void on_router_advertisement(time_point now, const ipv6& router, const wire::router_advertisement& ra,
                                 const std::optional<mac_address>& mac) noexcept;
    /// True: the next hop to a destination is another one now. `counted`: another shard has it among those that it takes a second.
    bool on_redirect(time_point now, const ipv6& router, const wire::neighbor_redirect& redirect, bool counted) noexcept;
    /// Of `size` bytes: which version asks.
    void on_group_query(time_point now, const ipv6& group, std::uint16_t response_code, std::uint32_t size) noexcept {
        groups_.on_query(now, group, response_code, size);
    }
    void on_group_report(time_point now, const ipv6& group) noexcept { groups_.on_report(now, group); }

    /// Groups that sockets here have begun, or ceased, to hear; as many as there is room for, which the caller has asked.
    static constexpr std::size_t max_joined = 16;
    bool may_join() const noexcept { return joined_count_ < max_joined; }
    void on_join(time_point now, const ipv6& group) noexcept;
    void on_leave(time_point now, const ipv6& group) noexcept;
    bool hears(const ipv6& group) const noexcept;

    // ---- DHCPv6 (ipv6_dhcp.cc) ----
    /// A UDP payload to our port 546. False: nobody here asks.
    bool on_dhcp(time_point now, byte_span message) noexcept;
    /// The addresses of a lease are ours, and those that a former one had are not.
    void follow_lease(time_point now, const dhcp6_lease& lease) noexcept;
    /// True once after each change of the lease: it has been followed here, and others are to be told.
    bool lease_changed() noexcept { return std::exchange(lease_changed_, false); }
    void release_lease(time_point now) noexcept;
    /// Null: another shard asks, or nobody.
    const dhcp6_client* dhcp() const noexcept { return dhcp_ ? &*dhcp_ : nullptr; }

    void on_timer(time_point now) noexcept;
    time_point next_timeout() const noexcept;

    const ipv6_addresses& addresses() const noexcept { return addresses_; }
    /// neighbor_table::doubt() of a router, if another could be in its place. Else nothing would be gained, and who waits for a link to
    /// come back would find its neighbour given up.
    void doubt(time_point now, const neighbor_ref& via) noexcept {
        if (via.get() == nullptr || !routes_.is_replaceable(via.get()->address().v6())) return;
        neighbors_.doubt(now, via);
        drain();
        egress_.leave_chores();
    }
    neighbor_discovery& neighbors() noexcept { return neighbors_; }
    /// Sends what the neighbour cache has to say, and what has waited for it.
    void drain() noexcept;
    ipv6_routes& routes() noexcept { return routes_; }
    /// Null unless it was asked for.
    const autoconfiguration* automatic() const noexcept { return automatic_ ? &*automatic_ : nullptr; }
    /// CurHopLimit: what a router says, else the configured one.
    std::uint8_t hop_limit() const noexcept {
        return automatic_ && automatic_->hop_limit() != 0 ? automatic_->hop_limit() : config_.hop_limit;
    }
    /// The port's, or what a router, or the host, says if that is less.
    std::uint32_t mtu() const noexcept {
        const std::uint32_t link = std::min(device_.mtu(), told_mtu_);
        return automatic_ ? std::min(link, automatic_->mtu()) : link;
    }
    /// In shared mode: the host's interface takes so much now. RFC 8200 5: no link takes less than 1,280 bytes.
    void follow_link_mtu(std::uint32_t bytes) noexcept { told_mtu_ = std::max(bytes, path_mtu_cache::ipv6_minimum); }
    /// The same on the way to there, as far as it is known.
    std::uint32_t path_mtu_to(time_point now, const ipv6& destination) const noexcept {
        const route_sizes way = routes_.sizes_to(destination);
        const std::uint32_t most = way.mtu == 0 ? mtu() : std::min<std::uint32_t>(mtu(), std::max<std::uint32_t>(way.mtu, least_mtu));
        return std::min(most, mtus_.find(now, destination).bytes);
    }

private:
    bool tells_groups() const noexcept { return announces_ || tells_; }
    bool refresh(time_point now, ipv6_path& path) noexcept;
    std::errc send_to(time_point now, packet&& datagram, const ipv6& destination, std::uint32_t limit, on_behalf who) noexcept;
    bool transmit(time_point now, packet& p, const ipv6_next_hop& hop, on_behalf who) noexcept;
    std::uint32_t next_identification() noexcept;
    std::errc send_fragments(time_point now, const packet& datagram, const ipv6_next_hop& hop, std::uint32_t limit, on_behalf who) noexcept;
    void say(const nd_message& m) noexcept;
    bool probe(const ipv6& target) noexcept;
    void solicit_routers() noexcept;
    void follow_routers(time_point now) noexcept;
    bool report_groups(time_point now) noexcept;
    const own_ipv6_address* link_local() const noexcept;
    void follow_groups(time_point now) noexcept;
    void follow_port() noexcept;
    void answer_behind_question(time_point now, const ipv6& asker, const ipv6& target) noexcept;
    void wrap_link_message(packet& p, std::uint32_t size, const ipv6& source, const ipv6& destination, mac_address to) noexcept;
    bool push_link_message(packet&& p, std::uint32_t size, const ipv6& source, const ipv6& destination, mac_address to) noexcept;
    void after_dhcp(time_point now) noexcept;
    void send_to_dhcp_servers(const dhcp6_outgoing& message) noexcept;
    void lost(time_point now, const ipv6& address) noexcept;

    port& device_;
    egress& egress_;
    stack_statistics& statistics_;
    const ipv6_config config_;
    const bool announces_; ///< of several shards one speaks for all
    ipv6_addresses addresses_;
    ipv6_routes routes_;
    neighbor_discovery neighbors_;
    std::optional<autoconfiguration> automatic_;
    mld_listener groups_;
    std::array<ipv6, max_joined> joined_{};
    std::size_t joined_count_ = 0;
    group_follower* const port_; ///< told which frames are wanted; null: the port brings all
    std::array<ipv6, 2 * ipv6_addresses::max_addresses> wanted_{}; ///< that it was told of: addresses and their groups
    std::size_t wanted_count_ = 0;
    host_share* const share_; ///< shared mode: neighbours and addresses are the host's
    bool told_from_nowhere_ = false; ///< groups, from `::`
    time_point tell_again_{};        ///< groups: not before, for want of a frame
    bool tells_ = false; ///< of several shards each that has joined a group tells its own
    std::optional<dhcp6_client> dhcp_;
    std::uint32_t lease_generation_ = 0;
    bool lease_changed_ = false;
    const path_mtu_cache& mtus_;
    static constexpr std::uint32_t least_mtu = path_mtu_cache::ipv6_minimum;
    std::uint32_t told_mtu_ = ~std::uint32_t{0};
    siphash_key label_key_;
    token_bucket redirects_{100, 20}; ///< each has all flows look for their next hop anew
    token_bucket advertisements_{100, 20}; ///< of routers: the same
    token_bucket strangers_{100, 20}; ///< who ask without a MAC of theirs: each has us ask for it
    siphash_key fragment_key_;
    std::uint64_t fragmented_ = 0;   ///< datagrams
    random_generator random_;        ///< of what needs no secrecy: when routers are asked
};

} // namespace corewire
