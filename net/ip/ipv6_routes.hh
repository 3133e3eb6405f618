// Where an IPv6 packet goes next (RFC 4861 5.2, 6.3.6): prefixes that are on the link, and routers for everything else.
//
// In shared mode the host's routes stand instead, longest prefix first, and its default routers: set_routes().
//
// One interface's, on one shard; read once a flow, since connections keep what they found. Bounded: 16 prefixes, 8 routers, 1,024 routes,
// 64 redirects.
// What router advertisements taught ends when they said it would; what was configured stays.
#pragma once

#include <corewire/net/ip/redirects.hh>
#include <corewire/net/ip/routes.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <cstdint>
#include <span>

namespace corewire {

struct ipv6_next_hop {
    hop_kind kind = hop_kind::unreachable; ///< never broadcast
    ipv6 address;
    friend bool operator==(const ipv6_next_hop&, const ipv6_next_hop&) = default;
};

struct ipv6_route {
    ipv6_prefix destination; ///< host bits cleared
    ipv6 gateway;            ///< `::`: the destination is on the link
    bool gateway_on_link = false; ///< so is the gateway, whatever the other routes say
    bool refuses = false;         ///< nothing may be sent there, whatever shorter prefixes say; the gateway is `::`
    route_sizes sizes{};
    bool connected() const noexcept { return gateway.is_any() && !refuses; }
    friend bool operator==(const ipv6_route&, const ipv6_route&) = default;
};

class ipv6_routes {
public:
    static constexpr std::size_t max_routes = 1024;
    static constexpr std::size_t max_prefixes = 16;
    static constexpr std::size_t max_routers = 8;

    /// False: the table is full (counted). A prefix that is there already gets the new end.
    bool add_prefix(const ipv6_prefix& prefix, time_point until = never) noexcept;
    void remove_prefix(const ipv6_prefix& prefix) noexcept;
    /// Of several the first is used: configured ones, then by their preference, then by their age; the silent ones last.
    bool add_router(const ipv6& router, time_point until = never,
                    wire::router_preference preference = wire::router_preference::medium) noexcept;
    void remove_router(const ipv6& router) noexcept;
    /// It says that it is none any more. A configured one stays.
    void end_router(time_point now, const ipv6& router) noexcept;
    /// It says that it is none: redirects over it end, but for one to itself (RFC 4861 7.2.5).
    void end_redirects_over(const ipv6& hop) noexcept {
        if (redirects_.forget_router(hop)) ++generation_;
    }
    /// A router that does not answer comes last until the others do not either (RFC 4861 6.3.6).
    void demote_router(const ipv6& router) noexcept;

    /// These routes and no others from now on; the gateways of several to `::/0` are routers in this order, silent ones last.
    /// How many were left out: those beyond max_routes and max_routers (refused and counted), and whose gateway is not on the link.
    std::size_t set_routes(std::span<const ipv6_route> routes) noexcept;

    /// The first hop to `destination` says that `target` is better, itself or another router on the link (RFC 4861 8.3).
    void redirect(time_point now, const ipv6& destination, const ipv6& target, const ipv6& router) noexcept;
    /// It does not answer: what it was said to be better for goes the ordinary way again (RFC 4861 7.3.3).
    void forget_redirects(const ipv6& hop) noexcept;
    const redirect_table& redirects() const noexcept { return redirects_; }

    /// Multicast and link-local destinations are always on the link. Our own addresses are the caller's to know.
    ipv6_next_hop find(const ipv6& destination) const noexcept;
    /// Some route says something of sizes, or has.
    bool tells_sizes() const noexcept { return tell_sizes_; }
    /// Of the route that leads there, in shared mode; several routers to `::/0` have the first one's.
    route_sizes sizes_to(const ipv6& destination) const noexcept {
        if (!tell_sizes_) return {};
        const ipv6_route* const r = match(destination);
        return r == nullptr ? router_sizes_ : r->sizes;
    }
    bool on_link(const ipv6& address) const noexcept;
    /// Something leads over it. Not for every packet: it looks at each route.
    bool is_gateway(const ipv6& address) const noexcept;
    bool has_router() const noexcept { return router_count_ != 0; }
    /// `address` is a router's, and there is one in whose place another could be.
    bool is_replaceable(const ipv6& address) const noexcept;

    time_point next_timeout() const noexcept;
    /// Forgets what has ended. True: something has.
    bool on_timer(time_point now) noexcept;
    /// What flows keep besides their next hop (the hop limit, the link's MTU) has changed: they look again.
    void touch() noexcept { ++generation_; }
    /// Grows with every change: who keeps a next hop compares it.
    std::uint32_t generation() const noexcept { return generation_; }
    std::uint64_t refused() const noexcept { return refused_; }

private:
    struct on_link_prefix {
        ipv6_prefix prefix;
        time_point until = never;
    };
    struct router {
        ipv6 address;
        time_point until = never;
        wire::router_preference preference = wire::router_preference::medium;
        bool silent = false; ///< it did not answer when it was last asked, and others were there
        int rank() const noexcept { return silent ? -2 : until == never ? 2 : static_cast<int>(preference); }
    };
    void insert_router(const router& r) noexcept;
    void erase_router(std::size_t index) noexcept;
    /// Its index among routers(), router_count_ if it is none of them.
    std::size_t index_of_router(const ipv6& address) const noexcept;
    bool is_router(const ipv6& address) const noexcept { return index_of_router(address) != router_count_; }
    std::size_t fill(std::span<const ipv6_route> routes) noexcept;
    bool insert_route(const ipv6_route& r) noexcept;
    bool says_the_same(const ipv6_routes& other) const noexcept;
    std::span<const ipv6_route> routes() const noexcept { return {routes_.data(), route_count_}; }
    std::span<router> routers() noexcept { return {routers_.data(), router_count_}; }
    std::span<const router> routers() const noexcept { return {routers_.data(), router_count_}; }
    std::array<on_link_prefix, max_prefixes> prefixes_{};
    std::array<router, max_routers> routers_{};
    const ipv6_route* match(const ipv6& destination) const noexcept;
    std::array<ipv6_route, max_routes> routes_{}; ///< that were set: the longest prefix first
    std::size_t prefix_count_ = 0, router_count_ = 0, route_count_ = 0;
    route_sizes router_sizes_;
    bool tell_sizes_ = false;
    redirect_table redirects_;
    std::uint32_t generation_ = 0;
    std::uint64_t refused_ = 0;
};

} // namespace corewire
