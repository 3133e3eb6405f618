// SND.UNA moves: what a new cumulative ACK does to the sender. On the path of every ACK, so it is inline; what only
// matters after a loss is in loss.cc.
#pragma once

#include <corewire/net/tcp/send/freebsd_recovery.hh>
#include <corewire/net/tcp/send/loss.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/validation.hh>

namespace corewire::tcp {

/// The ACK tells of bytes that were sent once: a round-trip sample (RFC 6298 3, Karn). Else, while the timer is backed
/// off, the echoed timestamp is one, at that clock's grain (RFC 7323 4.1).
inline void measure(control_block& c, seq_number ack, const segment& seg, const delivery& d) noexcept {
    sender& s = c.sending;
    if (c.options->like_linux()) return measure_like_linux(c, ack, seg, d);
    if (d.timed && !d.resent) {
        take_rtt(c, d.now - d.first_sent, d.now, ack);
    } else if (c.timestamps && s.rto.backoff() != 0 && seg.options.has_timestamps()) {
        const std::uint32_t age = timestamp_echo::clock(d.now, c.timestamp_offset) - seg.options.timestamp_echo;
        if (age >= 1u << 24) return;
        // Of the clock's grain: good enough for the time-out, and not for the least round trip, which patience is made of.
        s.rto.sample(std::chrono::milliseconds{std::max(age, 1u)}, *c.options);
        s.set_probe_after(*c.options);
    }
}

/// The echo of an ACK that moves SND.UNA tells which copy has brought it about (RFC 8985 6.2 step 2; one that SACK speaks of sets no echo).
inline void heed_echo(const control_block& c, const segment& seg, delivery& d) noexcept {
    if (!c.timestamps || !seg.options.has_timestamps()) return;
    const std::uint32_t age = timestamp_echo::clock(d.now, c.timestamp_offset) - seg.options.timestamp_echo;
    using std::chrono::milliseconds;
    if (age < 1u << 24) d.echoed = std::chrono::floor<milliseconds>(d.now) - milliseconds{age} + milliseconds{1};
}

/// How far one ACK opens slow start. Behind a time-out it may cover what came long before it, so it counts as one segment (RFC 3465 2.3);
/// for Linux as what it tells of anew, as all do.
inline std::uint32_t most_growth(const control_block& c) noexcept {
    if (c.options->like_freebsd() && !c.sending.board.has_lost()) return ~std::uint32_t{0}; // all of it has gone again
    return c.sending.repair.phase != recovery_phase::timeout || c.options->like_linux() ? ~std::uint32_t{0} : c.sending.payload_limit;
}

/// For info(), of connections that ask.
inline void tally_delivery(control_block& c, seq_number ack, const segment& seg, delivery& d) noexcept {
    const std::uint32_t n = d.whole = c.sending.segments_to(ack, false);
    if (c.options->like_linux() && c.sending.repair.doubting) d.point = earlier(d.point, c.sending.whole_up_to(ack)); // no part
    c.sending.forget_ends(ack);
    segment_tally& tally = c.sending.need().tally;
    tally.delivered += n;
    tally.acked += ack - c.sending.una;
    if (c.options->like_linux() || !c.ecn.on || c.ecn.accurate != nullptr || !seg.has(tcp_flags::ece)) return; // there by on_echo()
    tally.delivered_marked += n;
}

/// Linux's habit: segments have another size since they were counted, and are as many.
inline void recount(const sender& s, delivery& d) noexcept {
    if (d.unit == 0 || d.unit == s.payload_limit) return;
    d.counted = d.counted / d.unit * s.payload_limit;
    d.unit = s.payload_limit;
}

/// Moves SND.UNA to `ack`, which lies in (SND.UNA, SND.MAX]. Updates the queue, the round-trip time, the congestion
/// window and the timer, and says what the application may want to know. `seg`: the segment it came in, and
/// `arrived`: what SACK blocks of it delivered already; both null without a disturbance.
template <disturbance d>
[[gnu::always_inline]] inline event acknowledge_new(control_block& c, seq_number ack, time_point now,
                                                    const segment* seg = nullptr, delivery* arrived = nullptr) noexcept {
    sender& s = c.sending;
    const std::uint32_t acked = ack - s.una;
    const std::uint32_t flight = s.next - s.una;
    const bool held_back = s.una < s.limited_until;
    bool limited = held_back;
    if (d == disturbance::possible && c.options->like_linux()) limited = s.window_was_used();
    // FreeBSD's: whatever was used, as long as it is no more than the peer would take.
    if (d == disturbance::possible && c.options->like_freebsd()) limited = s.congestion->cwnd() <= s.window;
    event events = event::none;
    const bool repairing = d == disturbance::possible && s.repairing();
    duration rtt;
    if constexpr (d == disturbance::possible) {
        if (c.options->counts()) [[unlikely]] tally_delivery(c, ack, *seg, *arrived);
        if (!s.board.quiet()) [[unlikely]] heed_echo(c, *seg, *arrived);
        s.board.acknowledge(ack, *arrived);
        if (c.options->like_freebsd()) [[unlikely]] freebsd_measure(c, *seg, now);
        else measure(c, ack, *seg, *arrived);
        rtt = arrived->timed ? now - arrived->last_sent : duration{0};
    } else {
        const scoreboard::send_times sent = s.board.acknowledge_quietly(ack);
        rtt = now - sent.last;
        take_rtt<d>(c, now - sent.first, now, ack);
    }
    s.una = ack;
    s.progress = now;
    if constexpr (d == disturbance::possible) {
        if (validates_window(c)) [[unlikely]] limited = validate_round(c, now, acked) || limited;
    }
    if constexpr (d == disturbance::possible) { // else a round trip was measured just now, and neither data nor window is asked for again
        if (s.attempts != 0 && !c.options->like_linux()) [[unlikely]] s.end_time_outs(now); // Linux's end with the repair
        s.attempts = 0;
        // Else it stays until a round trip is measured (RFC 6298 5, Karn).
        if (s.rto.srtt() == duration{0} && !c.options->like_freebsd()) s.rto.reset_back_off();
        if (s.next < s.una) s.next = s.una; // a window probe was taken after all
        if (s.searching) [[unlikely]] {
            path_search_acknowledged(c);
            // Of a window of segments as large as the probe.
            if (c.options->like_linux() && !s.search()->revisits) limited = s.window_was_used();
        }
    }
    const seq_number data = d == disturbance::none ? s.una : earlier(s.una, s.queue.end()); // none: no FIN is queued
    if (s.queue.acknowledge(data)) {
        events |= event::writable;
        grow_send_buffer(c);
    }
    const bool exact = d == disturbance::possible && c.ecn.exact;
    // Linux's window opens by what this ACK delivered, not by what SACK told of before; and where a repair ends, at once.
    const bool linux_habits = d == disturbance::possible && c.options->like_linux();
    if (linux_habits) [[unlikely]] recount(s, *arrived);
    if (linux_habits && repairing) [[unlikely]] {
        on_repair_ack(c, *seg, *arrived, acked);
        limited = s.window_was_used(); // of the window as it is now
    }
    if (d == disturbance::possible && repairing && c.options->like_freebsd()) [[unlikely]] freebsd_settle_time_out(c, *seg, now);
    const std::uint32_t told = linux_habits ? arrived->counted : acked;
    const bool all_marked = linux_habits && s.marked >= arrived->bytes; // an echo stands for the whole jump
    const std::uint32_t marked = all_marked && s.marked != 0 ? told : linux_habits ? std::min(s.marked, told) : s.marked;
    bool grows = d == disturbance::none || (s.repair.phase != recovery_phase::fast && !s.repair.reducing);
    // RFC 3168 6.1.2: an ACK that tells of congestion opens no window.
    if constexpr (d == disturbance::possible) grows = grows && !(c.echoes_marks() && seg->has(tcp_flags::ece));
    if ((limited && grows) || exact) { // DCTCP counts whatever is acknowledged
        s.congestion.own().on_ack({.now = now, .acked = told, .in_flight = flight, .srtt = s.rto.srtt(),
                               .rtt = rtt, .una = s.una, .next = s.next, .marked = marked, .limited = limited && grows,
                               .paced = d == disturbance::possible && s.pacing(),
                               .most = d == disturbance::possible ? most_growth(c) : ~std::uint32_t{0}});
        s.marked = 0;
    }
    if (repairing && !linux_habits) [[unlikely]] on_repair_ack(c, *seg, *arrived, acked);
    if (d == disturbance::possible && s.paced) [[unlikely]] s.set_pace(*c.options);
    if (s.una == s.max) {
        s.waiting_for = awaited::nothing;
        c.timers.disarm(timer_slot::retransmit);
        const bool all = d == disturbance::none ? s.una == s.queue.end() : s.all_acknowledged();
        if (all) events |= event::all_acknowledged;
    } else if (!linux_habits || arrived->whole != 0) { // Linux puts the timer off for whole segments only
        arm_retransmission<d>(c, now);
    }
    return events;
}

} // namespace corewire::tcp
