// Addresses, routes and name servers from router advertisements (RFC 4861 6.3, RFC 4862 5.5, RFC 8106), with identifiers that are stable
// on one network and tell nothing from one network to the next (RFC 7217).
//
//     start() --> poll_solicitation(), more and more rarely --> advertisement --on_advertisement()--> ipv6_addresses, ipv6_routes, names()
//
// One interface's, on one shard. Sans-I/O. Bounds: those of the tables.
#pragma once

#include <corewire/net/ip/advertised_names.hh>
#include <corewire/net/ip/ipv6_routes.hh>
#include <corewire/net/link/ipv6_addresses.hh>
#include <corewire/net/wire/icmpv6.hh>

#include <algorithm>
#include <array>
#include <cstring>

namespace corewire {

struct autoconfiguration_statistics {
    std::uint64_t solicitations_sent = 0, advertisements = 0;
    std::uint64_t prefixes_ignored = 0; ///< that RFC 4862 5.5.3 wants ignored, or that no address can be made of
    std::uint64_t hop_limits_refused = 0; ///< below least_hop_limit
    std::uint64_t mtus_refused = 0;       ///< below 1,280 bytes
    std::uint64_t given_up = 0;         ///< prefixes of which every address we made was somebody else's
};

class autoconfiguration {
public:
    /// `secret`: RFC 7217 5's; the same one gives the same addresses again.
    autoconfiguration(mac_address mac, siphash_key secret, ipv6_addresses& addresses, ipv6_routes& routes) noexcept
        : mac_(mac), secret_(secret), addresses_(addresses), routes_(routes) {}

    void start(time_point now, random_generator& random) noexcept;
    /// When the last router of those that were heard has gone (its time is over, or it says so), others are asked for.
    void follow_routers(time_point now, random_generator& random) noexcept;
    /// A valid advertisement of `router`'s, which is a link-local address.
    void on_advertisement(time_point now, const ipv6& router, const wire::router_advertisement& ra) noexcept;
    /// Duplicate address detection has failed for an address that was made here: tries another, three times (RFC 7217 6), which is
    /// returned. Null: none was made.
    const own_ipv6_address* on_duplicate(time_point now, const own_ipv6_address& lost) noexcept;

    time_point next_timeout() const noexcept { return std::min(solicit_at_, names_.next_timeout()); }
    /// Forgets what has ended; addresses and routes are their tables'.
    void on_timer(time_point now) noexcept { names_.on_timer(now); }
    /// A router is to be asked for now.
    bool poll_solicitation(time_point now, random_generator& random) noexcept;

    std::uint32_t mtu() const noexcept { return mtu_; }             ///< bytes, that a router said; UINT32_MAX: none did
    std::uint8_t hop_limit() const noexcept { return hop_limit_; }  ///< that a router said; 0: none did
    const advertised_names& names() const noexcept { return names_; }
    /// A smaller one is not believed: by a single forged advertisement nothing of ours would get beyond the first routers (RFC 3756
    /// 4.2.7).
    static constexpr std::uint8_t least_hop_limit = 32;
    const autoconfiguration_statistics& statistics() const noexcept { return statistics_; }

    /// RFC 7217 5: F(prefix, interface, counter, secret).
    static std::uint64_t stable_identifier(const ipv6& prefix, mac_address mac, std::uint8_t counter, const siphash_key& secret) noexcept;

    /// An identifier that stands for something else on every link (RFC 5453): the routers' anycast address, and IANA's.
    static bool is_reserved(std::uint64_t identifier) noexcept;
    /// stable_identifier() with `hash` for F. It is asked about 16 bytes, the last of which counts up until what it says is not reserved.
    template <typename Hash>
    static std::uint64_t identifier_by(const ipv6& prefix, mac_address mac, std::uint8_t counter, Hash&& hash) noexcept {
        std::array<unsigned char, 8 + 6 + 2> about;
        std::memcpy(about.data(), prefix.octets().data(), 8);
        std::memcpy(about.data() + 8, mac.octets().data(), 6);
        about[14] = counter;
        for (about[15] = 0;; ++about[15])
            if (const std::uint64_t identifier = hash(about); !is_reserved(identifier)) return identifier;
    }

private:
    void on_prefix(time_point now, byte_span option) noexcept;
    const own_ipv6_address* make_address(time_point now, const ipv6& prefix, std::uint8_t counter, time_point preferred_until,
                                         time_point valid_until) noexcept;

    mac_address mac_;
    siphash_key secret_;
    ipv6_addresses& addresses_;
    ipv6_routes& routes_;
    advertised_names names_;
    time_point solicit_at_ = never;
    duration solicit_after_{}; ///< what is waited for an answer; nothing: none has been asked for yet
    time_point solicited_at_{}; ///< the last time
    bool heard_ = false;       ///< a router, which then ended the asking
    std::uint32_t mtu_ = UINT32_MAX;
    std::uint8_t hop_limit_ = 0;
    autoconfiguration_statistics statistics_;
};

} // namespace corewire
