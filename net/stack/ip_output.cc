#include <corewire/net/stack/ip_output.hh>

#include <corewire/net/stack/host_share.hh>

#include <corewire/reactor/log/shard_log.hh>

#include <stdexcept>

namespace corewire {

namespace {

constexpr log_event<ipv4, ipv4> gateway_not_on_link{"dhcp", "gateway_not_on_link", log_level::warn,
                                                    "the gateway {} is not on the network of {}: its routes are left out"};

} // namespace

ip_output::ip_output(port& device, egress& tx, const stack_config& config, stack_statistics& statistics)
    : device_(device), egress_(tx), statistics_(statistics),
      neighbors_(device.mac(), config.address, config.neighbors,
                 config.seed ? *config.seed ^ 0x9e3779b97f4a7c15 : random_seed()),
      routes_(config.address), mtus_(device.mtu()),
      identifications_(config.seed ? siphash_key{*config.seed, 7} : siphash_key::random()), share_(config.share),
      six_(config.ipv6 ? std::make_unique<ipv6_output>(device, tx, mtus_, config, statistics) : nullptr),
      groups_(device, tx, config.seed ? *config.seed ^ 0x69676d70 : random_seed()),
      random_(config.seed ? *config.seed ^ 0x727374 : random_seed()), mtu_(device.mtu()),
      announce_(config.announce && config.share == nullptr), ask_(config.ask_for_address) {
    const auto is_gateway = [](const void* routes, const net_address& a) noexcept {
        return static_cast<const route_table*>(routes)->is_gateway(a.v4());
    };
    neighbors_.spare_gateways(is_gateway, &routes_);
    if (config.gateway && routes_.set_default(*config.gateway) != route_error::none) {
        throw std::invalid_argument("the gateway " + to_string(*config.gateway) + " is not on the network of " +
                                    to_string(config.address.address()) + '/' +
                                    std::to_string(config.address.length()));
    }
}

void ip_output::start(time_point now) noexcept {
    if (six_ != nullptr) six_->start(now);
    if (!announce_ || neighbors_.own().address().is_any()) return;
    neighbors_.start(now, false, ask_);
    drain();
}

void ip_output::set_address(time_point now, ip_prefix own, std::span<const route> routes, std::uint32_t mtu) noexcept {
    mtu_ = mtu == 0 ? device_.mtu() : std::min(mtu, device_.mtu());
    if (six_ != nullptr) six_->follow_link_mtu(mtu_); // RFC 2132 5.1: it is the interface's
    routes_ = route_table(own);
    for (const bool over_gateways : {false, true}) // a gateway must be on the link
        for (const route& r : routes)
            if (r.gateway.is_any() != over_gateways && routes_.add(r.destination, r.gateway) == route_error::gateway_not_on_link)
                log_message(gateway_not_on_link, r.gateway, own.address());
    neighbors_.set_own(own);
    if (announce_ && !own.address().is_any()) neighbors_.start(now);
    drain();
    egress_.leave_chores();
}

bool ip_output::follow_link_mtu(std::uint32_t bytes) noexcept {
    const std::uint32_t before = mtu_, before6 = six_ == nullptr ? 0 : six_->mtu();
    mtu_ = std::clamp<std::uint32_t>(bytes, 68, device_.mtu()); // RFC 791 3.2: every link carries so much
    if (six_ != nullptr) six_->follow_link_mtu(bytes);
    return mtu_ != before || (six_ != nullptr && six_->mtu() != before6);
}

// ---- paths ----

bool ip_output::prepare(output_path& path, ipv4 source, ipv4 destination, wire::ip_protocol protocol) noexcept {
    path.hop = routes_.find(destination);
    path.via = {};
    const wire::ethernet_header link{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv4};
    link.emit(path.headers);
    std::byte* ip = path.headers.data() + wire::ethernet_header::size;
    const wire::ipv4_header header{
        .total_length = 0, .dont_fragment = true, .protocol = protocol, .source = source, .destination = destination};
    header.emit(mutable_byte_span(path.headers).subspan(wire::ethernet_header::size));
    store_be16(ip + wire::ipv4_header::checksum_offset, 0);
    path.fits = 0;
    path.checksum_base = 0;
    for (std::size_t i = 0; i < wire::ipv4_header::min_size; i += 2) path.checksum_base += load_be16(ip + i);
    path.pseudo_base = static_cast<std::uint32_t>(protocol);
    for (const std::uint32_t a : {source.value(), destination.value()}) path.pseudo_base += (a >> 16) + (a & 0xffff);
    if (path.hop.kind != hop_kind::unicast) {
        ++statistics_.no_route;
        return false;
    }
    return true;
}

bool ip_output::refresh(time_point now, output_path& path) noexcept {
    path.hop = routes_.find(ipv4::load(path.headers.data() + wire::ethernet_header::size + 16)); // a redirect may have come, or gone
    if (path.hop.kind != hop_kind::unicast) return false;
    neighbor* n = neighbors_.use(now, path.hop.address);
    egress_.leave_chores(); // next_timeout() may have come nearer
    drain(); // using a stale entry may have it say something
    if (n == nullptr) return false;
    path.via = neighbor_ref(*n);
    n->mac().store(path.headers.data());
    return true;
}

bool ip_output::send_unresolved(time_point now, output_path& path, packet& p, std::uint32_t l4_size, on_behalf who) noexcept {
    path.stamp(p.head.mutable_data(), l4_size);
    packet out = std::move(p);
    if (path.hop.kind != hop_kind::unicast) {
        ++statistics_.no_route;
        return false;
    }
    if (transmit(now, out, path.hop, who)) return true;
    if (neighbors_.has_failed(path.hop.address)) neighbors_.keep_refused(std::move(out));
    return false;
}

// ---- datagrams ----

std::errc ip_output::send_whole(time_point now, packet&& datagram, const net_address& destination) noexcept {
    if (!destination.is_v4()) return six_->send_whole(now, std::move(datagram), destination.v6());
    return send_to(now, std::move(datagram), destination.v4(), mtu_, on_behalf::ourselves);
}

std::errc ip_output::send_to(time_point now, packet&& datagram, ipv4 destination, std::uint32_t limit, on_behalf who) noexcept {
    const next_hop hop = routes_.find(destination);
    if (hop.kind == hop_kind::unreachable || hop.kind == hop_kind::local) {
        ++statistics_.no_route;
        return std::errc::network_unreachable;
    }
    const auto put = [&](packet& p) {
        const wire::ethernet_header link{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv4};
        link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
        return transmit(now, p, hop, who);
    };
    const auto why_not = [this] { return egress_.full() ? std::errc::no_buffer_space : std::errc::host_unreachable; };
    if (datagram.size() <= limit) return put(datagram) ? std::errc{} : why_not();
    bool all = true;
    fragmenter cut(std::move(datagram), limit);
    for (packet fragment; cut.next(device_.pool(), fragment);) all &= put(fragment);
    switch (cut.error()) {
    case fragment_error::none: return all ? std::errc{} : why_not();
    case fragment_error::no_frame: ++statistics_.no_frame; return std::errc::no_buffer_space;
    default: return std::errc::message_size;
    }
}

/// `p.head` starts at an Ethernet header without a destination.
bool ip_output::transmit(time_point now, packet& p, const next_hop& hop, on_behalf who) noexcept {
    switch (hop.kind) {
    case hop_kind::broadcast: mac_address::broadcast().store(p.head.mutable_data()); break;
    case hop_kind::multicast: mac_address::of_multicast(hop.address).store(p.head.mutable_data()); break;
    default: {
        const resolution how = neighbors_.resolve(now, hop.address, p, who);
        egress_.leave_chores(); // next_timeout() may have come nearer
        drain();
        if (how == resolution::queued) return true;
        if (how == resolution::failed) {
            ++statistics_.no_route;
            if (neighbors_.has_failed(hop.address)) static_cast<void>(routes_.redirects().forget(net_address(hop.address)));
            return false;
        }
    }
    }
    if (egress_.push(std::move(p))) return true;
    ++statistics_.egress_full;
    return false;
}

bool ip_output::on_redirect(time_point now, ipv4 destination, ipv4 better, const net_address& gateway) noexcept {
    const next_hop hop = routes_.find(destination);
    // From the first hop, to a neighbour: RFC 1122 3.2.2.2 (SHOULD discard otherwise).
    const bool by_first_hop = hop.kind == hop_kind::unicast && net_address(hop.address) == gateway && hop.address != destination;
    const bool may = share_ == nullptr && by_first_hop && better != hop.address && routes_.is_neighbor(better);
    if (!may || !redirects_.take(now)) {
        ++statistics_.redirects_refused;
        return false;
    }
    ++statistics_.redirects_taken;
    routes_.redirects().learn(now, net_address(destination), net_address(better), gateway);
    egress_.leave_chores(); // next_timeout() may have come nearer
    return true;
}

bool ip_output::is_given_up(const net_address& destination) const noexcept {
    if (destination.is_v4()) return neighbors_.has_failed(routes_.find(destination.v4()).address);
    return six_ != nullptr && six_->neighbors().has_failed(six_->route(destination.v6()).address);
}

// ---- groups ----

void ip_output::on_join(time_point now, const net_address& group) noexcept {
    if (group.is_v4()) groups_.join(now, group.v4());
    else if (six_ != nullptr) six_->on_join(now, group.v6());
    egress_.leave_chores(); // next_timeout() has come nearer
}

void ip_output::on_leave(time_point now, const net_address& group) noexcept {
    if (group.is_v4()) groups_.leave(now, group.v4());
    else if (six_ != nullptr) six_->on_leave(now, group.v6());
    egress_.leave_chores();
}

void ip_output::on_igmp(time_point now, byte_span message) noexcept {
    groups_.input(now, message);
    egress_.leave_chores();
}

// ---- ARP ----

void ip_output::on_arp(time_point now, const wire::arp_packet& arp, bool answer) noexcept {
    neighbors_.on_arp(now, arp, {.on_link = routes_.is_neighbor(arp.sender_ip), .answer = answer});
    drain();
}

void ip_output::on_timer(time_point now) noexcept {
    while (neighbors_.next_timeout() <= now) {
        neighbors_.on_timer(now);
        drain();
    }
    neighbors_.take_failed([this](const net_address& hop) { static_cast<void>(routes_.redirects().forget(hop)); });
    groups_.send(now, routes_.address());
    static_cast<void>(routes_.redirects().on_timer(now)); // who goes that way goes on as long as it leads somewhere
    if (six_ != nullptr) six_->on_timer(now);
}

/// Sends what the cache has to say, and what waited for an answer that has come.
void ip_output::drain() noexcept {
    for (arp_message m; neighbors_.poll_transmit(m);) {
        if (share_ != nullptr) { // ARP is the host's
            if (m.arp.operation == wire::arp_operation::request) share_->resolve(net_address(m.arp.target_ip));
            continue;
        }
        packet p;
        p.head = device_.pool().allocate_buffer();
        if (p.head.underlying_frame() == nullptr) {
            ++statistics_.no_frame;
            continue;
        }
        const wire::ethernet_header link{.destination = m.destination, .source = device_.mac(), .type = wire::ether_type::arp};
        link.emit({p.head.append(wire::ethernet_header::size), wire::ethernet_header::size});
        m.arp.emit({p.head.append(wire::arp_packet::size), wire::arp_packet::size});
        if (!egress_.push(std::move(p))) ++statistics_.egress_full;
    }
    for (packet p; neighbors_.poll_released(p);) {
        if (!egress_.push(std::move(p))) ++statistics_.egress_full;
    }
}

} // namespace corewire
