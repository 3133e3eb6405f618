// Time as Corewire passes it around: nanoseconds on a monotonic axis whose zero is the clock's own affair.
//
// Protocol code never asks what time it is. It is told, by a `time_point now` argument, so that the same
// object runs on a NIC, under a script and in the simulator (docs/ARCHITECTURE.md, "time is a parameter").
#pragma once

#include <chrono>
#include <cstdint>

namespace corewire {

/// Tag of the monotonic axis. It has no now(): reactor::now() and clock_source::now() are where time comes from.
struct monotonic_axis {
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<monotonic_axis, duration>;
    static constexpr bool is_steady = true;
};

using duration = std::chrono::nanoseconds;
using time_point = monotonic_axis::time_point;

/// A deadline that never comes.
inline constexpr time_point never = time_point::max();

inline constexpr std::int64_t to_ns(time_point t) noexcept { return t.time_since_epoch().count(); }
inline constexpr time_point from_ns(std::int64_t ns) noexcept { return time_point{duration{ns}}; }

} // namespace corewire
