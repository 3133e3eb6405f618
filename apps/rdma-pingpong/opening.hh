// The first message of a run, in both directions: what will be played, and where the sender's memory or datagram queue is.
//     48 bytes, big-endian: 0 mode, 4 size, 8 remote_region (20), 28 GID (16), 44 queue pair
#pragma once

#include <corewire/rdma/channel/remote_region.hh>
#include <corewire/rdma/channel/ud_socket.hh>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

namespace corewire::rdma_pingpong {

enum class mode : std::uint32_t { rc_send = 1, rc_write = 2, ud = 3 };
constexpr std::string_view name_of(mode m) noexcept {
    return m == mode::rc_send ? "rc-send" : m == mode::rc_write ? "rc-write" : "ud";
}
constexpr std::uint32_t largest = 1u << 20;

struct opening {
    static constexpr std::size_t wire_size = 48;
    mode what = mode::rc_send;
    std::uint32_t size = 64;
    rdma::remote_region memory{};    ///< rc-write: where the other end puts its messages
    rdma::ud_address datagrams{};    ///< ud

    std::array<std::byte, wire_size> to_wire() const noexcept {
        std::array<std::byte, wire_size> out{};
        store_be32(out.data(), static_cast<std::uint32_t>(what));
        store_be32(out.data() + 4, size);
        const auto region = memory.to_wire();
        std::memcpy(out.data() + 8, region.data(), region.size());
        std::memcpy(out.data() + 28, datagrams.gid.raw, 16);
        store_be32(out.data() + 44, datagrams.queue_pair);
        return out;
    }
    /// Nothing if it is none.
    static std::optional<opening> from_wire(byte_span bytes) noexcept {
        if (bytes.size() != wire_size) return std::nullopt;
        const std::uint32_t what = load_be32(bytes.data());
        opening o;
        o.size = load_be32(bytes.data() + 4);
        const auto region = rdma::remote_region::from_wire(bytes.subspan(8, rdma::remote_region::wire_size));
        if (what < 1 || what > 3 || o.size > largest || !region) return std::nullopt;
        o.what = static_cast<mode>(what);
        o.memory = *region;
        std::memcpy(o.datagrams.gid.raw, bytes.data() + 28, 16);
        o.datagrams.queue_pair = load_be32(bytes.data() + 44);
        return o;
    }
};

} // namespace corewire::rdma_pingpong
