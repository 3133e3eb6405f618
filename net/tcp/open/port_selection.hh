// Ephemeral ports that a stranger cannot guess and that do not come round soon: the double-hash algorithm, RFC 6056 3.3.4
// (algorithm 4), with a predicate for what this stack needs besides: the 4-tuple is free and its packets hash home.
//
// One port_counters a shard (2 KiB); select_port() looks at each port of the range at most once.
#pragma once

#include <corewire/net/tcp/open/isn.hh>

#include <array>
#include <cstdint>
#include <optional>

namespace corewire::tcp {

struct port_range {
    std::uint16_t first = 32'768; ///< inclusive
    std::uint16_t last = 60'999;  ///< inclusive
};

/// The counters table[G(...)] of the algorithm: one for some of the destinations each, so that connections to one
/// destination do not tell how many go to another.
class port_counters {
public:
    static constexpr std::size_t size = 512;
    std::uint32_t& of(std::uint64_t hash) noexcept { return counters_[hash % size]; }

private:
    std::array<std::uint32_t, size> counters_{};
};

/// `usable(port) -> bool`. Empty: no port of the range is usable.
template <typename Usable>
std::optional<std::uint16_t> select_port(const siphash_key& key, port_counters& counters, std::uint32_t local_address,
                                         std::uint32_t remote_address, std::uint16_t remote_port, Usable&& usable,
                                         port_range range = {}) {
    const std::uint32_t count = range.last - range.first + 1u;
    const auto offset = static_cast<std::uint32_t>(hash_flow(key, local_address, 0, remote_address, remote_port, 1));
    std::uint32_t& counter = counters.of(hash_flow(key, local_address, 0, remote_address, remote_port, 2));
    for (std::uint32_t tried = 0; tried < count; ++tried) {
        const auto port = static_cast<std::uint16_t>(range.first + (offset + counter++) % count);
        if (usable(port)) return port;
    }
    return std::nullopt;
}

/// The same without counters of one's own: a table that all such calls of this thread share.
template <typename Usable>
std::optional<std::uint16_t> select_port(const siphash_key& key, std::uint32_t local_address,
                                         std::uint32_t remote_address, std::uint16_t remote_port, Usable&& usable) {
    thread_local port_counters counters;
    return select_port(key, counters, local_address, remote_address, remote_port, usable);
}

} // namespace corewire::tcp
