#include <corewire/net/ip/routes.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>

namespace corewire {

namespace {
ip_prefix without_host_bits(ip_prefix p) noexcept { return {p.network(), p.length()}; }
bool has_broadcast(const route& r) noexcept { return r.connected() && r.destination.length() != 0 && r.destination.length() < 31; }
} // namespace

void route_table::set_address(ip_prefix own) noexcept {
    if (!own_.address().is_any()) remove(own_);
    own_ = own;
    if (!own.address().is_any()) static_cast<void>(add(own)); // a static route to the same network may stand already: it stays
    find_ordinary_neighbors();
}

/// The hosts of our own network, unless another connected route puts a broadcast address among them.
void route_table::find_ordinary_neighbors() noexcept {
    neighbors_ = 0;
    const ipv4 network = own_.network();
    if (own_.length() < 8 || own_.length() >= 31 || !network.is_unicast() || network.is_loopback()) return;
    for (const route& r : routes()) {
        if (r.connected() && r.destination.address() != network && own_.contains(r.destination.address())) return;
        if (r.connected() && r.destination.length() != own_.length() && r.destination.contains(network)) return;
    }
    first_neighbor_ = network.value() + 1;
    neighbors_ = own_.broadcast().value() - network.value() - 1;
}

/// Where broadcast addresses can be: asked of every packet from beyond the link, and there may be many routes.
void route_table::find_broadcasts() noexcept {
    std::uint32_t first = ~std::uint32_t{0}, last = 0;
    for (const route& r : routes()) {
        if (!has_broadcast(r)) continue;
        first = std::min(first, r.destination.network().value());
        last = std::max(last, r.destination.broadcast().value());
    }
    first_broadcast_ = std::min(first, last); // none: 0.0.0.0, which is in use for nothing
    broadcasts_ = last - first_broadcast_;
}

route_error route_table::add(ip_prefix destination, ipv4 gateway, bool gateway_on_link) noexcept {
    return add_route({destination, gateway, gateway_on_link});
}

route_error route_table::add_route(route r) noexcept {
    r.destination = without_host_bits(r.destination);
    if (!r.gateway.is_any() && !r.gateway_on_link && !on_link(r.gateway)) return route_error::gateway_not_on_link;
    const auto end = routes_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto at = std::ranges::lower_bound(routes_.begin(), end, r.destination, longest_first{}, &route::destination);
    if (at != end && at->destination == r.destination) return route_error::exists;
    if (count_ == max_routes) {
        ++refused_;
        return route_error::full;
    }
    std::move_backward(at, end, end + 1);
    *at = r;
    ++count_;
    tell_sizes_ |= r.sizes != route_sizes{};
    if (!r.connected()) return route_error::none;
    find_ordinary_neighbors();
    find_broadcasts();
    return route_error::none;
}

bool route_table::remove(ip_prefix destination) noexcept {
    destination = without_host_bits(destination);
    const auto end = routes_.begin() + count_;
    const auto found = std::find_if(routes_.begin(), end, [&](const route& r) { return r.destination == destination; });
    if (found == end) return false;
    std::move(found + 1, end, found);
    --count_;
    find_ordinary_neighbors();
    find_broadcasts();
    return true;
}

const route* route_table::match(ipv4 destination) const noexcept { return longest_match(routes(), destination); }

bool route_table::on_link(ipv4 a) const noexcept {
    const route* r = match(a);
    return r != nullptr && r->connected();
}

bool route_table::is_broadcast(ipv4 destination) const noexcept {
    if (destination.is_broadcast()) return true;
    if (destination.value() - first_broadcast_ > broadcasts_) return false;
    return std::ranges::any_of(routes(), [&](const route& r) {
        return has_broadcast(r) && (destination == r.destination.broadcast() || destination == r.destination.network());
    });
}

bool route_table::is_gateway(ipv4 a) const noexcept {
    return (!a.is_any() && std::ranges::find(routes(), a, &route::gateway) != routes().end()) || redirects_.leads_over(net_address(a));
}

next_hop route_table::find(ipv4 destination) const noexcept {
    if (destination == own_.address() || destination.is_loopback()) return {hop_kind::local, destination};
    if (destination.is_multicast()) return {hop_kind::multicast, destination};
    if (is_broadcast(destination)) return {hop_kind::broadcast, destination};
    if (!destination.is_unicast()) return {}; // 0/8 and 240/4 lead nowhere
    if (!redirects_.empty()) {
        if (const auto better = redirects_.find(destination)) return {hop_kind::unicast, better->v4()};
    }
    const route* r = match(destination);
    if (r == nullptr || r->refuses) return {};
    return {hop_kind::unicast, r->gateway.is_any() ? destination : r->gateway};
}

bool route_table::is_martian_slowly(ipv4 source) const noexcept {
    return !source.is_unicast() || source.is_loopback() || source == own_.address() || is_broadcast(source);
}

void route_table::check_invariants() const {
    CW_ASSERT(count_ <= max_routes, "more routes than there is room for");
    for (std::size_t i = 0; i < count_; ++i) {
        const ip_prefix& p = routes_[i].destination;
        CW_ASSERT(p.address() == p.network(), "a route's destination has no host bits");
        CW_ASSERT(i == 0 || longest_first{}(routes_[i - 1].destination, p), "the longest prefix stands first");
    }
}

} // namespace corewire
