// The fifth step of RFC 9293 3.10.7.4: the ACK field.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/send/acknowledge.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/sampling.hh>
#include <corewire/net/tcp/send/super_segments.hh>
#include <corewire/net/tcp/send/validation.hh>

namespace corewire::tcp {

namespace {

/// How far an ACK may lie behind SND.UNA. For Linux (since 6.7) not before what was acknowledged first, which the SYN is if it was ours.
std::uint32_t oldest_ack(const control_block& c) noexcept {
    const sender& s = c.sending;
    if (!c.options->like_linux()) return s.max_window;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(s.max_window, s.known().tally.acked + (c.passive ? 0 : 1)));
}

/// FreeBSD's habit: where our last ACK ended must lie in what of the segment has not come before, or at its end (tcp_do_segment()).
bool freebsd_takes_stamp(const control_block& c, const segment& seg) noexcept {
    const receiver& r = c.receiving;
    const seq_number end = seg.seq + seg.length(), last = r.acks.last_sent();
    if (seg.seq >= r.next) return seg.seq <= last;
    const bool repeats = end <= r.next; // its FIN counts for nothing then
    const seq_number text_end = seg.seq + seg.payload_size;
    return earlier(r.next, text_end) <= last && last <= (repeats ? text_end : end);
}

/// RFC 7323 5.3 R3, 4.3 (2): the segment is the peer's, as far as sequence number and ACK field can tell; before, a guess would do to set
/// the clock by which all others are judged.
void take_timestamp(control_block& c, const arrival& a) noexcept {
    if (!c.timestamps || !a.seg.options.has_timestamps()) return;
    receiver& r = c.receiving;
    if (c.options->like_linux() && r.timestamps.too_early(a.seg.options.timestamp_value, a.now) && r.timestamps.recent() != 0) return;
    if (c.options->like_freebsd() && !freebsd_takes_stamp(c, a.seg)) return;
    r.timestamps.update(a.seg.options.timestamp_value, a.seg.seq, r.acks.last_sent(), a.now);
}

/// SYN-RECEIVED: the ACK of our SYN establishes the connection, anything else is refused.
verdict complete_handshake(control_block& c, arrival& a) noexcept {
    if (c.state != tcp_state::syn_received) return verdict::go_on;
    const sender& s = c.sending;
    if (c.options->like_linux() && !c.passive && a.seg.ack == s.una) return verdict::finished; // where both have opened, an old one
    if (!(s.una < a.seg.ack && a.seg.ack <= s.max)) {
        ++c.count->bad_acks;
        c.reset = pending_reset::at(a.seg.ack);
        c.output_wanted = true;
        return verdict::finished;
    }
    if (c.options->like_linux() && linux_defers(c, a)) {
        take_timestamp(c, a);
        return verdict::finished;
    }
    establish(c, a);
    if (c.options->like_linux() && !c.passive) ++c.sending.need().tally.delivered; // both opened: SYN and SYN-ACK count
    if (c.ecn.accurate != nullptr) settle_ecn_handshake(c, a, true);
    return verdict::go_on;
}

/// FreeBSD's habit: one too new is answered, and no challenge; one of what was never ours to send is challenged, too ("ghost ACKs"). The
/// timestamp counts.
verdict freebsd_checks_range(control_block& c, arrival& a) noexcept {
    const sender& s = c.sending;
    const bool too_new = a.seg.ack > s.max;
    if (!too_new && a.seg.ack >= later(s.iss + 1, s.una - s.max_window)) return verdict::go_on;
    ++c.count->bad_acks;
    take_timestamp(c, a);
    if (!too_new) {
        challenge(c, a.now);
        return verdict::finished;
    }
    c.receiving.acks.acknowledge_now();
    c.output_wanted = true;
    return verdict::finished;
}

/// RFC 5961 5: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT, or the ACK (and the data with it) is not believed.
verdict check_range(control_block& c, arrival& a) noexcept {
    const sender& s = c.sending;
    if (c.options->like_freebsd()) return freebsd_checks_range(c, a);
    if (a.seg.ack > s.max || a.seg.ack < s.una - oldest_ack(c)) {
        ++c.count->bad_acks;
        // Linux is silent in ESTABLISHED about what it has never sent.
        const bool silent = c.options->like_linux() && c.state == tcp_state::established && a.seg.ack > s.max;
        if (!silent) challenge(c, a.now);
        return verdict::finished;
    }
    return verdict::go_on;
}

/// The window has been taken back from under what is in flight: what is sent again asks for it as a probe does, and the peer, who answers,
/// lives (RFC 9293 3.8.6: SHLD-17, MUST-37). But nobody waits for an orphan's; and Linux counts by time (taken_back()).
void note_answer_without_room(control_block& c) noexcept {
    sender& s = c.sending;
    if (c.orphaned || c.options->like_linux() || s.waiting_for == awaited::window_probe) return;
    s.attempts = std::min<std::uint16_t>(s.attempts, 1); // the first counts: patience does from there on
}

/// What the peer refused while it had no room goes again as soon as it has, as behind a window probe, and not when the next time-out, which
/// was backed off with each refusal, says so. Linux and FreeBSD wait.
void resend_refused(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    // Once for each time-out: the timer, who counts the attempts, must not be put off for ever. Nobody waits for an orphan's.
    const bool refused = s.repair.phase == recovery_phase::timeout && s.waiting_for == awaited::timeout && s.rto.backoff() != 0;
    if (!refused || c.orphaned || c.options->like_linux() || c.options->like_freebsd()) return;
    if (s.window < std::min<std::uint32_t>(s.payload_limit, s.max - s.una)) return; // it would be refused again
    s.rto.reset_back_off();
    s.board.forget_first_resend(s.payload_limit);
    s.repair.resend_at_once = c.output_wanted = true;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now));
}

/// Whether others leave the window as it is. Linux: where nothing else is new it does not shrink, but for closing. FreeBSD: only more room
/// is news then; though whoever answers a probe lives (MUST-37).
bool says_nothing_new(control_block& c, const arrival& a) noexcept {
    sender& s = c.sending;
    if (c.options->habits == personality::standard || s.wl1 != a.seg.seq) return false;
    const std::uint32_t told = std::uint32_t{a.seg.window} << (a.seg.has(tcp_flags::syn) ? 0 : s.shift);
    if (c.options->like_linux()) return a.seg.ack == s.una && told != 0 && told < s.window;
    if (s.wl2 != a.seg.ack || told > s.window) return false;
    if (s.waiting_for == awaited::window_probe) s.attempts = 0;
    return true;
}

/// The peer lives and is merely slow (RFC 9293 3.8.6.1, MUST-37), which the user's patience need not bear.
void on_probe_answered(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    s.attempts = 0;
    if (s.window != 0 && s.next == s.una) {
        c.timers.disarm(timer_slot::retransmit);
        s.waiting_for = awaited::nothing;
        s.rto.reset_back_off();
        c.output_wanted = true; // what a cork holds waits for a timer of its own
    } else if (c.options->like_linux()) { // the next probe counts from the answer to this one
        const time_point stalled_at = s.known().stalled_at;
        const bool impatient = c.options->user_timeout > duration{0} && stalled_at != never;
        const time_point at = now + s.rto.current(*c.options);
        c.timers.arm(timer_slot::retransmit, impatient ? std::clamp(stalled_at + c.options->user_timeout, now, at) : at);
    }
}

/// RFC 9293 3.10.7.4: only a segment that is newer than the last one that set the window may set it.
bool update_window(control_block& c, const arrival& a) noexcept {
    sender& s = c.sending;
    if (!(s.wl1 < a.seg.seq || (s.wl1 == a.seg.seq && s.wl2 <= a.seg.ack))) return false;
    const bool of_nothing = a.seg.ack == s.una;
    if (s.attempts != 0 && a.seg.window == 0 && of_nothing) [[unlikely]] note_answer_without_room(c);
    if (says_nothing_new(c, a)) return false;
    const std::uint32_t old = s.window, largest = s.max_window;
    // Linux: whatever may set the window is no duplicate ACK, though it says the same (FLAG_WIN_UPDATE).
    const bool newer = c.options->like_linux() && s.wl1 < a.seg.seq;
    const unsigned shift = a.seg.has(tcp_flags::syn) ? 0 : s.shift; // RFC 7323 2.2
    s.take_window(std::uint32_t{a.seg.window} << shift, a.seg.seq, a.seg.ack);
    if (s.window != old) c.output_wanted = true;
    if (old == 0 && s.window != 0 && s.attempts != 0 && of_nothing) [[unlikely]] resend_refused(c, a.now);
    if (s.max_window != largest && c.options->like_linux()) {
        if (largest != 0) fit_to_window(c);
        else s.fit_window(c.timestamps); // the handshake's
    }
    if (s.waiting_for == awaited::window_probe) on_probe_answered(c, a.now);
    return s.window != old || newer;
}

/// RFC 5681 2, (a) to (e).
bool is_duplicate(const control_block& c, const arrival& a, bool window_changed) noexcept {
    return c.sending.next != c.sending.una && a.seg.length() == 0 && !a.seg.cut && a.seg.ack == c.sending.una && !window_changed;
}

/// RFC 3168 6.1.2.
void on_echo(control_block& c, const arrival& a, const delivery& d) noexcept {
    sender& s = c.sending;
    s.marked = a.seg.ack > s.una ? a.seg.ack - s.una : 0;
    if (c.options->like_linux()) s.need().tally.delivered_marked += d.counted / s.payload_limit; // what was SACKed, too
    if (reduce_for_mark(c, a.now, a.seg.ack)) c.ecn.tell_reduced = true;
}

/// Linux counts what comes marked, agreed on or not (6.18).
void note_codepoint(control_block& c, const segment& seg) noexcept {
    c.ecn.seen = true;
    if (c.ecn.accurate != nullptr) return;
    mark_tally& marks = c.sending.need().tally.marks;
    if (seg.congestion_seen()) ++marks.received;
    using enum wire::ecn_codepoint;
    (seg.ecn == ce ? marks.received_ce : seg.ecn == ect_0 ? marks.received_ect_0 : marks.received_ect_1) += seg.payload_size;
}

/// What ECN has to say: of the segment itself, and of those that it acknowledges.
void take_ecn(control_block& c, const arrival& a, const delivery& d) noexcept {
    if (c.ecn.accurate != nullptr) {
        const bool settled = std::exchange(c.ecn.handshake_settled, false);
        if (a.seg.has(tcp_flags::syn)) return; // a simultaneous open's: the flags are no counter there (RFC 9768 3.2.2)
        count_arrival(c, a);
        if (!settled) take_feedback(c, a, d);
    } else if (a.seg.has(tcp_flags::ece)) {
        on_echo(c, a, d);
    }
}

/// Our FIN has been acknowledged: the arrows of figure 5.
void after_our_fin(control_block& c, arrival& a) noexcept {
    const tcp_state before = c.state;
    c.move(transition::fin_acknowledged);
    if (c.state == before) return;
    if (c.state == tcp_state::time_wait) {
        wait_two_lifetimes(c, a.now);
    } else if (c.state == tcp_state::closed) {
        a.events |= die(c, std::errc{}, event::none);
    } else if (c.state == tcp_state::fin_wait_2 && (c.orphaned || (c.reading_shut && c.options->like_freebsd()))) {
        if (c.options->fin_wait_2 < duration{0}) { // not a moment: the peer is told that nobody is here any more
            c.reset = pending_reset::at(a.seg.ack);
            a.events |= die(c, std::errc{}, event::none);
            return;
        }
        c.timers.arm(timer_slot::life, a.now + c.options->fin_wait_2);
    }
}

/// FreeBSD's habit: where the window closes over what is in flight, and more waits, nothing is sent again by time-outs: the window is asked
/// with the first byte that is not acknowledged, and all goes again from there when it opens (tcp_output()).
void take_back_what_is_in_flight(control_block& c) noexcept {
    sender& s = c.sending;
    const bool waits = s.max != s.una && s.queue.end() > s.next && s.waiting_for == awaited::timeout;
    if (!waits || s.repair.phase != recovery_phase::open) return;
    s.next = s.una;
    s.waiting_for = awaited::nothing;
    c.timers.disarm(timer_slot::retransmit);
    s.rto.reset_back_off();
}

/// A mark that the recovery which goes on, or the last one, has answered, and nothing before it: the answer stays, though it may turn out
/// that nothing was lost (RFC 4015 step 8). For Linux every mark is one (prior_ssthresh). DCTCP and BBR answer losses and marks by measures
/// of their own.
void keep_answer(control_block& c, seq_number ack) noexcept {
    const sender& s = c.sending;
    if (ack < s.una || !s.known().undo.possible || c.options->like_freebsd()) return;
    if (c.options->like_linux() || (reduces_once(c) && ack > s.known().undo.reduced_until)) c.sending.need().undo.marked = true;
}

/// A mark that was answered so long ago that the numbers could come round to it.
void forget_passed_answer(control_block& c) noexcept {
    if (c.ecn.reduced_until < c.sending.una) c.ecn.reduced_until = c.sending.una - 1u;
}

/// DCTCP learns from an ACK before it answers its mark (RFC 8257 3.3: steps 4 to 8, then 9).
bool learns_first(const control_block& c, seq_number ack) noexcept {
    return c.ecn.exact && ack > c.sending.una && c.options->habits == personality::standard;
}

/// Nothing is being repaired that has lowered the window already.
bool is_calm(const sender& s) noexcept { return s.repair.phase == recovery_phase::open || s.repair.blameless; }

/// The mark that came with this ACK asks for an answer.
bool mark_is_due(control_block& c, seq_number ack) noexcept {
    const sender& s = c.sending;
    // RFC 3168 6.1.2: once a window. The ACK of its last byte still speaks of it. A mark that is not in flight is from long ago.
    const bool reduced = ack <= c.ecn.reduced_until && c.ecn.reduced_until <= s.max;
    if (!is_calm(s) || reduced) keep_answer(c, ack);
    return !reduced && is_calm(s) && s.anything_outstanding();
}

void answer_mark(control_block& c, time_point now, std::uint32_t flight) noexcept {
    sender& s = c.sending;
    ++c.count->mark_reductions;
    if (s.repair.reducing) s.congestion.own().limit(s.congestion->ssthresh()); // the one before is over (tcp_end_cwnd_reduction())
    s.congestion.own().remember();
    const std::uint32_t before = s.congestion->cwnd();
    s.congestion.own().on_mark(now, to_reduce(c, now, flight));
    if (validates_window(c)) forget_validation(c);
    c.ecn.reduced_until = s.next;
    s.forget_undo(); // of a recovery before: it would give back this (tcp_enter_cwr())
    const bool gradually = c.options->like_linux() || (c.options->like_freebsd() && !c.ecn.exact);
    if (gradually && !s.congestion->repairs_itself()) {
        s.repair.reducing = true;
        s.need().reduction.start(before, s.payload_limit);
        if (c.options->like_linux()) s.congestion.own().limit(before); // and goes down with what is delivered
        else s.seldom->reduction = {.flight = 0};
    }
}

} // namespace

bool reduce_for_mark(control_block& c, time_point now, seq_number ack) noexcept {
    if (learns_first(c, ack) || !mark_is_due(c, ack)) return false;
    answer_mark(c, now, flight_size(c.sending, 0));
    return true;
}

namespace {

/// Linux's way down: not at once, which would be silence for a part of a round trip, but as a recovery does it (RFC 9937), until something
/// above what was in flight then is acknowledged.
void go_on_reducing(control_block& c, const delivery& d, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    if (c.options->like_freebsd()) return freebsd_reduce_for_mark(c, acked);
    if (s.repair.phase != recovery_phase::open) {
        s.repair.reducing = false;
        return;
    }
    if (d.counted == 0) return;
    rate_reduction& way = s.need().reduction;
    s.congestion.own().limit(way.window(s.counted_flight(), s.congestion->ssthresh(), d.counted, acked != 0, s.payload_limit));
}

/// What acknowledges more than that ends the way down, and counts for the way up already.
void end_reducing(control_block& c, seq_number ack) noexcept {
    sender& s = c.sending;
    if (s.repair.phase != recovery_phase::open || ack <= c.ecn.reduced_until || c.options->like_freebsd()) return;
    s.congestion.own().limit(s.congestion->ssthresh());
    s.repair.reducing = false;
}

} // namespace

void reduce_for_mark(control_block& c, time_point now) noexcept {
    ++c.count->mark_reductions;
    c.sending.congestion.own().on_mark(now, c.sending.congestion->cwnd());
    c.ecn.reduced_until = c.sending.next;
    c.sending.forget_undo();
}

namespace {

/// What Linux notes when an ACK has been taken.
void conclude_like_linux(control_block& c, time_point now) noexcept {
    note_packet_pace(c);
    if (c.sending.repair.phase != recovery_phase::timeout) c.sending.end_time_outs(now);
}

} // namespace

bool shows_life(const control_block& c, time_point now, const segment& seg) noexcept {
    const receiver& r = c.receiving;
    const sender& s = c.sending;
    const std::uint32_t reach = std::max(r.window.buffer(), 65'536u);
    if (!seg.has(tcp_flags::ack) || seg.has(tcp_flags::rst) || seg.seq - (r.next - reach) > 2 * reach) return false;
    if (seg.ack > s.max || seg.ack < s.una - oldest_ack(c)) return false;
    return !c.timestamps || (seg.options.has_timestamps() && !r.timestamps.too_early(seg.options.timestamp_value, now));
}

verdict check_acknowledgment(control_block& c, arrival& a) noexcept {
    if (!a.seg.has(tcp_flags::ack)) return verdict::finished;
    if (complete_handshake(c, a) == verdict::finished) return verdict::finished;
    if (check_range(c, a) == verdict::finished) return verdict::finished;
    if (c.options->like_linux() && a.seg.ack >= c.sending.una) note_life(c, a.now);
    take_timestamp(c, a);
    if (a.seg.options.has_user_timeout()) [[unlikely]] heed_user_timeout(c, a.seg.options.user_timeout);
    sender& s = c.sending;
    delivery arrived = expected_delivery(c, a.now);
    const std::uint32_t undelivered = c.options->like_linux() ? s.counted_undelivered(s.una) : 0;
    const bool news = take_sack_blocks(c, a.seg, arrived);
    if (undelivered != 0) [[unlikely]] {
        const std::uint32_t left = s.counted_undelivered(later(s.una, a.seg.ack));
        arrived.counted += undelivered - std::min(undelivered, left); // a block may cut a segment in two
        arrived.unit = s.payload_limit;
    }
    if (c.ecn.on) take_ecn(c, a, arrived);
    if (c.options->like_linux() && a.seg.ecn != wire::ecn_codepoint::not_ect) [[unlikely]] note_codepoint(c, a.seg);
    if (a.seg.ack > s.una) {
        update_window(c, a);
        if (s.repair.reducing) [[unlikely]] end_reducing(c, a.seg.ack);
        const std::uint32_t acked = a.seg.ack - s.una;
        const bool repairing = s.repairing();
        const bool answers = learns_first(c, a.seg.ack) && s.marked != 0 && mark_is_due(c, a.seg.ack);
        const std::uint32_t flight = answers ? flight_size(s, 0) : 0, cwnd = s.congestion->cwnd();
        a.events |= acknowledge_new<disturbance::possible>(c, a.seg.ack, a.now, &a.seg, &arrived);
        if (answers && is_calm(s)) [[unlikely]] {
            s.congestion.own().limit(std::min(cwnd, s.congestion->cwnd())); // it opens no window
            answer_mark(c, a.now, flight);
            c.ecn.tell_reduced = c.ecn.accurate == nullptr;
        }
        // The last copy may be reported behind the end of the repair, and together with something new.
        if (!repairing && s.known().undo.possible && reports_duplicate(a.seg) && !c.options->like_freebsd()) [[unlikely]]
            settle_needless_repair(c, a.seg, arrived);
        if (s.board.rate() != nullptr) [[unlikely]] sample_delivery(c, arrived);
        if (s.repair.reducing) [[unlikely]] go_on_reducing(c, arrived, acked);
        if (c.ecn.on) forget_passed_answer(c);
        if (s.window == 0 && c.options->like_freebsd()) [[unlikely]] take_back_what_is_in_flight(c);
        if (c.options->like_linux()) [[unlikely]] conclude_like_linux(c, a.now);
        c.output_wanted = true;
        if (s.fin_acknowledged()) after_our_fin(c, a);
        return c.state == tcp_state::closed ? verdict::finished : verdict::go_on;
    }
    const bool window_changed = a.seg.ack == s.una && update_window(c, a);
    if (news && c.options->like_linux()) measure_selectively(c, a.seg, arrived);
    if (news || is_duplicate(c, a, window_changed)) {
        on_duplicate_ack(c, a.seg, arrived, news);
        if (s.board.rate() != nullptr) [[unlikely]] sample_delivery(c, arrived);
        if (c.options->like_linux()) conclude_like_linux(c, a.now);
    } else {
        // RFC 8985 7.4.2: the answer to a probe, though nothing is in flight any more.
        const bool answers = a.seg.ack == s.una && (reports_duplicate(a.seg) || (a.seg.length() == 0 && !a.seg.cut && !window_changed));
        if (s.repair.tail_probe_out && answers) settle_idle_probe(s);
        if (s.known().undo.possible) settle_needless_repair(c, a.seg, arrived);
    }
    return verdict::go_on;
}

} // namespace corewire::tcp
