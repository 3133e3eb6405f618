// Packetisation-layer path MTU discovery (RFC 4821; RFC 8899's states for TCP), and reports of ICMP that wait to be proved
// (RFC 5927 7.2). Sizes are segments without the IP and TCP headers, options included: MSS, as in sender::mss.
//
//     black hole or `always` --> base --probe of (low, high]--> acknowledged: low = probe   --> until high - low is small,
//                                 ^                        `--> lost alone:   high = probe-1 -->  then again after 10 minutes
//                                 `-- R1 time-outs of full-sized segments: low falls, at most to half of itself
//     a report believed --> what it leaves; after 10 minutes one probe of what there was before (path_search::revisits)
//
// Owned by the sender of one tcb, made when it is first needed; bounded by itself.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// What the search would do now.
enum class probe_plan : std::uint8_t {
    none,          ///< nothing to do with it: send as ever
    wait_window,   ///< a probe is due and would fit when what is in flight has been acknowledged
    wait_cwnd,
    send,
};

/// The handshake is over: with `always`, begins at the base size. Linux's habit: who was connected to begins with full segments.
void begin_path_search(sender& s, const parameters& p, bool timestamps, bool passive, time_point now) noexcept;
/// Linux's habit: the peer's window has become larger than it ever was, so the segment size is found anew (tcp_sync_mss()).
void fit_to_window(control_block& c) noexcept;
/// Whether the next segment is to be a probe. `payload`: its size.
probe_plan plan_probe(control_block& c, time_point now, std::uint32_t& payload) noexcept;
/// The bytes [start, end) have left as one probe.
void probe_sent(control_block& c, seq_number start, seq_number end) noexcept;
/// SND.UNA has moved while the search is on.
void path_search_acknowledged(control_block& c) noexcept;
/// Fast recovery is about to begin. True: only the probe was lost, which says nothing of congestion (RFC 4821 7.6.2), and its bytes
/// will be sent again in smaller pieces.
bool probe_was_lost(control_block& c, time_point now) noexcept;
/// Something is sent again while a probe is out: what becomes of it will prove nothing (RFC 4821 7.6.4).
void probe_is_inconclusive(control_block& c) noexcept;

/// Linux's habit: a SYN that goes again asks for segments as small as the network has reported.
void ask_for_less(control_block& c) noexcept;
/// What our SYN asks for: parameters::mss, or less.
std::uint16_t asked_size(const control_block& c) noexcept;
/// The network reports an MTU: segments of at most `size` for the bytes at `seq`, which are in flight (RFC 1191, RFC 8201).
/// Returns event::path_mtu_fell if it is believed at once; it may be later, by suspect_path().
event take_mtu_report(control_block& c, time_point now, std::uint16_t size, seq_number seq) noexcept;
/// Segments are of this size from now on, and the search tries no larger ones.
void shrink_segments(control_block& c, std::uint16_t size) noexcept;
/// A time-out: proves a report that waits, and R1 of them in a row a black hole. Before anything is held for lost.
event suspect_path(control_block& c, time_point now, bool patience_over) noexcept;

} // namespace corewire::tcp
