// Which IPv6 groups we listen to, told to routers and switches that listen in (MLDv2, RFC 3810): the host's part, for groups of
// which every source is heard.
//
//     follow() --a group came or went--> its change, told twice ---> poll_report(): one message with all that is due
//     query    --on_query()------------> after a random while ---/
//
// While a router of version 1 (RFC 2710) is about, its messages are spoken in place of ours: one a group (RFC 3810 8.2.1).
//
// One interface's, on one shard. Sans-I/O. Bounded: 32 groups, of which those that have ended make room before
// all is told of it; what does not fit is counted, and heard all the same.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <cstdint>
#include <span>

namespace corewire {

/// A message of mld_listener's.
struct mld_report {
    std::size_t size = 0; ///< bytes; 0: there was none
    ipv6 destination;
};

class mld_listener {
public:
    static constexpr std::size_t max_groups = 32;
    static constexpr std::size_t max_report = 8 + 20 * max_groups; ///< bytes

    explicit mld_listener(std::uint64_t seed) noexcept : random_(seed) {}

    /// From now on exactly these groups are listened to. ff02::1 is never told (RFC 3810 6).
    void follow(time_point now, std::span<const ipv6> groups) noexcept;
    /// All groups are told as if they had just come: what was told from `::` may have been dropped (RFC 3590 4).
    void tell_anew(time_point now) noexcept;
    /// A router asks by a message of `size` bytes (8.1: 24 are version 1's, 28 and more version 2's, others nobody's): about `group`, or
    /// `::`, about all. Answered within what `response_code` says.
    void on_query(time_point now, const ipv6& group, std::uint16_t response_code, std::size_t size) noexcept;
    /// Somebody else on the link has told of `group` in version 1: then we need not (RFC 2710 4).
    void on_report(time_point now, const ipv6& group) noexcept;

    time_point next_timeout() const noexcept;
    /// A report that is due, without its checksum, at the front of `out` (max_report bytes). There may be another.
    mld_report poll_report(time_point now, mutable_byte_span out) noexcept;

    std::size_t groups() const noexcept;
    /// A version 1 router was heard lately.
    bool version_1(time_point now) const noexcept { return now < version_1_until_; }
    std::uint64_t refused() const noexcept { return refused_; }

private:
    struct entry {
        ipv6 group;
        std::uint8_t changes = 0;   ///< times that the change is still to be told
        bool leaving = false;
        time_point due = never;     ///< of the next telling
        time_point answer = never;  ///< to a query
        bool told_last = false;     ///< version 1: of all on the link we told of it last
    };
    entry* find(const ipv6& group) noexcept;
    entry* least_of_those_left() noexcept;
    void settle_mode(time_point now) noexcept;
    void cancel_all() noexcept;
    duration at_random(duration within) noexcept;
    mld_report version_1_report(time_point now, mutable_byte_span out) noexcept;

    random_generator random_;
    std::array<entry, max_groups> entries_{};
    std::size_t count_ = 0;
    std::uint64_t refused_ = 0;
    time_point version_1_until_{}; ///< Older Version Querier Present (9.12)
    bool was_version_1_ = false;
};

/// RFC 3810 5.1.3: milliseconds that a query's response code stands for.
duration mld_response_time(std::uint16_t code) noexcept;

} // namespace corewire
