#include <corewire/net/tcp/send/freebsd_recovery.hh>

#include <corewire/net/tcp/send/loss.hh>

#include <algorithm>
#include <utility>

namespace corewire::tcp {

namespace {

constexpr std::uint32_t threshold = 3; // tcprexmtthresh

struct sack_picture {
    seq_number farthest;         ///< the end of the highest SACKed byte; SND.UNA: there is none
    std::uint32_t bytes = 0;     ///< SACKed,
    std::uint32_t blocks = 0;    ///< in so many blocks
    std::uint32_t resent = 0;    ///< sent again, of the holes below
};

sack_picture look_at(const sender& s) noexcept {
    sack_picture p{.farthest = s.una};
    std::uint32_t resent = 0;
    bool within = false;
    s.board.each([&](seq_number left, seq_number right, fate what, copy again) {
        if (what == fate::flying && again == copy::repair) resent += right - left;
        const bool sacked = what == fate::sacked;
        p.blocks += sacked && !within;
        within = sacked;
        if (!sacked) return;
        p.bytes += right - left;
        p.farthest = right;
        p.resent = resent;
    });
    return p;
}

/// The holes that begin below `end`.
std::uint32_t holes_below(const sender& s, seq_number end) noexcept {
    std::uint32_t n = 0;
    bool within = false;
    s.board.each([&](seq_number left, seq_number, fate what, copy) {
        const bool hole = what != fate::sacked && left < end;
        n += hole && !within;
        within = hole;
    });
    return n;
}

/// What of the holes is held for lost.
std::uint32_t lost_bytes(const sender& s, const sack_picture& p) noexcept {
    std::uint32_t bytes_above = p.bytes, blocks_above = p.blocks, lost = 0;
    bool within = false;
    s.board.each([&](seq_number left, seq_number right, fate what, copy) {
        if (what == fate::sacked) {
            bytes_above -= right - left;
            blocks_above -= !within;
            within = true;
            return;
        }
        within = false;
        if (left >= p.farthest) return;
        if (blocks_above >= threshold || bytes_above > (threshold - 1) * s.mss) lost += right - left;
    });
    return lost;
}

std::uint32_t pipe_of(const sender& s, const sack_picture& p) noexcept {
    const std::uint32_t out = s.max - s.una + p.resent, gone = p.bytes + lost_bytes(s, p);
    return out > gone ? out - gone : 0;
}

/// The scoreboard has a hole more than it had below what was SACKed before: more is lost than was known (SACK_NEWLOSS).
bool finds_another_hole(control_block& c, const sack_picture& p) noexcept {
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    const std::uint32_t before = own.holes, now = holes_below(s, later(own.farthest, s.una));
    own.farthest = p.farthest;
    own.holes = holes_below(s, p.farthest);
    return now > before;
}

/// tcp_do_prr_ack(), RFC 9937: how many segments this ACK lets go, and the window that follows. `safe`: SND.UNA moved, and no hole is new.
std::uint32_t prr_window(control_block& c, std::uint32_t pipe, std::uint32_t delivered, bool safe, std::uint32_t& segments) noexcept {
    sender& s = c.sending;
    if (delivered == 0) return s.congestion->cwnd();
    rate_reduction& r = s.need().reduction;
    const std::int64_t mss = s.payload_limit, ssthresh = s.congestion->ssthresh();
    r.delivered += delivered;
    const auto credit = static_cast<std::int64_t>(r.delivered) - static_cast<std::int64_t>(r.out);
    std::int64_t quota;
    if (pipe >= ssthresh) {
        if (r.flight == 0) r.flight = std::max(1u, s.next - s.una);
        const auto due = static_cast<std::int64_t>((r.delivered * s.congestion->ssthresh() + r.flight - 1) / r.flight);
        quota = due - static_cast<std::int64_t>(r.out) + mss - 1;
    } else {
        quota = std::min(ssthresh - pipe, std::max<std::int64_t>(credit, delivered) + (safe ? mss : 0));
    }
    if (r.out == 0 && quota == 0) quota = mss;
    segments = static_cast<std::uint32_t>(std::max<std::int64_t>(quota, 0) / mss);
    const std::int64_t window = std::int64_t{pipe} - delivered + std::int64_t{segments} * mss;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(window, mss, largest_window));
}

/// What leaves now sees `window`, and what comes later `after`.
void open_for_burst(control_block& c, std::uint32_t window, std::uint32_t after) noexcept {
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    own.burst_from = s.max;
    own.window_after = after;
    s.congestion.own().limit(window);
}

void enter_recovery(control_block& c, const delivery& d, const sack_picture& p) noexcept {
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    const std::uint32_t mss = s.payload_limit, pipe = pipe_of(s, p);
    const std::uint32_t limited = std::exchange(own.limited, std::uint8_t{0});
    s.next = s.max; // the scoreboard knows what goes again, though a closed window has taken it back
    note_reduction(c);
    if (!std::exchange(s.repair.reducing, false)) s.congestion.own().on_loss(pipe);
    s.repair.phase = recovery_phase::fast;
    s.repair.point = s.max;
    s.repair.duplicates = threshold;
    ++c.count->fast_recoveries;
    own.timing = false;
    s.need().undo = {};
    const std::uint32_t delivered = s.sack ? std::min(s.max - s.una, (limited + 1) * mss) : mss;
    // RecoverFS: without what was SACKed before this ACK, and with what this one tells of.
    const std::uint32_t flight = s.sack ? s.next - s.una - p.bytes + 2 * d.bytes : s.next - s.una;
    s.need().reduction = {.delivered = delivered, .flight = std::max(1u, flight)};
    const std::uint32_t ssthresh = s.congestion->ssthresh();
    if (s.sack) {
        s.board.lose_between(s.una, earlier(p.farthest, s.repair.point));
        open_for_burst(c, pipe + mss, ssthresh);
    } else {
        s.board.lose_first(earlier(s.una + mss, s.max));
        s.repair.resend_at_once = true;
        open_for_burst(c, mss, ssthresh + mss * threshold);
    }
    arm_retransmission(c, d.now);
}

void leave_recovery(control_block& c) noexcept {
    sender& s = c.sending;
    if (s.repair.phase == recovery_phase::fast) s.congestion.own().on_recovered();
    s.repair.phase = recovery_phase::open;
    s.repair.held = !s.sack;
    s.repair.point = s.una; // snd_recover
    s.repair.duplicates = 0;
    s.need().reduction = {.flight = 0};
}

/// Each of the first two lets a new segment go (RFC 3042), and leaves cwnd as it is.
void transmit_limited(control_block& c) noexcept {
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    if (s.repair.duplicates == 1) own.limited = 0;
    const std::uint32_t cwnd = s.congestion->cwnd(), more = (s.repair.duplicates - own.limited) * s.payload_limit;
    const bool timed_out = s.repair.phase == recovery_phase::timeout || s.rto.backoff() != 0;
    open_for_burst(c, (timed_out ? cwnd : s.next - s.una) + more, cwnd);
}

/// tcp_sack_partialack(): nothing is said of what lies beyond. Where no hole is known any more the end of the flight goes again (RFC 6675's
/// rescue retransmission).
void take_plain_partial_ack(control_block& c, const sack_picture& p, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    const std::uint32_t mss = s.payload_limit, beyond = s.next > s.repair.point ? s.next - s.repair.point : 0;
    const std::uint32_t window = p.resent + beyond + (acked / mss >= 2 ? 2 : 1) * mss;
    s.congestion.own().limit(std::min(window, s.congestion->ssthresh()));
    if (p.blocks != 0) return;
    const seq_number data_end = earlier(s.fin_sent() ? s.max - 1 : s.max, s.repair.point);
    if (s.una < data_end) s.board.lose_between(later(s.una, data_end - std::min(mss, data_end - s.una)), data_end);
}

/// RFC 6582 3.2: the next segment goes at once, and the window is as much smaller as was acknowledged, but for one segment.
void take_newreno_partial_ack(control_block& c, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    const std::uint32_t mss = s.payload_limit, cwnd = s.congestion->cwnd();
    s.need().freebsd.timing = false;
    s.board.lose_first(earlier(s.una + mss, s.max));
    s.repair.resend_at_once = true;
    s.congestion.own().limit((cwnd > acked ? cwnd - acked : 0) + mss);
    c.receiving.acks.acknowledge_now();
}

void take_partial_ack(control_block& c, const segment& seg, const delivery& d, std::uint32_t acked, const sack_picture& p,
                      bool more_lost) noexcept {
    sender& s = c.sending;
    if (!s.sack) return take_newreno_partial_ack(c, acked);
    std::uint32_t segments = 0;
    s.need().freebsd.timing = false;
    // Two passes there: the first sees SND.UNA as it was, and what leaves in it carries the ACK that is always sent.
    if (seg.options.has_sack()) {
        s.congestion.own().limit(prr_window(c, pipe_of(s, p) + acked, d.bytes, !more_lost, segments));
        s.board.lose_originals(earlier(p.farthest, s.repair.point));
    } else {
        take_plain_partial_ack(c, p, acked);
    }
    c.ack_first = !s.board.has_lost() || segments * s.payload_limit <= d.bytes;
    c.receiving.acks.acknowledge_now();
}

} // namespace

std::uint32_t freebsd_pipe(const control_block& c) noexcept {
    const sender& s = c.sending;
    return s.sack ? pipe_of(s, look_at(s)) : s.max - s.una;
}

void freebsd_duplicate_ack(control_block& c, const delivery& d, bool news) noexcept {
    sender& s = c.sending;
    if (s.sack && !news) return; // RFC 6675 2
    if (s.waiting_for == awaited::window_probe) { // nothing is sent again by duplicates of a closed window
        s.repair.duplicates = 0;
        return;
    }
    freebsd_burst_over(c);
    const std::uint32_t mss = s.payload_limit;
    const sack_picture p = look_at(s);
    finds_another_hole(c, p); // which is known then, and no news to the ACK that moves SND.UNA
    const unsigned count = ++s.repair.duplicates;
    if (s.repair.phase == recovery_phase::fast) {
        std::uint32_t segments = 0;
        if (s.sack) {
            s.congestion.own().limit(prr_window(c, pipe_of(s, p), d.bytes, false, segments));
            s.board.lose_originals(earlier(p.farthest, s.repair.point));
        } else {
            s.congestion.own().limit(s.congestion->cwnd() + mss);
        }
    } else if (count > threshold) {
        s.congestion.own().limit(s.congestion->cwnd() + mss);
    } else if (count == threshold || (s.sack && p.bytes > (threshold - 1) * mss)) {
        // RFC 6582 3.2 step 2: nothing beyond what was in flight then was acknowledged yet.
        const bool held = (s.repair.held && s.una == s.repair.point) || s.repair.phase == recovery_phase::timeout;
        if (!s.sack && held) s.repair.duplicates = 0;
        else enter_recovery(c, d, p);
    } else {
        transmit_limited(c);
    }
}

void freebsd_repair_ack(control_block& c, const segment& seg, const delivery& d, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    freebsd_burst_over(c);
    s.repair.duplicates = 0;
    const sack_picture p = look_at(s);
    const bool more_lost = finds_another_hole(c, p);
    const bool tells_more = s.sack && seg.options.has_sack() && d.bytes != 0 && d.highest > s.una && s.rto.backoff() == 0;
    if (tells_more) s.repair.duplicates = 1;
    if (tells_more && s.repair.phase != recovery_phase::fast && p.bytes > (threshold - 1) * s.payload_limit) {
        enter_recovery(c, d, p);
    } else if (s.repair.phase != recovery_phase::open && s.una >= s.repair.point) {
        leave_recovery(c);
    } else if (s.repair.phase == recovery_phase::fast) {
        take_partial_ack(c, seg, d, acked, p, more_lost);
    }
}

void freebsd_reduce_for_mark(control_block& c, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    if (s.una > c.ecn.reduced_until) {
        s.congestion.own().on_recovered();
        s.repair.reducing = false;
        s.need().reduction = {.flight = 0};
        return;
    }
    std::uint32_t segments = 0;
    const std::uint32_t pipe = freebsd_pipe(c) + acked; // there SND.UNA has yet to move
    rate_reduction& r = s.need().reduction;
    if (r.flight == 0 && pipe >= s.congestion->ssthresh()) r.flight = s.next - s.una + acked;
    s.congestion.own().limit(prr_window(c, pipe, acked, true, segments));
}

void freebsd_measure(control_block& c, const segment& seg, time_point now) noexcept {
    using std::chrono::milliseconds;
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    const bool first = s.rto.srtt() == duration{0};
    duration rtt{0};
    if (c.timestamps && seg.options.has_timestamps() && seg.options.timestamp_echo != 0) {
        const std::uint32_t age = timestamp_echo::clock(now, c.timestamp_offset) - seg.options.timestamp_echo;
        if (age >= 1u << 24) return;
        rtt = milliseconds{age} + (first ? milliseconds{1} : milliseconds{0});
    } else if (own.timing && seg.ack > own.timed) {
        rtt = now - own.timed_at - (first ? milliseconds{0} : milliseconds{1}); // its clock's grain
    } else {
        return;
    }
    own.timing = false;
    take_rtt(c, std::max<duration>(rtt, duration{1}), now, seg.ack);
    s.congestion.own().on_round_trip(rtt);
    if (c.count.get().soft_error != std::errc{}) c.count->soft_error = {}; // who answers is no longer out of reach
}

void freebsd_begin_repair(control_block& c, time_point now, bool first) noexcept {
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    own.window_after = 0;
    own.timing = false;
    own.doubt_until = first && !c.timestamps ? now + s.rto.srtt() / 2 : time_point{}; // t_badrxtwin
    if (!first) s.need().undo = {};
}

sack_block freebsd_piece(const control_block& c, sack_block lost) noexcept {
    const sender& s = c.sending;
    if (s.repair.resend_at_once || lost.size() == 0) return lost;
    const std::uint32_t window = std::min(s.window, s.congestion->cwnd()), pipe = freebsd_pipe(c);
    const std::uint32_t room = window > pipe ? window - pipe : 0;
    return {lost.left, earlier(lost.right, lost.left + room)};
}

bool freebsd_repairs_first(const control_block& c) noexcept {
    const sender& s = c.sending;
    return s.repair.by_numbers && s.repair.phase == recovery_phase::fast && s.board.has_lost();
}

void freebsd_burst_over(control_block& c) noexcept {
    sender& s = c.sending;
    freebsd_sender& own = s.need().freebsd;
    if (own.window_after != 0) {
        const std::uint32_t sent = s.max - own.burst_from;
        const unsigned limited = sent > s.payload_limit ? 2 : own.limited + (sent != 0);
        if (s.repair.phase != recovery_phase::fast) own.limited = static_cast<std::uint8_t>(limited);
        s.congestion.own().limit(std::exchange(own.window_after, 0u));
    }
    const seq_number from = later(own.timed_to, s.una);
    if (!own.timing && s.next > from && s.repair.phase != recovery_phase::timeout) {
        own.timing = true;
        own.timed = from;
        own.timed_at = s.last_sent;
    }
    own.timed_to = s.max;
}

} // namespace corewire::tcp
