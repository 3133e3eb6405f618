// TCP_REPAIR and the options that go with it, as far as a socket without any magic has them (tcp(7) says little, do_tcp_setsockopt() all):
// what the queues hold and where they stand is told, an unconnected socket keeps what it is given, and closing says nothing to the peer.
// A connection is not put together again: connect() and writes to a queue are EOPNOTSUPP meanwhile.
#include <corewire/net/posix/option_values.hh>
#include <corewire/net/posix/parts.hh>
#include <corewire/net/posix/stream_socket.hh>
#include <corewire/net/tcp/receive/timestamps.hh>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace corewire::posix {

namespace {

enum : int { no_queue, receive_queue, send_queue, queues };
constexpr int repair_options = 22, repair_window = 29; ///< TCP_REPAIR_OPTIONS, TCP_REPAIR_WINDOW

/// struct tcp_repair_window.
struct window_fields {
    std::uint32_t snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup;
};

} // namespace

bool stream_socket::is_of_repair(int name) noexcept {
    switch (name) {
    case TCP_REPAIR:
    case TCP_REPAIR_QUEUE:
    case TCP_QUEUE_SEQ:
    case TCP_TIMESTAMP:
    case repair_options:
    case repair_window: return true;
    default: return false;
    }
}

bool stream_socket::is_closed() const {
    const tcp_connection* const c = connection();
    if (listener_ != nullptr) return false;
    return c == nullptr || c->tcb.state() == tcp::tcp_state::closed || c->tcb.state() == tcp::tcp_state::time_wait;
}

outcome stream_socket::set_repair_option(int name, const void* value, socklen_t size) {
    const std::optional<int> n = int_of(value, size);
    if (!n) return -EINVAL;
    tcp_connection* const c = connection();
    switch (name) {
    case TCP_REPAIR: return set_repair(*n);
    case TCP_REPAIR_QUEUE:
        if (!repair_.on) return -EPERM;
        if (!in_range(*n, no_queue, queues - 1)) return -EINVAL;
        repair_.queue = *n;
        return 0;
    case TCP_QUEUE_SEQ:
        if (!is_closed()) return -EPERM;
        if (repair_.queue == no_queue) return -EINVAL;
        (repair_.queue == send_queue ? repair_.written : repair_.received) = static_cast<std::uint32_t>(*n);
        return 0;
    case TCP_TIMESTAMP: { // the lowest bit says what the clock counts, here milliseconds in any case
        if (!repair_.on) return -EPERM;
        repair_.microseconds = (*n & 1) != 0;
        const std::uint32_t offset = static_cast<std::uint32_t>(*n) - tcp::timestamp_echo::clock(stack_.tcp().now(), 0);
        if (c != nullptr) c->tcb.set_timestamp_offset(offset);
        else repair_.timestamp_offset = offset;
        return 0;
    }
    case repair_options:
        if (!repair_.on) return -EINVAL;
        return c != nullptr && c->tcb.state() == tcp::tcp_state::established && written_ == 0 ? -EOPNOTSUPP : -EPERM;
    default: {
        if (!repair_.on) return -EPERM;
        window_fields w;
        if (size != sizeof w) return -EINVAL;
        std::memcpy(&w, value, sizeof w);
        const std::uint32_t next = c != nullptr ? c->tcb.expected().value : repair_.received;
        const auto after = [](std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; };
        if (w.max_window < w.snd_wnd || after(w.snd_wl1, next + w.rcv_wnd) || after(w.rcv_wup, next)) return -EINVAL;
        if (c != nullptr) return -EOPNOTSUPP;
        std::memcpy(repair_.window.data(), &w, sizeof w);
        return 0;
    }
    }
}

outcome stream_socket::set_repair(int how) {
    enum : int { off_quietly = -1, off, on };
    if (listener_ != nullptr || settings_.like_freebsd) return -EPERM;
    if (!in_range(how, off_quietly, on)) return -EINVAL;
    repair_.on = repair_.forces_reuse = how == on;
    if (how == on) repair_.queue = no_queue;
    else settings_.reuse_address = false; // SK_NO_REUSE
    if (tcp_connection* const c = connection(); c != nullptr && how == off && c->tcb.state() == tcp::tcp_state::established) {
        c->tcb.ask_for_window();
        stack_.tcp().mark_dirty(*c);
    }
    return 0;
}

outcome stream_socket::get_repair_option(int name, void* value, socklen_t* size) const {
    const tcp_connection* const c = connection();
    switch (name) {
    case TCP_REPAIR: return give_int(repair_.on, value, size);
    case TCP_REPAIR_QUEUE: return repair_.on ? give_int(repair_.queue, value, size) : -EINVAL;
    case TCP_QUEUE_SEQ: {
        if (repair_.queue == no_queue) return -EINVAL;
        const bool sends = repair_.queue == send_queue;
        const std::uint32_t kept = sends ? repair_.written : repair_.received;
        const std::uint32_t number = c == nullptr ? kept : sends ? c->tcb.written().value : c->tcb.expected().value;
        return give_int(static_cast<int>(number), value, size);
    }
    case TCP_TIMESTAMP: { // what a segment sent now would say
        const std::uint32_t offset = c != nullptr ? c->tcb.timestamp_offset() : repair_.timestamp_offset;
        const std::uint32_t now = tcp::timestamp_echo::clock(stack_.tcp().now(), offset);
        return give_int(static_cast<int>((now & ~1u) | (repair_.microseconds ? 1u : 0u)), value, size);
    }
    case repair_window: {
        window_fields w;
        if (*size != sizeof w) return -EINVAL;
        if (!repair_.on) return -EPERM;
        std::memcpy(&w, repair_.window.data(), sizeof w);
        if (c != nullptr) {
            const tcp::connection_info i = c->tcb.info();
            w = {c->tcb.window_number().value, i.send_window, i.largest_send_window, i.receive_window, i.rcv_nxt.value};
        }
        return give(&w, sizeof w, value, size);
    }
    default: return -ENOPROTOOPT;
    }
}

/// What the call returns; nothing: it is as without.
std::optional<outcome> stream_socket::look_into_repaired(std::span<const iovec> into, int flags) const {
    if (!repair_.on) return std::nullopt;
    if ((flags & MSG_PEEK) == 0) return -EPERM;
    if (repair_.queue == no_queue) return -EINVAL;
    if (repair_.queue == receive_queue) return std::nullopt;
    // All of it, and as much of it is copied as there is room for (tcp_peek_sndq()).
    const tcp_connection* const c = connection();
    if (c == nullptr) return 0;
    std::uint32_t at = 0;
    const std::uint32_t all = c->tcb.queued();
    if (std::min<std::uint64_t>(all, total_size(into)) > reachable_size(into)) return -EFAULT;
    for (const iovec& v : into) {
        const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(v.iov_len, all - at));
        if (n != 0) c->tcb.peek_written(at, {static_cast<std::byte*>(v.iov_base), n});
        at += n;
    }
    return all;
}

} // namespace corewire::posix
