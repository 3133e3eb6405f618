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

/// Whose payload of `size` bytes goes to at once: the reader who waits for that much. Null: nobody.
[[gnu::always_inline]] inline read_operation* tcp_connection::reader_of(std::uint32_t size, const packet& p) const noexcept {
    return reader_ != nullptr && size - 1 < reader_->max_size && p.body.empty() ? reader_ : nullptr;
}

/// The segment has been recognised and is expected. Its payload goes to `reader`, who is reader_of() it.
[[gnu::always_inline]] inline void tcp_connection::take_expected(time_point now, const tcp::plain_arrival& seg, packet& p,
                                                                 read_operation& reader) noexcept {
    const tcp::event events = tcb.on_expected_and_read(now, seg);
    reader_ = nullptr;
    reader.data.take(p.head, plain_frame::header_size);
    reader.complete();
    if (waits_ == nullptr) [[likely]] { // react() in short: nearly every segment acknowledges all there was
        if ((events | tcp::event::all_acknowledged) != tcp::event::all_acknowledged) [[unlikely]] react_to_the_rest(events);
        return;
    }
    finish(wait::readable);
    react(events);
}

/// Packets come in runs of one flow: asks first whether it is the one that was found last.
[[gnu::always_inline]] inline tcp_connection* tcp_layer::find(const plain_frame& frame) noexcept {
    const wire_flow flow = frame.flow();
    if (flow == last_flow_ && last_found_ != nullptr) [[likely]] return last_found_;
    tcp_connection* const found = table_.find(frame.key());
    if (found == nullptr) [[unlikely]] return nullptr;
    last_flow_ = flow;
    return last_found_ = found;
}

[[gnu::always_inline]] inline bool tcp_layer::take_expected(time_point now, packet& p, mac_address mac) {
    if (!plain_frame::recognise(p, mac)) return false;
    const plain_frame frame(p.head.data());
    tcp_connection* const c = find(frame);
    if (c == nullptr) [[unlikely]] return false;
    const tcp::plain_arrival seg = frame.arrival(p.size() - plain_frame::header_size);
    if (!c->tcb.expects(now, seg)) return false;
    read_operation* const reader = c->reader_of(seg.payload_size, p);
    if (reader == nullptr && (frames_are_scarce() || !c->tcb.may_queue())) return false;
    constexpr offload good = offload::ipv4_checksum_good | offload::l4_checksum_good;
    if ((p.flags & good) != good && !checksums_hold(p)) return false; // counted where it goes now
    ++statistics_.tcp_segments_in;
    if (reader != nullptr) [[likely]] {
        c->take_expected(now, seg, p, *reader);
    } else {
        c->take_expected(now, seg, p);
    }
    if (c->tcb.wants_output() || c->tcb.next_timeout() < c->wakes_at()) mark_dirty(*c); // flush() moves the timer
    return true;
}

} // namespace corewire
