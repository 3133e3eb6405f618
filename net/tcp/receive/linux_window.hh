// Linux's habit: the window follows what segments cost in memory, not their bytes. It is the share of SO_RCVBUF that is free, as bytes
// of segments like the last ones, and no more than a threshold that grows with what comes (rcv_ssthresh); 20 KB of segments of 1,000
// bytes are a window of 8,671, and each that is not read takes 999 of it.
// SO_RCVBUF itself grows with what is read in a round trip and with what lies beyond a gap (tcp_rcvbuf_grow()), if it was not set.
// Costs are those of packets that a TUN device made, which is what packetdrill scripts are written for.
//
// Owned by sender::seldom, made when the handshake is over; asked for under like_linux() alone.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// The handshake is over: tcp_init_buffer_space().
void begin_linux_window(control_block& c);
/// The payload is taken, in order or beyond a gap: its memory, and the peer's segment size (tcp_measure_rcv_mss()).
void note_cost(control_block& c, const arrival& a, bool in_order);
/// The reader may have taken more than in any round trip so far, so the buffer grows (tcp_rcv_space_adjust()): as it reads, or where that
/// is not told, before the next segment is taken.
void heed_reader(control_block& c, time_point now);
/// For info(): the most that was read in a round trip (tcpi_rcv_space); 0: not known.
std::uint32_t linux_round_space(const control_block& c) noexcept;
/// What came beyond a gap has been dropped.
void forget_what_came_ahead(control_block& c) noexcept;
/// The threshold may grow: tcp_grow_window().
void grow_linux_window(control_block& c, const arrival& a);
/// What is in order has been queued: whether its ACK goes at once (__tcp_ack_snd_check()).
bool acknowledges_now(control_block& c);
/// The reader has taken something: tcp_cleanup_rbuf().
bool acknowledges_read(control_block& c);
/// A segment leaves: its window, which is promised with it (tcp_select_window()).
void tell_linux_window(control_block& c, outgoing_segment& out);
/// For info(): the threshold, or the window where there is none.
std::uint32_t linux_threshold(const control_block& c) noexcept;
/// For tcb::held_memory().
std::uint32_t linux_held_memory(const control_block& c) noexcept;
/// For tcb::window_clamp(): before the handshake is done, what the window's scale allows.
std::uint32_t linux_clamp(const control_block& c) noexcept;

} // namespace corewire::tcp
