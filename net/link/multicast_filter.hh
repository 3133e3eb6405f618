// Which group MAC addresses an interface takes in: those of the IPv4 groups that somebody here has joined.
//
// One interface's, on one shard. Bounded: 64 groups, each counted by its members. 32 groups share a MAC
// (RFC 1112 6.4), so that what passes is checked again by its IP address.
#pragma once

#include <corewire/net/wire/address.hh>

#include <array>
#include <cstdint>
#include <span>

namespace corewire {

class multicast_filter {
public:
    static constexpr std::size_t max_groups = 64;

    /// Takes one membership. False when the table is full, or `group` is no multicast address.
    bool join(ipv4 group) noexcept;
    /// Gives one membership back. True if it was the group's last.
    bool leave(ipv4 group) noexcept;

    /// For received IP packets: is anybody here a member? 224.0.0.1 always counts (RFC 1112 7.1).
    bool accepts(ipv4 group) const noexcept;
    /// For received frames to a group address, before their IP header has been read.
    bool accepts(mac_address group) const noexcept;

    struct membership {
        ipv4 group;
        std::uint16_t members = 0;
    };
    std::span<const membership> groups() const noexcept { return {groups_.data(), count_}; }
    std::uint64_t refused() const noexcept { return refused_; } ///< joins that found the table full

private:
    std::size_t index_of(ipv4 group) const noexcept;
    std::array<membership, max_groups> groups_{};
    std::size_t count_ = 0;
    std::uint64_t refused_ = 0;
};

} // namespace corewire
