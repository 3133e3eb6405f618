// The fast path of output: an established connection with nothing to repair, whose unsent bytes all fit into one segment
// that window, cwnd and Nagle let go now. Does what output.cc would do, and builds nothing but the numbers.
#pragma once

#include <corewire/net/tcp/plain_segment.hh>
#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/new_data.hh>

namespace corewire::tcp {

/// Whether everything unsent, `size` bytes, may go at once as one plain segment. `size` in [1, payload_limit] then.
[[gnu::always_inline]] inline bool may_send_all(const control_block& c, std::uint32_t size) noexcept {
    const sender& s = c.sending;
    const std::uint32_t flight = s.next - s.una;
    return c.predictable == prediction::stamped && size - 1 < s.payload_limit && flight + size <= s.window &&
           (flight == 0 || (flight + size <= s.congestion->cwnd() &&
                            (c.options->no_delay || size == s.payload_limit || s.small_end <= s.una)));
}

/// False: nothing has changed, ask next_output(). True: `out` counts as sent, and there is nothing more to send.
[[gnu::always_inline]] inline bool next_plain_output(control_block& c, time_point now, plain_output& out) noexcept {
    sender& s = c.sending;
    receiver& r = c.receiving;
    const std::uint32_t size = s.queue.end() - s.next;
    if (!may_send_all(c, size)) return false;
    const send_queue::place at = s.queue.find_in_last(s.next);
    if (at.offset >= at.chunk->size()) return false; // in several pieces
    out.seq = s.next;
    out.payload_size = size;
    out.chunk_offset = at.offset;
    out.chunk = at.chunk;
    send_new<disturbance::none>(c, now, size, s.payload_limit, false);
    ensure_retransmission<disturbance::none>(c, now);
    out.ack = r.next;
    out.window = r.window.advertise(r.next, r.queue.size());
    r.acks.on_sent(r.next, true);
    out.timestamp_value = timestamp_echo::clock(now, c.timestamp_offset);
    out.timestamp_echo = r.timestamps.recent();
    c.output_wanted = false;
    return true;
}

} // namespace corewire::tcp
