#include <corewire/net/tcp/send/output.hh>

#include <corewire/net/tcp/receive/linux_delayed_acks.hh>
#include <corewire/net/tcp/send/control_segments.hh>
#include <corewire/net/tcp/send/freebsd_recovery.hh>
#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/new_data.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/sampling.hh>
#include <corewire/net/tcp/send/segmenter.hh>
#include <corewire/net/tcp/send/super_segments.hh>

namespace corewire::tcp {

namespace {

// One segment a call on the hottest path there is: these few are always inlined, and what is rare stays out of line.
#define CW_HOT [[gnu::always_inline]] inline
#define CW_RARE [[gnu::cold, gnu::noinline]]

/// What a bare ACK says: of marks (RFC 3168 6.1.3), or not.
CW_HOT tcp_flags acknowledging(bool echo) noexcept { return echo ? tcp_flags::ack | tcp_flags::ece : tcp_flags::ack; }

/// What ECN adds: never on retransmissions and window probes (RFC 3168 6.1.5, 6.1.6), nor on pure ACKs (6.1.4).
CW_RARE void mark(control_block& c, outgoing_segment& out, bool new_data) noexcept {
    if (c.ecn.echo) out.flags |= tcp_flags::ece;
    out.special = new_data ? outgoing_segment::ect : 0;
    if (!new_data || !c.ecn.tell_reduced) return;
    out.flags |= tcp_flags::cwr;
    c.ecn.tell_reduced = false;
}

/// Segments that are counted keep their ends; with Linux's habits packets do, and their PSH flag, too, when they are sent again.
CW_RARE void follow_habits(control_block& c, time_point now, seq_number seq, seq_number end, bool again, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (!c.options->like_linux()) {
        if (!again) s.note_end(seq, end, end > s.queue.end());
        return;
    }
    if (out.payload_size != 0) {
        follow_packet(c, now, seq, end, again, out);
        note_answer(c, now);
    } else if (!again) {
        s.note_packet(end, true);
    }
}

/// A segment of the numbers [seq, end): payload, and FIN if end lies behind the queue.
CW_HOT void emit_range(control_block& c, time_point now, seq_number seq, seq_number end, bool again,
                outgoing_segment& out) noexcept {
    sender& s = c.sending;
    const bool fin = end > s.queue.end();
    const std::uint32_t size = (fin ? s.queue.end() : end) - seq;
    fill_header(c, now, out, size != 0);
    out.seq = seq;
    out.retransmission = again;
    out.payload_size = size;
    out.flags = fin ? tcp_flags::ack | tcp_flags::fin : tcp_flags::ack;
    out.special = 0;
    if (c.ecn.on) [[unlikely]] mark(c, out, size != 0 && !again);
    if (size != 0) [[likely]] {
        if (seq + size == s.queue.end()) out.flags |= tcp_flags::psh;
        const send_queue::place at = s.queue.find(seq);
        out.payload_offset = seq - s.queue.first();
        out.chunk = at.offset + size <= at.chunk->size() ? at.chunk : nullptr;
        out.chunk_offset = at.offset;
    } else {
        out.no_payload();
    }
    if (again) [[unlikely]] {
        ++c.count->retransmitted_segments;
        c.count->retransmitted_bytes += size;
        if (s.searching) probe_is_inconclusive(c);
    }
    if (c.options->counts()) [[unlikely]] follow_habits(c, now, seq, end, again, out);
}

/// Rates are sampled though the controller does not ask.
bool samples_for_info(const sender& s) noexcept { return s.board.rate() != nullptr && !s.congestion->samples_rate(); }

/// A paced connection: `size` bytes are about to leave.
CW_RARE void note_pace(control_block& c, time_point now, std::uint32_t size) noexcept {
    if (c.sending.board.rate() != nullptr) note_transmission(c, now, size);
    c.sending.need().pace.sent(now, size, c.sending.payload_limit);
}

/// Whether the next segment has to wait; then the timer runs.
CW_RARE bool held_by_pace(control_block& c, time_point now) noexcept {
    if (!c.sending.known().pace.holds(now)) return false;
    c.timers.arm(timer_slot::pacing, c.sending.known().pace.due());
    return true;
}

/// New data from SND.NXT.
CW_HOT void emit_new(control_block& c, time_point now, std::uint32_t size, bool fin, outgoing_segment& out) noexcept {
    const seq_number seq = c.sending.next;
    const bool again = send_new<disturbance::possible>(c, now, size, payload_limit(c), fin); // what SACK takes makes none small
    emit_range(c, now, seq, c.sending.next, again, out);
    ensure_retransmission<disturbance::possible>(c, now);
    c.sending.note_size(size, c.sending.next);
    c.sending.burst_open = true;
}

/// Nothing is in flight and the window does not let anything go: ask now and then whether it has opened.
CW_RARE void begin_window_probes(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (s.next != s.una || s.waiting_for != awaited::nothing) return;
    s.waiting_for = awaited::window_probe;
    s.need().stalled_at = c.options->like_linux() ? never : now; // the user's patience counts: from now, or from the first probe
    c.predictable = prediction::none;
    c.timers.arm(timer_slot::retransmit, now + probe_interval(c));
}

/// The search for the path's MTU has something to send, or to wait for.
CW_RARE hold emit_path_probe(control_block& c, time_point now, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    std::uint32_t size = 0;
    switch (plan_probe(c, now, size)) {
    case probe_plan::none: return hold::nothing;
    case probe_plan::wait_window: return hold::window;
    case probe_plan::wait_cwnd: s.limited_until = s.next + 1; return hold::congestion;
    case probe_plan::send: break;
    }
    if (s.pacing()) {
        if (held_by_pace(c, now)) return hold::pacing;
        note_pace(c, now, size);
    } else if (samples_for_info(s)) {
        note_transmission(c, now, size);
    }
    const seq_number start = s.next, small = s.small_end;
    emit_new(c, now, size, false, out);
    s.small_end = small; // though it may be smaller than what left before the search
    probe_sent(c, start, s.next);
    return hold::no;
}

/// MSG_EOR: what is unsent of a record goes without what was written behind it. True: `limit` ends where it does, and not behind all.
CW_RARE bool ends_record(sender& s, std::uint32_t& limit) noexcept {
    const std::uint32_t unsent = s.queue.end() > s.next ? s.queue.end() - s.next : 0;
    const std::uint32_t within = s.within_record(limit);
    if (within >= limit || within >= unsent) return false;
    limit = within;
    return true;
}

CW_HOT hold emit_data(control_block& c, time_point now, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (s.searching && !within_packet(s)) [[unlikely]] {
        const hold probe = emit_path_probe(c, now, out);
        if (probe != hold::nothing) return probe;
    }
    std::uint32_t limit = payload_limit(c);
    const bool linux_habits = c.options->like_linux();
    bool within = false; // a packet of which the first segments have left
    portion p;
    if (linux_habits) [[unlikely]] {
        const bool no_delay = ends_record(s, limit) || c.options->no_delay;
        p = next_of_packet(c, now, limit, no_delay);
        within = within_packet(s);
    } else {
        p = next_portion(s, limit, c.options->no_delay);
    }
    switch (p.why) {
    case hold::no:
        if (s.pacing()) [[unlikely]] {
            if (!within && held_by_pace(c, now)) return hold::pacing;
            note_pace(c, now, p.size);
        } else if (samples_for_info(s)) [[unlikely]] {
            note_transmission(c, now, p.size);
        }
        if (s.waiting_for == awaited::window_probe && s.next == s.una) [[unlikely]] s.waiting_for = awaited::nothing; // a cork's
        emit_new(c, now, p.size, p.fin, out);
        break;
    case hold::congestion: s.limited_until = s.next + 1; break;
    case hold::window: begin_window_probes(c, now); break;
    case hold::nagle:
        // Linux's ceiling for a cork: 200 ms, or the time-out, and what it holds leaves as a window probe would (tcp(7)).
        if (s.corked && c.options->like_linux()) begin_window_probes(c, now);
        [[fallthrough]];
    case hold::nothing:
        if (s.board.rate() != nullptr && !linux_habits) [[unlikely]] note_lack_of_data(c); // there begin_buffers() looks
        break;
    case hold::pacing: break;
    }
    return p.why;
}

// ---- in recovery: what is lost goes again. The steps of emit_lost(), of all of which the compiler makes one function ----

/// `size` bytes leave now, whatever the pace says: what follows waits for it.
void note_sending(control_block& c, time_point now, std::uint32_t size) noexcept {
    if (c.sending.pacing()) note_pace(c, now, size);
    else if (samples_for_info(c.sending)) note_transmission(c, now, size);
}

/// RFC 5682 2.1 step 2b, by way of the window: F-RTO wants to hear of new data first. False: none may go.
bool emit_new_first(control_block& c, time_point now, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    const std::uint32_t limit = payload_limit(c);
    const portion p = c.options->like_linux() ? next_portion<true>(s, limit, true) : next_portion(s, limit, true);
    --s.repair.new_first;
    if (p.why != hold::no) {
        s.repair.new_first = 0;
        return false;
    }
    note_sending(c, now, p.size);
    emit_new(c, now, p.size, p.fin, out);
    return true;
}

/// Linux's habits: a packet of new data that has begun goes on first; and there are no more copies than losses, where those of a needless
/// recovery count as well (tcp_xmit_retransmit_queue()).
bool linux_keeps_lost(const control_block& c) noexcept {
    const sender& s = c.sending;
    if (within_packet(s) && !s.known().leaving.again) return true;
    const std::uint32_t old = s.counted(copy::forgiven);
    return old != 0 && old >= s.counted(fate::lost);
}

/// FreeBSD's fast recovery, which says itself how much may leave.
bool freebsd_measures_out(const sender& s) noexcept { return s.repair.by_numbers && s.repair.phase == recovery_phase::fast; }

/// What of the lost goes in the next segment (RFC 6675 4, NextSeg() rule 1). Empty: nothing.
sack_block next_lost(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const std::uint32_t limit = payload_limit(c);
    if (c.options->like_linux()) return next_lost_of_packet(c, now, limit);
    const sack_block lost = s.board.next_lost(limit);
    return freebsd_measures_out(s) ? freebsd_piece(c, lost) : lost;
}

/// It waits for neither cwnd nor its pace: the first of a recovery, or what has been let go already.
bool goes_at_once(const control_block& c) noexcept {
    const sender& s = c.sending;
    return s.repair.resend_at_once || freebsd_measures_out(s) || (c.options->like_linux() && within_packet(s));
}

/// RFC 6675 5 (C): pipe, and `more`, within cwnd. The next one behind a partial acknowledgement does not ask (RFC 6582 3.2 step 3).
bool fits_into_window(const control_block& c, std::uint32_t more) noexcept {
    const sender& s = c.sending;
    const std::uint32_t flight = s.in_flight(*c.options);
    return s.repair.resend_next || flight == 0 || flight + more <= s.congestion->cwnd();
}

/// cwnd holds it back, and counts as used: Linux's by new data alone (tcp_cwnd_validate()).
void note_full_window(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (c.options->like_linux()) abandon_packet(s, now);
    else s.limited_until = s.next + 1;
}

/// What is found behind it goes along: Linux's small segments, FreeBSD's FIN.
sack_block with_neighbours(control_block& c, sack_block lost) {
    const sender& s = c.sending;
    if (c.options->like_linux()) return with_followers(c, lost, payload_limit(c));
    if (s.repair.by_numbers && s.fin_sent() && lost.right == s.queue.end()) lost.right += 1;
    return lost;
}

/// The scoreboard, proportional rate reduction (RFC 9937) and what may find the recovery needless hear of it. `counts`: as cwnd does.
void note_resent(control_block& c, time_point now, sack_block lost, std::uint32_t counts) {
    sender& s = c.sending;
    s.board.resent(lost, now);
    if (!c.options->like_freebsd()) s.last_sent = now; // RFC 5681 4.1: data, too
    s.need().reduction.out += counts;
    undo_state& u = s.need().undo;
    if (!u.any_resent) u.stamp = timestamp_echo::clock(now, c.timestamp_offset);
    u.any_resent = true;
    u.note(lost.left, lost.right);
}

/// FreeBSD's habit: what goes again is cut anew, from an SND.NXT that was taken back, and what was never sent fills its last segment up
/// (tcp_output()); but a hole's ends where the hole does. How many bytes of that `lost` takes along.
std::uint32_t fresh_behind(const control_block& c, sack_block lost) noexcept {
    const sender& s = c.sending;
    const bool of_hole = s.sack && s.repair.phase == recovery_phase::fast;
    if (!s.repair.by_numbers || of_hole || lost.right != s.max || s.queue.end() <= s.max) return 0;
    const std::uint32_t window = std::min(s.window, s.congestion->cwnd()), before = lost.right - s.una;
    return std::min({payload_limit(c) - lost.size(), s.queue.end() - s.max, window > before ? window - before : 0});
}
sack_block filled_up(control_block& c, time_point now, sack_block lost) {
    sender& s = c.sending;
    const std::uint32_t fresh = fresh_behind(c, lost);
    if (fresh == 0) return lost;
    lost.right += fresh;
    if (s.fin_queued && lost.right == s.queue.end()) lost.right += 1;
    s.last_sent = now;
    s.board.sent(lost.right, now);
    s.next = s.max = lost.right;
    return lost;
}

/// Linux's timer counts from the retransmission of what is first in flight (tcp_xmit_retransmit_queue()).
void linux_count_anew(control_block& c, time_point now, seq_number resent) noexcept {
    const sender& s = c.sending;
    if (resent == s.una && s.repair.phase == recovery_phase::fast && s.waiting_for != awaited::reordering) arm_retransmission(c, now);
}

/// In recovery: what is lost, as far as cwnd allows.
CW_RARE bool emit_lost(control_block& c, time_point now, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (s.repair.phase == recovery_phase::open || !s.board.has_lost() || s.repair.only_new) return false;
    if (s.repair.new_first != 0 && emit_new_first(c, now, out)) return true;
    if (c.options->like_linux() && linux_keeps_lost(c)) return false;
    sack_block lost = next_lost(c, now);
    if (lost.size() == 0) return false;
    const std::uint32_t counts = c.options->like_linux() ? s.payload_limit : lost.size();
    const bool at_once = goes_at_once(c);
    if (!at_once && !fits_into_window(c, counts)) {
        note_full_window(c, now);
        return false;
    }
    if (!at_once && s.pacing() && held_by_pace(c, now)) return false;
    note_sending(c, now, lost.size());
    s.repair.resend_at_once = s.repair.resend_next = false;
    lost = with_neighbours(c, lost);
    note_resent(c, now, lost, counts);
    lost = filled_up(c, now, lost);
    emit_range(c, now, lost.left, lost.right, true, out);
    if (c.options->like_linux()) linux_count_anew(c, now, lost.left);
    return true;
}

/// RFC 8985 7.3: new data if there is some, whatever cwnd says, else the last segment once more.
CW_RARE bool emit_tail_probe(control_block& c, time_point now, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (!s.anything_outstanding()) return false;
    const std::uint32_t limit = payload_limit(c);
    const portion p = c.options->like_linux() ? probing_portion<true>(s, limit) : probing_portion(s, limit);
    const bool fresh = p.why == hold::no;
    const std::uint32_t size = std::min(s.max - later(s.last_start, s.una), limit);
    if (!fresh && c.options->like_linux() && room_to_resend(s, s.max - size) < size) { // tcp_send_loss_probe(): the time-out's turn
        c.timers.arm(timer_slot::retransmit, std::max(now, s.board.oldest() + s.rto.current(*c.options)));
        return false;
    }
    if (s.pacing()) note_pace(c, now, fresh ? p.size : size); // it does not wait, but what follows does
    else if (s.board.rate() != nullptr) note_transmission(c, now, fresh ? p.size : 0);
    if (fresh) {
        emit_new(c, now, p.size, p.fin, out);
    } else {
        emit_range(c, now, s.max - size, s.max, true, out);
        s.board.probed(size, now);
        if (!c.options->like_freebsd()) s.last_sent = now;
        if (s.known().undo.possible) s.need().undo.note(s.max - size, s.max);
    }
    s.repair.tail_probe_out = true;
    s.repair.probe_repeats = !fresh;
    s.repair.probe_end = s.max;
    return true;
}

bool emit_keepalive(control_block& c, time_point now, outgoing_segment& out) noexcept;

/// Linux's habit: what goes when a window that is too small is asked for carries PSH, whenever it goes, and no tail loss probe asks for it
/// (tcp_write_wakeup()).
CW_RARE void push_like_a_probe(control_block& c, time_point now, std::uint32_t size, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (size != 0) {
        out.flags |= tcp_flags::psh;
        s.note_packet(s.next, true);
    }
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, now + s.rto.current(*c.options));
}

/// One byte beyond the window, or, if it has opened too little for silly-window avoidance, what fits (RFC 9293 3.8.6).
CW_RARE bool emit_window_probe(control_block& c, time_point now, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (s.next == s.final_end()) return false;
    const std::int32_t room = s.usable_window();
    if (room > 0) {
        const std::uint32_t fits = std::min({s.queue.end() - s.next, payload_limit(c), static_cast<std::uint32_t>(room)});
        s.waiting_for = awaited::nothing; // it is no probe any more, and no attempt to send something again
        s.attempts = 0;
        s.rto.reset_back_off();
        emit_new(c, now, fits, fits == 0, out);
        if (c.options->like_linux()) push_like_a_probe(c, now, fits, out);
        return true;
    }
    if (c.options->like_linux()) { // as a keepalive: nothing new, but the peer must answer with its window
        c.keepalive_wanted = true;
        return emit_keepalive(c, now, out);
    }
    const bool again = s.max > s.next;
    if (again) {
        s.board.probed(s.max - s.next, now);
    } else {
        s.max = s.next + 1;
        s.board.sent(s.max, now);
    }
    emit_range(c, now, s.next, s.next + 1, again, out);
    out.special = 0;
    return true;
}

/// FreeBSD's habit (tcp_respond()): challenges, keepalives and what is said in TIME-WAIT tell of the window as it is, rounded down, which
/// promises nothing, and of no gaps; an ACK that waits goes all the same. Before the handshake is done there is no scale yet.
CW_RARE void fill_plainly(control_block& c, time_point now, outgoing_segment& out) noexcept {
    receiver& r = c.receiving;
    const seq_number edge = r.window.edge();
    const bool waits = r.acks.pending() && c.timers.armed(timer_slot::delayed_ack);
    fill_header(c, now, out, false);
    r.window.take_back(edge);
    if (waits) r.acks.wait_on();
    const bool opening = c.state == tcp_state::syn_received;
    out.window = opening ? receive_window::unscaled(c.options->receive_buffer, 1) : r.window.unpromised(r.queue.size());
    out.option_size = static_cast<std::uint8_t>(c.option_bytes());
    c.answers_plainly = false;
}

/// FreeBSD's habit (tcp_outflags): while our FIN is in flight each ACK says so again, but a challenge, one beside a hole, or behind a
/// time-out one that goes before the FIN's turn has come.
CW_RARE void repeat_fin(const control_block& c, outgoing_segment& out) noexcept {
    const sender& s = c.sending;
    const bool goes_back = s.repair.phase == recovery_phase::timeout && s.board.has_lost();
    if (!s.fin_sent() || s.fin_acknowledged() || s.next != s.max || goes_back || (s.sack && freebsd_repairs_first(c))) return;
    out.seq -= 1;
    out.flags |= tcp_flags::fin;
}

CW_HOT bool emit_ack(control_block& c, time_point now, outgoing_segment& out) noexcept {
    const receiver& r = c.receiving;
    const bool like_freebsd = c.options->like_freebsd();
    const bool freed = like_freebsd && may_receive(c.state) && r.window.worth_an_update(r.next, r.queue.size());
    if (!r.acks.now() && !freed) return false;
    const bool plainly = like_freebsd && c.answers_plainly;
    if (plainly) [[unlikely]] fill_plainly(c, now, out);
    else fill_header(c, now, out, false);
    out.make_bare(c.sending.next, acknowledging(c.ecn.echo));
    if (like_freebsd && !plainly) [[unlikely]] repeat_fin(c, out);
    return true;
}

bool emit_probe(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (!c.probe_wanted) return false;
    const bool of_window = c.sending.waiting_for == awaited::window_probe;
    if (of_window && c.options->like_linux() && c.urgent.sending && emit_ack(c, now, out)) return true; // and then the probe
    c.probe_wanted = false;
    c.predictable = prediction::none; // SND.NXT may be behind SND.MAX, or a tail probe unanswered
    return of_window ? emit_window_probe(c, now, out) : emit_tail_probe(c, now, out);
}

/// RFC 9293 3.8.4: an old number, so that the peer must answer. Or an ACK that tells of our user timeout (RFC 5482 3.3).
bool emit_keepalive(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (!c.keepalive_wanted) return false;
    c.keepalive_wanted = false;
    receiver& r = c.receiving;
    const bool came_twice = r.has_duplicate;
    if (c.options->like_freebsd()) fill_plainly(c, now, out);
    else fill_header(c, now, out, false);
    out.make_bare(c.sending.next - 1, acknowledging(c.ecn.echo)); // it takes the place of an ACK that was due
    if (c.user_timeout_untold) {
        out.seq = c.sending.next;
        if (!append_user_timeout(c, out)) { // another ACK tells what SACK had to
            r.has_duplicate = came_twice;
            r.acks.acknowledge_now();
        }
    }
    return true;
}

/// RFC 8257 3.2: what came before the mark changed is acknowledged with the old one.
bool emit_old_ack(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (!c.ecn.old_ack_wanted) return false;
    c.ecn.old_ack_wanted = false;
    if (c.options->like_linux() && c.sending.known().acks.late.size() != 0) {
        const bool sent = emit_ack(c, now, out);
        remember_late(c); // and nothing is said of it until more comes: the ACK that it asked for has left
        return sent;
    }
    fill_header(c, now, out, false);
    c.receiving.acks.acknowledge_now(); // the newer one follows
    out.make_bare(c.sending.next, acknowledging(c.ecn.old_echo));
    out.ack = c.ecn.old_ack;
    return true;
}

/// Linux's habit: behind new data the tail loss probe is no later than the time-out of the first byte in flight (tcp_rto_delta_us()).
void hurry_tail_probe(control_block& c, time_point now) noexcept {
    const sender& s = c.sending;
    if (s.waiting_for != awaited::tail_probe || !s.anything_outstanding()) return;
    const time_point due = s.board.oldest() + s.rto.current(*c.options);
    if (due > now && due < c.timers.at(timer_slot::retransmit)) c.timers.arm(timer_slot::retransmit, due);
}

/// Linux's tcp_cwnd_validate(): a burst is over, or cwnd lets nothing go.
CW_RARE void validate(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    const bool limited = s.limited_until == s.next + 1 || s.counted_flight() + s.payload_limit > s.congestion->cwnd();
    if (limited) s.limited_until = later(s.limited_until, s.next); // a window that is just full may open, too
    const bool sent = s.burst_open;
    s.validate_window(now, limited, *c.options);
    if (sent) hurry_tail_probe(c, now);
}

/// FreeBSD's habit, Nagle's algorithm as he wrote it: what is small waits while anything is in flight that an earlier call has sent. And
/// what was to be answered plainly was answered by data, if no ACK is due any more.
CW_HOT void end_burst(control_block& c) noexcept {
    if (!c.options->like_freebsd()) [[likely]] return;
    c.sending.small_end = c.sending.next;
    if (!c.receiving.acks.now()) c.answers_plainly = false;
    freebsd_burst_over(c);
}

/// FreeBSD's habit: while a hole waits to be sent again, an ACK's number is where that begins (sack_rxmit), but a challenge's.
CW_RARE bool emit_ack_beside_repairs(control_block& c, time_point now, outgoing_segment& out) noexcept {
    const bool plainly = c.answers_plainly;
    if (!emit_ack(c, now, out)) return false;
    if (!plainly && c.sending.sack && freebsd_repairs_first(c)) out.seq = c.sending.board.next_lost(1).left;
    return true;
}

/// What is not everyday business and comes before new data.
CW_RARE bool emit_unusual(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (emit_reset(c, now, out) || emit_syn(c, now, out) || emit_early_fin(c, now, out)) return true;
    if (!is_synchronized(c.state)) return c.fast_open.get().serving && emit_lost(c, now, out); // after a report of the path's MTU
    if (c.options->like_linux()) abandon_packet(c.sending, now);
    if (c.ack_first) {
        c.ack_first = false;
        if (emit_ack_beside_repairs(c, now, out)) return true;
    }
    return emit_old_ack(c, now, out) || emit_lost(c, now, out) || emit_probe(c, now, out) || emit_keepalive(c, now, out);
}

} // namespace

bool next_output(control_block& c, time_point now, outgoing_segment& out) noexcept {
    bool window_held = false, congested = false;
    const bool unusual = c.reset.wanted || c.syn_wanted || c.probe_wanted || c.keepalive_wanted || c.ecn.old_ack_wanted || c.ack_first ||
                        !c.sending.board.quiet();
    if (unusual && emit_unusual(c, now, out)) return true;
    if (unusual && freebsd_repairs_first(c)) {
        end_burst(c);
        c.output_wanted = false;
        return emit_ack_beside_repairs(c, now, out);
    }
    if (may_send(c.state) || (c.state == tcp_state::syn_received && c.fast_open.get().serving)) [[likely]] {
        const hold why = emit_data(c, now, out);
        if (why == hold::no) [[likely]] {
            // What was sent carried the ACK, so what is left is data or something unusual.
            c.output_wanted = unusual || c.sending.next != c.sending.final_end() || !c.sending.board.quiet();
            if (!c.output_wanted) end_burst(c);
            if (!c.output_wanted && c.options->counts()) [[unlikely]] {
                if (c.options->like_linux()) validate(c, now);
                c.sending.account(now, false, *c.options);
            }
            return true;
        }
        window_held = why == hold::window;
        congested = why == hold::congestion;
        end_burst(c);
    }
    if (c.options->counts()) [[unlikely]] {
        if ((c.sending.burst_open || congested) && c.options->like_linux()) validate(c, now);
        if (is_synchronized(c.state)) c.sending.account(now, window_held, *c.options);
    }
    c.output_wanted = false;
    return c.state >= tcp_state::syn_received && emit_ack(c, now, out);
}

#undef CW_HOT
#undef CW_RARE

} // namespace corewire::tcp
