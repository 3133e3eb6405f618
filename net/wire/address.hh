// Addresses as values: MAC, IPv4, IPv6, and an IPv4 address with its prefix length.
// Plain immutable values of 4 to 16 bytes: copied freely, owned by nobody, usable on every shard.
// Integers inside are in host order, so that comparing and masking is arithmetic; load() and store() are the only
// places that know the order on the wire.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace corewire::wire {

/// An IPv4 address (RFC 791). 192.0.2.1 has the value 0xc0000201.
class ipv4_address {
public:
    static constexpr std::size_t size = 4; ///< bytes on the wire

    constexpr ipv4_address() noexcept = default; ///< 0.0.0.0
    constexpr explicit ipv4_address(std::uint32_t host_order) noexcept : value_(host_order) {}
    constexpr ipv4_address(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) noexcept
        : value_(std::uint32_t{a} << 24 | std::uint32_t{b} << 16 | std::uint32_t{c} << 8 | d) {}

    static constexpr ipv4_address any() noexcept { return ipv4_address(0); }
    static constexpr ipv4_address loopback() noexcept { return ipv4_address(127, 0, 0, 1); }
    static constexpr ipv4_address broadcast() noexcept { return ipv4_address(0xffffffff); }
    /// 224.0.0.1 (RFC 1112).
    static constexpr ipv4_address all_hosts() noexcept { return ipv4_address(224, 0, 0, 1); }
    /// 224.0.0.2, where IGMPv2 leaves go (RFC 2236 9).
    static constexpr ipv4_address all_routers() noexcept { return ipv4_address(224, 0, 0, 2); }
    /// 224.0.0.22, where IGMPv3 reports go (RFC 3376 4.2.14).
    static constexpr ipv4_address igmp_v3_routers() noexcept { return ipv4_address(224, 0, 0, 22); }

    static ipv4_address load(const std::byte* p) noexcept { return ipv4_address(load_be32(p)); }
    void store(std::byte* p) const noexcept { store_be32(p, value_); }

    /// Exactly four decimal numbers from 0 to 255 without leading zeros ("010" would be octal to some), as
    /// inet_pton(3).
    static std::optional<ipv4_address> parse(std::string_view text) noexcept;

    constexpr std::uint32_t value() const noexcept { return value_; } ///< host order
    constexpr std::array<std::uint8_t, 4> octets() const noexcept {
        return {static_cast<std::uint8_t>(value_ >> 24), static_cast<std::uint8_t>(value_ >> 16),
                static_cast<std::uint8_t>(value_ >> 8), static_cast<std::uint8_t>(value_)};
    }

    constexpr bool is_any() const noexcept { return value_ == 0; }
    constexpr bool is_loopback() const noexcept { return value_ >> 24 == 127; }      ///< 127/8, RFC 1122 3.2.1.3
    constexpr bool is_broadcast() const noexcept { return value_ == 0xffffffff; }    ///< limited, RFC 919
    constexpr bool is_multicast() const noexcept { return value_ >> 28 == 0xe; }     ///< 224/4, RFC 5771
    constexpr bool is_link_local() const noexcept { return value_ >> 16 == 0xa9fe; } ///< 169.254/16, RFC 3927
    constexpr bool is_link_local_multicast() const noexcept { return value_ >> 8 == 0xe00000; } ///< 224.0.0/24
    constexpr bool is_this_network() const noexcept { return value_ >> 24 == 0; } ///< 0/8, RFC 1122 3.2.1.3
    /// 240/4 less the limited broadcast, RFC 1112 4.
    constexpr bool is_reserved() const noexcept { return value_ >> 28 == 0xf && !is_broadcast(); }
    /// RFC 1918.
    constexpr bool is_private() const noexcept {
        return value_ >> 24 == 10 || value_ >> 20 == 0xac1 || value_ >> 16 == 0xc0a8;
    }
    /// Could be one host's address: none of the above but loopback, link-local and private. A directed broadcast
    /// can be told only with the prefix: see ip_prefix::broadcast().
    constexpr bool is_unicast() const noexcept { return !is_this_network() && value_ >> 28 < 0xe; }

    friend constexpr auto operator<=>(ipv4_address, ipv4_address) noexcept = default;

private:
    std::uint32_t value_ = 0;
};

/// An Ethernet address (EUI-48). 02:00:00:00:00:01 has the value 0x020000000001.
class mac_address {
public:
    static constexpr std::size_t size = 6; ///< bytes on the wire

    constexpr mac_address() noexcept = default; ///< 00:00:00:00:00:00
    /// The low 48 bits, the first octet on the wire being the most significant.
    constexpr explicit mac_address(std::uint64_t value) noexcept : value_(value & 0xffff'ffff'ffff) {}
    constexpr mac_address(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint8_t e,
                          std::uint8_t f) noexcept
        : value_(std::uint64_t{a} << 40 | std::uint64_t{b} << 32 | std::uint64_t{c} << 24 | std::uint64_t{d} << 16 |
                 std::uint64_t{e} << 8 | f) {}

    static constexpr mac_address broadcast() noexcept { return mac_address(0xffff'ffff'ffff); }
    /// The group address of an IPv4 multicast group: 01:00:5e and the low 23 bits (RFC 1112 6.4).
    static constexpr mac_address of_multicast(ipv4_address group) noexcept {
        return mac_address(0x0100'5e00'0000 | (group.value() & 0x7fffff));
    }

    static mac_address load(const std::byte* p) noexcept {
        return mac_address(std::uint64_t{load_be32(p)} << 16 | load_be16(p + 4));
    }
    void store(std::byte* p) const noexcept {
        store_be32(p, static_cast<std::uint32_t>(value_ >> 16));
        store_be16(p + 4, static_cast<std::uint16_t>(value_));
    }

    /// Six pairs of hexadecimal digits with ':' or '-' between them, the same one throughout.
    static std::optional<mac_address> parse(std::string_view text) noexcept;

    constexpr std::uint64_t value() const noexcept { return value_; } ///< 48 bits
    constexpr std::array<std::uint8_t, 6> octets() const noexcept {
        return {static_cast<std::uint8_t>(value_ >> 40), static_cast<std::uint8_t>(value_ >> 32),
                static_cast<std::uint8_t>(value_ >> 24), static_cast<std::uint8_t>(value_ >> 16),
                static_cast<std::uint8_t>(value_ >> 8),  static_cast<std::uint8_t>(value_)};
    }

    constexpr bool is_zero() const noexcept { return value_ == 0; }
    constexpr bool is_broadcast() const noexcept { return value_ == 0xffff'ffff'ffff; }
    /// The group bit (IEEE 802): true for broadcast as well.
    constexpr bool is_multicast() const noexcept { return (value_ >> 40 & 1) != 0; }
    constexpr bool is_unicast() const noexcept { return !is_multicast() && !is_zero(); }
    /// The U/L bit: made up by software, not by a maker of NICs.
    constexpr bool is_locally_administered() const noexcept { return (value_ >> 40 & 2) != 0; }

    friend constexpr auto operator<=>(mac_address, mac_address) noexcept = default;

private:
    std::uint64_t value_ = 0;
};

/// An IPv6 address (RFC 4291): 16 octets in the order of the wire.
class ipv6_address {
public:
    static constexpr std::size_t size = 16; ///< bytes on the wire
    using octet_array = std::array<std::uint8_t, 16>;

    constexpr ipv6_address() noexcept = default; ///< ::
    constexpr explicit ipv6_address(const octet_array& octets) noexcept : octets_(octets) {}

    static constexpr ipv6_address any() noexcept { return {}; }
    static constexpr ipv6_address loopback() noexcept {
        return ipv6_address(octet_array{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    }
    /// ff02::1
    static constexpr ipv6_address all_nodes() noexcept {
        return ipv6_address(octet_array{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    }
    /// ff02::2
    static constexpr ipv6_address all_routers() noexcept {
        return ipv6_address(octet_array{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
    }
    /// ::ffff:a.b.c.d (RFC 4291 2.5.5.2).
    static constexpr ipv6_address mapped(ipv4_address v4) noexcept {
        const auto o = v4.octets();
        return ipv6_address(octet_array{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, o[0], o[1], o[2], o[3]});
    }
    /// ff02::1:ffXX:XXXX, where a neighbour solicitation for this address goes (RFC 4291 2.7.1).
    constexpr ipv6_address solicited_node() const noexcept {
        return ipv6_address(
            octet_array{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, octets_[13], octets_[14], octets_[15]});
    }

    static ipv6_address load(const std::byte* p) noexcept {
        ipv6_address a;
        std::memcpy(a.octets_.data(), p, size);
        return a;
    }
    void store(std::byte* p) const noexcept { std::memcpy(p, octets_.data(), size); }

    /// The forms of RFC 4291 2.2, without a zone ("%eth0").
    static std::optional<ipv6_address> parse(std::string_view text) noexcept;

    constexpr const octet_array& octets() const noexcept { return octets_; }
    /// One of the eight 16-bit groups of the text form.
    constexpr std::uint16_t group(std::size_t i) const noexcept {
        return static_cast<std::uint16_t>(octets_[2 * i] << 8 | octets_[2 * i + 1]);
    }

    constexpr bool is_any() const noexcept { return *this == any(); }
    constexpr bool is_loopback() const noexcept { return *this == loopback(); }
    constexpr bool is_multicast() const noexcept { return octets_[0] == 0xff; }
    constexpr bool is_link_local() const noexcept {
        return octets_[0] == 0xfe && (octets_[1] & 0xc0) == 0x80;
    } ///< fe80::/10
    constexpr bool is_mapped() const noexcept { return mapped(embedded()) == *this; }
    /// The last four octets: the IPv4 address of a mapped one.
    constexpr ipv4_address embedded() const noexcept {
        return ipv4_address(octets_[12], octets_[13], octets_[14], octets_[15]);
    }

    friend constexpr auto operator<=>(const ipv6_address&, const ipv6_address&) noexcept = default;

private:
    octet_array octets_{};
};

/// The group address of an IPv6 multicast group: 33:33 and the low 32 bits (RFC 2464 7).
constexpr mac_address multicast_mac(const ipv6_address& group) noexcept {
    return mac_address(0x3333'0000'0000 | group.embedded().value());
}

/// An IPv4 address and the length of its network's prefix: "10.0.0.1/24" is the host 10.0.0.1 on the
/// network 10.0.0.0/24.
class ip_prefix {
public:
    constexpr ip_prefix() noexcept = default; ///< 0.0.0.0/0: contains every address
    /// `length` above 32 counts as 32.
    constexpr ip_prefix(ipv4_address address, std::uint8_t length) noexcept
        : address_(address), length_(length > 32 ? std::uint8_t{32} : length) {}

    /// "a.b.c.d/len", len from 0 to 32. Both parts are needed.
    static std::optional<ip_prefix> parse(std::string_view text) noexcept;

    constexpr ipv4_address address() const noexcept { return address_; } ///< as given, host bits and all
    constexpr std::uint8_t length() const noexcept { return length_; }   ///< bits
    constexpr ipv4_address mask() const noexcept {
        return ipv4_address(length_ == 0 ? 0 : ~std::uint32_t{0} << (32 - length_));
    }
    /// The address with its host bits cleared.
    constexpr ipv4_address network() const noexcept { return ipv4_address(address_.value() & mask().value()); }
    /// The directed broadcast address; a /31 (RFC 3021) and a /32 have none, and give 255.255.255.255.
    constexpr ipv4_address broadcast() const noexcept {
        return length_ >= 31 ? ipv4_address::broadcast() : ipv4_address(address_.value() | ~mask().value());
    }
    constexpr bool contains(ipv4_address a) const noexcept {
        return ((a.value() ^ address_.value()) & mask().value()) == 0;
    }

    friend constexpr auto operator<=>(const ip_prefix&, const ip_prefix&) noexcept = default;

private:
    ipv4_address address_;
    std::uint8_t length_ = 0;
};

std::string to_string(ipv4_address a);        ///< "192.0.2.1"
std::string to_string(mac_address a);         ///< "02:00:00:00:00:01"
std::string to_string(const ipv6_address& a); ///< RFC 5952: "2001:db8::1", "::ffff:192.0.2.1"
std::string to_string(const ip_prefix& p);    ///< "10.0.0.1/24"

std::ostream& operator<<(std::ostream& out, ipv4_address a);
std::ostream& operator<<(std::ostream& out, mac_address a);
std::ostream& operator<<(std::ostream& out, const ipv6_address& a);
std::ostream& operator<<(std::ostream& out, const ip_prefix& p);

namespace detail {
/// Spreads an integer over all bits of a size_t. No defence against an attacker who picks the addresses: tables that
/// strangers can fill use siphash.
constexpr std::size_t mix(std::uint64_t x) noexcept {
    x *= 0x9e3779b97f4a7c15ull;
    return static_cast<std::size_t>(x ^ x >> 32);
}
} // namespace detail

} // namespace corewire::wire

namespace corewire {
// The names of the public API: `cw::ipv4::any()`.
using ipv4 = wire::ipv4_address;
using ipv6 = wire::ipv6_address;
using wire::ip_prefix;
using wire::mac_address;
} // namespace corewire

template <>
struct std::hash<corewire::wire::ipv4_address> {
    std::size_t operator()(corewire::wire::ipv4_address a) const noexcept {
        return corewire::wire::detail::mix(a.value());
    }
};
template <>
struct std::hash<corewire::wire::mac_address> {
    std::size_t operator()(corewire::wire::mac_address a) const noexcept {
        return corewire::wire::detail::mix(a.value());
    }
};
template <>
struct std::hash<corewire::wire::ipv6_address> {
    std::size_t operator()(const corewire::wire::ipv6_address& a) const noexcept {
        std::uint64_t half[2];
        std::memcpy(half, a.octets().data(), sizeof half);
        return corewire::wire::detail::mix(half[0] + corewire::wire::detail::mix(half[1]));
    }
};
template <>
struct std::hash<corewire::wire::ip_prefix> {
    std::size_t operator()(const corewire::wire::ip_prefix& p) const noexcept {
        return corewire::wire::detail::mix(std::uint64_t{p.address().value()} << 8 | p.length());
    }
};
