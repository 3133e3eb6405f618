// What is known of the MTU on the way to a destination (RFC 1191, RFC 8201), learnt from ICMP fragmentation-needed and ICMPv6
// packet-too-big.
//
// One interface's, on one shard. Bounded: 256 destinations; the one that expires first makes room. An estimate is
// forgotten after 10 minutes, and the next packets try the link's MTU again (RFC 1191 6.3).
// Whoever calls on_too_big() has checked the report against a flow of its own: the cache believes it.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>

namespace corewire {

struct path_mtu {
    std::uint32_t bytes = 1500;   ///< of IP datagram
    friend bool operator==(const path_mtu&, const path_mtu&) = default;
};

class path_mtu_cache {
public:
    static constexpr std::size_t max_entries = 256;
    /// Bytes. A forged report cannot push us below it (RFC 1191 3 allows 68; Linux's min_pmtu is 552).
    static constexpr std::uint32_t minimum = 552;
    /// RFC 8200 5: every link carries so much. Who reports less is not believed at all (RFC 8201 4).
    static constexpr std::uint32_t ipv6_minimum = 1280;
    static constexpr duration lifetime = std::chrono::minutes{10};

    explicit path_mtu_cache(std::uint32_t link_mtu) noexcept : link_mtu_(link_mtu) {}

    path_mtu find(time_point now, const net_address& destination) const noexcept;
    /// What a report (see on_too_big) would make of the estimate. Keeps nothing but counts.
    path_mtu judge(time_point now, const net_address& destination, std::uint32_t reported, std::uint32_t quoted_length) noexcept;
    /// Believes `mtu`, if it is less than the estimate.
    void lower(time_point now, const net_address& destination, std::uint32_t mtu) noexcept;
    /// A router could not forward our datagram of `quoted_length` bytes; its next hop takes `reported` bytes, or 0 if it
    /// is older than RFC 1191 (then the next plateau below quoted_length is tried, 7.1; IPv6 has no such routers). An estimate never grows
    /// by a report.
    path_mtu on_too_big(time_point now, const net_address& destination, std::uint32_t reported, std::uint32_t quoted_length) noexcept;

    /// Grows with each change that a report made: flows that keep an MTU compare it.
    std::uint32_t generation() const noexcept { return generation_; }
    std::uint32_t link_mtu() const noexcept { return link_mtu_; }
    std::size_t size(time_point now) const noexcept;
    std::uint64_t evicted() const noexcept { return evicted_; }
    std::uint64_t below_minimum() const noexcept { return below_minimum_; } ///< reports of less than the minimum
    std::uint64_t ignored() const noexcept { return ignored_; }             ///< reports that would have made it larger

private:
    struct entry {
        net_address destination;
        std::uint32_t mtu = 0;
        time_point expiry{};
    };
    entry* slot_for(time_point now, const net_address& destination) noexcept;

    std::uint32_t link_mtu_;
    std::uint32_t generation_ = 0;
    std::size_t used_ = 0; ///< entries_[0, used_) have been written; expired ones are reused
    std::array<entry, max_entries> entries_{};
    std::uint64_t evicted_ = 0, below_minimum_ = 0, ignored_ = 0;
};

/// RFC 1191 7.1: the largest plateau below `length` bytes.
std::uint32_t plateau_below(std::uint32_t length) noexcept;

} // namespace corewire
