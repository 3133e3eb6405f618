// Time-outs as Linux answers them (tcp_timer.c, tcp_enter_loss()), where that is not what time_outs.cc says: which is the one to read and
// to use, and calls these.
//
//     R1, R2      are times: what so many retransmissions would take from the least time-out on
//     cwnd        all of it counts, used or not, and is not reduced where fast recovery has done so for this loss; what flies goes on,
//                 and one segment more may
//     F-RTO       looks at each further time-out of a row, too, but not at the first one in a recovery
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// What a time-out is, by what went before it.
struct time_out_kind {
    bool undoable;         ///< should it turn out needless, the window goes back to what it was before
    bool reduced = false;  ///< Linux's habit: the window was reduced for this loss already
    bool doubted;          ///< F-RTO is to tell whether it was needless
};
time_out_kind linux_kind_of_time_out(const control_block& c) noexcept;

/// `limit` retransmissions, or their time, went by without an answer. SYNs at equal distances come on top, but take no time of the others'.
bool linux_retries_exhausted(const control_block& c, time_point now, unsigned limit) noexcept;
/// tcp_thin_linear_timeouts: so little is in flight that nothing else can tell of a loss.
bool linux_is_thin(const control_block& c) noexcept;
/// For info(), while the repair before is known still: what duplicate ACKs stood for was delivered; what the receiver has dropped after it
/// had SACKed it was, too, and will be again.
void linux_count_delivered(control_block& c) noexcept;
/// What flies still does so beside the segment that goes.
void linux_leave_room(control_block& c) noexcept;

} // namespace corewire::tcp
