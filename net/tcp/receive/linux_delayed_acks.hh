// Linux's habits of acknowledging, which scripts written for it can tell from the usual ones (receive/ack_policy.hh): the first ACKs are
// quick, and again after a pause or a segment that came twice; they are not while data flows both ways; the delay follows the pace of
// what comes. All of it is kept in sender::seldom, and asked for under like_linux() alone, but for note_arrival(), which also counts.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// Payload is about to be delivered: tcp_event_data_recv(). Of a connection that is counted and has no such habits,
/// only what info() tells is noted.
void note_arrival(control_block& c, const arrival& a) noexcept;
/// Payload is about to be kept beyond a gap: what it tells of the round trip.
void note_beyond_gap(control_block& c, const arrival& a) noexcept;
/// There is a gap still: at once, or in a moment for several segments together. tcp_comp_sack_*.
void acknowledge_gap(control_block& c, time_point now) noexcept;
/// SACKs were left out, and this block would push those from the front: an ACK tells of them first. tcp_sack_compress_send_ack().
bool tell_of_others_first(control_block& c, const sack_block& b) noexcept;
/// That ACK has left, or something else came: now the block is one of them. True: there was one.
bool remember_late(control_block& c) noexcept;
/// It was delivered: __tcp_ack_snd_check().
void acknowledge_or_delay(control_block& c, time_point now) noexcept;
/// Its ACK waits, as the `first` that does: when it is due at the latest. tcp_send_delayed_ack().
void delay_ack(control_block& c, time_point now, bool first) noexcept;
/// Data leaves: tcp_event_data_sent().
void note_answer(control_block& c, time_point now) noexcept;
/// The ACK has waited as long as it may: tcp_delack_timer_handler().
void note_missed_ride(control_block& c) noexcept;
/// Something came that says how little the peer knows: tcp_enter_quickack_mode().
void hurry_acks(control_block& c, std::uint8_t count) noexcept;

} // namespace corewire::tcp
