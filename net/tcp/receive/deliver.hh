// Payload that is wanted goes where it belongs: in order into the receive queue, else to the reassembler; and it decides
// when the ACK goes out.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// A round of right-sizing is over: the receive buffer grows, if the reader is fast and the shard has something left.
void right_size(control_block& c, time_point now) noexcept;

/// RCV.NXT moves by `size` bytes that have arrived in order.
inline void advance(control_block& c, time_point now, std::uint32_t size) noexcept {
    receiver& r = c.receiving;
    r.next += size;
    r.bytes += size;
    if (r.acks.on_data(r.next, size)) c.timers.arm(timer_slot::delayed_ack, now + c.options->delayed_ack);
}

/// `size` bytes in order, in front of RCV.NXT and inside the window.
inline void deliver_in_order(control_block& c, time_point now, buffer& head, buffer& body, std::uint32_t size) {
    receiver& r = c.receiving;
    r.queue.push(std::move(head));
    if (!body.empty()) r.queue.push(std::move(body));
    advance(c, now, size);
}

} // namespace corewire::tcp
