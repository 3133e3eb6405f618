// The real clock: the time-stamp counter, scaled to nanoseconds of CLOCK_MONOTONIC. Reading it costs some 20 cycles and no
// system call. Falls back to clock_gettime(2) where the counter is not invariant. Shared by all reactors; stateless after
// its calibration.
#pragma once

#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

/// The process's real clock. The first call calibrates it, which takes about 2 ms.
clock_source& real_clock() noexcept;

} // namespace corewire
