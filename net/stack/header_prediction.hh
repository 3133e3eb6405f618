// Header prediction across the layers, inline for the loop over a received burst (network_stack::take_in):
//
//     frame --recognise--> flow table --expects()--> checksums --> tcb, a waiting reader --> dirty list
//
// Each arrow may say no, and then nothing has changed and the frame goes up the layers.
#pragma once

#include <corewire/net/stack/plain_frame.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/tcp/fast_path.hh>

namespace corewire {

/// The segment has been recognised and is expected. Its payload goes to the reader who waits for it, if there is one.
[[gnu::always_inline]] inline void tcp_connection::take_expected(time_point now, const tcp::plain_arrival& seg, packet& p) noexcept {
    tcp::event events;
    if (read_operation* const reader = reader_; reader != nullptr && seg.payload_size - 1 < reader->max_size && p.body.empty()) {
        events = tcb.on_expected_and_read(now, seg);
        reader_ = nullptr;
        reader->data = std::move(p.head);
        reader->complete();
        if (readable_waiter_ != nullptr) [[unlikely]] finish(readable_waiter_);
    } else {
        events = tcb.on_expected(now, seg, p.head, p.body);
    }
    react(events);
}

[[gnu::always_inline]] inline bool tcp_layer::take_expected(time_point now, packet& p, mac_address mac) {
    if (!plain_frame::recognise(p, mac)) return false;
    const plain_frame frame(p.head.data());
    tcp_connection* const c = table_.find(frame.key());
    if (c == nullptr) [[unlikely]] return false;
    const tcp::plain_arrival seg = frame.arrival(p.size() - plain_frame::header_size);
    if (frames_are_scarce() || !c->tcb.expects(now, seg) || !c->tcb.uses_timestamps()) return false;
    constexpr offload good = offload::ipv4_checksum_good | offload::l4_checksum_good;
    if ((p.flags & good) != good && !checksums_hold(p)) return false; // counted where it goes now
    ++statistics_.tcp_segments_in;
    p.head.remove_prefix(plain_frame::header_size);
    c->take_expected(now, seg, p);
    if (c->tcb.wants_output() || c->tcb.next_timeout() < c->wakes_at()) mark_dirty(*c); // flush() moves the timer
    return true;
}

} // namespace corewire
