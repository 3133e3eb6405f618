// Trying in a child process what may crash a library: hwloc trusts the XML that it is given, and a damaged file can make
// it follow a null pointer. Blocking; for start-up and tools, before threads hold locks.
#pragma once

#include <cstddef>
#include <functional>

namespace corewire {

/// Runs `work` in a forked child with its output thrown away, at most `cpu_seconds` of CPU time and at most `memory` bytes of
/// addresses more than there are. True if it came to its end; false if it threw, crashed, aborted or ran out of time or
/// memory, or if there can't be a child.
bool survives(const std::function<void()>& work, unsigned cpu_seconds = 20, std::size_t memory = std::size_t{1} << 30);

} // namespace corewire
