#include <corewire/apps/runtime/shared_host.hh>

#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/metrics/registry.hh>

#include <algorithm>
#include <cerrno>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

namespace corewire {

namespace {

constexpr log_event<log_text<32>, log_text<48>> address_gone{
    "runtime", "address_gone", log_level::error,
    "{}: the kernel no longer has {}: nobody can reach us there (start again on another address)"};

constexpr log_event<log_text<64>, log_text<96>> not_steered{"runtime", "not_steered", log_level::warn, "connect to {}: {}"};

constexpr log_event<log_text<32>, unsigned> routes_left_out{
    "runtime", "routes_left_out", log_level::warn,
    "{}: {} routes of the kernel's are not followed: there is no room for them, or their gateway is not on the link "
    "(corewire_shared_routes_left_out)"};

constexpr log_event<log_text<32>, log_text<64>, log_text<48>> route_refused{
    "runtime", "route_refused", log_level::warn,
    "{}: the kernel's route to {} is not followed, {} (corewire_shared_refused_total, what=route)"};

/// A socket bound to `at` is reached at `address`.
bool concerns(const net_address& at, const net_address& address) noexcept {
    return at.is_any_of_both() || at.is_v4() == address.is_v4();
}

steered_flow steered(const flow_name& flow) noexcept {
    return {.protocol = static_cast<std::uint8_t>(wire::ip_protocol::tcp),
            .local = flow.local,
            .local_port = flow.local_port,
            .remote = flow.remote,
            .remote_port = flow.remote_port};
}

} // namespace

void shared_host::follow(network_stack& stack) {
    stack_ = &stack;
    if (ports_.steering()->keeps_waiting() && reactor::current().attached(reactor::attachment::shard) != nullptr)
        flows_ = std::make_unique<flow_claims>(ports_.steering(),
                                               [this](const steered_flow& flow, int error) { on_claimed(flow, error); },
                                               [this](const steered_flow& flow) { let_go(flow); });
    kernel_follower& us = *this;
    mirror_ = std::make_unique<kernel_mirror>(reactor::current(), ports_.on().index, ports_.addresses(), us);
}

void shared_host::claim(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) {
    const auto [claim, first] = claims_.try_emplace(owned_ports::key_of(protocol, address, port), 0);
    if (first) {
        try {
            ports_.claim(protocol, address, port);
        } catch (...) {
            claims_.erase(claim);
            ++statistics_.ports_refused;
            throw;
        }
        ++statistics_.ports;
    }
    ++claim->second;
}

void shared_host::release(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) noexcept {
    const auto claim = claims_.find(owned_ports::key_of(protocol, address, port));
    if (claim == claims_.end() || --claim->second != 0) return;
    claims_.erase(claim);
    --statistics_.ports;
    ports_.release(protocol, address, port);
}

/// Of several addresses all, or none.
void shared_host::claim_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) {
    const auto all = ports_.addresses();
    std::size_t had = 0;
    try {
        for (; had < all.size(); ++had)
            if (concerns(at, all[had])) claim(protocol, all[had], port);
    } catch (...) {
        while (had-- > 0)
            if (concerns(at, all[had])) release(protocol, all[had], port);
        throw;
    }
}

void shared_host::release_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) noexcept {
    for (const net_address& each : ports_.addresses())
        if (concerns(at, each)) release(protocol, each, port);
}

/// Its local port first, in the kernel: no socket there has this 4-tuple, nor gets it.
int shared_host::claim_flow(const flow_name& flow) noexcept {
    int error = ports_.hold(wire::ip_protocol::tcp, flow.local, flow.local_port);
    if (error == EADDRINUSE) ++statistics_.local_ports_refused;
    else if (error != 0) ++statistics_.flows_refused;
    if (error != 0) return error;
    error = flows_ != nullptr ? flows_->claim(steered(flow)) : ports_.steering()->own_flow(steered(flow));
    if (error == EINPROGRESS) return error;
    ++(error == 0 ? statistics_.flows : statistics_.flows_refused);
    if (error != 0) ports_.let_go(wire::ip_protocol::tcp, flow.local, flow.local_port);
    return error;
}

void shared_host::on_claimed(const steered_flow& flow, int error) noexcept {
    ++(error == 0 ? statistics_.flows : statistics_.flows_refused);
    const flow_name name(flow.local, flow.remote, flow.local_port, flow.remote_port);
    if (error != 0) {
        ports_.let_go(wire::ip_protocol::tcp, flow.local, flow.local_port);
        try {
            const bool anothers = error == EADDRINUSE;
            if (!anothers || !std::exchange(told_anothers_, true))
                log_message(not_steered, socket_address(flow.remote, flow.remote_port).to_string(),
                            anothers ? "another program has this local port (told once; others are tried)" : why_not_steered(error));
        } catch (const std::bad_alloc&) { // the connection is told, and the statistics count it
        }
    }
    stack_->tcp().follow_claim(name, error);
}

/// The kernel may have its local port, but not before the flow is steered to nobody.
void shared_host::release_flow(const flow_name& flow) noexcept {
    if (flows_ != nullptr) {
        statistics_.flows -= flows_->release(steered(flow));
    } else {
        if (statistics_.flows != 0) --statistics_.flows; // behind stop() one may be given back that nobody has counted
        ports_.steering()->disown_flow(steered(flow));
        let_go(steered(flow));
    }
}

void shared_host::stop() noexcept {
    mirror_.reset();
    flows_.reset();
}

void shared_host::resolve(const net_address& neighbor) noexcept {
    if (mirror_ != nullptr) mirror_->ask(neighbor);
}

/// Of several routes to one destination the one with the smallest metric counts; of IPv6's default routes all gateways that share it.
void shared_host::on_routes(std::span<const netlink::route_change> known) {
    const auto rank = [](const netlink::route_change& r) {
        const net_address& to = r.destination.address;
        return std::tuple(to.is_v4(), to.high(), to.low(), r.destination.length, r.metric);
    };
    std::vector<netlink::route_change> all(known.begin(), known.end());
    std::ranges::stable_sort(all, {}, rank);
    std::vector<route> four;
    std::vector<ipv6_route> six;
    const netlink::route_change* best = nullptr;
    for (const netlink::route_change& r : all) {
        const bool another = best != nullptr && best->destination == r.destination;
        const bool another_router = another && !r.destination.is_v4() && r.destination.length == 0 && best->metric == r.metric &&
                                    !best->gateway.is_any() && !r.gateway.is_any();
        if (another && !another_router) continue;
        if (!another) best = &r;
        const auto bytes = [](std::uint32_t n) { return static_cast<std::uint16_t>(std::min(n, 0xffffu)); };
        const route_sizes sizes{.mtu = bytes(r.mtu), .segment = bytes(r.segment)};
        if (r.destination.is_v4()) four.push_back({r.destination.v4(), r.gateway.v4(), r.gateway_on_link, r.refuses, sizes});
        else six.push_back({r.destination.v6(), r.gateway.v6(), r.gateway_on_link, r.refuses, sizes});
    }
    if (mirror_ != nullptr) statistics_.resyncs = mirror_->statistics().resyncs;
    statistics_.routes_left_out = stack_->follow_routes(four, six);
    if (statistics_.routes_left_out != 0 && !std::exchange(told_left_out_, true))
        log_message(routes_left_out, ports_.on().name, static_cast<unsigned>(statistics_.routes_left_out));
}

void shared_host::on_route_refused(const netlink::route_change& r) {
    ++statistics_.routes_refused;
    if (std::exchange(told_refused_, true)) return;
    log_message(route_refused, ports_.on().name, to_string(r.destination.address) + '/' + std::to_string(r.destination.length),
                r.of_other_family ? "its gateway is of the other family"
                : r.refuses     ? "there are more than 512 that lead nowhere"
                                : "there are more than 1024");
}

void shared_host::on_neighbor(const netlink::neighbor_change& n) {
    using netlink::neighbor_word;
    switch (n.word) {
    case neighbor_word::unknown: stack_->follow_unknown_neighbor(n.address); break;
    case neighbor_word::usable: stack_->follow_neighbor(n.address, n.mac, false); break;
    case neighbor_word::reachable: stack_->follow_neighbor(n.address, n.mac, true); break;
    case neighbor_word::permanent: stack_->follow_permanent_neighbor(n.address, n.mac); break;
    }
}

void shared_host::on_address_gone(const net_address& address) {
    log_message(address_gone, ports_.on().name, to_string(address));
}

void shared_host::on_link_mtu(std::uint32_t bytes) { stack_->follow_link_mtu(bytes); }

void shared_host::register_metrics(metric_group& group) const {
    const char* const refused = "Ports and connections that the kernel keeps, and routes of its that cannot be followed (--shared).";
    group.gauge("corewire_shared_ports", "Ports of the kernel's addresses that are ours (--shared).", statistics_.ports);
    group.gauge("corewire_shared_flows", "Connections opened here that are steered to us one by one (--shared).", statistics_.flows);
    group.counter("corewire_shared_refused_total", refused, statistics_.ports_refused, metric_label("what", "port"));
    group.counter("corewire_shared_refused_total", refused, statistics_.flows_refused, metric_label("what", "flow"));
    group.counter("corewire_shared_refused_total", refused, statistics_.routes_refused, metric_label("what", "route"));
    group.counter("corewire_shared_refused_total", refused, statistics_.no_port_left, metric_label("what", "connection"));
    group.counter("corewire_shared_refused_total", refused, statistics_.given_up, metric_label("what", "connection_given_up"));
    group.gauge("corewire_shared_routes_left_out", "Routes of the kernel's that found no room, or whose gateway is not on the link.",
                statistics_.routes_left_out);
    group.counter("corewire_shared_resyncs_total", "Times that all routes and neighbours were asked for anew (--shared).",
                  statistics_.resyncs);
    group.counter("corewire_shared_refused_total", refused, statistics_.local_ports_refused, metric_label("what", "local_port"));
}

} // namespace corewire
