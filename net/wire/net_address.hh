// An address of either family in 16 bytes, and the prefixes of IPv6. What serves both families (UDP's demultiplexer, the
// neighbours, flows by name) keeps these; the everyday TCP segment keeps IPv4 addresses as they are.
//
// An IPv4 address stands in its mapped form, ::ffff:a.b.c.d (RFC 4291 2.5.5.2), which never is on the wire: who takes IPv6
// packets in drops those that carry it. Plain values, compared as two words.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/checksum.hh>

namespace corewire::wire {

class net_address {
public:
    constexpr net_address() noexcept = default; ///< ::, any address of any family
    constexpr net_address(ipv4_address a) noexcept : low_(mapped_prefix | a.value()) {}
    net_address(const ipv6_address& a) noexcept {
        const std::byte* p = reinterpret_cast<const std::byte*>(a.octets().data());
        high_ = load_be64(p);
        low_ = load_be64(p + 8);
    }

    constexpr bool is_v4() const noexcept { return high_ == 0 && low_ >> 32 == 0xffff; }
    constexpr ipv4_address v4() const noexcept { return ipv4_address(static_cast<std::uint32_t>(low_)); } ///< if is_v4()
    ipv6_address v6() const noexcept {
        std::byte bytes[16];
        store_be64(bytes, high_);
        store_be64(bytes + 8, low_);
        return ipv6_address::load(bytes);
    }
    /// `::` or 0.0.0.0
    constexpr bool is_any() const noexcept { return high_ == 0 && (low_ == 0 || low_ == mapped_prefix); }
    /// `::`, which stands for the addresses of both families.
    constexpr bool is_any_of_both() const noexcept { return high_ == 0 && low_ == 0; }
    bool is_multicast() const noexcept { return is_v4() ? v4().is_multicast() : high_ >> 56 == 0xff; }
    /// Could be one host's.
    bool is_unicast() const noexcept { return is_v4() ? v4().is_unicast() : !is_any_of_both() && !is_multicast(); }
    /// A socket bound to this address takes what is sent to `to`.
    constexpr bool covers(const net_address& to) const noexcept {
        return *this == to || is_any_of_both() || (high_ == 0 && low_ == mapped_prefix && to.is_v4());
    }
    constexpr std::uint64_t high() const noexcept { return high_; } ///< the first eight octets
    constexpr std::uint64_t low() const noexcept { return low_; }

    friend constexpr bool operator==(const net_address& a, const net_address& b) noexcept {
        return a.high_ == b.high_ && a.low_ == b.low_;
    }

private:
    static constexpr std::uint64_t mapped_prefix = 0xffff'0000'0000;
    std::uint64_t high_ = 0;
    std::uint64_t low_ = 0;
};

std::string to_string(const net_address& a); ///< as the family's own form
std::ostream& operator<<(std::ostream& out, const net_address& a);

/// The pseudo-header of the addresses' family. Both are of one.
inline internet_sum pseudo_header_sum(const net_address& source, const net_address& destination, ip_protocol protocol,
                                      std::size_t length) noexcept {
    if (source.is_v4()) return pseudo_header_sum(source.v4(), destination.v4(), protocol, length);
    return pseudo_header_sum(source.v6(), destination.v6(), protocol, length);
}

/// An IPv6 address and the length of its network's prefix: "2001:db8::1/64".
class ipv6_prefix {
public:
    constexpr ipv6_prefix() noexcept = default; ///< ::/0: contains every address
    /// `length` above 128 counts as 128.
    constexpr ipv6_prefix(const ipv6_address& address, std::uint8_t length) noexcept
        : address_(address), length_(length > 128 ? std::uint8_t{128} : length) {}

    /// "2001:db8::1/64", the length from 0 to 128. Both parts are needed.
    static std::optional<ipv6_prefix> parse(std::string_view text) noexcept;

    constexpr const ipv6_address& address() const noexcept { return address_; } ///< as given, host bits and all
    constexpr std::uint8_t length() const noexcept { return length_; }          ///< bits
    /// The address with its host bits cleared.
    ipv6_address network() const noexcept;
    bool contains(const ipv6_address& a) const noexcept { return common_prefix(address_, a) >= length_; }

    /// Leading bits that two addresses share, 0 to 128.
    static unsigned common_prefix(const ipv6_address& a, const ipv6_address& b) noexcept {
        const net_address x(a), y(b);
        if (x.high() != y.high()) return static_cast<unsigned>(__builtin_clzll(x.high() ^ y.high()));
        if (x.low() != y.low()) return 64 + static_cast<unsigned>(__builtin_clzll(x.low() ^ y.low()));
        return 128;
    }

    friend constexpr bool operator==(const ipv6_prefix&, const ipv6_prefix&) noexcept = default;

private:
    ipv6_address address_;
    std::uint8_t length_ = 0;
};
std::string to_string(const ipv6_prefix& p);
std::ostream& operator<<(std::ostream& out, const ipv6_prefix& p);

/// The 64-bit interface identifier that a MAC address makes (RFC 4291 appendix A): ff:fe in the middle, the U/L bit turned.
constexpr std::uint64_t interface_identifier(mac_address mac) noexcept {
    const std::uint64_t m = mac.value() ^ 0x0200'0000'0000;
    return (m >> 24) << 40 | std::uint64_t{0xfffe} << 24 | (m & 0xff'ffff);
}
/// `prefix`'s first 64 bits and `identifier`.
ipv6_address with_identifier(const ipv6_address& prefix, std::uint64_t identifier) noexcept;
/// fe80::/64 with the identifier of a MAC address (RFC 4862 5.3).
ipv6_address link_local_address(mac_address mac) noexcept;

} // namespace corewire::wire

namespace corewire {
using wire::ipv6_prefix;
using wire::net_address;
} // namespace corewire
