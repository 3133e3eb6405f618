#include <corewire/net/stack/ipv6_output.hh>

#include <corewire/net/ip/path_mtu.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <stdexcept>

namespace corewire {

namespace {

constexpr log_event<ipv6> address_taken{"nd", "address_taken", log_level::warn,
                                        "another host has the address {}: we do not use it (duplicate address detection)"};
constexpr std::uint8_t link_hop_limit = 255; ///< what a router would have lowered (RFC 4861 3.1)
constexpr std::uint32_t ip_size = wire::ipv6_header::size;

std::uint64_t seed_of(const stack_config& config, std::uint64_t salt) { return config.seed ? *config.seed ^ salt : random_seed(); }

} // namespace

ipv6_output::ipv6_output(port& device, egress& tx, const stack_config& config, stack_statistics& statistics)
    : device_(device), egress_(tx), statistics_(statistics), config_(*config.ipv6),
      addresses_({.probes = config_.duplicate_probes, .silent = !config.announce}, seed_of(config, 0x69707636)),
      neighbors_(config.neighbors, seed_of(config, 0x6e643676)),
      label_key_(config.seed ? siphash_key{*config.seed, 6} : siphash_key::random()) {
    if (device.mtu() < path_mtu_cache::ipv6_minimum)
        throw std::invalid_argument("IPv6 needs an MTU of 1280 bytes, and " + device.name() + " has " + std::to_string(device.mtu()));
    if (config_.address) static_cast<void>(routes_.add_prefix(*config_.address));
    if (!config_.gateway) return;
    if (!routes_.on_link(*config_.gateway))
        throw std::invalid_argument("the gateway " + to_string(*config_.gateway) + " is not on the link");
    static_cast<void>(routes_.add_router(*config_.gateway));
}

void ipv6_output::start(time_point now) noexcept {
    const ipv6 by_mac = wire::link_local_address(device_.mac());
    const ipv6 link_local = config_.identifier ? wire::with_identifier(by_mac, *config_.identifier) : by_mac;
    addresses_.add(now, link_local, 64, ipv6_address_origin::link_local);
    if (config_.address)
        addresses_.add(now, config_.address->address(), config_.address->length(), ipv6_address_origin::configured);
    on_timer(now);
}

// ---- paths ----

ipv6_next_hop ipv6_output::route(const ipv6& destination) const noexcept {
    if (addresses_.is_claimed(destination)) return {hop_kind::local, destination};
    return routes_.find(destination);
}

ipv6 ipv6_output::source_for(const ipv6& destination) const noexcept {
    const own_ipv6_address* a = addresses_.source_for(destination);
    if (a == nullptr) a = addresses_.source_for(destination, true);
    return a == nullptr ? ipv6::any() : a->address;
}

bool ipv6_output::prepare(ipv6_path& path, const flow_name& flow, wire::ip_protocol protocol) noexcept {
    const ipv6 source = flow.local.v6(), destination = flow.remote.v6();
    path.hop = route(destination);
    path.routes = routes_.generation();
    path.via = {};
    wire::ethernet_header{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv6}.emit(path.headers);
    // RFC 6437 3: a flow has a label of its own, that nobody outside can guess.
    unsigned char ports[4];
    std::memcpy(ports, &flow.local_port, 2);
    std::memcpy(ports + 2, &flow.remote_port, 2);
    const std::uint64_t label = siphash({label_key_.k0 ^ flow.remote.low(), label_key_.k1 ^ flow.remote.high()}, ports);
    wire::ipv6_header{.flow_label = static_cast<std::uint32_t>(label & 0xfffff),
                      .payload_length = 0,
                      .next_header = protocol,
                      .hop_limit = config_.hop_limit,
                      .source = source,
                      .destination = destination}
        .emit(mutable_byte_span(path.headers).subspan(wire::ethernet_header::size));
    path.pseudo_base = static_cast<std::uint32_t>(protocol);
    for (std::size_t i = 0; i < 8; ++i) path.pseudo_base += source.group(i) + std::uint32_t{destination.group(i)};
    if (path.hop.kind == hop_kind::unicast) return true;
    ++statistics_.no_route;
    return false;
}

bool ipv6_output::refresh(time_point now, ipv6_path& path) noexcept {
    if (path.routes != routes_.generation()) {
        path.hop = route(ipv6::load(path.headers.data() + wire::ethernet_header::size + 24));
        path.routes = routes_.generation();
    }
    path.via = {};
    if (path.hop.kind != hop_kind::unicast) return false;
    neighbor* n = use(now, path.hop.address, path.source());
    if (n == nullptr) return false;
    path.via = neighbor_ref(*n);
    n->mac().store(path.headers.data());
    return true;
}

neighbor* ipv6_output::use(time_point now, const ipv6& hop, const ipv6& source) noexcept {
    if (!addresses_.is_ours(source)) return nullptr;
    neighbor* n = neighbors_.use(now, hop);
    egress_.leave_chores(); // next_timeout() may have come nearer
    drain();                // using a stale entry may have it say something
    return n;
}

bool ipv6_output::send_unresolved(time_point now, ipv6_path& path, packet& p, std::uint32_t l4_size) noexcept {
    path.stamp(p.head.mutable_data(), l4_size);
    packet out = std::move(p);
    if (path.hop.kind == hop_kind::unicast) return transmit(now, out, path.hop);
    ++statistics_.no_route;
    return false;
}

// ---- datagrams ----

std::errc ipv6_output::send(time_point now, packet&& datagram, const ipv6& destination) noexcept {
    const ipv6_next_hop hop = route(destination);
    if (hop.kind != hop_kind::unicast && hop.kind != hop_kind::multicast) {
        ++statistics_.no_route;
        return std::errc::network_unreachable;
    }
    if (datagram.size() > device_.mtu()) return std::errc::message_size;
    packet p = std::move(datagram);
    const wire::ethernet_header link{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    return transmit(now, p, hop) ? std::errc{} : std::errc::host_unreachable;
}

/// `p.head` starts at an Ethernet header without a destination. Nothing leaves from an address that is not ours yet (RFC 4862 5.4).
bool ipv6_output::transmit(time_point now, packet& p, const ipv6_next_hop& hop) noexcept {
    if (!addresses_.is_ours(ipv6::load(p.head.data() + wire::ethernet_header::size + 8))) {
        ++statistics_.ipv6_source_tentative;
        return false;
    }
    if (hop.kind == hop_kind::multicast) {
        wire::multicast_mac(hop.address).store(p.head.mutable_data());
    } else {
        const resolution how = neighbors_.resolve(now, hop.address, p);
        egress_.leave_chores(); // next_timeout() may have come nearer
        drain();
        if (how == resolution::queued) return true;
        if (how == resolution::failed) {
            ++statistics_.no_route;
            routes_.demote_router(hop.address);
            return false;
        }
    }
    if (egress_.push(std::move(p))) return true;
    ++statistics_.egress_full;
    return false;
}

// ---- neighbour discovery ----

void ipv6_output::on_solicitation(time_point now, const ipv6& source, const wire::neighbor_solicitation& ns, bool answer) noexcept {
    // RFC 4862 5.4.3: somebody else asks for the address that we ask for. Our own question does not come back on Ethernet.
    if (source.is_any() && addresses_.is_claimed(ns.target) && !addresses_.is_ours(ns.target)) {
        lost(ns.target);
        return;
    }
    if (!answer || !addresses_.is_ours(ns.target)) return;
    neighbors_.on_solicitation(now, source, ns);
    drain();
    egress_.leave_chores();
}

void ipv6_output::on_advertisement(time_point now, const wire::neighbor_advertisement& na) noexcept {
    if (addresses_.is_claimed(na.target)) { // RFC 4862 5.4.4
        lost(na.target);
        return;
    }
    if (neighbors_.on_advertisement(now, na)) routes_.remove_router(na.target); // RFC 4861 7.2.5: it forwards no more
    drain();
    egress_.leave_chores();
}

void ipv6_output::lost(const ipv6& address) noexcept {
    if (addresses_.on_conflict(address)) log_message(address_taken, address);
}

time_point ipv6_output::next_timeout() const noexcept {
    return std::min({neighbors_.next_timeout(), addresses_.next_timeout(), routes_.next_timeout()});
}

void ipv6_output::on_timer(time_point now) noexcept {
    addresses_.on_timer(now);
    static_cast<void>(routes_.on_timer(now));
    while (neighbors_.next_timeout() <= now) {
        neighbors_.on_timer(now);
        drain();
    }
    drain();
}

/// Sends what there is to say, and what waited for an answer that has come.
void ipv6_output::drain() noexcept {
    for (ipv6 target; addresses_.poll_probe(target);) probe(target);
    for (nd_message m; neighbors_.poll_transmit(m);) say(m);
    for (packet p; neighbors_.poll_released(p);) {
        if (!egress_.push(std::move(p))) ++statistics_.egress_full;
    }
}

namespace {

/// Room for an IPv6 header and a message behind it.
std::byte* begin_message(packet& p, frame_pool& pool) noexcept {
    p.head = pool.allocate_buffer();
    if (p.head.underlying_frame() == nullptr) return nullptr;
    return p.head.append(ip_size + wire::neighbor_advertisement::max_size) + ip_size;
}

} // namespace

/// RFC 4862 5.4.2: from ::, to the address's solicited-node group, without a link-layer address.
void ipv6_output::probe(const ipv6& target) noexcept {
    packet p;
    std::byte* const at = begin_message(p, device_.pool());
    if (at == nullptr) {
        ++statistics_.no_frame;
        return;
    }
    const ipv6 group = target.solicited_node();
    const std::size_t size = wire::neighbor_solicitation{target, {}}.emit({at, wire::neighbor_solicitation::max_size}, ipv6::any(), group);
    push_link_message(std::move(p), static_cast<std::uint32_t>(size), ipv6::any(), group, wire::multicast_mac(group));
}

void ipv6_output::say(const nd_message& m) noexcept {
    const bool answer = m.what == nd_message::kind::answer;
    const own_ipv6_address* from = answer ? nullptr : addresses_.source_for(m.target);
    if (!answer && from == nullptr) { // no address may be used yet: the question is repeated
        ++statistics_.ipv6_source_tentative;
        return;
    }
    packet p;
    std::byte* const at = begin_message(p, device_.pool());
    if (at == nullptr) {
        ++statistics_.no_frame;
        return;
    }
    const ipv6 source = answer ? m.target : from->address;
    const mutable_byte_span room{at, wire::neighbor_advertisement::max_size};
    const std::size_t size =
        answer ? wire::neighbor_advertisement{false, m.solicited, true, m.target, device_.mac()}.emit(room, source, m.destination)
               : wire::neighbor_solicitation{m.target, device_.mac()}.emit(room, source, m.destination);
    push_link_message(std::move(p), static_cast<std::uint32_t>(size), source, m.destination, m.destination_mac);
}

void ipv6_output::push_link_message(packet&& p, std::uint32_t size, const ipv6& source, const ipv6& destination, mac_address to) noexcept {
    p.head.truncate(ip_size + size);
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(size),
                      .next_header = wire::ip_protocol::icmpv6,
                      .hop_limit = link_hop_limit,
                      .source = source,
                      .destination = destination}
        .emit(p.head.mutable_bytes());
    const wire::ethernet_header link{.destination = to, .source = device_.mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    if (!egress_.push(std::move(p))) ++statistics_.egress_full;
}

} // namespace corewire
