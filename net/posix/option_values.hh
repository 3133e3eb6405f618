// Values of getsockopt() and setsockopt() as Linux takes them and hands them out. Plain functions.
#pragma once

#include <corewire/net/posix/outcome.hh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <sys/socket.h>

namespace corewire::posix {

inline std::optional<int> int_of(const void* value, socklen_t size) noexcept {
    if (value == nullptr || size < sizeof(int)) return std::nullopt;
    int n;
    std::memcpy(&n, value, sizeof n);
    return n;
}

/// Hands out what fits, as Linux does.
inline outcome give(const void* from, std::size_t have, void* value, socklen_t* size) noexcept {
    if (size == nullptr || (value == nullptr && *size != 0)) return -EFAULT;
    if (static_cast<std::int32_t>(*size) < 0) return -EINVAL;
    const auto n = static_cast<socklen_t>(std::min<std::size_t>(have, *size));
    std::memcpy(value, from, n);
    *size = n;
    return 0;
}

inline outcome give_int(int n, void* value, socklen_t* size) noexcept { return give(&n, sizeof n, value, size); }

/// An option of IP in a shorter room is one byte, if it fits into that (do_ip_getsockopt()).
inline outcome give_ip(int n, void* value, socklen_t* size) noexcept {
    const bool byte = size != nullptr && *size != 0 && *size < sizeof n && n >= 0 && n <= 255;
    const auto small = static_cast<unsigned char>(n);
    return byte ? give(&small, 1, value, size) : give_int(n, value, size);
}

inline bool in_range(int n, int least, int most) noexcept { return n >= least && n <= most; }

} // namespace corewire::posix
