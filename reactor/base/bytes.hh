// Unaligned loads and stores in network (big-endian) byte order.
// Callers check bounds once, for a whole header; these functions do not check.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace corewire {

using byte_span = std::span<const std::byte>;
using mutable_byte_span = std::span<std::byte>;

inline constexpr std::uint16_t host_to_be(std::uint16_t v) noexcept { return __builtin_bswap16(v); }
inline constexpr std::uint32_t host_to_be(std::uint32_t v) noexcept { return __builtin_bswap32(v); }
inline constexpr std::uint64_t host_to_be(std::uint64_t v) noexcept { return __builtin_bswap64(v); }
static_assert(std::endian::native == std::endian::little, "Corewire is written for little-endian machines");

/// Load an integer in this machine's order from any address.
template <typename Integer>
inline Integer load_native(const std::byte* p) noexcept {
    Integer v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline std::uint8_t load_u8(const std::byte* p) noexcept { return std::to_integer<std::uint8_t>(*p); }
inline std::uint16_t load_be16(const std::byte* p) noexcept { return host_to_be(load_native<std::uint16_t>(p)); }
inline std::uint32_t load_be32(const std::byte* p) noexcept { return host_to_be(load_native<std::uint32_t>(p)); }
inline std::uint64_t load_be64(const std::byte* p) noexcept { return host_to_be(load_native<std::uint64_t>(p)); }

inline void store_u8(std::byte* p, std::uint8_t v) noexcept { *p = std::byte{v}; }
inline void store_be16(std::byte* p, std::uint16_t v) noexcept {
    v = host_to_be(v);
    std::memcpy(p, &v, sizeof v);
}
inline void store_be32(std::byte* p, std::uint32_t v) noexcept {
    v = host_to_be(v);
    std::memcpy(p, &v, sizeof v);
}
inline void store_be64(std::byte* p, std::uint64_t v) noexcept {
    v = host_to_be(v);
    std::memcpy(p, &v, sizeof v);
}

} // namespace corewire
