// What a call returns inside net/posix: 0 or more as the system call would, or a negated errno. Plain numbers.
#pragma once

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace corewire::posix {

using outcome = std::int64_t;

/// The errno of a std::errc, negated; 0 for std::errc{}.
constexpr outcome failed(std::errc why) noexcept { return -static_cast<outcome>(why); }

/// As the C library's calls tell it: -1, and the errno.
template <typename Result = int>
Result posix_result(outcome r) noexcept {
    if (r >= 0) return static_cast<Result>(r);
    errno = static_cast<int>(-r);
    return -1;
}

} // namespace corewire::posix
