#include <corewire/apps/runtime/shared_host.hh>

#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <vector>

namespace corewire {

namespace {

constexpr log_event<log_text<32>, ipv4> address_gone{
    "runtime", "address_gone", log_level::error,
    "{}: the kernel no longer has {}: nobody can reach us there (start again on another address)"};

constexpr std::uint32_t key_of(wire::ip_protocol protocol, std::uint16_t port) noexcept {
    return static_cast<std::uint32_t>(protocol) << 16 | port;
}

xdp_flow steered(const flow_key& flow) noexcept {
    return {.protocol = static_cast<std::uint8_t>(wire::ip_protocol::tcp),
            .local = ipv4(flow.local_address),
            .local_port = flow.local_port,
            .remote = ipv4(flow.remote_address),
            .remote_port = flow.remote_port};
}

} // namespace

void shared_host::follow(network_stack& stack) {
    stack_ = &stack;
    kernel_follower& us = *this;
    mirror_ = std::make_unique<kernel_mirror>(reactor::current(), ports_.device().info().index, ports_.address(), us);
}

void shared_host::claim_port(wire::ip_protocol protocol, std::uint16_t port) {
    const auto [claim, first] = claims_.try_emplace(key_of(protocol, port), 0);
    if (first) {
        try {
            ports_.claim(protocol, port);
        } catch (...) {
            claims_.erase(claim);
            throw;
        }
    }
    ++claim->second;
}

void shared_host::release_port(wire::ip_protocol protocol, std::uint16_t port) noexcept {
    const auto claim = claims_.find(key_of(protocol, port));
    if (claim == claims_.end() || --claim->second != 0) return;
    claims_.erase(claim);
    ports_.release(protocol, port);
}

bool shared_host::claim_flow(const flow_key& flow) noexcept { return ports_.device().own(steered(flow)); }
void shared_host::release_flow(const flow_key& flow) noexcept { ports_.device().disown(steered(flow)); }

void shared_host::resolve(ipv4 neighbor) noexcept {
    if (mirror_ != nullptr) mirror_->ask(neighbor);
}

/// Of several routes to one destination the one with the smallest metric counts.
void shared_host::on_routes(std::span<const netlink::route_change> known) {
    std::vector<netlink::route_change> by_metric(known.begin(), known.end());
    std::ranges::stable_sort(by_metric, {}, &netlink::route_change::metric);
    std::vector<route> routes;
    for (const netlink::route_change& r : by_metric)
        if (std::ranges::find(routes, r.destination, &route::destination) == routes.end())
            routes.push_back({r.destination, r.gateway});
    stack_->follow_routes(routes);
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

void shared_host::on_address_gone() {
    log_message(address_gone, ports_.device().interface(), ports_.address());
}

} // namespace corewire
