// SEGMENT ARRIVES in state CLOSED, RFC 9293 3.10.7.1: there is no connection, and the sender must hear of it.
// A pure function for the stack, which knows that it found no tcb.
#pragma once

#include <corewire/net/tcp/segment.hh>

namespace corewire::tcp {

/// The reset to answer a segment for no connection with. False: answer nothing, since it is a reset itself.
inline bool reset_for(const segment& seg, outgoing_segment& out) noexcept {
    if (seg.has(tcp_flags::rst)) return false;
    const bool has_ack = seg.has(tcp_flags::ack);
    if (has_ack) out.make_bare(seg.ack, tcp_flags::rst);
    else out.make_bare(seq_number(0), tcp_flags::rst | tcp_flags::ack);
    out.ack = has_ack ? seq_number(0) : seg.seq + seg.length();
    out.window = 0;
    out.option_size = 0;
    return true;
}

} // namespace corewire::tcp
