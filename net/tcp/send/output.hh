// What a connection sends next, one segment a call, most urgent first:
//     reset > SYN > retransmission > probe > new data > bare ACK > keepalive
// Works on the control block; the only place that fills in outgoing_segment, beside control_segments.cc, which it asks, and
// arrives/closed.hh.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// False: nothing to send now; control_block::output_wanted is false then.
bool next_output(control_block& c, time_point now, outgoing_segment& out) noexcept;

} // namespace corewire::tcp
