// Congestion window validation (RFC 7661), for connections that ask (parameters::window_validation): a window that is not used is kept for
// five minutes, since it may be needed again, and answers a loss by what was used of it. Off the usual path: such connections are paced
// (4.4.2), so they take the general one. Its state is in seldom.hh.
//
//     ACKs of a round trip --> a sample --> pipeACK, the most of the last second or three round trips
//     pipeACK >= cwnd / 2, or undefined: validated        less: not validated, cwnd stays
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// Not everywhere: controllers with a model of the path keep a window of their own, and other stacks' habits say something else.
inline bool validates_window(const control_block& c) noexcept {
    return c.options->window_validation && c.options->habits == personality::standard && !c.sending.congestion->repairs_itself();
}

/// SND.UNA has moved by `acked` bytes. True: at least half of the window was used lately, so it may grow.
bool validate_round(control_block& c, time_point now, std::uint32_t acked) noexcept;
/// Data leaves after a pause. False: nothing is known of the window's use, so an idle window is judged as ever (RFC 5681 4.1).
bool resume_window(control_block& c, time_point now) noexcept;
/// What congestion is to be answered by, where `flight` is what would count else (4.4.1).
std::uint32_t congested_flight(control_block& c, time_point now, std::uint32_t flight) noexcept;
/// The recovery is over: the window is less by the share of it that had to be sent again (4.4.1), and nothing is known of its use.
void settle_window(control_block& c) noexcept;
/// A time-out, or congestion without a recovery, ends the phase (4.4).
void forget_validation(control_block& c) noexcept;

} // namespace corewire::tcp
