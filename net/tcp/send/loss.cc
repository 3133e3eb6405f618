#include <corewire/net/tcp/send/loss.hh>

#include <corewire/net/tcp/send/freebsd_recovery.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/sampling.hh>
#include <corewire/net/tcp/send/validation.hh>

#include <algorithm>
#include <array>
#include <utility>

namespace corewire::tcp {

namespace {

constexpr sack_block block_of(wire::sack_block b) noexcept { return {seq_number(b.left), seq_number(b.right)}; }

} // namespace

/// The first block reports bytes that came twice (RFC 2883 4): at or below SEG.ACK, or within the second block.
bool reports_duplicate(const segment& seg) noexcept {
    if (!seg.options.has_sack()) return false;
    const sack_block first = block_of(seg.options.sack[0]);
    if (first.right <= seg.ack) return true;
    if (seg.options.sack_count < 2) return false;
    const sack_block second = block_of(seg.options.sack[1]);
    return second.left <= first.left && first.right <= second.right;
}

namespace {

/// RFC 8985 6.2 steps 2 and 3.
void take_delivery(control_block& c, const delivery& d) noexcept {
    c.sending.need().losses.take(d, c.options->like_linux());
    if (c.options->like_linux() && d.timed) c.sending.congestion.own().on_repair_round_trip(d.now, d.now - d.last_sent);
    if (d.reordered) ++c.count->reorderings;
}

/// Linux's habit: a copy that it has not sent is nobody's, else one more segment was delivered; patience grows only if it can have been
/// too short (tcp_dsack_seen()). False: that is all.
bool linux_believes(control_block& c, sack_block twice, std::uint32_t segments, delivery& d) noexcept {
    sender& s = c.sending;
    if (c.count->duplicates_reported > c.count->retransmitted_segments) return false;
    seldom_needed& known = s.need();
    const bool of_probe = segments == 1 && s.repair.tail_probe_out && twice.right == s.repair.probe_end;
    if (known.losses.reordering_seen() && !of_probe) known.losses.on_dsack(s.una, s.next);
    known.tally.delivered += segments;
    d.counted += segments * s.payload_limit;
    return true;
}

/// RFC 8985 6.2 step 4, and one resent piece less that could have been needed (RFC 3708). No peer has had more twice than its window holds.
void on_dsack(control_block& c, sack_block twice, delivery& d) noexcept {
    sender& s = c.sending;
    if (twice.left >= twice.right || twice.right > s.max || twice.size() > s.max_window) return;
    const std::uint32_t segments = (twice.size() + s.payload_limit - 1) / s.payload_limit;
    c.count->duplicates_reported += segments;
    undo_state& u = s.need().undo;
    if (c.options->like_linux()) {
        if (!linux_believes(c, twice, segments, d) || !u.possible || twice.right <= u.from) return;
    } else {
        s.need().losses.on_dsack(s.una, s.next);
        if (!u.possible || twice.left < u.from) return;
        // A tail probe's copy says nothing of what the recovery has resent; nor does anything a window behind its end.
        if (s.repair.probe_repeats && twice.right == s.repair.probe_end) return;
        if (s.repair.phase == recovery_phase::open && s.una > s.repair.point + s.max_window) u.possible = false;
        // What was sent once the network has doubled, and that says nothing of what was sent again (RFC 3708 3).
        if (twice.right <= u.first || twice.left >= u.end) return;
    }
    u.resent -= std::min(u.resent, twice.size());
}

/// Enough was SACKed beyond a gap for it to be a loss, whatever the time (RFC 6675).
bool sure_of_loss(const control_block& c) noexcept {
    const sender& s = c.sending;
    const std::uint32_t threshold = c.options->duplicate_threshold;
    const std::uint32_t sacked = c.options->like_linux() ? s.counted(fate::sacked) : s.board.sacked();
    return s.repair.phase != recovery_phase::open || s.repair.duplicates >= threshold || sacked > (threshold - 1) * s.payload_limit;
}

/// Where the first segment ends that is not acknowledged; Linux's habit: as it was sent.
seq_number first_segment(const control_block& c) noexcept {
    const sender& s = c.sending;
    return c.options->like_linux() ? s.first_end() : earlier(s.una + s.payload_limit, s.max);
}

constexpr duration least_timer = std::chrono::milliseconds{2}; // Linux's habit, TCP_TIMEOUT_MIN_US

/// RACK_detect_loss_and_arm_timer() of RFC 8985 6.2. True: the scoreboard holds something for lost now.
bool find_losses(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (!s.sack) return s.board.has_lost();
    duration wait{0};
    s.known().losses.find_losses(s.board, now, patience(c), wait);
    if (c.options->like_linux()) wait += wait > duration{0} ? least_timer : duration{0};
    s.settle_at(wait > duration{0} ? now + wait : never);
    return s.board.has_lost();
}

/// The same for an ACK. Linux's looks only when one tells of something, and no copy that came too soon (tcp_rack_mark_lost()).
bool find_losses(control_block& c, const delivery& d) noexcept {
    const sender& s = c.sending;
    if (c.options->like_linux() && !s.known().losses.advanced()) return s.board.has_lost();
    return find_losses(c, d.now);
}

/// RFC 4821 7.6.2, 7.6.4: an MTU probe's loss is free where nothing else is lost. Without SACK a partial acknowledgment tells, as ever.
bool finds_blame(sender& s, std::uint32_t lost_before) noexcept {
    if (!s.repair.blameless) return false;
    return s.board.lost() > lost_before || (!s.sack && s.una >= s.search()->end && s.una < s.repair.point);
}

/// For an ACK while nothing is being repaired: there is something to repair. Linux's counts what was resent until it is acknowledged, so
/// that a recovery which ends with some of that in flight is followed by another one (tcp_time_to_recover()).
bool finds_something_to_repair(control_block& c, const delivery& d) noexcept {
    return find_losses(c, d) || (c.options->like_linux() && c.sending.board.repairs_out());
}

/// From here on it may turn out that nothing was lost.
void begin_doubt(const control_block& c, sender& s) noexcept {
    s.need().undo = undo_state::since(s.una, s.board.resent_in_flight(), s.max, c.ecn.tell_reduced, c.ecn.reduced_until);
    s.congestion.own().remember();
}

/// Linux's habit: without SACK each duplicate ACK stands for a segment that was delivered, and an ACK of something new tells of the rest,
/// one at least. `acked`: its bytes.
void guess_delivery(const sender& s, delivery& d, std::uint32_t acked) noexcept {
    if (s.repair.left == 0) return;
    const auto rest = [&s](std::uint32_t n) { return std::max(n > s.repair.left ? n - s.repair.left : 0, std::min(n, s.payload_limit)); };
    d.bytes = rest(acked);
    d.counted = rest(d.counted);
}

/// Linux's habit: without SACK one segment at least is missing of those that are out, so more duplicate ACKs tell of reordering
/// (tcp_check_reno_reordering()). `acked`: segments, by this ACK.
void limit_departures(control_block& c, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    const std::uint32_t out = s.segments_to(s.next, true), lost = (s.counted(fate::lost) + s.counted(copy::repair)) / s.payload_limit;
    const std::uint32_t most = (out - std::min(out, std::max(lost, 1u))) * s.payload_limit;
    if (s.repair.left <= most) return;
    s.repair.left = most;
    s.need().losses.set_overtaken((out + acked) * s.payload_limit);
    ++c.count->reorderings;
}

/// What duplicate ACKs stood for, `left` bytes, was delivered, however few segments an ACK of something new covers: they or one more
/// (tcp_remove_reno_sacks()).
void settle_departures(sender& s, std::uint32_t whole, std::uint32_t left) noexcept {
    const std::uint32_t before = left / s.payload_limit, remain = s.repair.left / s.payload_limit;
    const std::uint32_t all = before + std::max(whole > before ? whole - before : 0, std::min(whole, 1u));
    if (all > whole + remain) s.need().tally.delivered += all - whole - remain;
}

/// A duplicate ACK without SACK: a segment has left the network. Behind a time-out only what F-RTO has sent anew is known to be there, and
/// has to make room for what is lost (RFC 5682 2.1 step 3a; tcp_process_loss()).
void note_departure(control_block& c, delivery& d) noexcept {
    sender& s = c.sending;
    const std::uint32_t before = s.repair.left;
    s.repair.left += s.payload_limit;
    if (c.options->like_linux() && s.repair.phase != recovery_phase::timeout) {
        limit_departures(c, 0);
    } else {
        std::uint32_t out = s.next - s.una;
        if (s.repair.phase == recovery_phase::timeout) out = s.board.has_lost() ? s.max - later(s.una, s.repair.point) : 0;
        s.repair.left = std::min(s.repair.left, out);
    }
    if (c.options->like_linux()) d.bytes = d.counted = s.repair.left > before ? s.repair.left - before : 0;
}

/// How much may be in flight after this ACK (RFC 9937); without SACK ssthresh itself.
void reduce(control_block& c, std::uint32_t news, bool safe) noexcept {
    sender& s = c.sending;
    if ((!s.sack && !c.options->like_linux()) || s.congestion->repairs_itself()) return;
    if (news == 0 && s.need().reduction.out != 0) return; // nothing to go by
    s.congestion.own().limit(s.need().reduction.window(s.in_flight(*c.options), s.congestion->ssthresh(), news, safe, s.payload_limit));
}

} // namespace

duration patience(const control_block& c) noexcept {
    const sender& s = c.sending;
    const bool sure = sure_of_loss(c);
    return s.known().losses.patience(sure, s.least_rtt.get(), s.rto.srtt(), c.options->min_reordering);
}

namespace {

/// What was in flight at least when what an ACK tells of was sent, where cwnd held data back.
std::uint32_t filled_window(const sender& s, std::uint32_t acked) noexcept {
    return s.una - acked < s.limited_until ? s.congestion->cwnd() / s.payload_limit * s.payload_limit : 0;
}

} // namespace

std::uint32_t flight_size(const sender& s, std::uint32_t acked) noexcept {
    return std::max(s.next - s.una + acked, filled_window(s, acked));
}

std::uint32_t to_reduce(control_block& c, time_point now, std::uint32_t flight) noexcept {
    if (c.options->like_linux()) return c.sending.congestion->cwnd();
    if (c.options->like_freebsd()) return freebsd_pipe(c);
    return validates_window(c) ? congested_flight(c, now, flight) : flight;
}

namespace {

/// The byte at `lost` was in flight when the window was reduced for a mark.
bool answered_for_mark(const control_block& c, seq_number lost) noexcept {
    return reduces_once(c) && lost < c.ecn.reduced_until && c.ecn.reduced_until <= c.sending.max;
}

/// A loss event (RFC 5681 3.2 (2), RFC 9937 5): the window shrinks, and the first hole is resent whatever it says.
void enter_fast_recovery(control_block& c, const delivery& d, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    if (s.searching && probe_was_lost(c, d.now)) return;
    const std::uint32_t flight = flight_size(s, acked), filled = filled_window(s, acked);
    s.repair.phase = recovery_phase::fast;
    // Linux: within a reduction for a mark, that one's; where that is reached, but nothing beyond it yet, the next number ends it.
    s.repair.point = s.repair.reducing ? later(c.ecn.reduced_until, s.una + 1u) : s.max;
    s.repair.tail_probe_out = false;
    ++c.count->fast_recoveries;
    begin_doubt(c, s);
    if (std::exchange(s.repair.blameless, false)) s.need().undo = {}; // the copy of the probe is older, and its echo would undo this
    const bool reduced = std::exchange(s.repair.reducing, false); // Linux: for a mark, in this window
    const bool linux_habits = c.options->like_linux();
    const std::uint32_t before = s.congestion->cwnd();
    const bool due = !reduced && !answered_for_mark(c, s.una);
    if (due) note_reduction(c);
    const bool twice = linux_habits && s.congestion->wants_exact_marks(); // DCTCP's answer to a loss is no other's (dctcp_react_to_loss())
    if (due || twice) s.congestion.own().on_loss(to_reduce(c, d.now, flight));
    const bool resent_before = linux_habits && s.board.repairs_out();
    if (!s.board.has_lost() && !resent_before) s.board.lose_first(first_segment(c));
    if (!reduced && linux_habits) {
        s.need().reduction.start(before, s.payload_limit);
    } else if (!reduced) { // RecoverFS (RFC 9937 6.1): without what was SACKed before this ACK
        const std::uint32_t known = s.board.pipe() + s.board.lost() + d.bytes;
        const std::uint32_t unsent = s.queue.end() > s.next ? s.queue.end() - s.next : 0;
        const std::uint32_t unanswered = std::min(filled > known ? filled - known : 0, unsent);
        s.need().reduction.start(known + unanswered, 1, unanswered);
    }
    const bool has_sent = reduced && s.need().reduction.out != 0; // since the mark: then this is no new beginning (tcp_cwnd_reduction())
    s.repair.resend_at_once = s.board.has_lost() && !has_sent;
    reduce(c, news_of(c, d), false);
    if (reduced) s.congestion.own().remember(); // what the mark has taken is not given back
    c.probe_wanted = false;
}

void leave_recovery(control_block& c) noexcept {
    sender& s = c.sending;
    if (s.repair.phase == recovery_phase::fast || s.congestion->repairs_itself()) s.congestion.own().on_recovered();
    if (validates_window(c)) settle_window(c);
    s.need().losses.on_recovered();
    s.repair.phase = recovery_phase::open;
    s.repair.held = !s.sack && s.una == s.repair.point;
    s.repair.duplicates = 0;
    s.repair.left = 0;
    s.repair.doubting = s.repair.resend_next = false;
    s.repair.blameless = false;
    s.repair.new_first = 0;
}

/// What was taken for losses that there were not is given back; but not where a mark was answered by that as well (RFC 4015 step 8).
/// `cwnd`: before the recovery was left, which Linux leaves as it is then.
void give_back(control_block& c, time_point now, std::uint32_t cwnd) noexcept {
    sender& s = c.sending;
    const undo_state& u = s.known().undo;
    if (u.marked) {
        if (c.options->like_linux()) s.congestion.own().limit(cwnd);
        return;
    }
    s.congestion.own().undo(now);
    if (c.options->like_linux() || !u.owed_reduction) c.ecn.tell_reduced = false; // nothing was reduced after all
    if (reduces_once(c)) c.ecn.reduced_until = later(u.reduced_until, s.una - 1u);
}

/// The peer had all of it: the window is given back, and what was only thought lost flies on; of Linux's behind a time-out, or when `late`
/// is what fills the hole, else it stays lost.
void undo(control_block& c, time_point now, bool late = false) noexcept {
    sender& s = c.sending;
    const bool linux_habits = c.options->like_linux();
    const bool all_flies = !linux_habits || late || s.repair.phase == recovery_phase::timeout;
    if (linux_habits && s.repair.phase == recovery_phase::timeout) s.attempts = 0; // tcp_try_undo_loss()
    ++c.count->spurious_recoveries;
    s.need().undo.possible = false;
    const std::uint32_t cwnd = s.congestion->cwnd();
    if (s.repair.phase != recovery_phase::open) leave_recovery(c);
    give_back(c, now, cwnd);
    if (all_flies) s.board.forgive(linux_habits);
    if (!linux_habits) s.need().losses.forget_copy();
    c.output_wanted = true;
}

/// What undo() has left lost begins another recovery at once.
void repair_what_is_left(control_block& c, const delivery& d) noexcept {
    const sender& s = c.sending;
    if (s.repair.phase != recovery_phase::open) return;
    if (finds_something_to_repair(c, d)) enter_fast_recovery(c, d, 0);
    if (s.settled_at() != never) arm_retransmission(c, d.now);
}

/// The ACK has moved SND.UNA, and echoes a time before the first retransmission of this recovery (Eifel, RFC 3522).
bool echoes_earlier(const control_block& c, const segment& seg) noexcept {
    const undo_state& u = c.sending.known().undo;
    return u.possible && u.any_resent && c.sending.repair.phase != recovery_phase::open && c.timestamps && seg.options.has_timestamps() &&
           static_cast<std::int32_t>(seg.options.timestamp_echo - u.stamp) < 0;
}

/// Whether everything resent in this recovery was needless: so an ACK has said, or every resent byte was reported to have come twice
/// (RFC 3708), which may be told behind its end.
bool is_spurious(const control_block& c, const segment& seg, bool advanced) noexcept {
    const undo_state& u = c.sending.known().undo;
    // Linux: something was only late if nothing was sent again (tcp_packet_delayed()).
    const bool nothing_resent = u.possible && !u.any_resent && u.resent == 0 && c.sending.repair.phase == recovery_phase::fast;
    if (nothing_resent && advanced && c.options->like_linux()) return true;
    return u.possible && u.any_resent && (u.resent == 0 || (advanced && echoes_earlier(c, seg)));
}

/// Linux's habit: without SACK a recovery goes on until something above its point is acknowledged, and duplicate ACKs of that point, which
/// may be those of needless copies, say nothing (RFC 6582; tcp_is_non_sack_preventing_reopen()).
bool is_held(const control_block& c) noexcept {
    const sender& s = c.sending;
    return c.options->like_linux() && !s.sack && s.repair.phase != recovery_phase::open && s.una == s.repair.point;
}

/// F-RTO (RFC 5682 2.1, 3.1): was the time-out itself spurious? True if it was.
bool settle_doubt(control_block& c, const delivery& d, bool advanced) noexcept {
    sender& s = c.sending;
    recovery& r = s.repair;
    if (!r.doubting) return false;
    // Step 2a: the first answer has all that was sent before, and says nothing of what was lost. Linux believes it all the same.
    const bool first = s.max == r.point && s.una >= r.point && advanced;
    const bool tells = !first || c.options->like_linux();
    if (tells && d.original && (s.sack || !d.resent)) return true; // step 3b: bytes that were sent once arrive
    if (s.max > r.point) {
        if (!advanced) r.doubting = false; // step 3a: the loss was real
    } else if (advanced && s.una < r.point && s.queue.end() > s.next && s.usable_window() > 0) {
        r.new_first = 2; // step 2b
    } else {
        r.doubting = false;
    }
    return false;
}

/// RFC 8985 7.4.2.
void settle_tail_probe(control_block& c, const segment& seg, time_point now, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    if (!s.repair.tail_probe_out || seg.ack < s.repair.probe_end) return;
    const bool twice = reports_duplicate(seg) && block_of(seg.options.sack[0]).right == s.repair.probe_end;
    if (!s.repair.probe_repeats || twice) {
        s.repair.tail_probe_out = false;
    } else if (seg.ack > s.repair.probe_end) { // the probe itself repaired a loss
        s.repair.tail_probe_out = false;
        if (answered_for_mark(c, s.repair.probe_end - 1u)) return;
        note_reduction(c);
        const std::uint32_t flight = flight_size(s, acked);
        s.congestion.own().on_loss(to_reduce(c, now, flight));
        if (validates_window(c)) forget_validation(c);
        if (!c.options->like_linux()) s.forget_undo(); // what it would give back is this, too
    }
}

/// Linux's habit: where segments come far out of order, what SACK tells of opens the window, too (tcp_may_raise_cwnd()).
void grow_by_sack(control_block& c, const delivery& d) noexcept {
    sender& s = c.sending;
    if (d.counted == 0 || s.repair.phase == recovery_phase::fast || s.repair.reducing) return;
    if (reordering_of(c) <= c.options->duplicate_threshold) return;
    const std::uint32_t flight = s.next - s.una;
    if (!s.window_was_used()) return;
    s.congestion.own().on_ack({.now = d.now, .acked = d.counted, .in_flight = flight, .srtt = s.rto.srtt(), .una = s.una, .next = s.next,
                               .paced = s.pacing()});
}

/// RFC 6582 3.2 (3), partial acknowledgement without SACK: the next hole begins at SND.UNA. `counted`: of what was acknowledged, what
/// duplicate ACKs may have stood for.
void next_hole(control_block& c, std::uint32_t counted) noexcept {
    sender& s = c.sending;
    s.repair.left = s.repair.left > counted ? s.repair.left - counted : 0;
    s.board.lose_first(first_segment(c));
}

/// What Linux's habits have an ACK of something new say before it is judged.
enum class reading {
    judge,
    late, ///< what fills the hole was late, and not sent again (tcp_try_undo_partial())
    wait, ///< nothing is judged yet, nor anything but new data sent
};

reading heed_habits(control_block& c, const segment& seg, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    const bool within = s.repair.phase != recovery_phase::open && s.una < s.repair.point;
    if (s.sack && !s.known().losses.advanced()) s.settle_at(never); // the time-out's turn
    if (s.board.reneged() && (within || s.repair.phase == recovery_phase::open)) {
        s.settle_at(never);
        return reading::wait; // until all is sent again
    }
    if (!s.sack || !within || s.repair.phase != recovery_phase::fast || !echoes_earlier(c, seg)) return reading::judge;
    s.need().losses.note_overtaken(s.una - acked, later(s.una, s.farthest()));
    ++c.count->reorderings;
    return s.board.repairs_out() ? reading::wait : reading::late; // what repairs bring is waited for
}

/// Recovery goes on, ends or begins. `counted`: of what was acknowledged, what duplicate ACKs may have stood for.
void go_on(control_block& c, const delivery& d, std::uint32_t acked, std::uint32_t counted) noexcept {
    sender& s = c.sending;
    const std::uint32_t lost_before = s.board.lost();
    if (s.repair.phase == recovery_phase::open) {
        s.repair.left = 0;
        if (finds_something_to_repair(c, d)) enter_fast_recovery(c, d, acked);
    } else if (is_held(c)) {
        s.repair.left = 0;
        if (s.repair.phase == recovery_phase::fast) reduce(c, news_of(c, d), true);
    } else if (s.una >= s.repair.point) {
        s.settle_at(never);
        leave_recovery(c);
        if (finds_something_to_repair(c, d)) enter_fast_recovery(c, d, acked);
    } else {
        if (s.repair.phase == recovery_phase::timeout) s.repair.left = 0;
        else if (!s.sack) next_hole(c, counted);
        s.repair.resend_next = !s.sack && s.repair.phase == recovery_phase::fast && !c.options->like_linux();
        find_losses(c, d);
        if (s.repair.phase == recovery_phase::fast) reduce(c, news_of(c, d), s.board.lost() <= lost_before);
        else if (finds_blame(s, lost_before)) enter_fast_recovery(c, d, acked);
    }
}

} // namespace

std::uint32_t reordering_of(const control_block& c) noexcept {
    const rack& r = c.sending.known().losses;
    const std::uint32_t least = c.options->duplicate_threshold, size = std::max(c.sending.payload_limit, 1u);
    if (!r.reordering_seen()) return least;
    if (c.options->like_linux() && !c.sending.sack) return std::min<std::uint32_t>(r.overtaken_by() / size, c.options->reordering_limit);
    return std::max(least, std::min<std::uint32_t>((r.overtaken_by() + size - 1) / size, c.options->reordering_limit));
}

void grow_send_buffer(control_block& c) noexcept {
    sender& s = c.sending;
    const std::uint32_t useful = 2 * std::min(s.congestion->cwnd(), 1u << 30);
    const std::uint32_t wanted = std::min(useful, c.options->send_growth_limit);
    const std::uint32_t has = s.queue.limit();
    if (wanted > has && c.share.take(c.options->budget, wanted - has)) s.queue.set_limit(wanted);
}

void arm_retransmission(control_block& c, time_point now) noexcept { arm_retransmission<disturbance::possible>(c, now); }

bool take_sack_blocks(control_block& c, const segment& seg, delivery& d) noexcept {
    sender& s = c.sending;
    if (!s.sack || !seg.options.has_sack()) return false;
    if (c.options->like_freebsd() && s.mss < 536) return false; // a peer of such small segments is not believed (TF2_PROC_SACK_PROHIBIT)
    if (reports_duplicate(seg)) [[unlikely]] on_dsack(c, block_of(seg.options.sack[0]), d);
    // The lowest numbers first: with Linux's habits the last ones say how long a round trip is.
    std::array<sack_block, std::tuple_size_v<decltype(seg.options.sack)>> blocks;
    const auto end = std::transform(seg.options.sack.begin(), seg.options.sack.begin() + seg.options.sack_count, blocks.begin(), block_of);
    // By distance, which orders any three of them, as `<` does not.
    const auto distance = [&s](const sack_block& b) { return static_cast<std::int32_t>(b.left - s.una); };
    std::sort(blocks.begin(), end, [&](const sack_block& a, const sack_block& b) { return distance(a) < distance(b); });
    bool news = false;
    const std::uint32_t refused = s.board.refused();
    for (auto b = blocks.begin(); b != end; ++b) { // what SEG.ACK covers, as the first one of a D-SACK, is not told of selectively
        if (c.options->like_linux()) *b = s.whole_sacked(*b);
        if (b->left < b->right && b->right > seg.ack && s.board.sack(*b, d)) news = true;
    }
    c.count->sack_refused += s.board.refused() - refused;
    d.selective = {.taken = d.timed, .first = d.first_sent, .last = d.last_sent};
    return news;
}

void settle_idle_probe(sender& s) noexcept {
    if (s.repair.probe_repeats && s.una == s.repair.probe_end) s.repair.tail_probe_out = false;
}

void on_duplicate_ack(control_block& c, const segment& seg, delivery& d, bool news) noexcept {
    sender& s = c.sending;
    c.output_wanted = true;
    if (c.options->like_freebsd()) return freebsd_duplicate_ack(c, d, news);
    if (s.repair.tail_probe_out) settle_idle_probe(s);
    s.repair.only_new = false;
    if (is_held(c)) return;
    if (s.sack && !news) { // RFC 6675 2: a duplicate ACK has SACK news
        if (settle_needless_repair(c, seg, d)) return;
        if (d.counted != 0 && s.repair.phase == recovery_phase::fast) reduce(c, news_of(c, d), false); // a copy was delivered
        return;
    }
    take_delivery(c, d);
    ++s.repair.duplicates;
    if (!s.sack) note_departure(c, d);
    if (is_spurious(c, seg, false) || settle_doubt(c, d, false)) {
        undo(c, d.now);
        return repair_what_is_left(c, d);
    }
    const std::uint32_t lost_before = s.board.lost();
    const bool lost = find_losses(c, d);
    if (s.repair.phase == recovery_phase::open) {
        // With SACK it is RACK's to say: three count for it only while no reordering was seen (RFC 8985 6.2 step 4).
        const bool told = !s.sack && (c.options->like_linux() ? s.repair.left / s.payload_limit >= reordering_of(c)
                                                              : s.repair.duplicates >= c.options->duplicate_threshold);
        const bool held = s.repair.held && s.una == s.repair.point; // RFC 6582 3.2 step 2: nothing beyond `recover` was acknowledged yet
        if (lost || (told && !held)) enter_fast_recovery(c, d, 0);
    } else if (s.repair.phase == recovery_phase::fast) {
        reduce(c, news_of(c, d), false);
    } else if (finds_blame(s, lost_before)) {
        enter_fast_recovery(c, d, 0);
    }
    if (s.sack && c.options->like_linux()) grow_by_sack(c, d);
    if (lost != (lost_before != 0) || s.settled_at() != never) arm_retransmission(c, d.now);
}

void on_repair_ack(control_block& c, const segment& seg, delivery& d, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    c.output_wanted = true;
    if (c.options->like_freebsd()) return freebsd_repair_ack(c, seg, d, acked);
    settle_tail_probe(c, seg, d.now, acked);
    const bool guess = !s.sack && c.options->like_linux();
    const std::uint32_t counted = d.counted, left = s.repair.left;
    if (guess) {
        guess_delivery(s, d, acked);
        s.repair.left -= std::min(s.repair.left, counted - std::min(counted, s.payload_limit)); // the one that was lost was none of them
        limit_departures(c, d.whole);
    }
    take_delivery(c, d);
    s.repair.duplicates = 0;
    s.repair.only_new = false;
    const reading said = c.options->like_linux() ? heed_habits(c, seg, acked) : reading::judge;
    if (said == reading::wait) {
        s.repair.only_new = true;
        if (s.repair.phase == recovery_phase::fast) reduce(c, news_of(c, d), true);
        return;
    }
    if (is_spurious(c, seg, true) || settle_doubt(c, d, true)) undo(c, d.now, said == reading::late);
    go_on(c, d, acked, guess ? 0 : acked);
    if (guess) settle_departures(s, d.whole, left);
}

void freebsd_settle_time_out(control_block& c, const segment& seg, time_point now) noexcept {
    const sender& s = c.sending;
    const undo_state& u = s.known().undo;
    if (s.repair.phase != recovery_phase::timeout || !u.possible || !u.any_resent) return;
    // Without timestamps only where all has gone again, and by a plain ACK (header prediction).
    const bool all_again = u.resent >= s.repair.point - u.from && c.state == tcp_state::established;
    const bool soon = now < s.known().freebsd.doubt_until && all_again && seg.length() == 0 && !seg.options.has_sack();
    if (soon || echoes_earlier(c, seg)) undo(c, now);
}

bool settle_needless_repair(control_block& c, const segment& seg, const delivery& d) noexcept {
    if (!is_spurious(c, seg, false)) return false;
    undo(c, d.now);
    repair_what_is_left(c, d);
    return true;
}

void on_reordering_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    s.settle_at(never);
    s.waiting_for = awaited::nothing;
    s.repair.only_new = false;
    delivery none = expected_delivery(c, now);
    if (c.options->like_linux()) none.bytes = none.counted = s.payload_limit; // what brought the timer
    const std::uint32_t lost_before = s.board.lost();
    const bool lost = find_losses(c, now);
    if ((lost && s.repair.phase == recovery_phase::open) || finds_blame(s, lost_before)) enter_fast_recovery(c, none, 0);
    if (s.board.rate() != nullptr) tell_losses(c, now);
    arm_retransmission(c, now);
    c.output_wanted = true;
    c.predictable = prediction::none;
}

} // namespace corewire::tcp
