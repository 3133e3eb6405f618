// How FreeBSD repairs losses (tcp_do_segment(), tcp_do_prr_ack(), tcp_sack.c), for connections with its habits: the scoreboard is the same,
// but three duplicate ACKs tell of a loss and no time does, every hole below the recovery's point is sent again, and its own arithmetic
// says how much may leave. loss.cc is the one to read and to use.
//
//     1st, 2nd duplicate --> one new segment each (RFC 3042)
//     3rd, or as much SACKed --> one segment again; then, for each ACK:
//           with SACK     proportional rate reduction; new data waits until cwnd is beyond all that was sent
//           without       cwnd one segment wider (RFC 6582)
//     its point is reached --> cwnd is ssthresh
//
// Where it lets something leave with another window than cwnd, that is cwnd for the burst at hand (freebsd_sender::window_after).
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// tcp_compute_pipe(): a hole counts as lost where more than two segments, or three blocks, are SACKed above it. O(ranges).
std::uint32_t freebsd_pipe(const control_block& c) noexcept;
/// An ACK that does not move SND.UNA, and is a duplicate, or has SACK `news`.
void freebsd_duplicate_ack(control_block& c, const delivery& d, bool news) noexcept;
/// SND.UNA has moved by `acked` bytes while something is or was lost.
void freebsd_repair_ack(control_block& c, const segment& seg, const delivery& d, std::uint32_t acked) noexcept;
/// The same while cwnd was reduced for a mark in this window.
void freebsd_reduce_for_mark(control_block& c, std::uint32_t acked) noexcept;
/// An ACK has moved SND.UNA. Round trips are measured by its timestamp, or of one segment at a time (tcp_xmit_timer()).
void freebsd_measure(control_block& c, const segment& seg, time_point now) noexcept;
/// A time-out has begun another repair. The first of a row may have been needless, and no more.
void freebsd_begin_repair(control_block& c, time_point now, bool first) noexcept;
/// Of `lost`, which is the next to go again, what may leave now.
sack_block freebsd_piece(const control_block& c, sack_block lost) noexcept;
/// New data waits until no hole waits any more.
bool freebsd_repairs_first(const control_block& c) noexcept;
/// All has left that could.
void freebsd_burst_over(control_block& c) noexcept;

} // namespace corewire::tcp
