// A datagram that was put together from fragments: in a frame like any other's, and as a frame again, for flow_steering hands frames over.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/wire/ethernet.hh>

#include <cstring>

namespace corewire {

/// The long frames are few, and a reader may keep what it gets: a datagram that fits into a frame of `pool` goes there.
inline void move_to_ordinary_frame(buffer& whole, frame_pool& pool) noexcept {
    if (whole.size() > pool.frame_size() - frame_headroom || pool.scarce()) return;
    buffer copy = pool.allocate_buffer();
    if (copy.underlying_frame() == nullptr) return;
    std::memcpy(copy.append(whole.size()), whole.data(), whole.size());
    whole = std::move(copy);
}

/// `last`, in its frame, is the fragment that came last.
inline void make_frame(packet& joined, const packet& last) noexcept {
    std::memcpy(joined.head.prepend(wire::ethernet_header::size), last.head.data(), wire::ethernet_header::size);
}

} // namespace corewire
