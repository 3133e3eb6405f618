// Rate samples for a connection whose controller asks for them (scoreboard::rate() is not null): when they are taken, and what the
// controller is told. Called from output.cc, acknowledgment.cc, loss.cc and time_outs.cc, always behind that question; plain functions of
// a connection.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// A segment of `size` bytes is about to leave, for the first time or again (draft-ietf-ccwg-bbr 4.1.2.2, 5.2.2).
void note_transmission(control_block& c, time_point now, std::uint32_t size);
/// There is nothing (more) to send now: whether that is for want of data (4.1.2.4).
void note_lack_of_data(control_block& c) noexcept;
/// The controller hears of what was held for lost since the last time (5.2.4).
void tell_losses(control_block& c, time_point now) noexcept;
/// An ACK was taken and its losses found: the controller hears of both (5.2.3), and the pace is set anew.
void sample_delivery(control_block& c, const delivery& d) noexcept;
/// A retransmission time-out has marked its losses: one segment more than what flies may go (5.6.4.4).
void sample_timeout(control_block& c, time_point now) noexcept;

} // namespace corewire::tcp
