// The internet checksum (RFC 1071), whole, in pieces, fused with a copy, and updated in place (RFC 1624).
// internet_sum is a value of 16 bytes that lives on the stack for the length of one header; nothing is shared.
//
// Every 16-bit checksum that goes in or comes out is in host order, the number that the RFC's figure would show:
// it comes from load_be16() and goes to store_be16().
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace corewire::wire {

namespace detail {

/// Up to this many bytes are summed by 32-bit words: a header just written by 32-bit stores is then read back out of
/// the store buffer, where a wider load would wait for all of them to retire. Payload is summed by vectors.
inline constexpr std::size_t word_sum_limit = 60;

inline std::uint64_t sum_words(const std::byte* p, std::size_t size) noexcept {
    std::uint64_t sum = 0;
    for (; size >= 4; p += 4, size -= 4) {
        sum += load_native<std::uint32_t>(p);
        asm("" : "+r"(sum)); // the compiler would make wide loads of this loop
    }
    if ((size & 2) != 0) {
        sum += load_native<std::uint16_t>(p);
        p += 2;
    }
    if ((size & 1) != 0) sum += load_u8(p); // RFC 1071: an odd octet is padded with zero on its right
    return sum;
}

/// Sum of the bytes as little-endian 32-bit words, zero-padded; congruent to the RFC's sum modulo 0xffff up to byte
/// order. Any length to 16 GiB.
std::uint64_t sum_any(const std::byte* p, std::size_t size) noexcept;
/// The same sum of the bytes at `from`, which it copies to `to`. The two do not overlap.
std::uint64_t copy_and_sum_any(std::byte* to, const std::byte* from, std::size_t size) noexcept;
/// What the two above use for long pieces on a machine without AVX2; named here so that tests reach them everywhere.
std::uint64_t sum_portable(const std::byte* p, std::size_t size) noexcept;
std::uint64_t copy_and_sum_portable(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// A header whose size the compiler knows is summed inline.
inline std::uint64_t sum_bytes(const std::byte* p, std::size_t size) noexcept {
    return __builtin_constant_p(size) && size <= word_sum_limit ? sum_words(p, size) : sum_any(p, size);
}

/// Ones' complement: carries out of 32 bits come back in. Adding a number to itself rotated by half its width puts the
/// sum of both halves, with the carry that the lower one brings, into the upper half. Zero only for zero.
constexpr std::uint64_t fold32(std::uint64_t sum) noexcept { return (sum + std::rotl(sum, 32)) >> 32; }
constexpr std::uint16_t fold16(std::uint64_t sum) noexcept {
    const auto half = static_cast<std::uint32_t>(fold32(sum));
    return static_cast<std::uint16_t>((half + std::rotl(half, 16)) >> 16);
}

} // namespace detail

/// A ones'-complement sum under construction. Bytes are added as one stream that may be cut anywhere, also after an odd
/// number of octets (a chain of buffers); words of a pseudo-header are added at any time, as if at an even offset.
class internet_sum {
public:
    constexpr internet_sum() noexcept = default;

    /// The next bytes of the stream.
    internet_sum& add(byte_span bytes) noexcept {
        append(detail::sum_bytes(bytes.data(), bytes.size()), bytes.size());
        return *this;
    }
    /// The next bytes of the stream, copied on the way to the front of `to` (no overlap; asserts that they fit).
    internet_sum& add_and_copy(mutable_byte_span to, byte_span from) noexcept {
        CW_ASSERT(to.size() >= from.size(), "the bytes to copy do not fit");
        append(detail::copy_and_sum_any(to.data(), from.data(), from.size()), from.size());
        return *this;
    }
    /// The sum of a piece computed before, as the next `size` bytes of the stream.
    internet_sum& add(const internet_sum& piece, std::size_t size) noexcept {
        append(piece.sum_, size);
        return *this;
    }
    constexpr internet_sum& add_u16(std::uint16_t v) noexcept {
        sum_ += host_to_be(v);
        return *this;
    }
    constexpr internet_sum& add_u32(std::uint32_t v) noexcept {
        sum_ += host_to_be(v);
        return *this;
    }

    /// The sum, not complemented: what a transmit-checksum offload wants in the field (offload::l4_checksum_needed).
    constexpr std::uint16_t folded() const noexcept { return host_to_be(detail::fold16(sum_)); }
    /// The checksum for the header.
    constexpr std::uint16_t checksum() const noexcept { return static_cast<std::uint16_t>(~folded()); }
    /// The checksum for UDP's header, where zero means "none" and is sent as 0xffff (RFC 768).
    constexpr std::uint16_t udp_checksum() const noexcept {
        const std::uint16_t c = checksum();
        return c == 0 ? std::uint16_t{0xffff} : c;
    }
    /// For a sum over everything, the checksum field included: true when nothing was damaged.
    constexpr bool verifies() const noexcept { return detail::fold16(sum_) == 0xffff; }

private:
    // sum_ holds terms of at most 32 bits, so that 2^31 of them fit.
    constexpr void append(std::uint64_t sum, std::size_t size) noexcept {
        if (odd_) { // RFC 1071 2(B): at an odd offset every octet counts for the other half of the word
            sum_ += host_to_be(detail::fold16(sum));
        } else {
            sum_ += detail::fold32(sum);
        }
        odd_ ^= (size & 1) != 0;
    }

    std::uint64_t sum_ = 0; ///< in the order of memory, not of the RFC
    bool odd_ = false;      ///< the stream so far has an odd number of octets
};

/// The checksum of `bytes`, in which the checksum field is zero.
inline std::uint16_t internet_checksum(byte_span bytes) noexcept { return internet_sum{}.add(bytes).checksum(); }
/// Whether `bytes`, checksum field included, are undamaged.
inline bool checksum_ok(byte_span bytes) noexcept { return internet_sum{}.add(bytes).verifies(); }

/// The pseudo-header of TCP and UDP over IPv4 (RFC 9293 3.1, RFC 768). `length`: L4 header and payload, bytes.
constexpr internet_sum pseudo_header_sum(ipv4_address source, ipv4_address destination, ip_protocol protocol,
                                         std::size_t length) noexcept {
    return internet_sum{}
        .add_u32(source.value())
        .add_u32(destination.value())
        .add_u32(static_cast<std::uint32_t>(protocol))
        .add_u32(static_cast<std::uint32_t>(length));
}
/// The pseudo-header of TCP, UDP and ICMPv6 over IPv6 (RFC 8200 8.1).
inline internet_sum pseudo_header_sum(const ipv6_address& source, const ipv6_address& destination, ip_protocol protocol,
                                      std::size_t length) noexcept {
    return internet_sum{}
        .add(std::as_bytes(std::span(source.octets())))
        .add(std::as_bytes(std::span(destination.octets())))
        .add_u32(static_cast<std::uint32_t>(protocol))
        .add_u32(static_cast<std::uint32_t>(length));
}

/// The checksum after one 16-bit word that it covers changed from `before` to `after`: RFC 1624 eqn. 3,
/// HC' = ~(~HC + ~m + m').
constexpr std::uint16_t update_checksum(std::uint16_t checksum, std::uint16_t before, std::uint16_t after) noexcept {
    const std::uint32_t sum = (checksum ^ 0xffffu) + (before ^ 0xffffu) + after;
    return static_cast<std::uint16_t>(~detail::fold16(sum));
}
/// The same for a 32-bit field (an address, a sequence number).
constexpr std::uint16_t update_checksum32(std::uint16_t checksum, std::uint32_t before, std::uint32_t after) noexcept {
    const std::uint64_t sum = (checksum ^ std::uint64_t{0xffff}) + (before ^ std::uint64_t{0xffffffff}) + after;
    return static_cast<std::uint16_t>(~detail::fold16(sum));
}

/// Copies `from` to the front of `to` (no overlap; asserts that it fits) and returns its sum.
inline internet_sum copy_and_checksum(mutable_byte_span to, byte_span from) noexcept {
    return internet_sum{}.add_and_copy(to, from);
}

} // namespace corewire::wire
