// Which IPv6 groups we listen to, told to routers and switches that listen in (MLDv2, RFC 3810): the host's part, for groups of
// which every source is heard.
//
//     follow() --a group came or went--> its change, told twice ---> poll_report(): one message with all that is due
//     query    --on_query()------------> after a random while ---/
//
// One interface's, on one shard. Sans-I/O. Bounded: 32 groups; what does not fit is counted, and heard all the same.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <cstdint>
#include <span>

namespace corewire {

class mld_listener {
public:
    static constexpr std::size_t max_groups = 32;
    static constexpr std::size_t max_report = 8 + 20 * max_groups; ///< bytes

    explicit mld_listener(std::uint64_t seed) noexcept : random_(seed) {}

    /// From now on exactly these groups are listened to. ff02::1 is never told (RFC 3810 6).
    void follow(time_point now, std::span<const ipv6> groups) noexcept;
    /// A router asks: about `group`, or `::`, about all. Answered within `within` (5.1.3).
    void on_query(time_point now, const ipv6& group, duration within) noexcept;

    time_point next_timeout() const noexcept;
    /// The report that is due, without its checksum, at the front of `out` (max_report bytes). Its size; 0: none is.
    std::size_t poll_report(time_point now, mutable_byte_span out) noexcept;

    std::size_t groups() const noexcept;
    std::uint64_t refused() const noexcept { return refused_; }

private:
    struct entry {
        ipv6 group;
        std::uint8_t changes = 0;   ///< times that the change is still to be told
        bool leaving = false;
        time_point due = never;     ///< of the next telling
        time_point answer = never;  ///< to a query
    };
    entry* find(const ipv6& group) noexcept;

    random_generator random_;
    std::array<entry, max_groups> entries_{};
    std::size_t count_ = 0;
    std::uint64_t refused_ = 0;
};

/// RFC 3810 5.1.3: milliseconds that a query's response code stands for.
duration mld_response_time(std::uint16_t code) noexcept;

} // namespace corewire
