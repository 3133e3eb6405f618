#include <corewire/net/tcp/send/loss.hh>

#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/sampling.hh>
#include <corewire/net/tcp/send/validation.hh>

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
    c.sending.need().losses.take(d);
    if (d.reordered) ++c.count->reorderings;
}

/// RFC 8985 6.2 step 4, and one resent piece less that could have been needed (RFC 3708).
void on_dsack(control_block& c, sack_block twice) noexcept {
    sender& s = c.sending;
    if (twice.left >= twice.right || twice.right > s.max) return;
    seldom_needed& known = s.need();
    known.losses.on_dsack(s.una, s.next);
    undo_state& u = known.undo;
    if (!u.possible || twice.left < u.from) return;
    if (!c.options->like_linux()) {
        // A tail probe's copy says nothing of what the recovery has resent; nor does anything a window behind its end.
        if (s.repair.probe_repeats && twice.right == s.repair.probe_end) return;
        if (s.repair.phase == recovery_phase::open && s.una > s.repair.point + s.max_window) u.possible = false;
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

/// How long a segment may be overtaken before it counts as lost.
duration patience(const control_block& c) noexcept {
    const sender& s = c.sending;
    const bool sure = sure_of_loss(c);
    return s.known().losses.patience(sure, s.least_rtt.get(), s.rto.srtt(), c.options->min_reordering);
}

/// RACK_detect_loss_and_arm_timer() of RFC 8985 6.2. True: the scoreboard holds something for lost now.
bool find_losses(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (!s.sack) return s.board.has_lost();
    if (c.options->like_freebsd() && !sure_of_loss(c)) return s.board.has_lost(); // it has no patience to run out: it counts
    duration wait{0};
    s.known().losses.find_losses(s.board, now, patience(c), wait);
    s.settle_at(wait > duration{0} ? now + wait : never);
    return s.board.has_lost();
}

/// The same for an ACK. Linux's looks only when one tells of something sent later than what was told of before (tcp_rack_mark_lost()):
/// what comes late, as behind a needless time-out, proves nothing of the rest.
bool find_losses(control_block& c, const delivery& d) noexcept {
    const sender& s = c.sending;
    if (c.options->like_linux() && !s.known().losses.advanced()) return s.board.has_lost();
    return find_losses(c, d.now);
}

/// From here on it may turn out that nothing was lost.
void begin_doubt(sender& s) noexcept {
    s.need().undo = {.possible = true, .from = s.una, .resent = s.board.resent_in_flight()}; // a probe, perhaps
    s.congestion.own().remember();
}

/// Linux's habit: without SACK each duplicate ACK stands for a segment that was delivered, and the next ACK of something new tells of the
/// rest, one at least.
void guess_delivery(sender& s, delivery& d, std::uint32_t acked) noexcept {
    const auto rest = [&s](std::uint32_t n) { return std::max(n > s.repair.left ? n - s.repair.left : 0, std::min(n, s.payload_limit)); };
    if (acked == 0) {
        d.bytes = d.counted = s.payload_limit;
    } else if (s.repair.left != 0) {
        d.bytes = rest(acked);
        d.counted = rest(d.counted);
    }
}

/// A duplicate ACK without SACK: a segment has left the network. Behind a time-out only what F-RTO has sent anew is known to be there, and
/// has to make room for what is lost (RFC 5682 2.1 step 3a; tcp_process_loss()).
void note_departure(control_block& c) noexcept {
    sender& s = c.sending;
    std::uint32_t out = s.next - s.una;
    if (s.repair.phase == recovery_phase::timeout) out = s.board.has_lost() ? s.max - later(s.una, s.repair.point) : 0;
    else if (c.options->like_linux()) out = s.segments_to(s.next, true) * s.payload_limit;
    s.repair.left = std::min(s.repair.left + s.payload_limit, out);
}

/// How much may be in flight after this ACK (RFC 9937); without SACK ssthresh itself.
void reduce(control_block& c, std::uint32_t news, bool safe) noexcept {
    sender& s = c.sending;
    if ((!s.sack && !c.options->like_linux()) || s.congestion->repairs_itself()) return;
    s.congestion.own().limit(s.need().reduction.window(s.in_flight(*c.options), s.congestion->ssthresh(), news, safe, s.payload_limit));
}

/// RFC 3168 6.1.2: whatever the window was reduced for, the first new data says CWR. AccECN has no such thing.
void note_reduction(control_block& c) noexcept {
    if (c.ecn.on && c.ecn.accurate == nullptr) c.ecn.tell_reduced = true;
}

} // namespace

std::uint32_t flight_size(const sender& s, std::uint32_t acked) noexcept {
    const std::uint32_t now = s.next - s.una + acked;
    const std::uint32_t window = s.congestion->cwnd() / s.payload_limit * s.payload_limit;
    return s.una - acked < s.limited_until ? std::max(now, window) : now;
}

std::uint32_t to_reduce(control_block& c, time_point now, std::uint32_t flight) noexcept {
    if (c.options->habits != personality::standard) return c.sending.congestion->cwnd();
    return validates_window(c) ? congested_flight(c, now, flight) : flight;
}

namespace {

/// A loss event (RFC 5681 3.2 (2), RFC 9937 5): the window shrinks, and the first hole is resent whatever it says.
void enter_fast_recovery(control_block& c, const delivery& d, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    if (s.searching && probe_was_lost(c, d.now)) return;
    const std::uint32_t flight = flight_size(s, acked);
    s.repair.phase = recovery_phase::fast;
    s.repair.point = s.max;
    s.repair.probe_out = false;
    ++c.count->fast_recoveries;
    begin_doubt(s);
    const bool reduced = std::exchange(s.repair.reducing, false); // Linux: for a mark, in this window
    const bool linux_habits = c.options->like_linux();
    const std::uint32_t before = s.congestion->cwnd();
    if (!reduced) {
        note_reduction(c);
        s.congestion.own().on_loss(d.now, to_reduce(c, d.now, flight));
    }
    if (!s.board.has_lost()) s.board.lose_first(first_segment(c));
    const std::uint32_t unsent = s.queue.end() > s.next ? s.queue.end() - s.next : 0;
    const std::uint32_t unanswered = std::min(flight - (s.next - s.una + acked), unsent);
    if (!reduced && linux_habits) s.need().reduction.start(before, s.payload_limit);
    else if (!reduced) s.need().reduction.start(std::max(s.board.pipe() + s.board.lost() + d.bytes, flight), 1, unanswered);
    s.repair.resend_at_once = true;
    reduce(c, news_of(c, d), false);
    c.probe_wanted = false;
}

void leave_recovery(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (s.repair.phase == recovery_phase::fast || s.congestion->repairs_itself()) s.congestion.own().on_recovered(now);
    if (validates_window(c)) settle_window(c);
    s.need().losses.on_recovered();
    s.repair.phase = recovery_phase::open;
    s.repair.held = !s.sack && s.una == s.repair.point;
    s.repair.duplicates = 0;
    s.repair.left = 0;
    s.repair.doubting = false;
    s.repair.new_first = 0;
}

/// The peer had all of it: the window is given back, and what was only thought lost flies on.
void undo(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    ++c.count->spurious_recoveries;
    s.need().undo.possible = false;
    if (s.repair.phase != recovery_phase::open) leave_recovery(c, now);
    s.congestion.own().undo(now);
    c.ecn.tell_reduced = false; // nothing was reduced after all
    s.board.forgive();
    if (!c.options->like_linux()) s.need().losses.forget_copy();
    c.output_wanted = true;
}

/// Whether everything resent in this recovery was needless: an ACK that echoes a time before the first retransmission
/// (Eifel, RFC 3522), or every resent byte was reported to have come twice (RFC 3708), which may be told behind its end.
bool is_spurious(const control_block& c, const segment& seg, bool advanced) noexcept {
    const undo_state& u = c.sending.known().undo;
    if (!u.possible || !u.any_resent) return false;
    const bool older = advanced && c.sending.repair.phase != recovery_phase::open && c.timestamps && seg.options.has_timestamps() &&
                       static_cast<std::int32_t>(seg.options.timestamp_echo - u.stamp) < 0;
    return older || u.resent == 0;
}

/// F-RTO (RFC 5682 2.1, 3.1): was the time-out itself spurious? True if it was.
bool settle_doubt(control_block& c, const delivery& d, bool advanced) noexcept {
    sender& s = c.sending;
    recovery& r = s.repair;
    if (!r.doubting) return false;
    if (d.original && (s.sack || !d.resent)) return true; // step 3b: bytes that were sent once arrive
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
    if (!s.repair.probe_out || seg.ack < s.repair.probe_end) return;
    if (!s.repair.probe_repeats || reports_duplicate(seg)) {
        s.repair.probe_out = false;
    } else if (seg.ack > s.repair.probe_end) { // the probe itself repaired a loss
        s.repair.probe_out = false;
        note_reduction(c);
        const std::uint32_t flight = flight_size(s, acked);
        s.congestion.own().on_loss(now, to_reduce(c, now, flight));
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
    const bool limited = s.una < s.limited_until;
    if (!s.half_used() && !limited) return;
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

/// R2 as Linux has it: the time that so many retransmissions would take if the first time-out had been `first`: the least one, or a SYN's.
duration time_for(duration first, unsigned retries) noexcept {
    constexpr duration longest = std::chrono::seconds{120};
    unsigned doublings = 0;
    while (first * (std::int64_t{2} << doublings) <= longest) ++doublings;
    if (retries <= doublings) return first * ((std::int64_t{2} << retries) - 1);
    return first * ((std::int64_t{2} << doublings) - 1) + longest * (retries - doublings);
}

/// Linux's habit: the window was taken back from what is in flight, and the peer is heard (tcp_rtx_probe0_timed_out()).
bool taken_back(const control_block& c, time_point now) noexcept {
    return c.sending.window == 0 && !c.orphaned && now - c.heard <= 2 * c.options->max_rto;
}

bool retries_exhausted(const control_block& c, time_point now, unsigned limit) noexcept {
    const sender& s = c.sending;
    const parameters& p = *c.options;
    if (p.like_linux() && c.state == tcp_state::syn_sent) { // those at equal distances come on top, but take no time of the others'
        return s.attempts > limit + p.syn_linear_timeouts || now - s.known().stalled_at >= time_for(p.initial_rto, limit);
    }
    const bool by_time = p.like_linux() && is_synchronized(c.state) && s.waiting_for != awaited::window_probe;
    if (by_time && taken_back(c, now)) return false;
    return by_time ? s.attempts > 1 && now - s.known().stalled_at >= time_for(p.min_rto, limit) : s.attempts > limit;
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
    return opening ? p.open_timeout : p.user_timeout;
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
        if (c.options->like_freebsd() && is_synchronized(c.state)) { // a peer that lives after all hears of it
            c.reset = {.wanted = true, .with_ack = true, .seq = s.max, .ack = c.receiving.next};
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

/// When to try again: after the backed-off time-out, or when the user's patience ends.
time_point next_attempt(const control_block& c, time_point now) noexcept {
    const time_point at = now + probe_interval(c);
    const duration most = most_patience(c);
    if (most <= duration{0}) return at;
    return std::clamp(c.sending.known().stalled_at + most, now, at);
}

/// Linux's tcp_thin_linear_timeouts: so little is in flight that nothing else can tell of a loss.
bool is_thin(const control_block& c) noexcept {
    constexpr unsigned most_attempts = 6, few = 4; // TCP_THIN_LINEAR_RETRIES, tcp_stream_is_thin()
    const sender& s = c.sending;
    return c.options->thin_linear_timeouts && c.state == tcp_state::established && s.attempts <= most_attempts &&
           s.max - s.una <= (few - 1) * s.payload_limit;
}

/// The first of a row of retransmissions: patience counts from when the oldest byte was sent (RFC 5482 2); Linux's from now on.
void begin_stall(control_block& c) noexcept {
    sender& s = c.sending;
    if (s.attempts == 0) s.need().stalled_at = c.options->like_linux() && is_synchronized(c.state) ? never : s.progress;
}

} // namespace

duration probe_interval(const control_block& c) noexcept {
    const rto_estimator& rto = c.sending.rto;
    const parameters& p = *c.options;
    if (!p.like_freebsd() || c.sending.waiting_for != awaited::window_probe) return rto.current(p);
    constexpr duration least = std::chrono::seconds{5}, most = std::chrono::seconds{60}; // net.inet.tcp.persmin, persmax
    const duration first = rto.srtt() != duration{0} ? 4 * rto.srtt() + 8 * rto.rttvar() : 2 * p.initial_rto; // tcp_setpersist()
    return std::clamp(first * (std::int64_t{1} << std::min(rto.backoff(), 9u)) + p.rto_slop, least, most);
}

std::uint32_t reordering_of(const control_block& c) noexcept {
    const rack& r = c.sending.known().losses;
    const std::uint32_t least = c.options->duplicate_threshold, size = std::max(c.sending.payload_limit, 1u);
    if (!r.reordering_seen()) return least;
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
    if (reports_duplicate(seg)) [[unlikely]] {
        ++c.count->duplicates_reported;
        on_dsack(c, block_of(seg.options.sack[0]));
    }
    bool news = false;
    for (std::uint32_t i = 0; i < seg.options.sack_count; ++i) {
        if (s.board.sack(block_of(seg.options.sack[i]), d)) news = true;
    }
    return news;
}

void settle_idle_probe(sender& s) noexcept {
    if (s.repair.probe_repeats && s.una == s.repair.probe_end) s.repair.probe_out = false;
}

void on_duplicate_ack(control_block& c, const segment& seg, delivery& d, bool news) noexcept {
    sender& s = c.sending;
    c.output_wanted = true;
    if (s.repair.probe_out) settle_idle_probe(s);
    if (s.sack && !news) return settle_needless_repair(c, seg, d.now); // RFC 6675 2: a duplicate ACK has SACK news
    if (!s.sack && c.options->like_linux()) guess_delivery(s, d, 0);
    take_delivery(c, d);
    ++s.repair.duplicates;
    if (!s.sack) note_departure(c);
    if (is_spurious(c, seg, false) || settle_doubt(c, d, false)) return undo(c, d.now);
    const bool lost_before = s.board.has_lost();
    const bool lost = find_losses(c, d);
    if (s.repair.phase == recovery_phase::open) {
        // With SACK it is RACK's to say: three count for it only while no reordering was seen (RFC 8985 6.2 step 4).
        const bool told = !s.sack && s.repair.duplicates >= c.options->duplicate_threshold;
        const bool held = s.repair.held && s.una == s.repair.point; // RFC 6582 3.2 step 2: nothing beyond `recover` was acknowledged yet
        if (lost || (told && !held)) enter_fast_recovery(c, d, 0);
    } else if (s.repair.phase == recovery_phase::fast) {
        reduce(c, news_of(c, d), false);
    }
    if (s.sack && c.options->like_linux()) grow_by_sack(c, d);
    if (lost != lost_before || s.settled_at() != never) arm_retransmission(c, d.now);
}

void on_repair_ack(control_block& c, const segment& seg, delivery& d, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    c.output_wanted = true;
    settle_tail_probe(c, seg, d.now, acked);
    const bool guess = !s.sack && c.options->like_linux();
    const std::uint32_t counted = d.counted;
    if (guess) guess_delivery(s, d, acked);
    take_delivery(c, d);
    s.repair.duplicates = 0;
    const bool linux_habits = c.options->like_linux();
    if (linux_habits && s.sack && !s.known().losses.advanced()) s.settle_at(never); // the time-out's turn
    if (linux_habits && s.board.reneged() && (s.repair.phase == recovery_phase::open || s.una < s.repair.point)) {
        s.settle_at(never); // nothing is judged before all is sent again
        if (s.repair.phase == recovery_phase::fast) reduce(c, news_of(c, d), true);
        return;
    }
    if (is_spurious(c, seg, true) || settle_doubt(c, d, true)) {
        // What fills the hole was late, and not sent again (tcp_try_undo_partial()).
        const bool partial = linux_habits && s.sack && s.repair.phase == recovery_phase::fast && s.una < s.repair.point;
        if (partial) {
            s.need().losses.note_overtaken(s.una - acked, later(s.una, s.farthest()));
            ++c.count->reorderings;
        }
        undo(c, d.now);
    }
    const std::uint32_t lost_before = s.board.lost();
    if (s.repair.phase == recovery_phase::open) {
        s.repair.left = 0;
        if (find_losses(c, d)) enter_fast_recovery(c, d, acked);
    } else if (s.una >= s.repair.point) {
        s.settle_at(never);
        leave_recovery(c, d.now);
        if (find_losses(c, d)) enter_fast_recovery(c, d, acked);
    } else {
        // The segment that was lost and sent again is not among those that Linux counted.
        if (s.repair.phase == recovery_phase::timeout) s.repair.left = 0;
        else if (!s.sack) next_hole(c, guess ? counted - std::min(counted, s.payload_limit) : acked);
        find_losses(c, d);
        if (s.repair.phase == recovery_phase::fast) reduce(c, news_of(c, d), s.board.lost() <= lost_before);
    }
}

void settle_needless_repair(control_block& c, const segment& seg, time_point now) noexcept {
    if (is_spurious(c, seg, false)) undo(c, now);
}

void on_reordering_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    s.settle_at(never);
    s.waiting_for = awaited::nothing;
    delivery none = expected_delivery(c, now);
    if (c.options->like_linux()) none.bytes = none.counted = s.payload_limit; // what brought the timer
    if (find_losses(c, now) && s.repair.phase == recovery_phase::open) enter_fast_recovery(c, none, 0);
    if (s.board.rate() != nullptr) tell_losses(c, now);
    arm_retransmission(c, now);
    c.output_wanted = true;
    c.predictable = prediction::none;
}

event on_retransmission_timeout(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    event path = event::none;
    ++c.count->retransmission_timeouts;
    if (s.attempts == 0) {
        ++s.need().tally.time_out_rows;
        s.seldom->tally.row_since = now;
    }
    begin_stall(c);
    if (c.state == tcp_state::syn_sent || c.state == tcp_state::syn_received) {
        const event e = count_attempt(c, now, c.passive ? c.options->syn_ack_retries : c.options->syn_retries);
        if (has(e, event::timed_out)) return e;
        c.syn_wanted = c.syn_resent = true;
    } else {
        const event e = count_attempt(c, now, retry_limit(c));
        if (has(e, event::timed_out)) return e;
        path = suspect_path(c, now, doubts_path(c, now));
        if (c.ecn.accurate != nullptr) suspect_options(c);
        if (validates_window(c)) forget_validation(c);
        const bool linux_habits = c.options->like_linux();
        // Linux has reduced its window for this loss already, and takes back both or none.
        const bool reduced = linux_habits && s.repair.phase == recovery_phase::fast;
        const bool first = s.repair.phase != recovery_phase::timeout && !reduced;
        if (first) s.congestion.own().remember();
        note_reduction(c);
        s.congestion.own().on_timeout(now, linux_habits ? s.congestion->cwnd() : s.max - s.una, s.attempts == 1 && !reduced);
        // RFC 6298 5.4: the earliest segment goes, whatever flies still.
        s.repair = recovery{.phase = recovery_phase::timeout, .point = s.max, .resend_at_once = true,
                             .doubting = first && c.options->forward_rto};
        s.need().reduction = {};
        if (first) s.need().undo = {.possible = true, .from = s.una, .resent = s.board.resent_in_flight()};
        s.next = s.max; // a window probe's byte is repeated like any other
        if (linux_habits && s.board.reneged()) s.need().tally.delivered += s.counted(fate::sacked) / s.payload_limit; // and will be again
        if (s.sack) { // RFC 8985 6.3. RACK.rtt is as old as the last repair
            s.board.lose_sent_before(now - std::max(patience(c), s.rto.srtt()), s.payload_limit);
        } else {
            s.board.lose_everything(false);
        }
        if (linux_habits && !s.congestion->repairs_itself()) s.congestion.own().limit(s.counted_flight() + s.payload_limit);
        if (s.board.rate() != nullptr) sample_timeout(c, now);
        s.settle_at(never);
    }
    c.predictable = prediction::none;
    s.timing = false; // Karn
    const bool linear = c.state == tcp_state::syn_sent && s.attempts <= c.options->syn_linear_timeouts;
    if (is_thin(c)) s.rto.reset_back_off();
    else if (!linear) s.rto.back_off();
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now));
    c.output_wanted = true;
    return s.attempts == c.options->trouble_after ? path | event::delivery_trouble : path;
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
        if (!c.options->like_linux()) c.reset = {.wanted = true, .with_ack = true, .seq = seq, .ack = c.receiving.next};
        return die(c, std::errc::timed_out, event::timed_out);
    }
    ++c.count->window_probes;
    s.rto.back_off();
    c.probe_wanted = true;
    c.predictable = prediction::none;
    c.timers.arm(timer_slot::retransmit, next_attempt(c, now));
    c.output_wanted = true;
    return e;
}

} // namespace corewire::tcp
