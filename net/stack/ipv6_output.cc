#include <corewire/net/stack/ipv6_output.hh>

#include <corewire/net/ip/path_mtu.hh>
#include <corewire/net/stack/group_reports.hh>
#include <corewire/net/stack/host_share.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <algorithm>
#include <span>
#include <stdexcept>

namespace corewire {

namespace {

constexpr log_event<ipv6> address_taken{"nd", "address_taken", log_level::warn,
                                        "another host has the address {}: we do not use it (duplicate address detection)"};
constexpr log_event<ipv6> link_local_taken{
    "nd", "link_local_taken", log_level::error,
    "another host has our link-local address {}, and with it, it may be, our MAC: nothing is sent from it, no DHCPv6 server is asked, and "
    "groups are told of from ::, which switches that listen in may drop"};
constexpr log_event<ipv6, mac_address> address_conflict{"nd", "address_conflict", log_level::warn,
                                                        "another host has our address {}: its MAC is {}"};
constexpr log_event<ipv6> address_made{"nd", "address_made", log_level::info, "a router's prefix gives us {}, unless somebody has it"};
constexpr log_event<ipv6> not_steered{"nd", "not_steered", log_level::error,
                                      "no room for one address more in the port's table: nothing that is sent to {} reaches us"};
constexpr std::uint8_t link_hop_limit = 255; ///< what a router would have lowered (RFC 4861 3.1)
constexpr std::uint32_t ip_size = wire::ipv6_header::size;

/// Bytes [at, at + size) of a packet in two pieces.
void copy_out(const packet& p, std::uint32_t at, std::uint32_t size, std::byte* to) noexcept {
    const std::uint32_t in_head = at < p.head.size() ? std::min(size, p.head.size() - at) : 0;
    std::memcpy(to, p.head.data() + at, in_head);
    if (in_head < size) std::memcpy(to + in_head, p.body.data() + (at + in_head - p.head.size()), size - in_head);
}

std::uint64_t seed_of(const stack_config& config, std::uint64_t salt) { return config.seed ? *config.seed ^ salt : random_seed(); }
siphash_key key_of(const stack_config& config, std::uint64_t salt) {
    return config.seed ? siphash_key{*config.seed, salt} : siphash_key::random();
}

} // namespace

ipv6_output::ipv6_output(port& device, egress& tx, const path_mtu_cache& mtus, const stack_config& config,
                         stack_statistics& statistics)
    : device_(device), egress_(tx), statistics_(statistics), config_(*config.ipv6),
      announces_(config.announce && config.share == nullptr),
      addresses_({.probes = config.share != nullptr ? 0u : config_.duplicate_probes, .silent = !config.announce},
                 seed_of(config, 0x69707636)),
      neighbors_(config.neighbors, seed_of(config, 0x6e643676)),
      groups_(seed_of(config, 0x6d6c64)), port_(config.groups), share_(config.share), mtus_(mtus),
      label_key_(key_of(config, 6)), fragment_key_(key_of(config, 8200)), random_(seed_of(config, 0x66726167)) {
    if (device.mtu() < path_mtu_cache::ipv6_minimum)
        throw std::invalid_argument("IPv6 needs an MTU of 1280 bytes, and " + device.name() + " has " + std::to_string(device.mtu()));
    const auto is_gateway = [](const void* routes, const net_address& a) noexcept {
        return static_cast<const ipv6_routes*>(routes)->is_gateway(a.v6());
    };
    neighbors_.spare_gateways(is_gateway, &routes_);
    if (share_ != nullptr) return; // follow_routes() tells
    if (config_.autoconfigure) {
        const siphash_key secret = config_.secret ? *config_.secret : key_of(config, 7217);
        // RFC 7217 5, Net_Iface: where an identifier was given, it may outlive the MAC.
        const mac_address interface = config_.identifier ? mac_address(*config_.identifier & 0xffff'ffff'ffff) : device.mac();
        automatic_.emplace(interface, secret, addresses_, routes_);
        if (config.announce) dhcp_.emplace(device.mac(), config_.dhcp, seed_of(config, 0x64686370));
    }
    if (config_.address) static_cast<void>(routes_.add_prefix(*config_.address));
    if (!config_.gateway) return;
    if (!routes_.on_link(*config_.gateway))
        throw std::invalid_argument("the gateway " + to_string(*config_.gateway) + " is not on the link");
    static_cast<void>(routes_.add_router(*config_.gateway));
}

void ipv6_output::start(time_point now) noexcept {
    const ipv6 by_mac = wire::link_local_address(device_.mac());
    const ipv6 link_local = config_.identifier ? wire::with_identifier(by_mac, *config_.identifier) : by_mac;
    if (share_ == nullptr) addresses_.add(now, link_local, 64, ipv6_address_origin::link_local);
    if (config_.address)
        addresses_.add(now, config_.address->address(), config_.address->length(), ipv6_address_origin::configured);
    if (automatic_ && announces_) automatic_->start(now, random_);
    follow_groups(now);
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
    path.fits = 0;
    wire::ethernet_header{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv6}.emit(path.headers);
    // RFC 6437 3: a flow has a label of its own, that nobody outside can guess.
    unsigned char ports[4];
    std::memcpy(ports, &flow.local_port, 2);
    std::memcpy(ports + 2, &flow.remote_port, 2);
    const std::uint64_t label = siphash({label_key_.k0 ^ flow.remote.low(), label_key_.k1 ^ flow.remote.high()}, ports);
    wire::ipv6_header{.flow_label = static_cast<std::uint32_t>(label & 0xfffff),
                      .payload_length = 0,
                      .next_header = protocol,
                      .hop_limit = hop_limit(),
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
        if (path.own_hop_limit == 0) store_u8(path.headers.data() + wire::ethernet_header::size + 7, hop_limit());
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

bool ipv6_output::send_unresolved(time_point now, ipv6_path& path, packet& p, std::uint32_t l4_size, on_behalf who) noexcept {
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

std::errc ipv6_output::send_to(time_point now, packet&& datagram, const ipv6& destination, std::uint32_t limit, on_behalf who) noexcept {
    const ipv6_next_hop hop = route(destination);
    if (hop.kind != hop_kind::unicast && hop.kind != hop_kind::multicast) {
        ++statistics_.no_route;
        return std::errc::network_unreachable;
    }
    packet p = std::move(datagram);
    if (p.size() > limit) return send_fragments(now, p, hop, limit, who);
    const wire::ethernet_header link{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    return transmit(now, p, hop, who) ? std::errc{} : std::errc::host_unreachable;
}

/// RFC 7739 5.2: at random, so that no one who has some of them knows the next; who can guess it kills a datagram of ours by a fragment in
/// our name (RFC 5722).
std::uint32_t ipv6_output::next_identification() noexcept {
    ++fragmented_;
    unsigned char number[sizeof fragmented_];
    std::memcpy(number, &fragmented_, sizeof number);
    return static_cast<std::uint32_t>(siphash(fragment_key_, number));
}

/// RFC 8200 4.5: each with the IPv6 header, a fragment header, and a copy of as many bytes as go in, a multiple of 8.
std::errc ipv6_output::send_fragments(time_point now, const packet& datagram, const ipv6_next_hop& hop, std::uint32_t limit,
                                      on_behalf who) noexcept {
    constexpr std::uint32_t headers = ip_size + wire::ipv6_chain::fragment_size;
    if (datagram.size() - ip_size > 65'535) return std::errc::message_size;
    const std::uint32_t payload = datagram.size() - ip_size, most = (limit - headers) / 8 * 8;
    const std::uint32_t id = next_identification();
    bool all = true;
    for (std::uint32_t at = 0; at < payload; at += most) {
        const std::uint32_t size = std::min(most, payload - at);
        packet p;
        p.head = device_.pool().allocate_buffer();
        if (p.head.tailroom() < headers + size) {
            ++statistics_.no_frame;
            return std::errc::no_buffer_space;
        }
        std::byte* const ip = p.head.append(headers + size);
        std::memcpy(ip, datagram.head.data(), ip_size);
        store_be16(ip + 4, static_cast<std::uint16_t>(wire::ipv6_chain::fragment_size + size));
        store_u8(ip + ip_size, load_u8(ip + 6)); // what follows
        store_u8(ip + ip_size + 1, 0);
        store_be16(ip + ip_size + 2, static_cast<std::uint16_t>(at | (at + size < payload ? 1 : 0)));
        store_be32(ip + ip_size + 4, id);
        store_u8(ip + 6, static_cast<std::uint8_t>(wire::ip_protocol::ipv6_fragment));
        copy_out(datagram, ip_size + at, size, ip + headers);
        const wire::ethernet_header link{.destination = {}, .source = device_.mac(), .type = wire::ether_type::ipv6};
        link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
        all &= transmit(now, p, hop, who);
    }
    if (all) return {};
    return egress_.full() ? std::errc::no_buffer_space : std::errc::host_unreachable;
}

/// `p.head` starts at an Ethernet header without a destination. Nothing leaves from an address that is not ours yet (RFC 4862 5.4).
bool ipv6_output::transmit(time_point now, packet& p, const ipv6_next_hop& hop, on_behalf who) noexcept {
    if (!addresses_.is_ours(ipv6::load(p.head.data() + wire::ethernet_header::size + 8))) {
        ++statistics_.ipv6_source_tentative;
        return false;
    }
    if (hop.kind == hop_kind::multicast) {
        wire::multicast_mac(hop.address).store(p.head.mutable_data());
    } else {
        const resolution how = neighbors_.resolve(now, hop.address, p, who);
        egress_.leave_chores(); // next_timeout() may have come nearer
        drain();
        if (how == resolution::queued) return true;
        if (how == resolution::failed) {
            ++statistics_.no_route;
            if (!neighbors_.has_failed(hop.address)) return false;
            routes_.demote_router(hop.address);
            routes_.forget_redirects(hop.address);
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
        lost(now, ns.target);
        return;
    }
    if (!answer || !addresses_.is_ours(ns.target)) return;
    const bool unknown = neighbors_.on_solicitation(now, source, ns);
    drain();
    if (unknown && share_ == nullptr && strangers_.take(now)) answer_behind_question(now, source, ns.target);
    egress_.leave_chores();
}

void ipv6_output::on_advertisement(time_point now, const wire::neighbor_advertisement& na, bool log) noexcept {
    if (addresses_.is_claimed(na.target)) { // RFC 4862 5.4.4
        const bool in_use = addresses_.is_ours(na.target);
        if (in_use && na.target_mac == device_.mac()) return; // our own, reflected
        if (in_use && log) log_message(address_conflict, na.target, na.target_mac.value_or(mac_address{}));
        lost(now, na.target);
        return;
    }
    if (neighbors_.on_advertisement(now, na)) routes_.end_router(now, na.target); // RFC 4861 7.2.5: it forwards no more
    if (const neighbor* const n = neighbors_.find(na.target); n != nullptr && n->valid() && !n->is_router() && !na.router)
        routes_.end_redirects_over(na.target);
    follow_routers(now);
    drain();
    egress_.leave_chores();
}

/// One shard asks for all.
void ipv6_output::follow_routers(time_point now) noexcept {
    if (automatic_ && announces_) automatic_->follow_routers(now, random_);
}

void ipv6_output::lost(time_point now, const ipv6& address) noexcept {
    if (!addresses_.on_conflict(address)) return;
    const own_ipv6_address* a = addresses_.find(address);
    log_message(a->origin == ipv6_address_origin::link_local ? link_local_taken : address_taken, address);
    if (automatic_ && a->origin == ipv6_address_origin::autoconfigured) {
        const own_ipv6_address* const another = automatic_->on_duplicate(now, *a);
        if (announces_ && another != nullptr) log_message(address_made, another->address);
    } else if (dhcp_ && a->origin == ipv6_address_origin::leased) {
        dhcp_->on_duplicate(now, address);
        after_dhcp(now);
    }
    follow_groups(now);
    egress_.leave_chores();
}

void ipv6_output::on_router_advertisement(time_point now, const ipv6& router, const wire::router_advertisement& ra,
                                          const std::optional<mac_address>& mac) noexcept {
    if (!automatic_) return;
    if (mac) neighbors_.on_sender(now, router, *mac, true);
    else neighbors_.on_router(router); // RFC 4861 6.3.4
    const std::size_t before = addresses_.all().size();
    const std::pair link{hop_limit(), mtu()};
    automatic_->on_advertisement(now, router, ra);
    follow_routers(now);
    if (link != std::pair{hop_limit(), mtu()}) routes_.touch();
    neighbors_.on_times(now, std::chrono::milliseconds{ra.reachable_time}, std::chrono::milliseconds{ra.retransmit_time});
    addresses_.set_retransmit_time(neighbors_.retransmit_time());
    if (announces_)
        for (const own_ipv6_address& made : addresses_.all().subspan(before)) log_message(address_made, made.address);
    if (dhcp_) {
        dhcp_->on_flags(now, ra.managed, ra.other);
        after_dhcp(now);
    }
    follow_groups(now);
    drain();
    egress_.leave_chores();
}

/// RFC 4861 8.1, as far as the message does not say it, and 8.3.
bool ipv6_output::on_redirect(time_point now, const ipv6& router, const wire::neighbor_redirect& redirect, bool counted) noexcept {
    const ipv6_next_hop hop = route(redirect.destination);
    const bool by_first_hop = hop.kind == hop_kind::unicast && hop.address == router && router != redirect.destination;
    const bool good_target = redirect.target != router && !addresses_.is_claimed(redirect.target) && !redirect.target.is_any() &&
                             !redirect.target.is_loopback() && !redirect.target.is_multicast() && !redirect.target.is_mapped();
    if (share_ != nullptr || !by_first_hop || !good_target || !(counted || redirects_.take(now))) {
        ++statistics_.redirects_refused;
        return false;
    }
    ++statistics_.redirects_taken;
    routes_.redirect(now, redirect.destination, redirect.target, router);
    const bool is_router = redirect.target != redirect.destination; // RFC 4861 8.3
    if (redirect.target_mac) neighbors_.on_sender(now, redirect.target, *redirect.target_mac, is_router);
    else if (is_router) neighbors_.on_router(redirect.target);
    drain();
    egress_.leave_chores();
    return true;
}

/// The solicited-node groups of our addresses, tentative ones too: who has such an address must be heard (RFC 4862 5.4.2).
void ipv6_output::follow_groups(time_point now) noexcept {
    std::array<ipv6, ipv6_addresses::max_addresses + max_joined> wanted;
    std::size_t count = 0;
    for (const own_ipv6_address& a : addresses_.all())
        if (a.phase != ipv6_address_phase::duplicate) wanted[count++] = a.address.solicited_node();
    for (std::size_t i = 0; i < joined_count_; ++i) wanted[count++] = joined_[i];
    if (tells_groups()) groups_.follow(now, {wanted.data(), count}); // nobody takes what a silent one would say
    if (port_ != nullptr) follow_port();
}

/// Each destination once: addresses may share a group. What was refused is asked for again with the next change.
void ipv6_output::follow_port() noexcept {
    std::array<ipv6, 2 * ipv6_addresses::max_addresses> now_wanted;
    auto end = now_wanted.begin();
    const auto want = [&](const ipv6& destination) {
        if (std::find(now_wanted.begin(), end, destination) == end) *end++ = destination;
    };
    for (const own_ipv6_address& a : addresses_.all())
        if (a.phase != ipv6_address_phase::duplicate) want(a.address), want(a.address.solicited_node());
    for (std::size_t i = wanted_count_; i-- > 0;) {
        if (std::find(now_wanted.begin(), end, wanted_[i]) != end) continue;
        port_->on_leave(wanted_[i]);
        wanted_[i] = wanted_[--wanted_count_];
    }
    for (auto each = now_wanted.begin(); each != end; ++each) {
        const std::span told(wanted_.data(), wanted_count_);
        if (std::ranges::find(told, *each) != told.end()) continue;
        if (port_->on_join(*each)) {
            wanted_[wanted_count_++] = *each;
        } else {
            ++statistics_.ipv6_not_steered;
            log_message(not_steered, *each);
        }
    }
}

void ipv6_output::on_join(time_point now, const ipv6& group) noexcept {
    CW_ASSERT(may_join(), "more groups than there is room for: ask may_join() first");
    joined_[joined_count_++] = group;
    tells_ = true;
    follow_groups(now);
}

void ipv6_output::on_leave(time_point now, const ipv6& group) noexcept {
    for (std::size_t i = 0; i < joined_count_; ++i) {
        if (joined_[i] != group) continue;
        joined_[i] = joined_[--joined_count_];
        break;
    }
    follow_groups(now);
}

/// RFC 4291 2.8: the groups that a host is a member of.
bool ipv6_output::hears(const ipv6& group) const noexcept {
    return group == ipv6::all_nodes() || addresses_.is_our_group(group) ||
           std::find(joined_.begin(), joined_.begin() + static_cast<std::ptrdiff_t>(joined_count_), group) !=
               joined_.begin() + static_cast<std::ptrdiff_t>(joined_count_);
}

time_point ipv6_output::next_timeout() const noexcept {
    const time_point asks = automatic_ ? automatic_->next_timeout() : never;
    const time_point tells = tells_groups() ? std::max(groups_.next_timeout(), tell_again_) : never;
    const time_point leases = dhcp_ ? dhcp_->next_timeout() : never;
    return std::min({neighbors_.next_timeout(), addresses_.next_timeout(), routes_.next_timeout(), asks, tells, leases});
}

void ipv6_output::on_timer(time_point now) noexcept {
    const std::size_t addresses = addresses_.all().size();
    addresses_.on_timer(now);
    if (addresses_.all().size() != addresses) {
        follow_groups(now);
        routes_.touch(); // nothing leaves from one that has gone (RFC 4862 5.5.4)
    }
    static_cast<void>(routes_.on_timer(now));
    follow_routers(now);
    if (dhcp_ && dhcp_->next_timeout() <= now) {
        dhcp_->on_timer(now);
        after_dhcp(now);
    }
    while (neighbors_.next_timeout() <= now) {
        neighbors_.on_timer(now);
        drain();
    }
    neighbors_.take_failed([this](const net_address& hop) {
        routes_.demote_router(hop.v6());
        routes_.forget_redirects(hop.v6());
    });
    if (told_from_nowhere_ && link_local() != nullptr) { // RFC 3590 4: routers and switches may have dropped that
        told_from_nowhere_ = false;
        groups_.tell_anew(now);
    }
    while (tells_groups() && report_groups(now)) {} // before the probe: its answer is to come through
    drain();
    if (!automatic_) return;
    automatic_->on_timer(now);
    if (automatic_->poll_solicitation(now, random_)) solicit_routers();
}

/// Sends what there is to say, and what waited for an answer that has come.
void ipv6_output::drain() noexcept {
    for (ipv6 target; addresses_.poll_probe(target);)
        if (!probe(target)) addresses_.on_probe_unsent(target);
    for (nd_message m; neighbors_.poll_transmit(m);) {
        if (share_ == nullptr) say(m);
        else if (m.what == nd_message::kind::question) share_->resolve(m.target);
    }
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

/// RFC 4862 5.4.2: from ::, to the address's solicited-node group, without a link-layer address. False: it has not left.
bool ipv6_output::probe(const ipv6& target) noexcept {
    packet p;
    std::byte* const at = begin_message(p, device_.pool());
    if (at == nullptr) {
        ++statistics_.no_frame;
        return false;
    }
    const ipv6 group = target.solicited_node();
    const std::size_t size = wire::neighbor_solicitation{target, {}}.emit({at, wire::neighbor_solicitation::max_size}, ipv6::any(), group);
    return push_link_message(std::move(p), static_cast<std::uint32_t>(size), ipv6::any(), group, wire::multicast_mac(group));
}

/// RFC 4861 6.3.7: from the link-local address, or ::.
void ipv6_output::solicit_routers() noexcept {
    packet p;
    std::byte* const at = begin_message(p, device_.pool());
    if (at == nullptr) {
        ++statistics_.no_frame;
        return;
    }
    const ipv6 all = ipv6::all_routers();
    const own_ipv6_address* from = addresses_.source_for(all);
    const ipv6 source = from == nullptr ? ipv6::any() : from->address;
    wire::router_solicitation ask;
    if (from != nullptr) ask.source_mac = device_.mac();
    const std::size_t size = ask.emit({at, wire::neighbor_advertisement::max_size}, source, all);
    push_link_message(std::move(p), static_cast<std::uint32_t>(size), source, all, wire::multicast_mac(all));
}

/// One that may be sent from; null: none.
const own_ipv6_address* ipv6_output::link_local() const noexcept {
    const own_ipv6_address* from = addresses_.source_for(ipv6::all_routers());
    return from != nullptr && from->address.is_link_local() ? from : nullptr;
}

/// RFC 3810 5, RFC 2710 3: with hop limit 1 and a router alert; from the link-local address, or :: while it is tentative (RFC 3590). True:
/// one was told, and there may be another.
bool ipv6_output::report_groups(time_point now) noexcept {
    constexpr std::uint32_t alert_size = 8;
    constexpr unsigned char alert[alert_size] = {58, 0, 5, 2, 0, 0, 1, 0}; // RFC 2711, PadN
    constexpr duration pause = std::chrono::milliseconds{100}; // while frames are scarce
    if (std::max(groups_.next_timeout(), tell_again_) > now) return false;
    packet p;
    p.head = device_.pool().allocate_buffer();
    if (p.head.tailroom() < ip_size + alert_size + mld_listener::max_report) {
        ++statistics_.no_frame;
        tell_again_ = now + pause;
        return false;
    }
    std::byte* const at = p.head.append(ip_size + alert_size + mld_listener::max_report);
    const mutable_byte_span message{at + ip_size + alert_size, mld_listener::max_report};
    const mld_report report = groups_.poll_report(now, message);
    if (report.size == 0) return false;
    const auto size = static_cast<std::uint32_t>(report.size);
    const ipv6 to = report.destination;
    const own_ipv6_address* from = link_local();
    const ipv6 source = from == nullptr ? ipv6::any() : from->address;
    told_from_nowhere_ |= from == nullptr;
    std::memcpy(at + ip_size, alert, alert_size);
    store_be16(message.data() + 2,
               wire::pseudo_header_sum(source, to, wire::ip_protocol::icmpv6, size).add(message.first(size)).checksum());
    p.head.truncate(ip_size + alert_size + size);
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(alert_size + size),
                      .next_header = wire::ip_protocol::hop_by_hop,
                      .hop_limit = 1,
                      .source = source,
                      .destination = to}
        .emit(p.head.mutable_bytes());
    const wire::ethernet_header link{.destination = wire::multicast_mac(to), .source = device_.mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    if (!egress_.push(std::move(p))) ++statistics_.egress_full;
    return true;
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

/// RFC 4861 7.2.4: it waits for its asker's MAC as any packet does.
void ipv6_output::answer_behind_question(time_point now, const ipv6& asker, const ipv6& target) noexcept {
    packet p;
    std::byte* const at = begin_message(p, device_.pool());
    if (at == nullptr) {
        ++statistics_.no_frame;
        return;
    }
    const wire::neighbor_advertisement answer{false, true, true, target, device_.mac()};
    const std::size_t size = answer.emit({at, wire::neighbor_advertisement::max_size}, target, asker);
    wrap_link_message(p, static_cast<std::uint32_t>(size), target, asker, {});
    static_cast<void>(transmit(now, p, {hop_kind::unicast, asker}, on_behalf::stranger));
}

bool ipv6_output::push_link_message(packet&& p, std::uint32_t size, const ipv6& source, const ipv6& destination, mac_address to) noexcept {
    wrap_link_message(p, size, source, destination, to);
    if (egress_.push(std::move(p))) return true;
    ++statistics_.egress_full;
    return false;
}

void ipv6_output::wrap_link_message(packet& p, std::uint32_t size, const ipv6& source, const ipv6& destination, mac_address to) noexcept {
    p.head.truncate(ip_size + size);
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(size),
                      .next_header = wire::ip_protocol::icmpv6,
                      .hop_limit = link_hop_limit,
                      .source = source,
                      .destination = destination}
        .emit(p.head.mutable_bytes());
    const wire::ethernet_header link{.destination = to, .source = device_.mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
}

} // namespace corewire
