// New data leaves: what that does to the sender, whichever way the segment is built (output.cc, plain_output.hh).
#pragma once

#include <corewire/net/tcp/send/loss.hh>
#include <corewire/net/tcp/send/validation.hh>

namespace corewire::tcp {

/// `size` bytes from SND.NXT, of the `limit` that a segment may have now, and a FIN behind them if `fin`, are sent now: moves SND.NXT and
/// SND.MAX, and notes when for the round-trip sample. True: not for the first time (behind a window probe, or where FreeBSD takes back what
/// a window has closed over).
template <disturbance d>
[[gnu::always_inline]] inline bool send_new(control_block& c, time_point now, std::uint32_t size, std::uint32_t limit, bool fin) noexcept {
    sender& s = c.sending;
    const seq_number seq = s.next;
    if (seq == s.una) {
        s.progress = now;
        const duration rto = d == disturbance::none ? s.rto.without_back_off() : s.rto.current(*c.options);
        if (now - s.last_sent > rto && s.last_sent != time_point{}) [[unlikely]] {
            if (validates_window(c) && resume_window(c, now)) {
            } else if (c.options->restart_after_idle) {
                if (!s.congestion.untouched()) s.congestion.own().on_idle(now, now - s.last_sent, rto);
                if (!c.options->like_linux()) s.forget_undo();
                if (c.options->like_linux()) s.begin_window_use(now);
            }
        }
    }
    s.last_sent = now;
    s.last_start = seq;
    const seq_number end = seq + size + (fin ? 1u : 0u);
    s.next = end;
    if (size < limit) s.small_end = end;
    if constexpr (d == disturbance::none) { // SND.NXT is SND.MAX, and nothing is being repaired
        s.board.sent_anew(end, now);
        s.max = end;
        return false;
    }
    const bool again = s.max > seq;
    if (again) [[unlikely]] s.board.probed(s.max - seq, now); // Karn: what acknowledges it tells no time
    s.board.sent(end, now);
    if (s.repair.phase == recovery_phase::fast || s.repair.reducing) [[unlikely]] {
        s.need().reduction.out += c.options->like_linux() ? s.payload_limit : size;
    }
    if (s.max < end) s.max = end;
    return again;
}

/// After send_new(): something is in flight, so a timer must run. One that runs is left alone, but when the tail loss
/// probe allowed for a delayed ACK that a second segment has made unlikely.
template <disturbance d>
[[gnu::always_inline]] inline void ensure_retransmission(control_block& c, time_point now) noexcept {
    const sender& s = c.sending;
    const bool became_two = s.waiting_for == awaited::tail_probe && s.probe_is_patient && s.max - s.una > s.payload_limit;
    // RFC 8985 7.2 counts the probe's time from the last new data; so does Linux.
    const bool again = d == disturbance::possible && s.waiting_for == awaited::tail_probe && c.options->like_linux();
    if (s.waiting_for == awaited::nothing || became_two || again) arm_retransmission<d>(c, now);
}

} // namespace corewire::tcp
