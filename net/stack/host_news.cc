// What the host says of its routes, neighbours and flows in shared mode (host_share.hh), as part of network_stack and tcp_layer.
#include <corewire/net/stack/network_stack.hh>

#include <algorithm>

namespace corewire {

/// Built aside: where nothing is new (one of several metrics has come, a route that is left out), no connection looks for its way anew.
std::size_t network_stack::follow_routes(std::span<const route> routes, std::span<const ipv6_route> routes6) noexcept {
    route_table now(config_.address);
    const ip_prefix own = config_.address;
    const auto told_otherwise = [&](const route& r) {
        return r.destination.length() == own.length() && own.contains(r.destination.address());
    };
    if (std::ranges::any_of(routes, told_otherwise)) static_cast<void>(now.remove(own)); // neighbours that only a router reaches, perhaps
    for (const route& r : routes) // no full table costs the default route; one whose gateway is not on the link yet is tried again
        if (r.destination.length() == 0) static_cast<void>(now.add_route(r));
    std::size_t left_out = 0;
    for (const bool over_gateways : {false, true}) // a gateway must be on the link
        for (const route& r : routes) {
            if (r.gateway.is_any() == over_gateways) continue;
            const route_error refused = now.add_route(r);
            left_out += refused != route_error::none && refused != route_error::exists;
        }
    bool sized = output_.routes().tells_sizes() || now.tells_sizes();
    const bool four = !std::ranges::equal(now.routes(), output_.routes().routes());
    if (four) output_.routes() = now;
    bool six = false;
    if (output_.six() != nullptr) {
        ipv6_routes& table = output_.six()->routes();
        const std::uint32_t before = table.generation();
        sized |= table.tells_sizes();
        left_out += table.set_routes(routes6);
        six = table.generation() != before;
        sized |= table.tells_sizes();
    }
    if (!four && !six) return left_out;
    tcp_.on_routes_changed(four, six);
    if (sized) tcp_.fit_into_paths();
    udp_.on_routes_changed();
    return left_out;
}

void network_stack::follow_link_mtu(std::uint32_t bytes) noexcept {
    if (!output_.follow_link_mtu(bytes)) return;
    tcp_.fit_into_paths();
    udp_.on_routes_changed();
}

/// What stands over ways that carry less than before makes smaller segments from now on.
void tcp_layer::fit_into_paths() noexcept {
    const time_point now = reactor_.now();
    for_each_connection([&](tcp_connection& c) {
        c.tcb.fit_into_path(out_.path_mtu_to(now, c.name().remote) - (c.six == nullptr ? 0 : 20));
    });
}

neighbor_table* network_stack::neighbors_of(const net_address& address) noexcept {
    if (address.is_v4()) return &output_.neighbors();
    return output_.six() == nullptr ? nullptr : &output_.six()->neighbors();
}

void network_stack::drain_neighbors() noexcept {
    output_.drain();
    if (output_.six() != nullptr) output_.six()->drain();
}

void network_stack::follow_neighbor(const net_address& address, mac_address mac, bool reachable) noexcept {
    neighbor_table* const all = neighbors_of(address);
    if (all == nullptr) return;
    all->told(reactor_.now(), address, mac, reachable);
    drain_neighbors();
    arm_timer();
}

void network_stack::follow_permanent_neighbor(const net_address& address, mac_address mac) noexcept {
    neighbor_table* const all = neighbors_of(address);
    if (all == nullptr) return;
    static_cast<void>(all->set_permanent(address, mac));
    drain_neighbors();
}

void network_stack::follow_unknown_neighbor(const net_address& address) noexcept {
    if (neighbor_table* const all = neighbors_of(address)) all->told_unknown(address);
}

void tcp_layer::follow_claim(const flow_name& flow, int error) {
    tcp_connection* const c = find(flow);
    if (c == nullptr || c->claim_ != tcp_connection::claim::in_progress) return;
    static_cast<dirty_hook&>(*c).unlink();
    c->claim_ = error == 0 ? tcp_connection::claim::flow : tcp_connection::claim::none;
    if (error != 0) {
        c->tcb.abort(); // nothing has been sent, and nothing is
        c->fail_all(static_cast<std::errc>(error));
    } else if (c->tcb.waits_for_data()) {
        c->finish(tcp_connection::wait::connected); // the first write opens it
    }
    mark_dirty(*c);
}

} // namespace corewire
