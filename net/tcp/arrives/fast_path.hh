// Header prediction (RFC 1144's idea, Van Jacobson's; RFC 9293 3.10.7 has it all, this is the common case): an established
// connection, the next segment in order, an ACK of what is outstanding, nothing out of the ordinary. Does exactly what
// the full steps would do; tests run both ways and compare (tests/net/tcp/fast_path_test.cc).
//
//     is_expected()  a handful of comparisons, changes nothing
//     take_acknowledgment(), then take_data() if there is any
#pragma once

#include <corewire/net/tcp/plain_segment.hh>
#include <corewire/net/tcp/receive/deliver.hh>
#include <corewire/net/tcp/send/acknowledge.hh>

namespace corewire::tcp {

/// Whether a segment of the general form is plain: worth asking is_expected() about.
inline bool is_plain(const control_block& c, const segment& seg) noexcept {
    return (seg.flags & ~tcp_flags::psh) == tcp_flags::ack && seg.options.present == c.usual_options;
}

/// Whether the segment, whose flags and options are plain for this connection, is the one that was expected.
inline bool is_expected(const control_block& c, time_point now, const plain_arrival& seg) noexcept {
    const receiver& r = c.receiving;
    const sender& s = c.sending;
    return c.predictable == (seg.stamped ? prediction::stamped : prediction::unstamped) && seg.seq == r.next &&
           seg.payload_size <= r.room() && seg.window != 0 && seg.ack - s.una <= s.max - s.una &&
           (seg.payload_size | (seg.ack - s.una)) != 0 &&
           (!seg.stamped || !r.timestamps.too_early(seg.timestamp_value, now));
}

/// Timestamps, window and the ACK field of an expected segment.
[[gnu::always_inline]] inline event take_acknowledgment(control_block& c, time_point now, const plain_arrival& seg) noexcept {
    receiver& r = c.receiving;
    sender& s = c.sending;
    c.heard = now; // no keepalive is out
    if (seg.stamped) r.timestamps.update(seg.timestamp_value, seg.seq, r.acks.last_sent(), now);
    s.take_window(std::uint32_t{seg.window} << s.shift, seg.seq, seg.ack);
    event events = event::none;
    if (seg.ack != s.una) events = acknowledge_new<disturbance::none>(c, seg.ack, now);
    if (s.next != s.queue.end()) c.output_wanted = true;
    return events;
}

/// The payload of an expected segment has been given to the reader, or put into the queue.
[[gnu::always_inline]] inline void take_data(control_block& c, time_point now, std::uint32_t size) noexcept {
    advance(c, now, size);
    if (!c.receiving.acks.now()) return;
    c.output_wanted = true;
    if (c.receiving.sizing.due(now)) [[unlikely]] right_size(c, now);
}

} // namespace corewire::tcp
