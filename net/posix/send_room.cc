// How much a write may take now, and whether poll() says so: SO_SNDBUF and TCP_NOTSENT_LOWAT.
#include <corewire/net/posix/linux_send_buffers.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <algorithm>

namespace corewire::posix {

linux_send_buffers stream_socket::buffers_of(const tcp::tcb& t, const tcp::connection_info& i) const noexcept {
    const std::uint32_t most = settings_.max_segment != 0 ? settings_.max_segment : ~std::uint32_t{0};
    return {i, !t.options().super_segments.on, std::min(i.peer_segment, most)};
}

std::uint32_t stream_socket::unsent() const { return connection()->tcb.info().unsent; }

std::uint32_t stream_socket::grown(std::uint32_t asked, std::uint32_t tcp::connection_info::*buffer) const {
    return connection() == nullptr ? asked : std::max(asked, settings_.buffer_overhead() * (connection()->tcb.info().*buffer));
}

std::uint64_t stream_socket::room_below_mark() const {
    if (settings_.unsent_mark() == ~std::uint32_t{0}) return ~std::uint64_t{0};
    const tcp::connection_info i = connection()->tcb.info();
    if (i.unsent >= settings_.unsent_mark()) return 0;
    return buffers_of(connection()->tcb, i).size;
}

// ---- the send buffer as Linux has it (tcp_sendmsg_locked()) ----

std::uint64_t stream_socket::room_in_buffers(std::uint64_t taken, bool pushes) {
    const tcp::connection_info i = connection()->tcb.info();
    const linux_send_buffers buffers = buffers_of(connection()->tcb, i);
    // What has filled a buffer has left as far as the windows let it, though here it leaves when the call is over.
    const std::uint32_t unsent = i.unsent - (pushes ? std::min(buffers.may_leave, i.unsent) : 0);
    const std::uint64_t end = written_ + taken;
    const auto in_last = static_cast<std::uint32_t>(std::min<std::uint64_t>(unsent, end - last_buffer_));
    if (in_last != 0 && in_last < buffers.size) return buffers.size - in_last;
    const std::uint32_t waiting = waiting_buffers(end - unsent, end, buffers.packet);
    if (buffers.cost(connection()->tcb.queued(), unsent, waiting) >= send_limit(i) || unsent >= settings_.unsent_mark()) return 0;
    begin_buffer(end);
    return buffers.size;
}

void stream_socket::begin_buffer(std::uint64_t at) {
    const std::uint64_t left = written_ - std::min<std::uint64_t>(written_, unsent());
    while (buffers_.size() > 1 && buffers_[1] <= left) buffers_.pop_front();
    if (buffers_.empty() || buffers_.back() != at) buffers_.push_back(at);
    last_buffer_ = at;
}

std::uint32_t stream_socket::waiting_buffers(std::uint64_t from, std::uint64_t end, std::uint32_t packet) const {
    auto further = std::upper_bound(buffers_.begin(), buffers_.end(), from);
    const auto end_of = [&](auto b) { return b + 1 != buffers_.end() ? *(b + 1) : end; };
    while (further != buffers_.end() && end_of(further) - from <= packet) ++further; // the first takes it in (tcp_grow_skb())
    return static_cast<std::uint32_t>(buffers_.end() - further) + (from < end ? 1 : 0);
}

std::uint32_t stream_socket::send_limit(const tcp::connection_info& i) const {
    if (settings_.send_buffer_set) return settings_.send_buffer;
    // Whoever was turned away has room for two windows when an ACK comes (tcp_sndbuf_expand()).
    const std::uint32_t window = no_space_ && acknowledged() != turned_away_at_ ? i.cwnd / std::max(i.segment_payload, 1u) : 0;
    grown_send_ = std::max(grown_send_, 2 * std::max({window, 10u, i.reordering + 1}) * buffers_of(connection()->tcb, i).segment_cost);
    const std::uint32_t most = std::max(settings_.send_buffer, settings_.send_buffer_most);
    return std::min(std::max(settings_.send_buffer, grown_send_), most);
}

std::uint32_t stream_socket::send_buffer() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || !c->tcb.options().like_linux()) return grown(settings_.send_buffer, &tcp::connection_info::send_buffer);
    return in_handshake() ? settings_.send_buffer : send_limit(c->tcb.info());
}

std::uint32_t stream_socket::send_memory(const tcp::tcb& t, const tcp::connection_info& i) const {
    const linux_send_buffers buffers = buffers_of(t, i);
    const std::uint64_t left = written_ - std::min<std::uint64_t>(written_, i.unsent);
    return buffers.cost(t.queued(), i.unsent, waiting_buffers(left, written_, buffers.packet));
}

std::uint32_t stream_socket::send_memory() const {
    const tcp_connection* const c = connection();
    if (c == nullptr || !c->tcb.options().like_linux() || in_handshake()) return 0;
    return send_memory(c->tcb, c->tcb.info());
}

bool stream_socket::may_write() const {
    const tcp::tcb& t = connection()->tcb;
    const bool marked = settings_.unsent_mark() != ~std::uint32_t{0};
    if (t.options().like_linux()) {
        const tcp::connection_info i = t.info();
        const std::uint32_t used = send_memory(t, i), limit = send_limit(i);
        return used < limit && limit - used >= used / 2 && (!marked || 2 * std::uint64_t{i.unsent} < settings_.unsent_mark());
    }
    if (settings_.like_freebsd) return t.writable() >= settings_.send_low_water;
    // As Linux has it: writable when a third of the buffer is free and little enough waits to be sent (tcp(7)).
    const std::uint32_t limit = t.options().send_buffer;
    const std::uint32_t free = t.writable();
    const bool room = free != 0 && free >= (limit - std::min(free, limit)) / 2;
    return room && (!marked || 2 * std::uint64_t{unsent()} < settings_.unsent_mark());
}

bool stream_socket::wakes_writers() const {
    const tcp_connection* const c = connection();
    return c == nullptr || !c->tcb.options().like_linux() || in_handshake() || (events() & (POLLOUT | POLLERR | POLLHUP)) != 0;
}

} // namespace corewire::posix
