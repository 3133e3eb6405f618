#include <corewire/net/stack/udp_layer.hh>

#include <corewire/net/stack/host_share.hh>
#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

// ---- layer ----

udp_layer::udp_layer(reactor& loop, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config,
                     stack_statistics& statistics, frame_pool& large_frames)
    : reactor_(loop), out_(out), egress_(tx), pool_(pool), large_frames_(large_frames),
      address_(config.address.address()), share_(config.share), statistics_(statistics),
      checksum_by_port_(out.device().capabilities().transmit_checksum),
      demux_(pool, config.udp, config.seed ? *config.seed + 1 : random_seed()) {}

udp_verdict udp_layer::input(time_point, const wire::ipv4_view& ip, packet& p) noexcept {
    const udp_delivery delivery = demux_.input(ip, p);
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
    if (udp_endpoint* e = demux_.on_error(report)) static_cast<stack_udp_socket*>(e->owner())->on_ready();
}

bool udp_layer::retry_sends(time_point) noexcept {
    bool any = false;
    while (!senders_.empty() && !egress_.full()) {
        auto& op = static_cast<send_operation&>(senders_.front());
        auto& socket = *static_cast<stack_udp_socket*>(op.keeper);
        if (!socket.retry(op)) break;
        op.unlink();
        op.complete();
        any = true;
    }
    if (!senders_.empty()) egress_.leave_chores();
    return any;
}

std::unique_ptr<udp_backend> udp_layer::bind(const socket_address& at, const udp_options& options) {
    return std::make_unique<stack_udp_socket>(*this, at, options);
}

home_hash udp_layer::home() const noexcept {
    if (!is_home_) return {};
    return {[](const void* context, udp_address local, udp_address remote) {
                const auto& is_home = *static_cast<const std::function<bool(const flow_key&)>*>(context);
                return remote.port == 0 ||
                       is_home({local.address.value(), remote.address.value(), local.port, remote.port});
            },
            &is_home_};
}

// ---- socket ----

stack_udp_socket::stack_udp_socket(udp_layer& layer, const socket_address& at, const udp_options& options)
    : layer_(layer), endpoint_(options.receive_queue, this) {
    const ipv4 local = at.v4();
    if (!local.is_any() && local != layer.address_ && !local.is_multicast()) {
        throw std::system_error(std::make_error_code(std::errc::address_not_available),
                                "bind " + at.to_string() + ": this stack's address is " + to_string(layer.address_));
    }
    const std::errc why = layer.demux_.bind(endpoint_, {local, at.port}, false, layer.home());
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "bind " + at.to_string());
    if (layer.share_ != nullptr) claim_port(at);
    layer.sockets_.push_back(*this);
}

/// In shared mode the host may have a port that is free here: of those that we choose, another.
void stack_udp_socket::claim_port(const socket_address& wanted) {
    for (int tries = wanted.port == 0 ? 16 : 1;; --tries) {
        try {
            layer_.share_->claim_port(wire::ip_protocol::udp, endpoint_.local().port);
            claimed_ = endpoint_.local().port;
            return;
        } catch (const std::system_error&) {
            layer_.demux_.unbind(endpoint_);
            if (tries <= 1) throw;
        }
        const std::errc why = layer_.demux_.bind(endpoint_, {wanted.v4(), 0}, false, layer_.home());
        if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "bind " + wanted.to_string());
    }
}

void stack_udp_socket::release_port() noexcept {
    if (const std::uint16_t port = std::exchange(claimed_, 0)) layer_.share_->release_port(wire::ip_protocol::udp, port);
}

stack_udp_socket::~stack_udp_socket() { close(); }

void stack_udp_socket::close() noexcept {
    if (closed_) return;
    closed_ = true;
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
    return true;
}

bool stack_udp_socket::start_receive(receive_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    if (receivers_.empty() && take(op)) return true;
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
    if (layer_.senders_.empty() && try_send(op)) return true;
    op.keeper = this;
    layer_.senders_.push_back(op);
    layer_.egress_.leave_chores();
    return false;
}

bool stack_udp_socket::retry(send_operation& op) noexcept { return try_send(op); }

bool stack_udp_socket::try_send(send_operation& op) noexcept {
    if (endpoint_.connected()) {
        if (const std::errc why = endpoint_.take_error(); why != std::errc{}) {
            op.error = why;
            return true;
        }
    }
    udp_address to = endpoint_.peer();
    if (!op.to_connected_peer) {
        if (!op.to.is_v4()) {
            op.error = std::errc::address_family_not_supported;
            return true;
        }
        to = {op.to.v4(), op.to.port};
    } else if (!endpoint_.connected()) {
        op.error = std::errc::destination_address_required;
        return true;
    }
    if (layer_.egress_.full()) return false;

    const time_point now = layer_.reactor_.now();
    const std::size_t size = op.owned.size() + op.borrowed.size();
    if (size + 28 > layer_.out_.mtu() || !(to == aimed_at_ && via_.current())) [[unlikely]] {
        const bool aimed = aim(now, to);
        if (hop_.kind == hop_kind::unreachable || hop_.kind == hop_kind::local) {
            op.error = std::errc::network_unreachable;
            return true;
        }
        if (!aimed || size + 28 > layer_.out_.path_mtu_to(now, to.address)) {
            op.error = send_large(op, to);
            return true;
        }
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
    return true;
}

/// Makes headers_ right for a destination. False when its neighbour is not resolved (or it is no single neighbour).
bool stack_udp_socket::aim(time_point now, udp_address to) noexcept {
    hop_ = layer_.out_.routes().find(to.address);
    udp_address from = endpoint_.local();
    if (from.address.is_any() || from.address.is_multicast()) from.address = layer_.address_;
    headers_ = udp_headers(from, to);
    via_ = {};
    aimed_at_ = {};
    if (hop_.kind != hop_kind::unicast) return false;
    neighbor* n = layer_.out_.use(now, hop_.address);
    if (n == nullptr) return false;
    headers_.set_link(layer_.out_.device().mac(), n->mac());
    via_ = neighbor_ref(*n);
    aimed_at_ = to;
    return true;
}

/// By the general way: neighbours not yet resolved, broadcast and multicast, datagrams that need fragmenting.
std::errc stack_udp_socket::send_large(send_operation& op, udp_address to) noexcept {
    const std::size_t size = op.owned.size() + op.borrowed.size();
    if (size > 65'507) return std::errc::message_size;
    udp_address from = endpoint_.local();
    if (from.address.is_any() || from.address.is_multicast()) from.address = layer_.address_;
    const bool fragments = size + 28 > layer_.out_.mtu();
    const udp_headers headers(from, to, 64, !fragments);
    const std::uint16_t id = layer_.out_.identifications().next(from.address, to.address, wire::ip_protocol::udp);
    packet p;
    // Fragments can't leave their checksum to the port.
    const auto how = layer_.checksum_by_port_ && !fragments ? udp_headers::checksum::offload : udp_headers::checksum::compute;
    buffer joined;
    if (!op.borrowed.empty() && size > layer_.pool_.frame_size() - 2 * frame_headroom) {
        // Longer than a frame: a frame of the reassembly's size holds it until it has been cut.
        joined = layer_.large_frames_.allocate_buffer();
        if (joined.underlying_frame() == nullptr) return std::errc::no_buffer_space;
        std::memcpy(joined.append(static_cast<std::uint32_t>(size)), op.borrowed.data(), size);
    }
    buffer& owned = joined.empty() ? op.owned : joined;
    const bool built = !owned.empty() || op.borrowed.empty() ? headers.wrap(owned, how, id, layer_.pool_, p)
                                                             : headers.wrap_copy(op.borrowed, how, id, layer_.pool_, p);
    if (!built) return std::errc::no_buffer_space;
    p.head.remove_prefix(wire::ethernet_header::size); // ip_output puts its own
    if (p.flags != offload::none) p.l4_offset = link_and_ip_size;
    return layer_.out_.send(layer_.reactor_.now(), std::move(p), to.address);
}

std::errc stack_udp_socket::connect(const socket_address& peer) {
    if (!peer.is_v4()) return std::errc::address_family_not_supported;
    if (layer_.out_.routes().find(peer.v4()).kind == hop_kind::unreachable) return std::errc::network_unreachable;
    const std::errc why = layer_.demux_.connect(endpoint_, layer_.address_, {peer.v4(), peer.port}, layer_.home());
    if (why != std::errc{} || claimed_ == 0 || claimed_ == endpoint_.local().port) return why;
    // Another port, from which replies come home.
    try {
        layer_.share_->claim_port(wire::ip_protocol::udp, endpoint_.local().port);
    } catch (const std::system_error&) {
        return std::errc::address_in_use;
    }
    release_port();
    claimed_ = endpoint_.local().port;
    return {};
}

socket_address stack_udp_socket::local_address() const {
    const udp_address local = endpoint_.local();
    return {local.address.is_any() ? layer_.address_ : local.address, local.port};
}

buffer stack_udp_socket::allocate(std::uint32_t size) {
    if (size > layer_.pool_.frame_size() - frame_headroom) return {};
    return layer_.pool_.allocate_buffer();
}

} // namespace corewire
