// TIME-WAIT in the table of connections: who comes again on the same 4-tuple, and what happens when the table is full.
#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

/// RFC 9293 3.6.1, RFC 6191: a new incarnation; the listener answers it, with a number beyond the old ones (MAY-2). A cookie would have
/// none, and a listener that could give but one lets the peer ask again. False: nobody listens, and the old one answers, but FreeBSD's,
/// which ends.
bool tcp_layer::reincarnate(time_point now, tcp_connection& c, const tcp::segment& s, packet& p) {
    const flow_name flow = c.name();
    const tcp::seq_number floor = c.tcb.time_wait_floor();
    const tcp_listen_socket* const listener = listener_for(flow);
    if (listener == nullptr && !config_.tcp.like_freebsd()) return false;
    if (listener != nullptr && (!listener->room_for_ready() || !listener->room_for_incarnation())) {
        ++statistics_.tcp_backlog_full;
        return true;
    }
    on_closed(c);
    bury();
    no_connection(now, flow, s, p, &floor);
    return true;
}

/// The table is full. A connection that only waits for old segments to die out makes room, the one that has been silent for longest of
/// those that are seen in passing: RFC 9293 3.6.1 (MUST-13) wants two lifetimes, but a table that nobody gets into serves nobody.
[[gnu::noinline]] void tcp_layer::end_a_time_wait() {
    constexpr std::size_t portion = 256; // of slots, of which a quarter to a half are taken
    tcp_connection* oldest = nullptr;
    for (int i = 0; i < 4 && oldest == nullptr; ++i) {
        looked_at_ = visit_connections(looked_at_, portion, [&oldest](tcp_connection& c) {
            if (c.tcb.state() != tcp::tcp_state::time_wait) return;
            if (oldest == nullptr || c.tcb.last_heard() < oldest->tcb.last_heard()) oldest = &c;
        });
    }
    if (oldest == nullptr) return;
    ++statistics_.tcp_time_wait_ended;
    oldest->react(oldest->tcb.end_time_wait());
}

} // namespace corewire
