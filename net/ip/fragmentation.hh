// Cuts a datagram that is longer than the path's MTU into fragments (RFC 791 3.2).
//
//     fragmenter cut(std::move(datagram), mtu);
//     for (packet fragment; cut.next(pool, fragment);) send(std::move(fragment));
//
// A value on the stack of whoever sends. Payload goes by reference where it can; each fragment has a head frame of its
// own from the port's pool.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/wire/ipv4.hh>

#include <array>
#include <cstdint>

namespace corewire {

enum class fragment_error : std::uint8_t {
    none,
    not_allowed, ///< the don't-fragment flag is set: EMSGSIZE, or ICMP fragmentation needed
    mtu_too_low, ///< below 68 bytes (RFC 791 3.2)
    malformed,   ///< no IPv4 header at the front of head, or a total length that is not the packet's size
    no_frame,    ///< the pool is empty: the rest of the datagram is lost, and with it all of it
};

class fragmenter {
public:
    /// `datagram.head` starts at its IPv4 header; its total size is the header's total length. `mtu` in bytes.
    fragmenter(packet&& datagram, std::uint32_t mtu) noexcept;

    /// The next fragment, head starting at its IPv4 header with frame_headroom or more before it. False at the end and
    /// after an error.
    bool next(frame_pool& pool, packet& out) noexcept;
    fragment_error error() const noexcept { return error_; }
    unsigned emitted() const noexcept { return emitted_; }

private:
    bool copy_or_share(packet& out, std::uint32_t length) noexcept;
    std::size_t build_later_options(const wire::ipv4_view& ip) noexcept;

    packet datagram_;                     ///< what is left of the payload
    wire::ipv4_header header_;            ///< of the original
    std::array<std::byte, 40> options_{}; ///< of the next fragment
    std::size_t options_size_ = 0;
    std::array<std::byte, 40> later_options_{}; ///< those that go into every fragment
    std::size_t later_options_size_ = 0;
    std::uint32_t mtu_ = 0;
    std::uint32_t offset_ = 0; ///< of what comes next in this datagram's payload
    std::uint32_t left_ = 0;
    unsigned emitted_ = 0;
    fragment_error error_ = fragment_error::none;
};

} // namespace corewire
