// SEGMENT ARRIVES in state LISTEN, RFC 9293 3.10.7.2. A pure function for the listener, which has no tcb yet.
#pragma once

#include <corewire/net/tcp/segment.hh>

namespace corewire::tcp {

enum class listen_verdict : std::uint8_t {
    ignore,
    reset,   ///< answer with arrives/closed.hh's reset_for() (unless it is the ACK of a SYN cookie: ask that first)
    open,    ///< make a tcb by passive_open
};

/// FreeBSD's habits: an ACK beside a SYN is not answered, and a FIN beside one is overlooked.
inline listen_verdict on_listen(const segment& seg, bool like_freebsd = false) noexcept {
    if (seg.has(tcp_flags::rst)) return listen_verdict::ignore;       // first
    if (seg.has(tcp_flags::ack)) return like_freebsd && seg.has(tcp_flags::syn) ? listen_verdict::ignore : listen_verdict::reset; // second
    if (!seg.has(tcp_flags::syn)) return listen_verdict::ignore;      // fourth
    if (seg.has(tcp_flags::fin) && !like_freebsd) return listen_verdict::ignore; // SYN and FIN together open nothing
    return listen_verdict::open;                                      // third
}

} // namespace corewire::tcp
