// Finding out that segments were lost, and what to do then (RFC 5681, 6582, 6675, 6298, 8985 7). Everything resent comes
// out of the scoreboard afterwards.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// The SACK blocks of an ACK go into the scoreboard. True if they brought news.
bool take_sack_blocks(control_block& c, const segment& seg) noexcept;
/// An ACK that does not move SND.UNA, while data is outstanding. `news`: its SACK blocks say something new.
void on_duplicate_ack(control_block& c, time_point now, bool news) noexcept;
/// SND.UNA has moved by `acked` bytes, and recovery, SACK or duplicates are about.
void on_repair_ack(control_block& c, const segment& seg, time_point now, std::uint32_t acked) noexcept;
/// RFC 6298 5.4 to 5.6: everything in flight is held for lost; the timer backs off.
event on_retransmission_timeout(control_block& c, time_point now) noexcept;
/// RFC 8985 7.3: the tail may be lost and nothing tells.
void on_tail_probe_timeout(control_block& c, time_point now) noexcept;
/// RFC 9293 3.8.6.1: ask a closed window whether it has opened.
event on_window_probe_timeout(control_block& c, time_point now) noexcept;

/// (Re)starts the retransmission timer for what is in flight: a tail loss probe first where that is possible.
void arm_retransmission(control_block& c, time_point now) noexcept;
/// A round trip was measured.
inline void take_rtt(control_block& c, duration rtt) noexcept {
    c.sending.rto.sample(rtt);
    c.sending.probe_after = std::max(2 * c.sending.rto.srtt(), c.options.min_probe);
}

} // namespace corewire::tcp
