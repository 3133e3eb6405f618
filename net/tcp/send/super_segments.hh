// Linux's habit: segments leave several in one packet (TSO), and such a packet carries PSH. Which segments, and where else PSH is.
//
//     written:  | buffer             | buffer             | buffer   one is filled up before the next begins, and is
//     leaves:   | seg seg | seg seg  |seg seg | ...                  half the largest window at most (tcp_sendmsg())
//
// The tcb makes its segments one by one as ever, and marks those that continue the packet of the one before (outgoing_segment::joined), so
// that whatever counts segments need not know. Called under parameters::like_linux() alone; its state is sender::seldom's `leaving`.
#pragma once

#include <corewire/net/tcp/control_block.hh>
#include <corewire/net/tcp/send/segmenter.hh>

namespace corewire::tcp {

/// An ACK has been taken, or the handshake is over: the pace by which packets are sized (tcp_update_pacing_rate()).
void note_packet_pace(control_block& c) noexcept;
/// Something is about to be written; `more` is to follow it.
void begin_buffers(control_block& c, bool more) noexcept;
/// New data from SND.NXT, in segments of at most `limit` bytes: the next segment of the packet that is leaving, or the first of another.
portion next_of_packet(control_block& c, time_point now, std::uint32_t limit, bool no_delay) noexcept;
/// Linux's habit: a window that was taken back bounds what is sent again, too, but of the first segment (__tcp_retransmit_skb()). Bytes
/// that may be sent again from `at` on.
std::uint32_t room_to_resend(const sender& s, seq_number at) noexcept;
/// The same of what is lost. Empty: nothing.
sack_block next_lost_of_packet(control_block& c, time_point now, std::uint32_t limit) noexcept;
/// The last segment was not the packet's: what next_of_packet() or next_lost_of_packet() say next must not wait for anything.
inline bool within_packet(const sender& s) noexcept { return s.known().leaving.left != 0 && s.known().leaving.begun; }
/// The packet that was planned does not begin; one that did not get out at once does not go on.
inline void abandon_packet(sender& s, time_point now) noexcept {
    if (!within_packet(s) || s.known().leaving.at != now) s.need().leaving.left = 0;
}
/// A segment leaves, with payload, and maybe FIN, up to `end`: its PSH, and whether it joins the one before.
void follow_packet(control_block& c, time_point now, seq_number seq, seq_number end, bool again, outgoing_segment& out) noexcept;

/// Small segments that are about to leave again take the next ones along, whatever is thought of these, as far as there is room
/// (tcp_retrans_try_collapse()): `lost`, or more.
sack_block with_followers(control_block& c, sack_block lost, std::uint32_t limit);

} // namespace corewire::tcp
