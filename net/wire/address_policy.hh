// What the choice between addresses goes by (RFC 6724 2.1, 3): the policy table, scopes, and how much two addresses share. IPv4 addresses
// stand in it as ::ffff:a.b.c.d. Plain functions.
#pragma once

#include <corewire/net/wire/net_address.hh>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace corewire::wire {

struct address_policy {
    unsigned precedence, label;
    friend bool operator==(const address_policy&, const address_policy&) = default;
};

/// RFC 6724 2.1: the default table.
constexpr address_policy policy_of(const net_address& a) noexcept {
    const auto begins = [&](std::uint16_t with, unsigned bits) { return a.high() >> (64 - bits) == with; };
    if (a.high() == 0) {
        if (a.low() == 1) return {50, 0};             // ::1/128
        if (a.low() >> 32 == 0xffff) return {35, 4};  // ::ffff:0:0/96
        if (a.low() >> 32 == 0) return {1, 3};        // ::/96
    }
    if (a.high() >> 32 == 0x2001'0000) return {5, 5}; // 2001::/32, Teredo
    if (begins(0x2002, 16)) return {30, 2};           // 6to4
    if (begins(0xfc >> 1, 7)) return {3, 13};         // fc00::/7
    if (begins(0xfec0 >> 6, 10)) return {1, 11};      // site-local
    if (begins(0x3ffe, 16)) return {1, 12};           // 6bone
    return {40, 1};
}

/// RFC 6724 3.1 to 3.4: 2 is the link, 5 the site, 14 the world; of a group what it says.
inline unsigned scope_of(const net_address& a) noexcept {
    if (a.is_v4()) { // 3.2: private addresses are the world's
        const std::uint32_t v = a.v4().value();
        return v >> 24 == 127 || v >> 16 == 0xa9fe ? 2 : 14;
    }
    if (a.high() >> 56 == 0xff) return static_cast<unsigned>(a.high() >> 48) & 15u;
    if (a.high() >> 54 == 0xfe80u >> 6 || (a.high() == 0 && a.low() == 1)) return 2;
    return a.high() >> 54 == 0xfec0u >> 6 ? 5 : 14;
}

/// A group of scope 0, which is reserved, or 1, the interface: on no wire (RFC 4291 2.7).
inline bool stays_on_host(const net_address& a) noexcept { return !a.is_v4() && a.is_multicast() && scope_of(a) <= 1; }

/// RFC 6724 2.2: the first bits that two addresses of one family have in common, 0 to 32 or 128.
inline unsigned common_prefix(const net_address& a, const net_address& b) noexcept {
    const std::uint64_t high = a.high() ^ b.high(), low = a.low() ^ b.low();
    const auto all = static_cast<unsigned>(high != 0 ? std::countl_zero(high) : 64 + std::countl_zero(low));
    return a.is_v4() ? all - 96 : all;
}

} // namespace corewire::wire
