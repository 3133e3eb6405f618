#include <corewire/net/stack/udp_layer.hh>

#include <corewire/net/stack/host_share.hh>
#include <corewire/net/wire/address_policy.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cstring>

namespace corewire {

// ---- layer ----

udp_layer::udp_layer(reactor& loop, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config,
                     stack_statistics& statistics, frame_pool& large_frames)
    : reactor_(loop), out_(out), egress_(tx), pool_(pool), large_frames_(large_frames),
      address_(config.address.address()), share_(config.share), group_follower_(config.groups), statistics_(statistics),
      checksum_by_port_(out.device().capabilities().transmit_checksum),
      demux_(pool, config.udp, config.seed ? *config.seed + 1 : random_seed()), told_mtus_(out.device().mtu()) {}

void udp_layer::set_address(ipv4 address) noexcept {
    const ipv4 before = std::exchange(address_, address);
    if (before == address) return;
    sockets_.for_each([before](stack_udp_socket& each) {
        each.forget_way();
        if (!before.is_any() && each.is_bound_to(before)) each.on_address_gone();
    });
}

void udp_layer::on_ipv6_addresses_changed() noexcept {
    sockets_.for_each([](stack_udp_socket& each) {
        if (each.has_lost_address()) each.on_address_gone();
    });
}

udp_verdict udp_layer::input(time_point, const wire::ipv4_view& ip, packet& p) noexcept {
    return tell(demux_.input(ip, p));
}

udp_verdict udp_layer::tell(const udp_delivery& delivery) noexcept {
    if (delivery.verdict == udp_verdict::delivered) {
        // A group datagram may have gone to several.
        for (udp_endpoint* e = delivery.endpoint; e != nullptr;) {
            udp_endpoint* next = e->also_delivered();
            static_cast<stack_udp_socket*>(e->owner())->on_ready();
            e = next;
        }
    }
    return delivery.verdict;
}

void udp_layer::on_report(const icmp_report& report) noexcept {
    // RFC 8201 4, RFC 1191 3: what is longer goes in fragments from now on. A router takes less than what it refuses.
    const bool too_big = report.kind == icmp_error_kind::fragmentation_needed && report.mtu < report.quoted_length;
    if (too_big && sender_of(report) != nullptr)
        static_cast<void>(told_mtus_.on_too_big(reactor_.now(), report.remote, report.mtu, report.quoted_length));
    if (report.kind == icmp_error_kind::fragmentation_needed && !too_big) return; // what it takes was sent: an invention
    if (udp_endpoint* e = demux_.on_error(report)) static_cast<stack_udp_socket*>(e->owner())->on_ready();
}

stack_udp_socket* udp_layer::sender_of(const icmp_report& report) const noexcept {
    const udp_endpoint* e = report.protocol == wire::ip_protocol::udp ? demux_.sender_of(report) : nullptr;
    auto* socket = e == nullptr ? nullptr : static_cast<stack_udp_socket*>(e->owner());
    return socket != nullptr && socket->sends_to({report.remote, report.remote_port}) ? socket : nullptr;
}

/// Those who wait share what room the port makes with connections, half and half: neither starves the other. A datagram in pieces leaves
/// whole, so its share is kept from turn to turn until it is enough.
bool udp_layer::retry_sends(time_point) noexcept {
    egress_.flush();
    std::size_t share = egress_.kept();
    egress_.keep(0);
    share += (egress_.room() - share + 1) / 2;
    bool any = false;
    while (!senders_.empty()) {
        if (egress_.waiting() == 0) share = egress_.room();
        auto& op = static_cast<send_operation&>(senders_.front());
        auto& socket = *static_cast<stack_udp_socket*>(op.keeper);
        if (!socket.retry(op, share)) break;
        op.unlink();
        op.complete();
        any = true;
    }
    crowded_ = egress_.waiting() > egress::capacity / 2;
    if (senders_.empty()) return any;
    egress_.keep(std::min(share, egress::capacity - egress_.waiting()));
    egress_.leave_chores();
    return any;
}

std::unique_ptr<udp_backend> udp_layer::bind(const socket_address& at, const udp_options& options) {
    return std::make_unique<stack_udp_socket>(*this, at, options);
}

home_hash udp_layer::home() const noexcept {
    if (!is_home_) return {};
    return {[](const void* context, udp_address local, udp_address remote) {
                const auto& is_home = *static_cast<const std::function<bool(const flow_name&)>*>(context);
                return remote.port == 0 ||
                       is_home({local.address, remote.address, local.port, remote.port});
            },
            &is_home_};
}

/// The address that a datagram of a socket bound to `local` leaves from. `::`: none.
net_address udp_layer::source_for(const udp_address& local, const net_address& to) const noexcept {
    if (!local.address.is_any() && !local.address.is_multicast()) return local.address;
    if (to.is_v4()) return address_;
    return out_.six() == nullptr ? ipv6::any() : out_.six()->source_for(to.v6());
}

std::uint8_t udp_layer::hops_to(const net_address& to) const noexcept {
    return to.is_v4() || out_.six() == nullptr ? 64 : out_.six()->hop_limit();
}

// ---- socket ----

stack_udp_socket::stack_udp_socket(udp_layer& layer, const socket_address& at, const udp_options& options)
    : layer_(layer), endpoint_(std::max(options.receive_queue, 1u), this) {
    const net_address local = at.net();
    const ipv6_output* six = layer.out_.six();
    const bool good = local.is_v4() ? local.is_any() || local.v4() == layer.address_ || local.is_multicast()
                                    : six != nullptr && (local.is_any() || local.is_multicast() || six->addresses().is_claimed(local.v6()));
    if (!good) {
        throw std::system_error(std::make_error_code(std::errc::address_not_available),
                                "bind " + at.to_string() + ": not an address of this stack, which has " + to_string(layer.address_) +
                                    (six == nullptr ? " and no IPv6" : ""));
    }
    if (options.ipv6_only) endpoint_.leave_ipv4();
    if (layer.share_ != nullptr) layer.demux_.choose_from(layer.share_->lent());
    const std::errc why = layer.demux_.bind(endpoint_, {local, at.port}, false, layer.home());
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "bind " + at.to_string());
    if (layer.share_ != nullptr) claim_port(at);
    layer.sockets_.push_back(*this);
}

/// In shared mode the host may have a port that is free here: of those that we choose, another.
void stack_udp_socket::claim_port(const socket_address& wanted) {
    for (int tries = wanted.port == 0 ? 16 : 1;; --tries) {
        try {
            claimed_at_ = host_share::claimed_by(wanted.net(), endpoint_.ipv6_only());
            layer_.share_->claim_port(wire::ip_protocol::udp, claimed_at_, endpoint_.local().port);
            claimed_ = endpoint_.local().port;
            return;
        } catch (const std::system_error&) {
            layer_.demux_.unbind(endpoint_);
            if (tries <= 1) throw;
        }
        const std::errc why = layer_.demux_.bind(endpoint_, {wanted.net(), 0}, false, layer_.home());
        if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "bind " + wanted.to_string());
    }
}

void stack_udp_socket::release_port() noexcept {
    if (const std::uint16_t port = std::exchange(claimed_, 0)) layer_.share_->release_port(wire::ip_protocol::udp, claimed_at_, port);
}

stack_udp_socket::~stack_udp_socket() { close(); }

void stack_udp_socket::close() noexcept {
    if (closed_) return;
    closed_ = true;
    for (const net_address& group : endpoint_.groups()) layer_.leave(group);
    if (endpoint_.bound()) layer_.demux_.unbind(endpoint_);
    release_port();
    cancel_receivers();
    layer_.senders_.for_each([this](waiter& w) {
        auto& op = static_cast<send_operation&>(w);
        if (op.keeper != this) return;
        op.unlink();
        op.error = std::errc::operation_canceled;
        op.complete();
    });
}

void stack_udp_socket::cancel_receivers() noexcept {
    while (!receivers_.empty()) {
        auto& op = static_cast<receive_operation&>(receivers_.pop_front());
        op.error = std::errc::operation_canceled;
        op.complete();
    }
}

bool stack_udp_socket::is_bound_to(ipv4 address) const noexcept {
    const net_address& local = endpoint_.local().address;
    return local.is_v4() && local.v4() == address;
}

bool stack_udp_socket::sends_to(const udp_address& remote) const noexcept {
    return (endpoint_.connected() && endpoint_.peer() == remote) || std::ranges::find(destinations_, remote) != destinations_.end();
}

bool stack_udp_socket::has_lost_address() const noexcept {
    const net_address& local = endpoint_.local().address;
    return local.is_unicast() && !layer_.is_ours(local);
}

void stack_udp_socket::on_address_gone() noexcept {
    while (!receivers_.empty()) {
        auto& op = static_cast<receive_operation&>(receivers_.pop_front());
        op.error = std::errc::network_down;
        op.complete();
    }
}

void stack_udp_socket::end_waits(ended_waits which) noexcept {
    if (which == ended_waits::for_any_peer || !endpoint_.connected()) cancel_receivers();
}

bool stack_udp_socket::take(receive_operation& op) noexcept {
    if (const std::errc why = endpoint_.take_error(); why != std::errc{}) {
        op.error = why;
        return true;
    }
    if (!endpoint_.readable()) return false;
    udp_datagram d = endpoint_.receive();
    op.received.data = std::move(d.data);
    op.received.from = {d.source.address, d.source.port};
    op.received.to = d.destination;
    if (d.destination.is_v4() && d.destination.v4() != layer_.address_ && !d.destination.is_multicast()) [[unlikely]]
        op.received.to = layer_.address_; // broadcast
    return true;
}

bool stack_udp_socket::start_receive(receive_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    if (receivers_.empty() && take(op)) return true;
    if (has_lost_address()) {
        op.error = std::errc::network_down;
        return true;
    }
    receivers_.push_back(op);
    return false;
}

void stack_udp_socket::on_ready() noexcept {
    if (receivers_.empty()) return;
    auto& op = static_cast<receive_operation&>(receivers_.front());
    if (!take(op)) return;
    op.unlink();
    op.complete();
}

bool stack_udp_socket::start_send(send_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    std::size_t room = layer_.crowded_ ? 0 : layer_.egress_.room();
    if (layer_.senders_.empty() && try_send(op, room)) return true;
    op.keeper = this;
    layer_.senders_.push_back(op);
    layer_.egress_.leave_chores();
    return false;
}

bool stack_udp_socket::try_send(send_operation& op, std::size_t& room) noexcept {
    if (endpoint_.connected()) {
        if (const std::errc why = endpoint_.take_error(); why != std::errc{}) {
            op.error = why;
            return true;
        }
    }
    udp_address to = endpoint_.peer();
    if (!op.to_connected_peer) {
        to = {op.to.net(), op.to.port};
        if (!endpoint_.speaks_to(to.address)) {
            op.error = std::errc::address_family_not_supported;
            return true;
        }
    } else if (!endpoint_.connected()) {
        op.error = std::errc::destination_address_required;
        return true;
    }
    if (room == 0) return false;

    const time_point now = layer_.reactor_.now();
    const std::size_t size = op.owned.size() + op.borrowed.size();
    const std::size_t ip_total = size + (to.address.is_v4() ? 28 : 48);
    if (!way_takes(ip_total) || !(to == aimed_at_ && op.how == aimed_how_ && via_.current())) [[unlikely]] {
        if (to.port == 0) { // RFC 768: who sent from there wants no reply. As the kernel says it
            op.error = std::errc::invalid_argument;
            return true;
        }
        op.error = may_leave_from(op.how.from, to.address);
        if (op.error != std::errc{}) return true;
        const bool aimed = aim(now, to, op.how);
        if (hop_ == hop_kind::unreachable || hop_ == hop_kind::local) {
            op.error = std::errc::network_unreachable;
            return true;
        }
        if (ip_total > way_mtu_ && size_ != datagram_size::cut) {
            op.error = std::errc::message_size;
            return true;
        }
        if (!aimed || ip_total > way_mtu_) return send_generally(op, to, ip_total, room);
        if (layer_.egress_.full()) return false; // what was asked of the neighbour took the last slot
    }
    packet& p = layer_.egress_.slot();
    const auto how = layer_.checksum_by_port_ ? udp_headers::checksum::offload : udp_headers::checksum::compute;
    const bool built = op.borrowed.empty() ? headers_.wrap(op.owned, how, 0, layer_.pool_, p)
                                           : headers_.wrap_copy(op.borrowed, how, 0, layer_.pool_, p);
    if (!built) {
        ++layer_.statistics_.no_frame;
        op.error = std::errc::no_buffer_space;
        return true;
    }
    layer_.egress_.commit();
    --room;
    return true;
}

/// What aim() has found is not enough: all pieces of a datagram find room, or none leaves.
bool stack_udp_socket::send_generally(send_operation& op, const udp_address& to, std::size_t ip_total, std::size_t& room) noexcept {
    const std::size_t pieces = std::min(pieces_of(to, ip_total), egress::capacity);
    const bool long_frames_wait = needs_long_frame(op) && layer_.large_frames_.free_count == 0 && layer_.egress_.waiting() != 0;
    if (room < pieces || long_frames_wait) return false;
    if (pieces > 1 && layer_.pool_.free_count < pieces) {
        ++layer_.statistics_.no_frame;
        op.error = std::errc::no_buffer_space;
        return true;
    }
    op.error = send_large(op, to);
    room -= pieces;
    return true;
}

/// At most: each is as long as goes, and a multiple of 8 (RFC 791 3.2, RFC 8200 4.5).
std::size_t stack_udp_socket::pieces_of(const udp_address& to, std::size_t ip_total) const noexcept {
    if (ip_total <= way_mtu_) return 1;
    const std::uint32_t header = to.address.is_v4() ? 20 : 40, with_fragment_header = to.address.is_v4() ? header : header + 8;
    const std::size_t each = std::max(way_mtu_, with_fragment_header + 8) - with_fragment_header;
    return (ip_total - header + each / 8 * 8 - 1) / (each / 8 * 8);
}

/// Borrowed bytes, longer than a frame: one of the long ones holds them until they have been cut, and have left.
bool stack_udp_socket::needs_long_frame(const send_operation& op) const noexcept {
    return !op.borrowed.empty() && op.owned.size() + op.borrowed.size() > layer_.pool_.frame_size() - 2 * frame_headroom;
}

/// What a connection finds out of the path's MTU meanwhile, or a router says, counts for datagrams, too.
bool stack_udp_socket::way_takes(std::size_t ip_total) const noexcept {
    return ip_total <= way_mtu_ && way_mtu_heard_ == layer_.path_mtus_heard();
}

std::errc stack_udp_socket::may_leave_from(const net_address& from, const net_address& to) const noexcept {
    if (!from.is_unicast()) return {};
    if (from.is_v4() != to.is_v4()) return std::errc::address_family_not_supported;
    return layer_.is_ours(from) ? std::errc{} : std::errc::address_not_available;
}

net_address stack_udp_socket::source_for(const net_address& to, const datagram_options& how) const noexcept {
    return how.from.is_unicast() ? how.from : layer_.source_for(endpoint_.local(), to);
}

std::uint8_t stack_udp_socket::hops_to(const net_address& to, const datagram_options& how) const noexcept {
    if (how.hops != 0) return how.hops;
    return to.is_multicast() ? multicast_.hops : layer_.hops_to(to);
}

/// Who looks for the path's MTU by himself goes by the link's.
std::uint32_t stack_udp_socket::most_to(const net_address& to) const noexcept {
    return size_ == datagram_size::probe ? layer_.out_.link_mtu(to) : layer_.path_mtu_to(layer_.reactor_.now(), to);
}

std::errc stack_udp_socket::set_datagram_size(datagram_size how) {
    if (closed_) return std::errc::bad_file_descriptor;
    size_ = how;
    forget_way();
    return {};
}

std::uint32_t stack_udp_socket::path_mtu() const {
    if (closed_ || !endpoint_.connected()) return 0;
    return layer_.path_mtu_to(layer_.reactor_.now(), endpoint_.peer().address);
}

/// Makes headers_ right for a destination. False when its neighbour is not resolved (or it is no single neighbour).
bool stack_udp_socket::aim(time_point now, const udp_address& to, const datagram_options& how) noexcept {
    const net_address from = source_for(to.address, how);
    const bool homeless = has_lost_address() || (from.is_v4() && layer_.address_.is_any()); // a lease has ended, or has not begun
    via_ = {};
    aimed_at_ = {};
    hop_ = hop_kind::unreachable;
    neighbor* n = nullptr;
    if (homeless) {
        // hop_ says that nothing leads there
    } else if (to.address.is_v4()) {
        const next_hop hop = layer_.out_.routes().find(to.address.v4());
        hop_ = hop.kind;
        if (hop.kind == hop_kind::unicast) n = layer_.out_.use(now, hop.address);
    } else if (ipv6_output* six = layer_.out_.six(); six != nullptr && !from.is_any()) {
        const ipv6_next_hop hop = six->route(to.address.v6());
        hop_ = hop.kind;
        if (hop.kind == hop_kind::unicast) n = six->use(now, hop.address, from.v6());
    }
    if (hop_ != hop_kind::unreachable && destinations_[destinations_seen_ % destinations_.size()] != to)
        destinations_[++destinations_seen_ % destinations_.size()] = to;
    way_mtu_ = most_to(to.address);
    way_mtu_heard_ = layer_.path_mtus_heard();
    headers_ = udp_headers({from, endpoint_.local().port}, to, hops_to(to.address, how), true, how.traffic_class);
    if (n == nullptr) return false;
    headers_.set_link(layer_.out_.device().mac(), n->mac());
    via_ = neighbor_ref(*n);
    aimed_at_ = to;
    aimed_how_ = how;
    return true;
}

/// By the general way: neighbours not yet resolved, broadcast and multicast, datagrams that need fragmenting.
std::errc stack_udp_socket::send_large(send_operation& op, const udp_address& to) noexcept {
    const std::size_t size = op.owned.size() + op.borrowed.size();
    const bool four = to.address.is_v4();
    if (size > udp_headers::most_payload(four)) return std::errc::message_size;
    const udp_address from{source_for(to.address, op.how), endpoint_.local().port};
    const std::uint32_t limit = most_to(to.address);
    const bool fragments = size + (four ? 28 : 48) > limit; // they can't leave their checksum to the port
    const bool group = to.address.is_multicast();
    const std::uint8_t hops = hops_to(to.address, op.how);
    const udp_headers headers(from, to, hops, !fragments, op.how.traffic_class);
    const std::uint16_t id =
        four ? layer_.out_.identifications().next(from.address.v4(), to.address.v4(), wire::ip_protocol::udp) : std::uint16_t{0};
    packet p;
    const auto how = layer_.checksum_by_port_ && !fragments ? udp_headers::checksum::offload : udp_headers::checksum::compute;
    buffer joined;
    if (needs_long_frame(op)) {
        joined = layer_.large_frames_.allocate_buffer();
        if (joined.underlying_frame() == nullptr) return std::errc::no_buffer_space;
        std::memcpy(joined.append(static_cast<std::uint32_t>(size)), op.borrowed.data(), size);
    }
    buffer& owned = joined.empty() ? op.owned : joined;
    const bool built = !owned.empty() || op.borrowed.empty() ? headers.wrap(owned, how, id, layer_.pool_, p)
                                                             : headers.wrap_copy(op.borrowed, how, id, layer_.pool_, p);
    if (!built) return std::errc::no_buffer_space;
    if (group && multicast_.loopback) layer_.loop_back(p, from.address, to.address);
    if (group && (hops == 0 || wire::stays_on_host(to.address))) return {}; // RFC 1112 6.1
    p.head.remove_prefix(wire::ethernet_header::size); // ip_output puts its own
    if (four && p.flags != offload::none) p.l4_offset = link_and_ip_size;
    if (size_ == datagram_size::probe) return layer_.out_.send_whole(layer_.reactor_.now(), std::move(p), to.address);
    if (!four) return layer_.out_.six()->send(layer_.reactor_.now(), std::move(p), to.address.v6(), limit);
    return layer_.out_.send(layer_.reactor_.now(), std::move(p), to.address.v4(), limit);
}

std::errc stack_udp_socket::connect(const socket_address& peer) {
    const net_address to = peer.net();
    if (!endpoint_.speaks_to(to)) return std::errc::address_family_not_supported;
    const net_address from = layer_.source_for(endpoint_.local(), to);
    if (peer.port == 0) return std::errc::invalid_argument;
    const ipv6_output* const six = layer_.out_.six();
    hop_kind way = hop_kind::unreachable;
    if (to.is_v4()) way = layer_.out_.routes().find(to.v4()).kind;
    else if (six != nullptr && !from.is_any()) way = six->route(to.v6()).kind;
    if (way == hop_kind::unreachable || (way == hop_kind::local && !to.is_v4())) return std::errc::network_unreachable;
    const std::errc why = layer_.demux_.connect(endpoint_, from, {to, peer.port}, claimed_ == 0 ? layer_.home() : home_hash{});
    if (why == std::errc{} && claimed_ != 0) claim_port_at_home();
    return why;
}

/// Moves to a port from which replies come home. The host may have it; if it has all that are tried, replies to the old one are
/// handed over to us.
void stack_udp_socket::claim_port_at_home() noexcept {
    for (int tries = 16; tries > 0; --tries) {
        const std::uint16_t port = layer_.demux_.choose_port(endpoint_, layer_.home());
        if (port == 0) return;
        try {
            layer_.share_->claim_port(wire::ip_protocol::udp, claimed_at_, port);
        } catch (const std::system_error&) {
            layer_.demux_.give_back(port);
            continue;
        }
        release_port();
        claimed_ = port;
        layer_.demux_.move(endpoint_, port);
        return;
    }
}

// ---- groups ----

std::errc stack_udp_socket::may_join(const net_address& group, const net_address& on) const noexcept {
    if (closed_) return std::errc::bad_file_descriptor;
    if (!group.is_multicast()) return std::errc::invalid_argument;
    const bool without_six = !group.is_v4() && layer_.out_.six() == nullptr;
    if (without_six || !endpoint_.speaks_to(group)) return std::errc::address_family_not_supported;
    if (layer_.share_ != nullptr) return std::errc::operation_not_supported; // groups are the host's
    if (!on.is_any() && !layer_.is_ours(on)) return std::errc::address_not_available;
    return {};
}

std::errc stack_udp_socket::join(const net_address& group, const net_address& on) {
    if (const std::errc why = may_join(group, on); why != std::errc{}) return why;
    if (endpoint_.is_member(group)) return std::errc::address_in_use;
    if (endpoint_.groups().size() == udp_endpoint::max_groups) return std::errc::no_buffer_space;
    if (const std::errc why = layer_.join(group); why != std::errc{}) return why;
    endpoint_.add_group(group);
    return {};
}

std::errc stack_udp_socket::leave(const net_address& group, const net_address& on) {
    if (const std::errc why = may_join(group, on); why != std::errc{}) return why;
    if (!endpoint_.is_member(group)) return std::errc::address_not_available;
    endpoint_.remove_group(group);
    layer_.leave(group);
    return {};
}

std::errc stack_udp_socket::set_multicast(const multicast_options& how) {
    if (closed_) return std::errc::bad_file_descriptor;
    if (!how.on.is_any() && !layer_.is_ours(how.on)) return std::errc::address_not_available;
    multicast_ = how;
    return {};
}

bool udp_layer::is_ours(const net_address& address) const noexcept {
    if (address.is_v4()) return address.v4() == address_;
    return out_.six() != nullptr && out_.six()->addresses().is_claimed(address.v6());
}

/// The first member has the port and the routers told.
std::errc udp_layer::join(const net_address& group) noexcept {
    group_members* six = nullptr;
    bool first = true;
    if (group.is_v4()) {
        first = std::ranges::find(groups_.groups(), group.v4(), &multicast_filter::membership::group) == groups_.groups().end();
        if (!groups_.join(group.v4())) return std::errc::no_buffer_space;
    } else {
        for (group_members& each : groups6_) {
            if (each.members != 0 && each.group == group.v6()) first = (six = &each, false);
            if (each.members == 0 && six == nullptr) six = &each;
            if (!first) break;
        }
        if (six == nullptr) return std::errc::no_buffer_space;
    }
    if (first && group_follower_ != nullptr && !group_follower_->on_join(group)) {
        if (group.is_v4()) groups_.leave(group.v4());
        return std::errc::no_buffer_space;
    }
    if (six != nullptr) {
        six->group = group.v6();
        ++six->members;
    }
    if (first) out_.on_join(reactor_.now(), group);
    return {};
}

void udp_layer::leave(const net_address& group) noexcept {
    bool last = false;
    if (group.is_v4()) {
        last = groups_.leave(group.v4());
    } else {
        for (group_members& each : groups6_)
            if (each.members != 0 && each.group == group.v6()) last = --each.members == 0;
    }
    if (!last) return;
    out_.on_leave(reactor_.now(), group);
    if (group_follower_ != nullptr) group_follower_->on_leave(group);
}

/// A copy for the members here (RFC 1112 6.1). `p.head` starts at its Ethernet header.
void udp_layer::loop_back(const packet& p, const net_address& source, const net_address& group) noexcept {
    packet copy;
    copy.head = (p.size() <= pool_.frame_size() - frame_headroom ? pool_ : large_frames_).allocate_buffer();
    if (copy.head.tailroom() < p.size()) {
        ++statistics_.no_frame;
        return;
    }
    std::memcpy(copy.head.append(p.head.size()), p.head.data(), p.head.size());
    if (!p.body.empty()) std::memcpy(copy.head.append(p.body.size()), p.body.data(), p.body.size());
    copy.flags = offload::l4_checksum_good;
    const std::uint32_t at = wire::ethernet_header::size + (group.is_v4() ? wire::ipv4_header::min_size : 40u);
    static_cast<void>(tell(demux_.input(source, group, at, p.size() - at, copy)));
}

socket_address stack_udp_socket::local_address() const {
    const udp_address local = endpoint_.local();
    const bool any_of_four = local.address.is_any() && !local.address.is_any_of_both();
    return {any_of_four ? net_address(layer_.address_) : local.address, local.port};
}

buffer stack_udp_socket::allocate(std::uint32_t size) {
    if (size > layer_.pool_.frame_size() - frame_headroom) return {};
    return layer_.pool_.allocate_buffer();
}

} // namespace corewire
