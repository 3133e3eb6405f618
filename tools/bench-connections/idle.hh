// Case `idle`: a million established connections that nobody uses, and one that plays ping-pong beside them.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <cstddef>

namespace corewire::bench {

/// Prints {"idle", "bytes_each", "rate_alone", "rate_beside", "kept", "opened_per_s", "errors"}. The exit code.
int measure_idle(std::size_t count, duration time);

} // namespace corewire::bench
