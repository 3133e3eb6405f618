// Header prediction across the layers, inline for the loop over a received burst (network_stack::take_in):
//
//     frame --recognise--> flow table --expects()--> checksums --> tcb, a waiting reader --> dirty list
//
// Each arrow may say no, and then nothing has changed and the frame goes up the layers. `Frame`: ipv4_frame or ipv6_frame. IPv4's are
// asked for first; an IPv6 frame comes here when its EtherType has been seen (network_stack::not_ipv4).
#pragma once

#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/stack/plain_frame.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/tcp/fast_path.hh>

#include <type_traits>

namespace corewire {

/// Whose payload of `size` bytes goes to at once: the reader who waits for that much. Null: nobody.
[[gnu::always_inline]] inline read_operation* tcp_connection::reader_of(std::uint32_t size, const packet& p) const noexcept {
    return reader_ != nullptr && size - 1 < reader_->max_size && p.body.empty() ? reader_ : nullptr;
}

/// The segment has been recognised and is expected. Its payload, behind `header_size` bytes, goes to `reader`, who is reader_of() it.
[[gnu::always_inline]] inline void tcp_connection::take_expected(time_point now, const tcp::plain_arrival& seg, packet& p,
                                                                 std::uint32_t header_size, read_operation& reader) noexcept {
    const tcp::event events = tcb.on_expected_and_read(now, seg);
    reader_ = nullptr;
    reader.data.take(p.head, header_size);
    reader.complete();
    if (waits_ == nullptr) [[likely]] { // react() in short: nearly every segment acknowledges all there was
        if ((events | tcp::event::all_acknowledged) != tcp::event::all_acknowledged) [[unlikely]] react_to_the_rest(events);
        return;
    }
    finish(wait::readable);
    react(events);
}

/// Packets come in runs of one flow: asks first whether it is the one that was found last.
template <typename Frame>
[[gnu::always_inline]] inline tcp_connection* tcp_layer::owner_of(const Frame& frame) noexcept {
    const auto flow = frame.flow();
    const auto& last = last_of(flow);
    if (flow != last.flow) [[unlikely]] return look_up(frame);
    if (last.connection == nullptr) __builtin_unreachable(); // its flow is no frame's then
    return last.connection;
}

template <typename Frame>
[[gnu::noinline]] tcp_connection* tcp_layer::look_up(Frame frame) noexcept {
    const auto flow = frame.flow();
    tcp_connection* const found = table_of(flow).find(frame.key());
    if (found != nullptr) last_of(flow) = {flow, found};
    return found;
}

/// For what a port does not vouch for: the whole frame, or the IP header alone (a frame of this machine's, whose TCP checksum nobody has
/// completed). What is found good is marked so.
template <typename Frame>
[[gnu::noinline]] bool tcp_layer::checksums_hold(packet& p) noexcept {
    const byte_span tcp = p.head.bytes().subspan(Frame::tcp_at);
    const bool good = (has(p.flags, offload::ipv4_checksum_good) || Frame::ip::header_holds(p.head.data())) &&
                      (has(p.flags, offload::l4_checksum_good) || Frame::ip::pseudo_header(p.head.data(), tcp.size() + p.body.size())
                                                                      .add(tcp)
                                                                      .add(p.body.bytes())
                                                                      .verifies());
    if (good) p.flags = p.flags | Frame::ip::good;
    return good;
}

template <typename Frame>
[[gnu::always_inline]] inline bool tcp_layer::take_expected(time_point now, packet& p, mac_address mac) {
    if (!Frame::recognise(p, mac)) return false;
    const Frame frame(p.head.data());
    tcp_connection* const c = owner_of(frame);
    if (c == nullptr) [[unlikely]] return false;
    const tcp::plain_arrival seg = frame.arrival(p.size() - Frame::header_size);
    if (!c->tcb.expects(now, seg)) return false;
    if (std::is_same_v<Frame, ipv6_frame> && !still_for_us(*c)) [[unlikely]] return false;
    read_operation* const reader = c->reader_of(seg.payload_size, p);
    const bool dear = reader == nullptr && (frames_are_rare() || !c->tcb.may_queue());
    if (dear && seg.payload_size != 0) [[unlikely]] return false; // an ACK alone takes no room
    constexpr offload good = Frame::ip::good;
    if ((p.flags & good) != good && !checksums_hold<Frame>(p)) return false; // counted where it goes now
    ++statistics_.tcp_plain_in;
    if (reader != nullptr) [[likely]] {
        c->take_expected(now, seg, p, Frame::header_size, *reader);
    } else {
        const tcp::plain_arrival same = frame.arrival(seg.payload_size); // `seg`, whose address nobody takes, is kept in registers
        p.head.remove_prefix(Frame::header_size);
        c->take_expected(now, same, p);
    }
    if (c->tcb.wants_output() || c->tcb.next_timeout() < c->wakes_at()) mark_dirty(*c); // flush() moves the timer
    return true;
}

/// IPv6 addresses come and go while connections stay (an IPv4 address takes its connections along): what comes to one that has gone is
/// not for us, nor what comes from one that we have now.
[[gnu::always_inline]] inline bool tcp_layer::still_for_us(tcp_connection& c) const noexcept {
    const ipv6_addresses& ours = out_.six()->addresses();
    return c.six->addresses == ours.generation() || look_at_addresses(*c.six, ours);
}

} // namespace corewire
