// Finding out that segments were lost, and what to do then: by ACKs (loss.cc: RFC 5681, 6582, 8985, 9937; 3522 and 5682 when it was not
// true) and by timers (time_outs.cc: RFC 6298, 8985 7). What is resent then comes out of the scoreboard.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// The SACK blocks of an ACK go into the scoreboard, and what they delivered into `d`. True if they brought news.
bool take_sack_blocks(control_block& c, const segment& seg, delivery& d) noexcept;
/// The peer tells what has come twice (RFC 2883).
bool reports_duplicate(const segment& seg) noexcept;
/// A tail loss probe is out, and an ACK has come that it may have brought without being needed (RFC 8985 7.4.2).
void settle_idle_probe(sender& s) noexcept;
/// An ACK that does not move SND.UNA, while data is outstanding. `news`: its SACK blocks say something new.
void on_duplicate_ack(control_block& c, const segment& seg, delivery& d, bool news) noexcept;
/// SND.UNA has moved by `acked` bytes, and recovery, SACK or duplicates are about.
void on_repair_ack(control_block& c, const segment& seg, delivery& d, std::uint32_t acked) noexcept;
/// FreeBSD's habit, before cwnd opens: an ACK that moves SND.UNA shows that the first time-out was needless, which is undone (CC_RTO_ERR).
void freebsd_settle_time_out(control_block& c, const segment& seg, time_point now) noexcept;
/// A D-SACK may tell, when all is over, that the last recovery was needless (RFC 2883, 3708): then it is undone; with Linux's habits what
/// is lost besides begins another. True: so it was.
bool settle_needless_repair(control_block& c, const segment& seg, const delivery& d) noexcept;
/// What an ACK is asked about the scoreboard.
inline delivery expected_delivery(const control_block& c, time_point now) noexcept {
    const sender& s = c.sending;
    return {.now = now, .least_rtt = s.least_rtt.get(), .farthest = s.farthest(),
            .point = s.repair.phase == recovery_phase::open ? s.una : s.repair.point};
}
/// What it delivered, as the congestion window counts.
inline std::uint32_t news_of(const control_block& c, const delivery& d) noexcept {
    return c.options->like_linux() ? d.counted : d.bytes;
}
/// FlightSize (RFC 5681 2) when what this ACK tells of was sent. ACKs come many at a time, and data leaves only behind the last of them:
/// what is in flight meanwhile says little. Where cwnd held data back, that is what was in flight. `acked`: by this ACK.
std::uint32_t flight_size(const sender& s, std::uint32_t acked) noexcept;
/// What the answer to congestion is a share of. Linux: of cwnd, used or not; FreeBSD: of what its controllers look at, beside cwnd.
std::uint32_t to_reduce(control_block& c, time_point now, std::uint32_t flight) noexcept;
/// How far segments overtake each other here, in segments; DupThresh unless some came later than that.
std::uint32_t reordering_of(const control_block& c) noexcept;
/// RFC 6298 5.4 to 5.6: the first segment, and what was sent a round trip ago (RFC 8985 6.3; without SACK all), is held for lost; the timer
/// backs off.
event on_retransmission_timeout(control_block& c, time_point now) noexcept;
/// RFC 8985 7.3: the tail may be lost and nothing tells.
void on_tail_probe_timeout(control_block& c, time_point now) noexcept;
/// RFC 8985 6.2: what was overtaken has waited long enough.
void on_reordering_timeout(control_block& c, time_point now) noexcept;
/// RFC 9293 3.8.6.1: ask a closed window whether it has opened.
event on_window_probe_timeout(control_block& c, time_point now) noexcept;

/// How long a segment may be overtaken before it counts as lost.
duration patience(const control_block& c) noexcept;
/// One reduction a window of data, for marks and losses together (RFC 3168 6.1.2). DCTCP's answer to a loss is another one (RFC 8257 3.5),
/// and BBR's; Linux and FreeBSD look at what goes on alone.
inline bool reduces_once(const control_block& c) noexcept {
    return c.ecn.on && !c.ecn.exact && c.options->habits == personality::standard && !c.sending.congestion->repairs_itself();
}
/// A reduction for a loss: marks in the same window cost nothing more, and the first new data says CWR, which AccECN does not have.
inline void note_reduction(control_block& c) noexcept {
    if (c.ecn.on && c.ecn.accurate == nullptr) c.ecn.tell_reduced = true;
    if (reduces_once(c)) c.ecn.reduced_until = c.sending.max;
}

/// When the answer to what is sent now has been waited for long enough, the user's patience counted.
time_point next_attempt(const control_block& c, time_point now) noexcept;
/// How long that is but for the user: the time-out; of a window probe FreeBSD's is another.
duration probe_interval(const control_block& c) noexcept;

/// Whether losses, duplicates or probes may be about. `none`: control_block::predictable says that they are not, and that
/// the retransmission timer has not backed off, and that Linux's habits are not to be followed.
enum class disturbance : bool { none, possible };

/// (Re)starts the retransmission timer for what is in flight: patience with reordering or a tail loss probe come first where
/// there is reason. Nearly every segment asks for it, so it is inline; the timer itself is lazy (timers.hh).
template <disturbance d>
[[gnu::always_inline]] inline void arm_retransmission(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    if (d == disturbance::possible && s.settled_at() != never) [[unlikely]] {
        s.waiting_for = awaited::reordering;
        c.timers.arm(timer_slot::retransmit, s.settled_at());
        return;
    }
    const duration rto = d == disturbance::none ? s.rto.without_back_off() : s.rto.current(*c.options);
    const bool linux_habits = d == disturbance::possible && c.options->like_linux();
    if (d == disturbance::possible && s.paced && s.board.has_lost() && !linux_habits) [[unlikely]]
        now = std::max(now, s.known().pace.due()); // what waits for its pace is no silence of the peer's
    const bool calm = d == disturbance::none ||
                      (!s.repair.tail_probe_out && s.repair.phase != recovery_phase::timeout &&
                       (linux_habits ? s.repair.phase == recovery_phase::open && s.board.sacked() == 0
                                     : s.rto.backoff() == 0)); // RFC 8985 7.2
    const bool measured = d == disturbance::none || s.probe_after != sender::unknown; // none: it is no less than `rto` then
    if (calm && s.probes_tail && (measured || linux_habits)) {
        // A peer need not acknowledge two small segments either (RFC 5681 4.2). Linux counts segments, as RFC 8985 7.2 does.
        s.probe_is_patient = measured && (linux_habits ? s.last_start <= s.una : s.max - s.una <= s.payload_limit);
        // RFC 8985 7.2: a second, where no round trip was measured. We have the time-out then.
        const duration after = measured ? s.probe_after : std::chrono::seconds{1};
        const duration wait = s.probe_is_patient ? after + c.options->peer_delayed_ack : after;
        // RFC 8985 7.2: a probe due after the time-out goes in its place. Linux does so; we let the time-out have it.
        if (wait < rto || linux_habits) {
            s.waiting_for = awaited::tail_probe;
            c.timers.arm(timer_slot::retransmit, now + std::min(wait, rto));
            return;
        }
    }
    s.waiting_for = awaited::timeout;
    if (linux_habits && s.board.reneged()) [[unlikely]] { // what is in doubt is soon sent again (tcp_check_sack_reneging())
        const duration soon = std::max<duration>(s.rto.srtt() / 2, std::chrono::milliseconds{10});
        c.timers.arm(timer_slot::retransmit, now + soon);
        return;
    }
    c.timers.arm(timer_slot::retransmit, now + rto);
}
/// The same, where a few instructions do not count.
void arm_retransmission(control_block& c, time_point now) noexcept;
/// A writer who was held back by the send buffer may go on: the buffer grows to twice the congestion window, of which one is in flight
/// and one ready, if the shard has something left (as Linux's tcp_sndbuf_expand()).
void grow_send_buffer(control_block& c) noexcept;
/// Linux's habit: what `d` says of the round trip (tcp_ack_update_rtt()): what SEG.ACK covers, unless some of it was resent; else what
/// SACK tells of, else the echo.
void measure_like_linux(control_block& c, seq_number ack, const segment& seg, const delivery& d) noexcept;
/// The same of an ACK that moves nothing, but tells of something by SACK. Something that was sent before the first segment in flight
/// puts the timer off.
void measure_selectively(control_block& c, const segment& seg, const delivery& d) noexcept;
/// A round trip was measured, by what moves SND.UNA to `ack`.
template <disturbance d = disturbance::possible>
[[gnu::always_inline]] inline void take_rtt(control_block& c, duration rtt, time_point now, seq_number ack) noexcept {
    sender& s = c.sending;
    if constexpr (d == disturbance::none) s.rto.sample_plainly(rtt, *c.options);
    else if (c.options->like_linux()) s.rto.sample_like_linux(rtt, s.need().spread, ack, s.max, *c.options);
    else s.rto.sample(rtt, *c.options);
    s.least_rtt.take(rtt, now);
    s.set_probe_after(*c.options);
}

} // namespace corewire::tcp
