// Memory of a peer: where, how much, and the key that opens it, as a value of its own wire form. The peer makes it with
// rc_channel::expose() and tells it in a message; it is good on that one channel, until the peer closes it.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace corewire::rdma {

struct remote_region {
    static constexpr std::size_t wire_size = 20;

    std::uint64_t address = 0; ///< of the peer's
    std::uint64_t size = 0;    ///< bytes
    std::uint32_t key = 0;

    /// True if `length` bytes from `offset` on are within it.
    constexpr bool contains(std::uint64_t offset, std::uint64_t length) const noexcept {
        return length <= size && offset <= size - length;
    }
    /// Big-endian: address, size, key.
    std::array<std::byte, wire_size> to_wire() const noexcept {
        std::array<std::byte, wire_size> out;
        store_be64(out.data(), address);
        store_be64(out.data() + 8, size);
        store_be32(out.data() + 16, key);
        return out;
    }
    /// Nothing if these are no such bytes, or the range goes beyond the end of memory.
    static std::optional<remote_region> from_wire(byte_span bytes) noexcept {
        if (bytes.size() != wire_size) return std::nullopt;
        const remote_region r{load_be64(bytes.data()), load_be64(bytes.data() + 8), load_be32(bytes.data() + 16)};
        if (r.address + r.size < r.address) return std::nullopt;
        return r;
    }
    bool operator==(const remote_region&) const = default;
};

} // namespace corewire::rdma
