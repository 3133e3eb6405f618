// What the tests of net/ip and net/udp share: making IPv4 packets, whole and in pieces.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstring>
#include <vector>

namespace corewire::test {

inline const ipv4 us(10, 0, 0, 1);
inline const ipv4 peer(10, 0, 0, 2);

inline time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }

inline std::vector<std::byte> pattern(std::size_t size, unsigned salt = 0) {
    std::vector<std::byte> out(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251 + salt);
    return out;
}

inline bool same(byte_span a, byte_span b) { return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin()); }

/// A datagram from `header` and payload; head starts at its IPv4 header. The first `in_head` bytes of payload lie in
/// head, the rest in body.
inline packet datagram(frame_pool& pool, wire::ipv4_header header, byte_span payload, byte_span options = {},
                       std::size_t in_head = SIZE_MAX) {
    packet p;
    p.head = pool.allocate_buffer();
    const auto header_size = static_cast<std::uint32_t>(20 + options.size());
    header.total_length = static_cast<std::uint16_t>(header_size + payload.size());
    header.emit({p.head.append(header_size), header_size}, options);
    const auto first = static_cast<std::uint32_t>(std::min(in_head, payload.size()));
    if (first != 0) std::memcpy(p.head.append(first), payload.data(), first);
    const auto rest = static_cast<std::uint32_t>(payload.size() - first);
    if (rest != 0) {
        p.body = pool.allocate_buffer();
        std::memcpy(p.body.append(rest), payload.data() + first, rest);
    }
    return p;
}

inline wire::ipv4_view view(const packet& p) {
    wire::ipv4_view ip;
    CW_ASSERT(wire::ipv4_view::parse_quoted(p.head.bytes(), ip) == wire::parse_error::none, "a test made a bad header");
    return ip;
}

/// All bytes behind the IPv4 header, from both pieces.
inline std::vector<std::byte> payload_of(const packet& p) {
    const byte_span head = p.head.bytes().subspan(view(p).header_size());
    std::vector<std::byte> out(head.begin(), head.end());
    out.insert(out.end(), p.body.bytes().begin(), p.body.bytes().end());
    return out;
}

} // namespace corewire::test
