// Where an IPv4 packet goes next: longest prefix match over a small table (RFC 1122 3.3.1).
//
// One interface's, on one shard; read once a flow, since connections keep what they found. Bounded: 1,024 routes, 64 redirects.
#pragma once

#include <corewire/net/ip/redirects.hh>
#include <corewire/net/wire/address.hh>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace corewire {

/// What one route says of sizes, in shared mode (`ip route add ... mtu 1400`).
struct route_sizes {
    std::uint16_t mtu = 0;     ///< bytes of IP packet; 0: the link's
    std::uint16_t segment = 0; ///< bytes of TCP segment that may come from there, options left out; 0: as the link takes them
    friend bool operator==(const route_sizes&, const route_sizes&) = default;
};

struct route {
    ip_prefix destination; ///< host bits cleared
    ipv4 gateway;          ///< any(): the destination is on the link
    bool gateway_on_link = false; ///< so is the gateway, whatever the other routes say
    bool refuses = false;         ///< nothing may be sent there, whatever shorter prefixes say; the gateway is any()
    route_sizes sizes{};
    bool connected() const noexcept { return gateway.is_any() && !refuses; }
    friend bool operator==(const route&, const route&) = default;
};

/// The order of tables: the longest prefix first, those of one length by address.
struct longest_first {
    template <typename Prefix>
    bool operator()(const Prefix& a, const Prefix& b) const noexcept {
        return a.length() != b.length() ? a.length() > b.length() : a.address() < b.address();
    }
};

/// Of routes in that order the first whose destination contains `a`; null: none does.
template <typename Route, typename Address>
const Route* longest_match(std::span<const Route> routes, const Address& a) noexcept {
    using prefix = decltype(Route::destination);
    constexpr std::size_t few = 16;
    while (routes.size() > few) { // those of one length at a time
        const std::uint8_t length = routes.front().destination.length();
        const prefix wanted(prefix(a, length).network(), length);
        const auto at = std::ranges::lower_bound(routes, wanted, longest_first{}, &Route::destination);
        if (at != routes.end() && at->destination == wanted) return &*at;
        const auto shorter = [length](const Route& r) { return r.destination.length() >= length; };
        routes = std::span<const Route>(std::ranges::partition_point(routes, shorter), routes.end());
    }
    for (const Route& r : routes)
        if (r.destination.contains(a)) return &r;
    return nullptr;
}

enum class hop_kind : std::uint8_t {
    unreachable, ///< no route: ENETUNREACH
    unicast,     ///< `address` is the neighbour to resolve
    broadcast,   ///< to ff:ff:ff:ff:ff:ff
    multicast,   ///< to mac_address::of_multicast(address)
    local,       ///< one of our own addresses (or 127/8): never leaves this host
};

struct next_hop {
    hop_kind kind = hop_kind::unreachable;
    ipv4 address;
    friend bool operator==(const next_hop&, const next_hop&) = default;
};

enum class route_error : std::uint8_t {
    none,
    full,                ///< max_routes already
    exists,              ///< another route to the same destination
    gateway_not_on_link, ///< no connected route leads to the gateway (RFC 1122 3.3.1.1)
};

class route_table {
public:
    static constexpr std::size_t max_routes = 1024;

    route_table() noexcept = default;
    /// The interface's own address; its network becomes a connected route.
    explicit route_table(ip_prefix own) noexcept { set_address(own); }

    /// Replaces our address and its connected route. Other routes stay.
    void set_address(ip_prefix own) noexcept;
    [[nodiscard]] route_error add(ip_prefix destination, ipv4 gateway = ipv4::any(), bool gateway_on_link = false) noexcept;
    [[nodiscard]] route_error add_route(route r) noexcept;
    [[nodiscard]] route_error set_default(ipv4 gateway) noexcept { return add({ipv4::any(), 0}, gateway); }
    bool remove(ip_prefix destination) noexcept;

    next_hop find(ipv4 destination) const noexcept;
    /// Some route says something of sizes.
    bool tells_sizes() const noexcept { return tell_sizes_; }
    /// Of the route that leads there. Where no route says anything it costs nothing.
    route_sizes sizes_to(ipv4 destination) const noexcept {
        const route* const r = tell_sizes_ ? match(destination) : nullptr;
        return r == nullptr ? route_sizes{} : r->sizes;
    }
    /// An address that find() would send to straight: it can be a gateway.
    bool is_neighbor(ipv4 a) const noexcept {
        const next_hop hop = find(a);
        return hop.kind == hop_kind::unicast && hop.address == a;
    }
    /// Something leads over it. Not for every packet: it looks at each route.
    bool is_gateway(ipv4 a) const noexcept;
    /// Gateways that others have said are better for single destinations (RFC 1122 3.2.2.2). They go with another address or other routes.
    redirect_table& redirects() noexcept { return redirects_; }
    const redirect_table& redirects() const noexcept { return redirects_; }
    /// The destination is the limited broadcast address, or a connected network's (RFC 1122 3.3.6), or its old form,
    /// the network's own address (3.2.1.3).
    bool is_broadcast(ipv4 destination) const noexcept;
    /// No packet that arrives may claim to come from it (RFC 1122 3.2.1.3): broadcast, multicast, 127/8, 240/4, us.
    /// 0.0.0.0 counts too (a DHCP client asks that way; nobody here serves DHCP).
    bool is_martian_source(ipv4 source) const noexcept {
        // Asked of every packet: a host of our own network, by far the usual one, is settled by arithmetic.
        if (source.value() - first_neighbor_ < neighbors_ && source != own_.address()) [[likely]] return false;
        return is_martian_slowly(source);
    }

    ipv4 address() const noexcept { return own_.address(); }
    ip_prefix prefix() const noexcept { return own_; }
    /// Longest prefix first.
    std::span<const route> routes() const noexcept { return {routes_.data(), count_}; }
    std::uint64_t refused() const noexcept { return refused_; } ///< add()s that found the table full
    void check_invariants() const;

private:
    bool is_martian_slowly(ipv4 source) const noexcept;
    void find_ordinary_neighbors() noexcept;
    void find_broadcasts() noexcept;
    bool on_link(ipv4 a) const noexcept;
    const route* match(ipv4 destination) const noexcept;

    ip_prefix own_;
    std::array<route, max_routes> routes_{};
    std::size_t count_ = 0;
    std::uint64_t refused_ = 0;
    bool tell_sizes_ = false; ///< some route does, or did
    // Addresses [first_neighbor_, first_neighbor_ + neighbors_) can only be hosts' (or ours): no broadcast lies there.
    std::uint32_t first_neighbor_ = 0;
    std::uint32_t neighbors_ = 0;
    // No broadcast address of a connected network, nor its old form, lies outside of [first_broadcast_, first_broadcast_ + broadcasts_].
    std::uint32_t first_broadcast_ = 0;
    std::uint32_t broadcasts_ = 0;
    redirect_table redirects_;
};

} // namespace corewire
