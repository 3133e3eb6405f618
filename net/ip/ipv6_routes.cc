#include <corewire/net/ip/ipv6_routes.hh>

#include <algorithm>

namespace corewire {

bool ipv6_routes::add_prefix(const ipv6_prefix& prefix, time_point until) noexcept {
    const ipv6_prefix network(prefix.network(), prefix.length());
    on_link_prefix* const end = prefixes_.data() + prefix_count_;
    on_link_prefix* const found = std::find_if(prefixes_.data(), end, [&](const on_link_prefix& p) { return p.prefix == network; });
    if (found != end) {
        if (found->until != never) found->until = until;
        return true;
    }
    if (prefix_count_ == max_prefixes) {
        ++refused_;
        return false;
    }
    prefixes_[prefix_count_++] = {network, until};
    ++generation_;
    return true;
}

void ipv6_routes::remove_prefix(const ipv6_prefix& prefix) noexcept {
    const ipv6_prefix network(prefix.network(), prefix.length());
    for (std::size_t i = 0; i < prefix_count_; ++i) {
        if (prefixes_[i].prefix != network) continue;
        prefixes_[i] = prefixes_[--prefix_count_];
        ++generation_;
        return;
    }
}

/// Behind those that are worth as much.
void ipv6_routes::insert_router(const router& r) noexcept {
    router* const end = routers_.data() + router_count_;
    router* const at = std::find_if(routers_.data(), end, [&](const router& other) { return other.rank() < r.rank(); });
    std::move_backward(at, end, end + 1);
    *at = r;
    ++router_count_;
}

void ipv6_routes::erase_router(std::size_t index) noexcept {
    router* const at = routers_.data() + index;
    std::move(at + 1, routers_.data() + router_count_, at);
    --router_count_;
}

std::size_t ipv6_routes::index_of_router(const ipv6& address) const noexcept {
    return static_cast<std::size_t>(std::ranges::find(routers(), address, &router::address) - routers().begin());
}

bool ipv6_routes::add_router(const ipv6& address, time_point until, wire::router_preference preference) noexcept {
    if (const std::size_t index = index_of_router(address); index != router_count_) {
        router& found = routers_[index];
        if (found.until == never) return true;
        found.until = until;
        if (found.preference == preference) return true;
        router changed = found;
        changed.preference = preference;
        erase_router(index);
        insert_router(changed);
        ++generation_;
        return true;
    }
    if (router_count_ == max_routers) {
        ++refused_;
        return false;
    }
    insert_router({address, until, preference});
    ++generation_;
    return true;
}

void ipv6_routes::remove_router(const ipv6& address) noexcept {
    const std::size_t index = index_of_router(address);
    if (index == router_count_) return;
    erase_router(index);
    if (router_count_ != 0) routers_[0].silent = false; // it is needed now, and gets another chance
    ++generation_;
    static_cast<void>(redirects_.forget(address)); // RFC 4861 6.3.5: next hops are found anew
}

void ipv6_routes::redirect(time_point now, const ipv6& destination, const ipv6& target, const ipv6& by) noexcept {
    redirects_.learn(now, destination, target, by);
    ++generation_;
}

void ipv6_routes::forget_redirects(const ipv6& hop) noexcept {
    if (redirects_.forget(hop)) ++generation_;
}

void ipv6_routes::end_router(time_point now, const ipv6& address) noexcept {
    for (router& r : routers_)
        if (r.address == address && r.until != never) r.until = now;
    static_cast<void>(on_timer(now));
}

void ipv6_routes::demote_router(const ipv6& address) noexcept {
    const std::size_t index = index_of_router(address);
    if (index + 1 >= router_count_) return;
    router* const found = routers_.data() + index;
    found->silent = true;
    std::rotate(found, found + 1, routers_.data() + router_count_);
    routers_[0].silent = false; // it gets another chance
    ++generation_;
}

bool ipv6_routes::insert_route(const ipv6_route& r) noexcept {
    if (route_count_ == max_routes) {
        ++refused_;
        return false;
    }
    const ipv6_prefix network(r.destination.network(), r.destination.length());
    ipv6_route* const end = routes_.data() + route_count_;
    ipv6_route* const at = std::lower_bound(routes_.data(), end, network, [](const ipv6_route& known, const ipv6_prefix& p) {
        return longest_first{}(known.destination, p);
    });
    std::move_backward(at, end, end + 1);
    *at = {network, r.gateway, r.gateway_on_link, r.refuses, r.sizes};
    ++route_count_;
    return true;
}

/// An empty table; how many were left out.
std::size_t ipv6_routes::fill(std::span<const ipv6_route> routes) noexcept {
    const auto will_be_on_link = [&](const ipv6& gateway) {
        return std::ranges::any_of(routes, [&](const ipv6_route& r) { return r.connected() && r.destination.contains(gateway); });
    };
    std::size_t left_out = 0;
    enum turn { everywhere, on_the_link, over_gateways }; // a gateway must be on the link; and no full table costs the default route
    for (const turn now : {everywhere, on_the_link, over_gateways})
        for (const ipv6_route& r : routes) {
            if (now != (r.destination.length() == 0 ? everywhere : r.gateway.is_any() ? on_the_link : over_gateways)) continue;
            bool taken = r.gateway.is_any() || r.gateway_on_link || on_link(r.gateway) || (now == everywhere && will_be_on_link(r.gateway));
            const bool of_router = now == everywhere && !r.gateway.is_any();
            if (taken && of_router && router_count_ == 0) router_sizes_ = r.sizes;
            if (taken) taken = of_router ? add_router(r.gateway) : insert_route(r);
            tell_sizes_ |= taken && r.sizes != route_sizes{};
            left_out += !taken;
        }
    return left_out;
}

/// But for the order of the routers.
bool ipv6_routes::says_the_same(const ipv6_routes& o) const noexcept {
    const auto has = [&](const router& r) { return is_router(r.address); };
    return prefix_count_ == 0 && router_count_ == o.router_count_ && router_sizes_ == o.router_sizes_ &&
           std::ranges::all_of(o.routers(), has) && std::ranges::equal(routes(), o.routes());
}

std::size_t ipv6_routes::set_routes(std::span<const ipv6_route> wanted) noexcept {
    ipv6_routes now;
    const std::size_t left_out = now.fill(wanted);
    if (says_the_same(now)) return left_out;
    for (router& r : now.routers())
        r.silent = std::ranges::any_of(routers(), [&](const router& known) { return known.address == r.address && known.silent; });
    std::ranges::stable_partition(now.routers(), [](const router& r) { return !r.silent; });
    if (now.router_count_ != 0) now.routers_[0].silent = false;
    now.refused_ += refused_;
    now.generation_ = generation_ + 1;
    *this = now;
    return left_out;
}

const ipv6_route* ipv6_routes::match(const ipv6& destination) const noexcept { return longest_match(routes(), destination); }

bool ipv6_routes::on_link(const ipv6& address) const noexcept {
    if (address.is_link_local()) return true;
    if (const ipv6_route* r = match(address)) return r->connected();
    return std::any_of(prefixes_.begin(), prefixes_.begin() + static_cast<std::ptrdiff_t>(prefix_count_),
                       [&](const on_link_prefix& p) { return p.prefix.contains(address); });
}

ipv6_next_hop ipv6_routes::find(const ipv6& destination) const noexcept {
    if (destination.is_multicast()) return {hop_kind::multicast, destination};
    if (destination.is_loopback()) return {hop_kind::local, destination};
    if (destination.is_any() || destination.is_mapped()) return {};
    if (!redirects_.empty()) {
        if (const auto better = redirects_.find(destination)) return {hop_kind::unicast, better->v6()};
    }
    if (on_link(destination)) return {hop_kind::unicast, destination};
    if (const ipv6_route* r = match(destination)) return r->refuses ? ipv6_next_hop{} : ipv6_next_hop{hop_kind::unicast, r->gateway};
    if (router_count_ == 0) return {};
    return {hop_kind::unicast, routers_[0].address};
}

bool ipv6_routes::is_replaceable(const ipv6& address) const noexcept {
    return router_count_ > 1 && is_router(address);
}

bool ipv6_routes::is_gateway(const ipv6& address) const noexcept {
    return is_router(address) ||
           (!address.is_any() && std::ranges::find(routes(), address, &ipv6_route::gateway) != routes().end()) ||
           redirects_.leads_over(address);
}

time_point ipv6_routes::next_timeout() const noexcept {
    time_point first = redirects_.next_timeout();
    for (std::size_t i = 0; i < prefix_count_; ++i) first = std::min(first, prefixes_[i].until);
    for (std::size_t i = 0; i < router_count_; ++i) first = std::min(first, routers_[i].until);
    return first;
}

bool ipv6_routes::on_timer(time_point now) noexcept {
    const std::uint32_t before = generation_;
    if (redirects_.on_timer(now)) ++generation_;
    for (std::size_t i = prefix_count_; i-- > 0;)
        if (prefixes_[i].until <= now) remove_prefix(ipv6_prefix(prefixes_[i].prefix));
    for (std::size_t i = router_count_; i-- > 0;)
        if (routers_[i].until <= now) remove_router(ipv6(routers_[i].address));
    return generation_ != before;
}

} // namespace corewire
