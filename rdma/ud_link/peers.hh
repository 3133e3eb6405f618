// The hosts of the link that ARP has told of: the link address behind each MAC. One for all shards of a device, since ARP reaches
// one of them and each may send; behind a mutex, asked only when a port's own cache of address handles does not know.
// Bounded: `capacity`; where a MAC's eight places are taken, the one written longest ago makes room.
#pragma once

#include <corewire/rdma/ud_link/link_address.hh>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

namespace corewire {

/// A peer, and what InfiniBand needs besides to reach it.
struct link_peer {
    link_address address;
    std::uint16_t lid = 0; ///< InfiniBand only: of the way back
    std::uint32_t told = 0; ///< by link_peers: grows each time it is heard of
};

class link_peers {
public:
    static constexpr std::size_t capacity = 4096;

    /// From any shard's thread.
    void learn(const link_peer& who) noexcept;
    std::optional<link_peer> find(mac_address mac) const noexcept;
    /// Grows whenever somebody is heard of: then the way to a peer may be another one.
    std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_relaxed); }
    /// As if all of them had been heard of: the subnet, or our own address in it, has changed.
    void doubt_all() noexcept;

    std::uint64_t evicted() const noexcept;
    /// Times a MAC was found to stand for another address than before: see link_address.
    std::uint64_t collisions() const noexcept;

private:
    static constexpr std::size_t ways = 8;
    struct place {
        std::uint64_t mac = 0; ///< 0: free
        link_peer peer;
    };
    struct set {
        std::array<place, ways> places;
        unsigned next = 0;
    };
    mutable std::mutex one_at_a_time_;
    std::atomic<std::uint32_t> generation_{0};
    std::vector<set> sets_{capacity / ways};
    std::uint64_t evicted_ = 0, collisions_ = 0;
};

} // namespace corewire
