// The inline bodies of tcb's fast paths, for who calls them once a packet: include this, and not only tcb.hh, there.
#pragma once

#include <corewire/net/tcp/arrives/fast_path.hh>
#include <corewire/net/tcp/send/plain_output.hh>
#include <corewire/net/tcp/tcb.hh>

namespace corewire::tcp {

[[gnu::always_inline]] inline bool tcb::expects(time_point now, const plain_arrival& seg) const noexcept {
    return is_expected(c_, now, seg);
}

[[gnu::always_inline]] inline event tcb::on_expected(time_point now, const plain_arrival& seg, buffer& head, buffer& body) noexcept {
    const event events = take_acknowledgment(c_, now, seg);
    if (seg.payload_size == 0) return events;
    c_.receiving.queue.push(std::move(head));
    if (!body.empty()) c_.receiving.queue.push(std::move(body));
    take_data(c_, now, seg.payload_size);
    return events | event::readable;
}

[[gnu::always_inline]] inline event tcb::on_expected_and_read(time_point now, const plain_arrival& seg) noexcept {
    const event events = take_acknowledgment(c_, now, seg);
    take_data(c_, now, seg.payload_size);
    update_window(); // has_read(): an established connection may receive
    return events;
}

[[gnu::always_inline]] inline bool tcb::next_plain(time_point now, plain_output& out) noexcept {
    return next_plain_output(c_, now, out);
}

} // namespace corewire::tcp
