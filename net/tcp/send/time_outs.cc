// What happens when the retransmission timer fires, whatever it waited for: a time-out (RFC 6298), a tail loss probe (RFC 8985 7), a window
// probe (RFC 9293 3.8.6.1); and when a connection is given up. Patience with reordering is in loss.cc; what Linux and FreeBSD make of a
// time-out stands in linux_time_outs.cc and freebsd_recovery.cc.
#include <corewire/net/tcp/send/loss.hh>

#include <corewire/net/tcp/send/freebsd_recovery.hh>
#include <corewire/net/tcp/send/linux_time_outs.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/sampling.hh>
#include <corewire/net/tcp/send/validation.hh>

#include <algorithm>

namespace corewire::tcp {

namespace {

/// So many retransmissions in a row went unanswered (R1, R2).
bool retries_exhausted(const control_block& c, time_point now, unsigned limit) noexcept {
    return c.options->like_linux() ? linux_retries_exhausted(c, now, limit) : c.sending.attempts > limit;
}

/// R1 has passed without an answer: perhaps large segments vanish (RFC 4821 7.7). Linux's counts by time.
bool doubts_path(const control_block& c, time_point now) noexcept {
    return c.options->like_linux() ? retries_exhausted(c, now, c.options->trouble_after) : c.sending.attempts >= c.options->trouble_after;
}

/// How much is too much (R2): nobody waits for an orphan's answer.
unsigned retry_limit(const control_block& c) noexcept {
    return c.orphaned ? std::min(c.options->orphan_retries, c.options->retries) : c.options->retries;
}

/// How long the user, or the host for those who open, waits for an answer; 0: R2 alone counts.
duration most_patience(const control_block& c) noexcept {
    const parameters& p = *c.options;
    const bool opening = p.open_timeout > duration{0} && !is_synchronized(c.state) && !c.passive;
    const bool requested = p.like_linux() && c.passive && c.state == tcp_state::syn_received; // nobody's socket yet
    return opening ? p.open_timeout : requested ? duration{0} : p.user_timeout;
}

/// Gives up when R2 or the user's patience is exhausted (RFC 9293 3.8.3). Reports R1 on the way.
event count_attempt(control_block& c, time_point now, unsigned limit) noexcept {
    sender& s = c.sending;
    if (s.attempts != 0xffff) ++s.attempts;
    time_point& stalled_at = s.need().stalled_at;
    if (stalled_at == never) stalled_at = now;
    const bool too_soon = c.options->like_linux() && !is_synchronized(c.state) && s.attempts == 1; // no SYN was repeated yet
    const duration most = most_patience(c);
    const bool impatient = most > duration{0} && !too_soon && now - stalled_at >= most;
    if (retries_exhausted(c, now, limit) || impatient) {
        const bool known = is_synchronized(c.state) || (c.state == tcp_state::syn_received && !c.passive);
        if (c.options->like_freebsd() && known) { // a peer that lives after all hears of it
            c.reset = pending_reset::acking(c.receiving.next, s.max);
        }
        const std::errc said = c.count.get().soft_error;
        return die(c, said != std::errc{} ? said : std::errc::timed_out, event::timed_out);
    }
    return s.attempts == c.options->trouble_after ? event::delivery_trouble : event::none;
}

/// An orphan whose peer answers window probes and takes nothing. RFC 9293 3.8.6.1 (MUST-37) lets a connection live while its probes are
/// answered, but nobody waits for this one (RFC 6429): as many probes as R2 allows, or, Linux's habit, until they come no less often.
bool outstays(const control_block& c, time_point now) noexcept {
    const rto_estimator& rto = c.sending.rto;
    if (!c.orphaned) return false;
    if (c.options->like_freebsd()) return now - c.heard >= std::chrono::seconds{60}; // persmax
    return c.options->like_linux() ? rto.current(*c.options) >= c.options->max_rto : rto.backoff() >= c.options->retries;
}

/// For info(). Linux counts none while the window is closed over what is in flight, and has a row of SYN-ACKs begin with the first of them.
void count_time_out(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const bool opening = !is_synchronized(c.state), linux_habits = c.options->like_linux();
    if (linux_habits && s.window == 0 && !c.orphaned && !opening) return;
    ++c.count->retransmission_timeouts;
    segment_tally& tally = s.need().tally;
    if (opening && c.passive) ++tally.answers_timed_out;
    if (s.attempts != 0) return;
    ++tally.time_out_rows;
    tally.row_since = linux_habits && opening && c.passive && !c.fast_open.get().serving ? s.progress : now;
}

/// How often a SYN or SYN-ACK goes again. Linux's habit: one that was answered, and no data followed, until the patience with that is over.
unsigned handshake_limit(const control_block& c) noexcept {
    const parameters& p = *c.options;
    const deferral& h = c.sending.known().handshake;
    // Fast Open's, with what was written.
    if (!c.passive && c.orphaned) return std::min({p.orphan_retries, p.syn_retries, p.syn_ack_retries});
    return !c.passive ? p.syn_retries : h.heard ? std::max(p.syn_ack_retries, h.time_outs) : p.syn_ack_retries;
}

/// The same: the SYN-ACK was answered, and goes again only at the last time-out before the answer will do.
bool waits_for_data(const control_block& c) noexcept {
    const deferral& h = c.sending.known().handshake;
    return h.heard && c.sending.attempts + 1 < h.time_outs;
}

/// The first of a row of retransmissions: patience counts from when the oldest byte was sent (RFC 5482 2); Linux's from now on.
void begin_stall(control_block& c) noexcept {
    sender& s = c.sending;
    if (s.attempts == 0) s.need().stalled_at = c.options->like_linux() && is_synchronized(c.state) ? never : s.progress;
}

// ---- a time-out, RFC 6298 5.4 to 5.6 ----

/// Of a handshake: the SYN, or SYN-ACK, goes again, unless it is `silent`.
void repeat_handshake(control_block& c, bool silent) noexcept {
    if (silent) ++c.sending.need().handshake.silent;
    else c.syn_wanted = c.syn_resent = true;
}

/// The first of a row, unless the path's MTU was to blame before, may be undone; and it is in doubt if no fast recovery went before
/// (RFC 5682 3.1).
time_out_kind kind_of_time_out(const control_block& c) noexcept {
    if (c.options->like_linux()) return linux_kind_of_time_out(c);
    const recovery& r = c.sending.repair;
    const bool first = r.phase != recovery_phase::timeout || r.blameless;
    return {.undoable = first, .doubted = first && r.phase != recovery_phase::fast};
}

/// What congestion control takes its share of: FlightSize (RFC 5681 3.1 (4)).
std::uint32_t flight_to_answer_for(const control_block& c) noexcept {
    const sender& s = c.sending;
    if (c.options->like_linux()) return s.congestion->cwnd();
    if (c.options->like_freebsd()) return std::min(s.window, freebsd_pipe(c));
    return s.max - s.una;
}

/// RFC 5681 3.1: the window is one segment now, and the same segment lowers ssthresh once.
void tell_congestion(control_block& c, const time_out_kind& what) noexcept {
    sender& s = c.sending;
    if (validates_window(c)) forget_validation(c);
    if (what.undoable) s.congestion.own().remember();
    note_reduction(c);
    s.congestion.own().on_timeout(flight_to_answer_for(c), s.attempts == 1 && !what.reduced);
}

/// The earliest segment goes at once, whatever flies still (5.4). F-RTO, or an echo, may tell that it was needless: then `before` counts.
void begin_repair(control_block& c, time_point now, const time_out_kind& what, const undo_state& before) noexcept {
    sender& s = c.sending;
    s.repair = recovery{.phase = recovery_phase::timeout, .point = s.max, .resend_at_once = true,
                        .doubting = what.doubted && c.options->forward_rto, .by_numbers = c.options->like_freebsd()};
    s.need().reduction = {};
    if (c.options->like_freebsd()) freebsd_begin_repair(c, now, what.undoable);
    if (what.undoable) s.need().undo = before;
    s.next = s.max; // a window probe's byte is repeated like any other
}

/// What was sent a round trip ago (RFC 8985 6.3); without SACK all. RACK.rtt is as old as the last repair, which Linux does not make up
/// for.
void hold_for_lost(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (c.options->like_freebsd()) return s.board.lose_everything(s.sack && s.attempts == 1); // what was SACKed counts for one time-out
    if (!s.sack) return s.board.lose_everything(false);
    const duration young = c.options->like_linux() ? s.known().losses.round_trip() : std::max(patience(c), s.rto.srtt());
    s.board.lose_sent_before(now - young, s.payload_limit);
}

/// Of anything else. event::path_mtu_fell: segments were too large for the path, says the time-out.
event repeat_flight(control_block& c, time_point now) noexcept {
    const event path = suspect_path(c, now, doubts_path(c, now));
    if (c.ecn.accurate != nullptr) suspect_options(c);
    const time_out_kind what = kind_of_time_out(c);
    sender& s = c.sending;
    const undo_state before = undo_state::since(s.una, s.board.resent_in_flight(), s.max, c.ecn.tell_reduced, c.ecn.reduced_until);
    tell_congestion(c, what);
    if (c.options->like_linux()) linux_count_delivered(c);
    begin_repair(c, now, what, before);
    hold_for_lost(c, now);
    if (c.options->like_linux()) linux_leave_room(c);
    if (s.board.rate() != nullptr) sample_timeout(c, now);
    s.settle_at(never);
    return path;
}

/// 5.5: twice the time, but where Linux's sysctls want equal distances: of the first SYNs, and of what is thin.
void back_off(control_block& c) noexcept {
    sender& s = c.sending;
    const bool linear = c.state == tcp_state::syn_sent && s.attempts <= c.options->syn_linear_timeouts;
    if (linux_is_thin(c)) s.rto.reset_back_off();
    else if (!linear) s.rto.back_off();
}

} // namespace

time_point next_attempt(const control_block& c, time_point now) noexcept {
    const time_point at = now + probe_interval(c);
    const duration most = most_patience(c);
    if (most <= duration{0}) return at;
    return std::clamp(c.sending.known().stalled_at + most, now, at);
}

duration probe_interval(const control_block& c) noexcept {
    const rto_estimator& rto = c.sending.rto;
    const parameters& p = *c.options;
    if (!p.like_freebsd() || c.sending.waiting_for != awaited::window_probe) return rto.current(p);
    constexpr duration least = std::chrono::seconds{5}, most = std::chrono::seconds{60}; // net.inet.tcp.persmin, persmax
    const duration first = rto.srtt() != duration{0} ? 4 * rto.srtt() + 8 * rto.rttvar() : 2 * p.initial_rto; // tcp_setpersist()
    return std::clamp(first * (std::int64_t{1} << std::min(rto.backoff(), 9u)) + p.rto_slop, least, most);
}

event on_retransmission_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const bool opening = c.state == tcp_state::syn_sent || c.state == tcp_state::syn_received;
    count_time_out(c, now);
    begin_stall(c);
    const bool silent = waits_for_data(c);
    event said = count_attempt(c, now, opening ? handshake_limit(c) : retry_limit(c));
    if (has(said, event::timed_out)) return said;
    if (opening) repeat_handshake(c, silent);
    else said = said | repeat_flight(c, now);
    c.predictable = prediction::none;
    if (!silent) s.timing = false; // Karn
    back_off(c);
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now)); // 5.6
    c.output_wanted = true;
    return said;
}

void on_tail_probe_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    ++c.count->tail_loss_probes;
    if (s.repair.phase == recovery_phase::open) {
        c.probe_wanted = true;
        c.predictable = prediction::none;
    } else { // nothing was heard of the retransmission: once more, whatever cwnd says, then the RTO
        s.board.forget_first_resend(s.payload_limit); // what left in one burst is one range, but one segment is enough to ask with
        s.repair.resend_at_once = true;
    }
    s.repair.only_new = false;
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, now + s.rto.current(*c.options));
    c.output_wanted = true;
}

event on_window_probe_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (s.usable_window() > 0 && s.next != s.final_end() && !c.options->like_linux()) { // what fits goes, and is no probe
        c.probe_wanted = c.output_wanted = true;
        c.predictable = prediction::none;
        c.timers.arm(timer_slot::retransmit, now + s.rto.current(*c.options));
        return event::none;
    }
    const event e = count_attempt(c, now, retry_limit(c));
    if (has(e, event::timed_out)) return e;
    if (outstays(c, now)) {
        const seq_number seq = c.options->like_freebsd() ? s.max : s.next;
        if (!c.options->like_linux()) c.reset = pending_reset::acking(c.receiving.next, seq);
        return die(c, std::errc::timed_out, event::timed_out);
    }
    ++c.count->window_probes;
    if (c.options->like_linux() && c.urgent.sending) c.receiving.acks.acknowledge_now(); // tcp_write_wakeup(): besides
    s.rto.back_off();
    c.probe_wanted = true;
    c.predictable = prediction::none;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now));
    c.output_wanted = true;
    return e;
}

} // namespace corewire::tcp
