// Membership of IPv4 multicast groups, told to the routers: IGMPv2 (RFC 2236) and IGMPv3 (RFC 3376) reports, the host's
// part, for any-source memberships.
//
// One interface's, on one shard. Sans-I/O: poll_transmit() gives whole IGMP messages (the caller adds IPv4 with TTL 1
// and Router Alert). Bounded by multicast_filter::max_groups.
#pragma once

#include <corewire/net/link/multicast_filter.hh>
#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>

namespace corewire {

struct igmp_report {
    ipv4 destination;                  ///< of the IP datagram, TTL 1, with wire::ipv4_router_alert
    std::array<std::byte, 16> bytes{}; ///< the message, checksum included
    std::uint8_t size = 0;
};

class igmp_host {
public:
    explicit igmp_host(std::uint64_t seed = random_seed()) noexcept : random_(seed) {}

    /// The group's first membership here began (its last one ended): multicast_filter::join, leave.
    void on_join(time_point now, ipv4 group) noexcept;
    void on_leave(time_point now, ipv4 group) noexcept;
    /// An IGMP message has arrived (the payload of the IP datagram). Malformed ones are counted.
    void input(time_point now, byte_span message) noexcept;

    time_point next_timeout() const noexcept;
    /// A message due at `now`. False when there is none.
    bool poll_transmit(time_point now, igmp_report& out) noexcept;

    std::uint64_t malformed() const noexcept { return malformed_; }
    std::uint64_t reports_sent() const noexcept { return reports_sent_; }
    std::uint64_t refused() const noexcept { return refused_; } ///< groups that found no slot

private:
    struct group_state {
        ipv4 group;
        bool used = false;
        bool leaving = false;
        std::uint8_t left = 0; ///< messages still to be sent without being asked
        time_point due = never;
    };
    group_state* find(ipv4 group) noexcept;
    void on_query(time_point now, ipv4 group, duration within) noexcept;
    void settle_version(time_point now) noexcept;
    duration at_random(duration within) noexcept;

    random_generator random_;
    bool v2_router_ = false;         ///< an IGMPv2 querier has been heard lately
    time_point v2_until_{};
    std::array<group_state, multicast_filter::max_groups> groups_{};
    std::uint64_t malformed_ = 0, reports_sent_ = 0, refused_ = 0;
};

} // namespace corewire
