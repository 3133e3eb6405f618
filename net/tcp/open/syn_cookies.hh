// SYN cookies (Bernstein 1996; RFC 4987 3.6): what a listener needs to remember of a half-open connection, kept in the
// SYN-ACK's sequence number instead of in memory.
//
//     ISN   | 5 bits: 64-second count | 3 bits: index of the MSS | 24 bits: keyed hash of 4-tuple, peer's ISN, all of the count, index |
//     TSval | our clock                                          | 4 bits: window shift (15: none) | 1 bit: SACK | 1 bit: no ECN |
//
// Window scale and SACK are kept where the peer uses timestamps; without them they are off, as the cookie has no room.
// Pure functions; the secret is the stack's.
#pragma once

#include <corewire/net/tcp/open/isn.hh>
#include <corewire/net/tcp/segment.hh>

#include <array>
#include <cstdint>
#include <optional>

namespace corewire::tcp {

/// What a cookie can tell of the peer's SYN.
struct cookie_terms {
    std::uint16_t mss = 536; ///< rounded down to the table's, whose least stands for all below it, too
    bool timestamps = false;
    bool sack = false;
    bool ecn = false;        ///< classic ECN was agreed to; with Linux's habits either kind
    std::uint8_t window_scale = no_window_scale;
};

/// No cookie is good for longer.
inline constexpr duration cookie_lifetime = std::chrono::seconds{128};

namespace detail {

inline constexpr std::array<std::uint16_t, 8> cookie_mss = {216, 536, 1'220, 1'300, 1'360, 1'440, 1'460, 8'960};
inline constexpr std::uint32_t cookie_timestamp_bits = 6;

inline std::uint32_t cookie_count(time_point now) noexcept { return static_cast<std::uint32_t>(to_ns(now) / 64'000'000'000); }
/// Of the whole count, which comes round in 1,089 years; its five bits in the cookie do so in 34 minutes.
inline std::uint32_t cookie_hash(const siphash_key& secret, const four_tuple& flow, seq_number irs, std::uint32_t count,
                                 std::uint32_t index) noexcept {
    const std::uint64_t words = std::uint64_t{count} << 35 | std::uint64_t{irs.value} << 3 | index;
    return static_cast<std::uint32_t>(keyed_hash(secret, flow, words)) & 0xffffff;
}

} // namespace detail

/// The ISN of the SYN-ACK that answers a SYN with sequence number `irs` and this MSS.
inline seq_number make_cookie(const siphash_key& secret, time_point now, const four_tuple& flow, seq_number irs,
                              std::uint16_t mss) noexcept {
    std::uint32_t index = 0;
    while (index + 1 < detail::cookie_mss.size() && detail::cookie_mss[index + 1] <= mss) ++index;
    const std::uint32_t count = detail::cookie_count(now);
    return seq_number(count << 27 | index << 24 | detail::cookie_hash(secret, flow, irs, count, index));
}

/// The MSS that a cookie stands for; nothing if it is not one of ours, or older than 64 to 128 seconds.
inline std::optional<std::uint16_t> check_cookie(const siphash_key& secret, time_point now, const four_tuple& flow,
                                                 seq_number irs, seq_number cookie) noexcept {
    const std::uint32_t count = detail::cookie_count(now), index = cookie.value >> 24 & 7;
    const std::uint32_t age = (count - (cookie.value >> 27)) & 31;
    if (age > 1) return std::nullopt;
    if ((cookie.value & 0xffffff) != detail::cookie_hash(secret, flow, irs, count - age, index)) return std::nullopt;
    return detail::cookie_mss[index];
}

/// The TSval of that SYN-ACK: at most `clock`, with the terms in its low bits.
inline std::uint32_t cookie_timestamp(std::uint32_t clock, const cookie_terms& terms) noexcept {
    constexpr std::uint32_t mask = (1u << detail::cookie_timestamp_bits) - 1;
    const std::uint32_t shift = terms.window_scale == no_window_scale ? 15u : terms.window_scale & 15u;
    const std::uint32_t low = shift << 2 | (terms.sack ? 2u : 0u) | (terms.ecn ? 0u : 1u);
    const std::uint32_t stamp = (clock & ~mask) | low;
    return stamp > clock ? stamp - (mask + 1) : stamp;
}

/// The terms that come back in TSecr.
inline cookie_terms terms_of_timestamp(std::uint32_t echo, std::uint16_t mss) noexcept {
    const std::uint32_t shift = echo >> 2 & 15;
    return {.mss = mss,
            .timestamps = true,
            .sack = (echo & 2) != 0,
            .ecn = (echo & 1) == 0,
            .window_scale = shift == 15 ? no_window_scale : static_cast<std::uint8_t>(std::min(shift, 14u))};
}

} // namespace corewire::tcp
