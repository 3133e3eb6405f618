#include <corewire/net/tcp/expiry.hh>

#include <corewire/net/tcp/receive/linux_delayed_acks.hh>
#include <corewire/net/tcp/send/loss.hh>

namespace corewire::tcp {

namespace {

/// A smaller one would ask again before time has passed.
constexpr duration least_keepalive_interval = std::chrono::milliseconds{1};

void on_delayed_ack(control_block& c) noexcept {
    if (!c.receiving.acks.pending()) return; // it went out with data
    if (c.options->like_linux() && c.receiving.acks.left_out() == 0) note_missed_ride(c);
    c.receiving.acks.acknowledge_now();
    c.output_wanted = true;
}

event on_retransmit(control_block& c, time_point now) noexcept {
    switch (c.sending.waiting_for) {
    case awaited::timeout: return on_retransmission_timeout(c, now);
    case awaited::tail_probe: on_tail_probe_timeout(c, now); return event::none;
    case awaited::reordering: on_reordering_timeout(c, now); return event::none;
    case awaited::window_probe: return on_window_probe_timeout(c, now);
    case awaited::nothing: return event::none;
    }
    return event::none;
}

/// RFC 9293 3.8.4 (MUST-24 to 29): only when idle, and one silence is not yet death.
event on_keepalive(control_block& c, time_point now) noexcept {
    const parameters& p = *c.options;
    if (!p.keepalive || !is_synchronized(c.state)) return event::none;
    // FreeBSD asks nobody who owes it a FIN, or the ACK of the last one; where nothing else ends it, we do.
    const bool ends = c.state == tcp_state::last_ack || (c.state == tcp_state::fin_wait_2 && c.timers.armed(timer_slot::life));
    if (p.like_freebsd() && ends) return event::none;
    const duration interval = std::max(p.keepalive_interval, least_keepalive_interval);
    const duration silence = now - std::max(c.heard, p.like_linux() ? c.sending.known().use.payload_at : time_point{});
    // What waits for the peer's window is asked for by window probes, and given up by their rules.
    const bool probes = c.sending.waiting_for == awaited::window_probe && !p.like_freebsd();
    const bool busy = probes || c.sending.anything_outstanding();
    if (silence < p.keepalive_idle || busy) {
        // Linux counts in seconds, one at least.
        const duration later = p.like_linux() ? std::max<duration>(p.keepalive_idle, std::chrono::seconds{1}) : interval;
        const duration left = silence < p.keepalive_idle && !(busy && p.like_linux()) ? p.keepalive_idle - silence : later;
        c.timers.arm(timer_slot::keepalive, now + left);
        return event::none;
    }
    // Where the user has said for how long, that counts and not the number of probes (RFC 5482 4.2).
    const bool stated = p.user_timeout > duration{0};
    if (stated ? c.keepalives_out != 0 && silence >= p.user_timeout : c.keepalives_out >= p.keepalive_probes) {
        // A peer that lives after all hears of it.
        c.reset = pending_reset::acking(c.receiving.next, c.sending.next);
        const std::errc said = c.count.get().soft_error;
        return die(c, said != std::errc{} ? said : std::errc::timed_out, event::timed_out);
    }
    if (c.keepalives_out != 0xff) ++c.keepalives_out;
    ++c.count->keepalive_probes;
    c.keepalive_wanted = c.output_wanted = true;
    c.predictable = prediction::none;
    c.timers.arm(timer_slot::keepalive, now + interval);
    return event::none;
}

/// 2 MSL are over, or an orphan has waited long enough for its peer's FIN.
event on_end_of_life(control_block& c, time_point now) noexcept {
    const parameters& p = *c.options;
    // FreeBSD's patience with a peer that does not close: as long as with one that answers no keepalive, while it says something.
    if (p.like_freebsd() && c.state == tcp_state::fin_wait_2 && now - c.heard <= p.keepalive_interval * p.keepalive_probes) {
        c.timers.arm(timer_slot::life, now + p.keepalive_interval);
        return event::none;
    }
    c.move(transition::expired);
    return die(c, std::errc{}, event::none);
}

/// Marks of the sender that are passed: 2 GiB later they would seem to lie ahead. Here, where a connection that carries data comes once a
/// time-out, since the fast paths look at one of them and know nothing of the other.
void forget_passed_marks(sender& s) noexcept {
    if (s.una >= s.limited_until) s.limited_until = s.una;
    if (s.size_acknowledged()) s.largest_acked = true;
    if (s.seldom != nullptr) s.seldom->losses.forget_passed(s.una);
}

} // namespace

event on_expiry(control_block& c, time_point now) noexcept {
    event events = event::none;
    forget_passed_marks(c.sending);
    if (c.timers.take(timer_slot::delayed_ack, now)) on_delayed_ack(c);
    if (c.timers.take(timer_slot::retransmit, now)) events |= on_retransmit(c, now);
    if (c.timers.take(timer_slot::keepalive, now)) events |= on_keepalive(c, now);
    if (c.timers.take(timer_slot::pacing, now)) c.output_wanted = true;
    if (c.timers.take(timer_slot::life, now)) events |= on_end_of_life(c, now);
    c.timers.settle();
    return events;
}

} // namespace corewire::tcp
