// Header prediction (RFC 9293 3.10.7 has it all; this is the common case): an established connection, the next segment in
// order, an ACK of what is outstanding, nothing out of the ordinary. Does exactly what the full steps would do.
#pragma once

#include <corewire/net/tcp/receive/deliver.hh>
#include <corewire/net/tcp/send/acknowledge.hh>

namespace corewire::tcp {

/// Whether the segment is what was expected. `c.predictable` has been asked before.
inline bool is_predicted(const control_block& c, time_point now, const segment& seg) noexcept {
    const receiver& r = c.receiving;
    const sender& s = c.sending;
    return (seg.flags & ~tcp_flags::psh) == tcp_flags::ack && seg.seq == r.next &&
           seg.options.present == c.usual_options && seg.payload_size <= r.room() && seg.window != 0 &&
           seg.ack - s.una <= s.max - s.una && (seg.payload_size != 0 || seg.ack != s.una) && r.queue.has_room() &&
           (!c.timestamps || !r.timestamps.too_early(seg.options.timestamp_value, now));
}

[[gnu::always_inline]] inline event take_predicted(control_block& c, time_point now, const segment& seg, buffer& head, buffer& body) {
    receiver& r = c.receiving;
    sender& s = c.sending;
    event events = event::none;
    if (c.timestamps) {
        r.timestamps.update(seg.options.timestamp_value, seg.seq, r.acks.last_sent(), now);
    }
    s.take_window(std::uint32_t{seg.window} << s.shift, seg.seq, seg.ack);
    if (seg.ack != s.una) events |= acknowledge_new<disturbance::none>(c, seg, now);
    if (seg.payload_size != 0) {
        deliver_in_order(c, now, head, body, seg.payload_size);
        events |= event::readable;
    }
    if (r.acks.now() || s.next != s.queue.end()) c.output_wanted = true;
    return events;
}

} // namespace corewire::tcp
