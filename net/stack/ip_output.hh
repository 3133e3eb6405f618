// The way down: routes, neighbours and path MTU for whoever sends, and the packets that wait for an address to be resolved.
// One stack's. TCP keeps an output_path a connection and stamps it on each segment; everything else goes by send().
#pragma once

#include <corewire/net/ip/fragmentation.hh>
#include <corewire/net/ip/identification.hh>
#include <corewire/net/ip/path_mtu.hh>
#include <corewire/net/ip/routes.hh>
#include <corewire/net/ip/token_bucket.hh>
#include <corewire/net/link/neighbors.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/egress.hh>
#include <corewire/net/stack/group_reports.hh>
#include <corewire/net/stack/ipv6_output.hh>
#include <corewire/net/stack/output_path.hh>

#include <memory>
#include <system_error>

namespace corewire {

class ip_output {
public:
    ip_output(port& device, egress& tx, const stack_config& config, stack_statistics& statistics);

    // ---- for flows that keep a path ----
    /// Fills in everything but the neighbour's MAC. False if nothing leads there (counted).
    bool prepare(output_path& path, ipv4 source, ipv4 destination, wire::ip_protocol protocol) noexcept;
    /// The path's headers may be stamped now.
    bool current(const output_path& path) const noexcept { return path.via.current(); }
    /// The same, after looking the next hop up if need be. If not, send_unresolved() takes the packet.
    bool ready(time_point now, output_path& path) noexcept { return current(path) || refresh(now, path); }
    /// `p.head` has room for link_and_ip_size bytes in front, already prepended, and `l4_size` bytes of segment behind.
    /// Queues it behind its neighbour, or drops and counts it. `p` is left empty.
    bool send_unresolved(time_point now, output_path& path, packet& p, std::uint32_t l4_size,
                         on_behalf who = on_behalf::ourselves) noexcept;

    // ---- for everything else ----
    /// Sends a datagram whose head starts at its IPv4 header, fragmenting it if it is too long for the path, or longer than `most` bytes.
    std::errc send(time_point now, packet&& datagram, ipv4 destination, std::uint32_t most = ~0u) noexcept {
        return send_to(now, std::move(datagram), destination, most_to(now, destination, most), on_behalf::ourselves);
    }
    /// Never cut, whatever is known of the path: it is no longer than link_mtu(). `p.head` as above, of either family.
    std::errc send_whole(time_point now, packet&& datagram, const net_address& destination) noexcept;
    /// The same of what answers a packet: its sender may be an invention.
    std::errc answer(time_point now, packet&& datagram, ipv4 destination) noexcept {
        return send_to(now, std::move(datagram), destination, most_to(now, destination, ~0u), on_behalf::stranger);
    }
    bool reachable(const net_address& destination) const noexcept {
        if (destination.is_v4()) return routes_.find(destination.v4()).kind == hop_kind::unicast;
        return six_ != nullptr && six_->reachable(destination.v6());
    }
    std::uint32_t path_mtu_to(time_point now, const net_address& destination) const noexcept {
        if (!destination.is_v4() && six_ != nullptr) return six_->path_mtu_to(now, destination.v6());
        const route_sizes way = sizes_to(destination);
        constexpr std::uint16_t least = 68; // RFC 791 3.2
        const std::uint32_t most = way.mtu == 0 ? mtu_ : std::min<std::uint32_t>(mtu_, std::max(way.mtu, least));
        return std::min(most, mtus_.find(now, destination).bytes);
    }
    /// What the route there says of sizes.
    route_sizes sizes_to(const net_address& destination) const noexcept {
        if (destination.is_v4()) return routes_.sizes_to(destination.v4());
        return six_ == nullptr ? route_sizes{} : six_->routes().sizes_to(destination.v6());
    }
    /// In shared mode: the host's interface takes so much now. False: as before.
    bool follow_link_mtu(std::uint32_t bytes) noexcept;
    /// The port's, or what a DHCP server, or the host, says if that is less.
    std::uint32_t mtu() const noexcept { return mtu_; }
    /// The same of the link to hosts of this address's family, on which an IPv6 router may have had its say (RFC 4861 6.3.4).
    std::uint32_t link_mtu(const net_address& of_family) const noexcept {
        return of_family.is_v4() || six_ == nullptr ? mtu_ : six_->mtu();
    }
    bool may_send_reset(time_point now) noexcept { return resets_.take_about_one(now, random_); }

    /// A gateway says that another is better for a destination (RFC 1122 3.2.2.2). False: it may not say so; counted.
    bool on_redirect(time_point now, ipv4 destination, ipv4 better, const net_address& gateway) noexcept;

    /// ARP, and the clock of all.
    /// `answer`: no other shard has had it.
    void on_arp(time_point now, const wire::arp_packet& arp, bool answer) noexcept;
    void on_timer(time_point now) noexcept;
    time_point next_timeout() const noexcept {
        const time_point here = std::min({neighbors_.next_timeout(), groups_.due(), routes_.redirects().next_timeout()});
        return six_ == nullptr ? here : std::min(here, six_->next_timeout());
    }
    /// IPv6's, or null.
    ipv6_output* six() const noexcept { return six_.get(); }
    void start(time_point now) noexcept;
    /// Groups that somebody here has begun, or ceased, to hear.
    void on_join(time_point now, const net_address& group) noexcept;
    void on_leave(time_point now, const net_address& group) noexcept;
    void on_igmp(time_point now, byte_span message) noexcept;
    const group_reports& groups() const noexcept { return groups_; }
    /// Another address (any(): none), routes (of which each gateway is on the link of another) and MTU (0: the port's) from now on.
    void set_address(time_point now, ip_prefix own, std::span<const route> routes, std::uint32_t mtu) noexcept;

    /// A packet of ours, from its Ethernet header on, whose next hop nobody has answered for: its sender is to hear of it.
    bool poll_unreachable(packet& out) noexcept {
        return neighbors_.poll_unreachable(out) || (six_ != nullptr && six_->neighbors().poll_unreachable(out));
    }
    /// What leads to `destination` now, after a router was given up for another perhaps, has not answered.
    bool is_given_up(const net_address& destination) const noexcept;

    /// Sends what the neighbour cache has to say, and what has waited for it.
    void drain() noexcept;
    /// The neighbour at `address` if it can be sent to now (neighbor_cache::use()).
    neighbor* use(time_point now, ipv4 address) noexcept {
        egress_.leave_chores(); // next_timeout() may have come nearer
        return neighbors_.use(now, address);
    }
    neighbor_cache& neighbors() noexcept { return neighbors_; }
    const neighbor_cache& neighbors() const noexcept { return neighbors_; }
    route_table& routes() noexcept { return routes_; }
    const route_table& routes() const noexcept { return routes_; }
    path_mtu_cache& path_mtus() noexcept { return mtus_; }
    identification_source& identifications() noexcept { return identifications_; }
    port& device() noexcept { return device_; }

private:
    bool refresh(time_point now, output_path& path) noexcept;
    std::uint32_t most_to(time_point now, ipv4 destination, std::uint32_t most) const noexcept {
        return std::min(path_mtu_to(now, destination), most);
    }
    std::errc send_to(time_point now, packet&& datagram, ipv4 destination, std::uint32_t limit, on_behalf who) noexcept;
    bool transmit(time_point now, packet& p, const next_hop& hop, on_behalf who) noexcept;

    port& device_;
    egress& egress_;
    stack_statistics& statistics_;
    neighbor_cache neighbors_;
    route_table routes_;
    path_mtu_cache mtus_;
    identification_source identifications_;
    host_share* share_;
    std::unique_ptr<ipv6_output> six_;
    group_reports groups_;
    token_bucket redirects_{100, 20}; ///< each has all flows look for their next hop anew
    token_bucket resets_{10'000, 1'000}; ///< TCP resets without a connection: a flood is not answered in kind
    random_generator random_;
    std::uint32_t mtu_;
    bool announce_;
    bool ask_;
};

} // namespace corewire
