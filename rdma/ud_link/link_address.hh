// Where a host of IP over InfiniBand is: the link-layer address of RFC 4391 9.1.1, and the MAC that stands for it above the port.
//
//     0        1              4                                          20
//     | flags  | queue pair   | GID of its port                           |
//
// The stack knows Ethernet. So each link address has a MAC, made of it by a hash: locally administered, unicast, the same in
// every process and run, so that captures can be compared. No MAC ever leaves the port. Two addresses share one with a
// probability of 1 to 10^12 a pair. Plain values.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/rdma/verbs/device.hh>

#include <cstring>

namespace corewire {

struct link_address {
    static constexpr std::size_t size = 20;            ///< bytes on the wire
    static constexpr std::uint32_t group_pair = 0xffffff; ///< the number under which groups are sent to

    std::uint32_t queue_pair = 0;                      ///< 24 bits
    ibv_gid gid{};

    static link_address load(const std::byte* p) noexcept {
        link_address a;
        a.queue_pair = load_be32(p) & 0xffffff; // flags: who also has connected mode (RFC 4755); datagrams reach it as well
        std::memcpy(a.gid.raw, p + 4, sizeof a.gid.raw);
        return a;
    }
    void store(std::byte* p) const noexcept {
        store_be32(p, queue_pair);
        std::memcpy(p + 4, gid.raw, sizeof gid.raw);
    }
    /// Could be one host's: no group, no unset GID, none of the numbers that InfiniBand keeps for itself (0, 1, groups).
    bool is_host() const noexcept;
    mac_address mac() const noexcept;

    friend bool operator==(const link_address& a, const link_address& b) noexcept {
        return a.queue_pair == b.queue_pair && std::memcmp(a.gid.raw, b.gid.raw, sizeof a.gid.raw) == 0;
    }
};

/// "0x11 at ::ffff:192.0.2.1"
std::string to_string(const link_address& a);
/// ff00::/8, or 224/4 as a mapped address, which is what RoCE has.
bool is_group(const ibv_gid& gid) noexcept;
/// ::ffff:a.b.c.d
ibv_gid mapped(ipv4 address) noexcept;

} // namespace corewire
