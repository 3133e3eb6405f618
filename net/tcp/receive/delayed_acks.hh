// Linux's habits of acknowledging, which scripts written for it can tell from the usual ones (receive/ack_policy.hh): the first ACKs are
// quick, and again after a pause or a segment that came twice; they are not while data flows both ways; the delay follows the pace of
// what comes. All of it is kept in sender::seldom, and asked for under like_linux() alone.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// Payload is about to be delivered, or kept beyond a gap: tcp_event_data_recv(). Of a connection that is counted and has no such habits,
/// only what info() tells is noted.
void note_arrival(control_block& c, const arrival& a) noexcept;
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
