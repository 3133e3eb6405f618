// Receive-side scaling in software: the Toeplitz hash over a flow's addresses and ports, as NICs compute it, and which
// queue it leads to. Used where a port's device has no RSS of its own (tap, veth), and to predict the queue of one that has.
// Source: Microsoft, "Verifying the RSS Hash Calculation"; symmetric key: Woo and Park, 2012.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/reactor/base/bytes.hh>

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::rss {

using key = std::array<std::uint8_t, 40>;

/// The key of Microsoft's published vectors, which most drivers start with.
inline constexpr key microsoft_key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
                                      0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
                                      0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
/// 0x6d5a repeated: both directions of a flow have the same hash.
inline constexpr key symmetric_key = [] {
    key k{};
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = i % 2 == 0 ? 0x6d : 0x5a;
    return k;
}();

/// For each byte position of the input and each byte value, what it adds to the hash: 12 look-ups hash an IPv4 flow, 36 one of
/// IPv6.
class toeplitz {
public:
    explicit constexpr toeplitz(const key& k) noexcept {
        for (std::size_t position = 0; position < table_.size(); ++position) {
            // The 40 key bits from this position on, as a window of 32 that moves one bit at a time.
            std::uint64_t window = 0;
            for (std::size_t i = 0; i < 5; ++i) window = window << 8 | k[position + i];
            for (unsigned value = 0; value < 256; ++value) {
                std::uint32_t sum = 0;
                for (unsigned bit = 0; bit < 8; ++bit) {
                    if ((value & (0x80u >> bit)) != 0) sum ^= static_cast<std::uint32_t>(window >> (8 - bit));
                }
                table_[position][value] = sum;
            }
        }
    }
    /// As the receiver's NIC sees it: source is the remote end.
    constexpr std::uint32_t hash(ipv4 source, std::uint16_t source_port, ipv4 destination,
                                 std::uint16_t destination_port) const noexcept {
        const std::uint64_t addresses = std::uint64_t{source.value()} << 32 | destination.value();
        const std::uint32_t ports = std::uint32_t{source_port} << 16 | destination_port;
        std::uint32_t h = 0;
        for (unsigned i = 0; i < 8; ++i) h ^= table_[i][addresses >> (56 - 8 * i) & 0xff];
        for (unsigned i = 0; i < 4; ++i) h ^= table_[8 + i][ports >> (24 - 8 * i) & 0xff];
        return h;
    }
    std::uint32_t hash(const ipv6& source, std::uint16_t source_port, const ipv6& destination,
                       std::uint16_t destination_port) const noexcept {
        const std::uint32_t ports = std::uint32_t{source_port} << 16 | destination_port;
        std::uint32_t h = 0;
        for (unsigned i = 0; i < 16; ++i) h ^= table_[i][source.octets()[i]] ^ table_[16 + i][destination.octets()[i]];
        for (unsigned i = 0; i < 4; ++i) h ^= table_[32 + i][ports >> (24 - 8 * i) & 0xff];
        return h;
    }

private:
    std::array<std::array<std::uint32_t, 256>, 36> table_{};
};

inline const toeplitz symmetric{symmetric_key};

/// The same for both directions of a flow.
inline std::uint32_t symmetric_hash(ipv4 a, std::uint16_t a_port, ipv4 b, std::uint16_t b_port) noexcept {
    return symmetric.hash(a, a_port, b, b_port);
}

inline std::uint32_t symmetric_hash(const ipv6& a, std::uint16_t a_port, const ipv6& b, std::uint16_t b_port) noexcept {
    return symmetric.hash(a, a_port, b, b_port);
}

/// The queue, 0 to `queues` - 1, of a hash: by multiplication, so that any number of queues shares evenly.
inline unsigned queue_for(std::uint32_t hash, unsigned queues) noexcept {
    // Toeplitz under a symmetric key leaves its entropy uneven over the bits: stir before taking the top ones.
    const std::uint32_t stirred = (hash ^ hash >> 16) * 0x9e3779b1u;
    return static_cast<unsigned>(std::uint64_t{stirred} * queues >> 32);
}

} // namespace corewire::rss
