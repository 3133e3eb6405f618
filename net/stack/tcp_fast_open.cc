// tcp_layer's part in Fast Open (RFC 7413): whose data in a SYN is taken, and what our own SYNs say. The handshake itself is net/tcp's.
#include <corewire/net/stack/tcp_layer.hh>

#include <utility>

namespace corewire {

/// RFC 7413 4.2.2: what the SYN-ACK says, and whether the SYN's data is taken.
tcp::fast_open_answer tcp_layer::judge_fast_open(time_point now, tcp_listen_socket& listener, const flow_name& flow,
                                                 const tcp::segment& s) {
    const bool offered = s.options.has_fast_open();
    const bool anybody = no_cookie_needed_ || listener.tuned_without_cookie();
    if (listener.options().fast_open == 0 || !(offered || (anybody && s.payload_size != 0))) return {};
    if (!listener.room_for_early(now)) { // as if it were not there: 5.1
        ++statistics_.tcp_fast_open_full;
        return {};
    }
    if (anybody) return {.take_data = true, .give_cookie = false, .cookie = {}};
    const auto shown = tcp::fast_open_cookie::of(s.options);
    const tcp::fast_open_keys& keys = listener.fast_open_keys() ? *listener.fast_open_keys() : fast_open_keys_.at(now);
    tcp::fast_open_cookie right = keys.cookie_for(flow.remote, flow.local);
    right.experimental = shown.experimental; // answered in the form that asked
    if (shown.empty()) {
        ++statistics_.tcp_fast_open_asked;
        return {.take_data = false, .give_cookie = true, .cookie = right};
    }
    const auto verdict = keys.check(shown, flow.remote, flow.local);
    if (verdict == tcp::fast_open_keys::verdict::bad) {
        ++statistics_.tcp_fast_open_bad_cookie;
        return {.take_data = false, .give_cookie = true, .cookie = right};
    }
    return {.take_data = true, .give_cookie = verdict == tcp::fast_open_keys::verdict::old, .cookie = right};
}

/// A good cookie: the connection is accepted, read and written before its handshake is done.
void tcp_layer::open_early(tcp_listen_socket& listener, tcp_connection& c, packet& p) {
    ++statistics_.tcp_fast_open_accepted;
    const bool small = p.size() != 0 && p.size() <= small_blocks::most && frames_are_rare() && blocks_.take_over(p);
    if (small) ++statistics_.tcp_small_kept;
    if (!small && frames_are_scarce()) { // the SYN-ACK does not acknowledge the data: it comes again
        p.head.clear();
        p.body.clear();
    }
    c.tcb.take_syn_data(p.head, p.body);
    c.connected_ = true;
    c.early_listener_ = &listener;
    listener.count_early(+1);
    c.listener_ = &listener;
    if (!listener.on_established(c)) {
        c.listener_ = nullptr;
        ++statistics_.tcp_backlog_full;
        c.tcb.abort();
    }
}

void tcp_layer::on_early_established(tcp_connection& c) noexcept {
    std::exchange(c.early_listener_, nullptr)->count_early(-1);
}

tcp::fast_open_request tcp_layer::request_fast_open(time_point now, const net_address& server, const tcp::parameters& p) {
    tcp::fast_open_request r = fast_open_servers_.request_for(now, server);
    if (p.fast_open_without_cookie) r = {.without_cookie = true, .cookie = {}, .peer_mss = r.peer_mss};
    return r;
}

void tcp_layer::learn_fast_open(tcp_connection& c) noexcept {
    const tcp::fast_open_state& f = c.tcb.fast_open();
    if (!f.asked) return;
    const net_address server = c.name().remote;
    if (f.syn_lost && !f.answered && !f.data_acked) fast_open_servers_.on_lost_syn(now(), server);
    if (f.data_acked && !f.syn_lost) fast_open_servers_.on_taken_syn(server);
    if (f.answered) return fast_open_servers_.learn(now(), server, f.cookie, f.peer_mss);
    // Linux's habit: servers before RFC 7413 know the older form alone.
    const bool in_vain = c.tcb.options().like_linux() && f.cookie.empty() && !f.syn_lost;
    fast_open_servers_.learn(now(), server, {.experimental = f.cookie.experimental}, f.peer_mss, in_vain);
}

void tcp_layer::learn_accurate_path(const tcp_connection& c) { accurate_paths_.on_answer(now(), c.name().remote, c.tcb.asked_in_vain()); }

bool tcp_layer::knows_fast_open(const net_address& server) const noexcept { return fast_open_servers_.knows(now(), server); }

} // namespace corewire
