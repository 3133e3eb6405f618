// Our own IPv6 addresses: where each came from, whether it may be used yet (duplicate address detection, RFC 4862 5.4), and
// how long (5.5.4).
//
//     add() --> tentative --its probes, and nobody answers--> preferred --preferred lifetime--> deprecated --valid lifetime--> gone
//                   | somebody has it, or asks for it too
//                   v
//               duplicate: never used
//
// One interface's, on one shard. Sans-I/O: poll_probe() says what to ask. Bounded: 16 addresses.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

namespace corewire {

enum class ipv6_address_phase : std::uint8_t { tentative, preferred, deprecated, duplicate };
enum class ipv6_address_origin : std::uint8_t { link_local, configured, autoconfigured, leased };

struct own_ipv6_address {
    ipv6 address;
    std::uint8_t prefix_length = 64;
    ipv6_address_phase phase = ipv6_address_phase::tentative;
    ipv6_address_origin origin = ipv6_address_origin::configured;
    std::uint8_t probes_sent = 0;
    std::uint8_t duplicates = 0;       ///< autoconfigured: how many before this one were somebody else's (RFC 7217's DAD_Counter)
    time_point due{};                  ///< tentative: the next probe, or the end of waiting
    time_point preferred_until = never;
    time_point valid_until = never;
    bool usable() const noexcept { return phase == ipv6_address_phase::preferred || phase == ipv6_address_phase::deprecated; }
};

class ipv6_addresses {
public:
    static constexpr std::size_t max_addresses = 16;

    struct options {
        unsigned probes = 1; ///< DupAddrDetectTransmits; 0: addresses are good at once
        bool silent = false; ///< another shard asks: wait as long as it does, and listen
        duration retransmit_time = std::chrono::seconds{1};
        duration first_delay = std::chrono::seconds{1}; ///< at most; drawn (RFC 4862 5.4.2)
    };
    ipv6_addresses(options how, std::uint64_t seed) noexcept : how_(how), random_(seed) {}

    /// RetransTimer, that a router said (RFC 4862 5.4 waits for it): from the next probe on.
    void set_retransmit_time(duration t) noexcept { how_.retransmit_time = t; }

    /// Null: the table is full. One that is there already stays as it is.
    own_ipv6_address* add(time_point now, const ipv6& address, std::uint8_t prefix_length, ipv6_address_origin origin,
                          std::uint8_t duplicates = 0) noexcept;
    void remove(const ipv6& address) noexcept;
    /// `a`, one of all(), is to be preferred until then: deprecated, it is preferred again.
    void prefer(time_point now, own_ipv6_address& a, time_point until) noexcept;
    own_ipv6_address* find(const ipv6& address) noexcept;

    /// May be sent to.
    bool is_ours(const ipv6& address) const noexcept;
    /// Ours, or to become so.
    bool is_claimed(const ipv6& address) const noexcept;
    /// Grows whenever is_ours() or source_for() may say something else than before, or is_claimed() less.
    std::uint32_t generation() const noexcept { return generation_; }
    /// Duplicate address detection is under way.
    bool any_tentative() const noexcept;
    /// The solicited-node group of an address of ours.
    bool is_our_group(const ipv6& group) const noexcept;

    /// Somebody else has, or asks for, `address`, which is_claimed(). True: it was tentative, and is lost.
    bool on_conflict(const ipv6& address) noexcept;
    time_point next_timeout() const noexcept;
    /// Ages; addresses whose time is over go.
    void on_timer(time_point now) noexcept;
    /// The address to ask for now, by a solicitation from ::.
    bool poll_probe(ipv6& target) noexcept;
    /// It has not left: it is asked anew, after RetransTimer.
    void on_probe_unsent(const ipv6& target) noexcept;

    /// The address to send from to `destination`: RFC 6724 5, rules 1 to 3 (the address itself, its scope, not deprecated), 6
    /// (matching labels) and 8 (the longest common prefix). Null: none that may be used.
    /// `tentative_too`: or will be, it is to be hoped.
    const own_ipv6_address* source_for(const ipv6& destination, bool tentative_too = false) const noexcept;

    std::span<const own_ipv6_address> all() const noexcept { return {addresses_.data(), count_}; }
    std::uint64_t conflicts() const noexcept { return conflicts_; } ///< messages of others who use an address of ours
    std::uint64_t refused() const noexcept { return refused_; }     ///< add()s that found the table full

private:
    options how_;
    random_generator random_;
    std::array<own_ipv6_address, max_addresses> addresses_{};
    std::size_t count_ = 0;
    std::uint32_t generation_ = 1;
    std::array<bool, max_addresses> probe_{};
    std::uint64_t conflicts_ = 0;
    std::uint64_t refused_ = 0;
};

} // namespace corewire
