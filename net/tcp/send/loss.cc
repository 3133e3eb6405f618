#include <corewire/net/tcp/send/loss.hh>

namespace corewire::tcp {

namespace {

constexpr sack_block block_of(wire::sack_block b) noexcept { return {seq_number(b.left), seq_number(b.right)}; }

/// The first block reports bytes at or below SEG.ACK: they came twice (RFC 2883 4).
bool reports_duplicate(const segment& seg) noexcept {
    return seg.options.has_sack() && block_of(seg.options.sack[0]).right <= seg.ack;
}

/// RFC 5681 3.2 (2), RFC 6675 5 (4): halve, and resend the first hole whatever the window says.
void enter_fast_recovery(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const std::uint32_t flight = s.next - s.una;
    s.repair.phase = recovery_phase::fast;
    s.repair.point = s.max;
    s.repair.probe_out = false;
    ++c.count.fast_recoveries;
    s.congestion->on_loss(now, flight);
    if (s.sack) {
        s.board.mark_lost(s.payload_limit);
        if (!s.board.has_lost()) s.board.lose_first(earlier(s.una + s.payload_limit, s.max));
    } else {
        s.board.lose_first(earlier(s.una + s.payload_limit, s.max));
    }
    s.repair.resend_at_once = true;
    c.probe_wanted = false;
    arm_retransmission(c, now);
}

/// A probe of the tail was SACKed while earlier bytes were not: those were sent long before it, so they are lost.
bool probe_exposes_holes(const sender& s) noexcept {
    return s.repair.probe_out && s.board.holes() != 0 && s.board.highest_sacked() >= s.repair.probe_end;
}

void leave_recovery(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (s.repair.phase == recovery_phase::fast) s.congestion->on_recovered(now);
    s.repair.phase = recovery_phase::open;
    s.repair.duplicates = 0;
    s.repair.left = 0;
}

/// RFC 8985 7.4.2.
void settle_tail_probe(control_block& c, const segment& seg, time_point now) noexcept {
    sender& s = c.sending;
    if (!s.repair.probe_out || seg.ack < s.repair.probe_end) return;
    if (!s.repair.probe_repeats || reports_duplicate(seg)) {
        s.repair.probe_out = false;
    } else if (seg.ack > s.repair.probe_end) { // the probe itself repaired a loss
        s.repair.probe_out = false;
        s.congestion->on_loss(now, s.next - s.una);
    }
}

/// RFC 6582 3.2 (3), partial acknowledgement: the next hole begins at SND.UNA.
void on_partial_ack(control_block& c, time_point now, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    if (!s.sack) {
        s.repair.left = s.repair.left > acked ? s.repair.left - acked : 0;
        s.board.lose_first(earlier(s.una + s.payload_limit, s.max));
    } else {
        s.board.mark_lost(s.payload_limit);
    }
    arm_retransmission(c, now);
}

/// Gives up when R2 or the user's patience is exhausted (RFC 9293 3.8.3). Reports R1 on the way.
event count_attempt(control_block& c, time_point now, unsigned limit) noexcept {
    sender& s = c.sending;
    ++s.attempts;
    const bool impatient = c.options.user_timeout > duration{0} && now - s.progress >= c.options.user_timeout;
    if (s.attempts > limit || impatient) {
        return die(c, c.soft_error != std::errc{} ? c.soft_error : std::errc::timed_out, event::timed_out);
    }
    return s.attempts == c.options.trouble_after ? event::delivery_trouble : event::none;
}

/// When to try again: after the backed-off time-out, or when the user's patience ends.
time_point next_attempt(const control_block& c, time_point now) noexcept {
    const time_point at = now + c.sending.rto.current();
    if (c.options.user_timeout <= duration{0}) return at;
    return std::clamp(c.sending.progress + c.options.user_timeout, now, at);
}

} // namespace

bool take_sack_blocks(control_block& c, const segment& seg) noexcept {
    sender& s = c.sending;
    if (!s.sack || !seg.options.has_sack()) return false;
    bool news = false;
    for (std::uint32_t i = 0; i < seg.options.sack_count; ++i) {
        if (s.board.sack(block_of(seg.options.sack[i]), s.max)) news = true;
    }
    return news;
}

void on_duplicate_ack(control_block& c, time_point now, bool news) noexcept {
    sender& s = c.sending;
    if (s.repair.probe_out && s.repair.probe_repeats && s.una == s.repair.probe_end) s.repair.probe_out = false;
    if (s.sack && !news) return; // RFC 6675 2: a duplicate ACK brings new SACK information
    ++s.repair.duplicates;
    if (!s.sack && s.repair.phase != recovery_phase::timeout) s.repair.left = std::min(s.repair.left + s.payload_limit, s.next - s.una);
    switch (s.repair.phase) {
    case recovery_phase::open: {
        if (probe_exposes_holes(s)) s.board.lose_all_holes();
        const bool found = s.sack && (s.board.mark_lost(s.payload_limit) || s.board.has_lost());
        if (found || s.repair.duplicates >= scoreboard::duplicate_threshold) enter_fast_recovery(c, now);
        break;
    }
    case recovery_phase::fast:
    case recovery_phase::timeout:
        if (s.sack) s.board.mark_lost(s.payload_limit);
        break;
    }
    c.output_wanted = true;
}

void on_repair_ack(control_block& c, const segment& seg, time_point now, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    settle_tail_probe(c, seg, now);
    s.repair.duplicates = 0;
    if (s.repair.phase == recovery_phase::open) {
        s.repair.left = 0;
        if (probe_exposes_holes(s)) s.board.lose_all_holes();
        const bool found = s.sack && (s.board.mark_lost(s.payload_limit) || s.board.has_lost());
        if (found) enter_fast_recovery(c, now);
    } else if (s.una >= s.repair.point) {
        leave_recovery(c, now);
    } else if (s.repair.phase == recovery_phase::fast) {
        on_partial_ack(c, now, acked);
    } else if (s.sack) {
        s.board.mark_lost(s.payload_limit);
    }
    c.output_wanted = true;
}

event on_retransmission_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    ++c.count.retransmission_timeouts;
    if (c.state == tcp_state::syn_sent || c.state == tcp_state::syn_received) {
        const event e = count_attempt(c, now, c.passive ? c.options.syn_ack_retries : c.options.syn_retries);
        if (has(e, event::timed_out)) return e;
        c.syn_wanted = c.syn_resent = true;
    } else {
        const event e = count_attempt(c, now, c.options.retries);
        if (has(e, event::timed_out)) return e;
        s.congestion->on_timeout(now, s.in_flight(), s.attempts == 1);
        s.repair = recovery{.phase = recovery_phase::timeout, .point = s.max};
        s.next = s.max; // a window probe's byte is repeated like any other
        s.board.lose_everything(s.max, s.sack);
    }
    c.predictable = false;
    s.timing = false; // Karn
    s.rto.back_off();
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now));
    c.output_wanted = true;
    return s.attempts == c.options.trouble_after ? event::delivery_trouble : event::none;
}

void on_tail_probe_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    ++c.count.tail_loss_probes;
    if (s.repair.phase == recovery_phase::open || s.board.holes() == 0) {
        c.probe_wanted = true;
        c.predictable = false;
    } else { // nothing was heard of the retransmission: once more, whatever cwnd says, then the RTO
        s.board.forget_first_resend();
        s.repair.resend_at_once = true;
    }
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, now + s.rto.current());
    c.output_wanted = true;
}

event on_window_probe_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const event e = count_attempt(c, now, c.options.retries);
    if (has(e, event::timed_out)) return e;
    ++c.count.window_probes;
    s.rto.back_off();
    c.probe_wanted = true;
    c.predictable = false;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now));
    c.output_wanted = true;
    return e;
}

void arm_retransmission(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const duration rto = s.rto.current();
    const bool may_probe = s.sack && s.probe_after != duration{0} && c.options.tail_loss_probe && !s.repair.probe_out &&
                           s.repair.phase != recovery_phase::timeout && s.rto.backoff() == 0;
    if (may_probe) {
        s.probe_is_patient = s.max - s.una <= s.payload_limit;
        const duration patience = s.probe_is_patient ? c.options.delayed_ack : duration{0};
        const duration wait = s.probe_after + patience;
        if (wait < rto) {
            s.waiting_for = awaited::tail_probe;
            c.timers.arm(timer_slot::retransmit, now + wait);
            return;
        }
    }
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, now + rto);
}

} // namespace corewire::tcp
