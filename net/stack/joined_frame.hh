// A datagram that was put together from fragments as a frame again: flow_steering hands frames over.
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/net/wire/ethernet.hh>

#include <cstring>

namespace corewire {

/// `last`, in its frame, is the fragment that came last.
inline void make_frame(packet& joined, const packet& last) noexcept {
    std::memcpy(joined.head.prepend(wire::ethernet_header::size), last.head.data(), wire::ethernet_header::size);
}

} // namespace corewire
