// How a connection ends, by the application's wish, or the stack's; and what TIME-WAIT gives way to. By the peer's: arrives/; by a timer:
// expiry.cc; by the network's word: icmp_reports.cc.
#include <corewire/net/tcp/tcb.hh>

namespace corewire::tcp {

void tcb::shutdown_send() noexcept {
    if (c_.sending.fin_queued || c_.state == tcp_state::closed) return;
    c_.sending.fin_queued = true;
    c_.output_wanted = true;
    c_.predictable = prediction::none;
    // During the handshake the FIN waits; establish() makes the move (RFC 9293 3.10.4).
    if (is_synchronized(c_.state)) c_.move(transition::fin_sent);
    else if (c_.fin_goes_ahead()) c_.ack_first = true;
}

bool tcb::holds_early_data() const noexcept {
    return c_.fast_open.made() && !is_synchronized(c_.state) && c_.sending.queue.size() != 0 && !c_.options->like_linux();
}

void tcb::orphan(time_point now) noexcept {
    c_.orphaned = true;
    c_.predictable = prediction::none;
    if (c_.options->like_freebsd()) c_.receiving.queue.clear();
    const bool both_open = c_.options->like_freebsd() && c_.state == tcp_state::syn_received && !c_.passive;
    if ((c_.state == tcp_state::syn_sent || both_open) && !holds_early_data()) { // RFC 9293 3.10.4: delete the TCB
        die(c_, std::errc::connection_aborted, event::none);
    } else if (c_.state == tcp_state::fin_wait_2) {
        if (c_.options->fin_wait_2 < duration{0}) return abort();
        c_.timers.arm(timer_slot::life, now + c_.options->fin_wait_2);
    }
}

void tcb::abort() noexcept {
    if (c_.state == tcp_state::closed) return;
    // RFC 9293 3.10.5: the peer is told where there is one that knows us.
    // In CLOSING and LAST-ACK everything has been said, if our FIN is out.
    const bool ending = (c_.state == tcp_state::closing || c_.state == tcp_state::last_ack) && !c_.options->like_freebsd();
    const bool said = ending && c_.sending.fin_sent();
    // Linux and FreeBSD forget what a listener has half open, and answer the ACK; but what Fast Open has given to accept() is a connection.
    const bool half_open = c_.passive && c_.state == tcp_state::syn_received && !serving_early();
    const bool forgotten = half_open && c_.options->habits != personality::standard;
    const bool tell = c_.state != tcp_state::syn_sent && c_.state != tcp_state::time_wait && !said && !forgotten;
    if (tell) c_.reset = pending_reset::acking(c_.receiving.next, c_.sending.next);
    die(c_, std::errc::connection_aborted, event::none);
}

void tcb::vanish() noexcept {
    if (c_.state != tcp_state::closed) die(c_, std::errc::connection_aborted, event::none);
}

event tcb::refuse(seq_number acknowledged) noexcept {
    c_.reset = pending_reset::at(acknowledged);
    return die(c_, std::errc::connection_aborted, event::reset);
}

event tcb::end_time_wait() noexcept {
    if (c_.state != tcp_state::time_wait) return event::none;
    c_.move(transition::expired);
    return die(c_, std::errc{}, event::none);
}

bool tcb::is_told_apart() const noexcept {
    return c_.state == tcp_state::time_wait && c_.timestamps && c_.options->timestamps && !c_.options->like_freebsd();
}

bool tcb::may_be_succeeded(time_point now) const noexcept { return is_told_apart() && now - c_.heard > std::chrono::seconds{1}; }

bool tcb::may_reuse(const segment& syn) const noexcept {
    if (c_.state != tcp_state::time_wait || !syn.has(tcp_flags::syn) || syn.has(tcp_flags::ack | tcp_flags::rst)) {
        return false;
    }
    if (c_.options->like_freebsd()) return syn.seq > c_.receiving.next;
    if (syn.has(tcp_flags::fin) && !c_.options->like_linux()) return false; // no listener takes it, and this would end for nothing
    // RFC 6191 2: a later timestamp or a later number tells a new connection from an old duplicate.
    if (c_.options->timestamps && syn.options.has_timestamps()) {
        // An old duplicate would have none. Linux does not look.
        if (!c_.timestamps) return !c_.options->like_linux() || syn.seq > c_.receiving.next;
        const auto age = static_cast<std::int32_t>(syn.options.timestamp_value - c_.receiving.timestamps.recent());
        if (age != 0) return age > 0;
    }
    return syn.seq > c_.receiving.next;
}

} // namespace corewire::tcp
