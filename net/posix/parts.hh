// The pieces of memory that a call names (readv(2)): how much they are, and whether they are there.
#pragma once

#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace corewire::posix {

inline std::uint64_t total_size(std::span<const iovec> parts) noexcept {
    std::uint64_t sum = 0;
    for (const iovec& v : parts) sum += v.iov_len;
    return sum;
}

/// NULL, and what is near it, is nobody's memory: EFAULT, once a byte of it is wanted.
inline bool is_reachable(const iovec& v) noexcept {
    constexpr std::uintptr_t first_page = 4096;
    return v.iov_len == 0 || reinterpret_cast<std::uintptr_t>(v.iov_base) >= first_page;
}

/// Bytes before the first that is nowhere.
inline std::uint64_t reachable_size(std::span<const iovec> parts) noexcept {
    std::uint64_t sum = 0;
    for (const iovec& v : parts) {
        if (!is_reachable(v)) break;
        sum += v.iov_len;
    }
    return sum;
}

} // namespace corewire::posix
