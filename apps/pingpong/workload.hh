// What one run of cw-pingpong is asked to do. Plain values, filled in from the command line, the same on every shard.
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace corewire::pingpong {

enum class protocol : std::uint8_t { tcp, udp, raw };

inline const char* name_of(protocol p) noexcept {
    switch (p) {
    case protocol::tcp: return "tcp";
    case protocol::udp: return "udp";
    case protocol::raw: return "raw";
    }
    return "?";
}

struct workload {
    protocol what = protocol::tcp;
    bool over_ipv6 = false;         ///< wire
    bool bulk = false;              ///< one-way stream instead of round trips (TCP, or bare frames)
    bool brief = false;             ///< a connection for each message (TCP)
    bool fast_open = false;         ///< what is written first goes with the SYN (TCP)
    std::uint32_t size = 64;        ///< bytes a message
    std::uint32_t connections = 1;  ///< over all client shards
    std::uint32_t pipeline = 1;     ///< messages in flight on each connection
    std::optional<std::uint64_t> count{}; ///< round trips, over all connections; otherwise by time
    duration length = std::chrono::seconds{3};
    duration warmup = std::chrono::milliseconds{100};
    /// What is not answered for so long is an error: a datagram or frame is replaced by another, a TCP connection is given up.
    duration patience = std::chrono::seconds{1};

    /// What shard `index` of `shards` is to do: connections and count in equal parts, the first shards taking the rest.
    workload share(unsigned index, unsigned shards) const noexcept {
        const auto part = [&](std::uint64_t whole) { return whole / shards + (index < whole % shards ? 1 : 0); };
        workload mine = *this;
        mine.connections = static_cast<std::uint32_t>(part(connections));
        if (count) mine.count = part(*count);
        return mine;
    }
    /// How many connections the shards before `index` have.
    std::uint32_t connections_before(unsigned index, unsigned shards) const noexcept {
        return connections / shards * index + std::min(index, connections % shards);
    }
};

} // namespace corewire::pingpong
