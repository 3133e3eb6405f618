// Frames for tests of ports: made, numbered, read back.
#pragma once

#include <corewire/net/port/port.hh>

#include <cstring>
#include <string>
#include <vector>

namespace corewire::test {

/// An experimental Ethernet frame of `size` bytes (at least 18) that carries `number`.
inline packet numbered_frame(port& from, mac_address to, std::uint32_t number, std::uint32_t size = 64) {
    packet p;
    p.head = from.pool().allocate_buffer();
    std::byte* at = p.head.append(size);
    std::memset(at, 0, size);
    to.store(at);
    from.mac().store(at + 6);
    store_be16(at + 12, 0x88b5);
    store_be32(at + 14, number);
    return p;
}
inline std::uint32_t number_of(byte_span frame) { return frame.size() < 18 ? 0 : load_be32(frame.data() + 14); }
inline bool send(port& from, packet p) { return from.transmit({&p, 1}) == 1; }
/// Everything that waits, as copies.
inline std::vector<std::vector<std::byte>> receive_all(port& at) {
    std::vector<std::vector<std::byte>> frames;
    std::vector<packet> some(16);
    while (const std::size_t n = at.receive(some)) {
        for (std::size_t i = 0; i < n; ++i) {
            const byte_span bytes = some[i].head.bytes();
            frames.emplace_back(bytes.begin(), bytes.end());
            some[i].head = buffer{};
        }
    }
    return frames;
}
inline std::vector<std::uint32_t> receive_numbers(port& at) {
    std::vector<std::uint32_t> numbers;
    for (const auto& f : receive_all(at)) numbers.push_back(number_of(f));
    return numbers;
}

} // namespace corewire::test
