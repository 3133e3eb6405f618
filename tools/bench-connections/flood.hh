// Case `flood`: SYNs from everywhere, as many as the port carries, beside good clients.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <vector>

namespace corewire::bench {

/// Prints {"clients", "completed", "requests", "failed", "worst_connect_ms", "syns_per_s", "answers_per_s", "growth_kib",
/// "most_connections"}. The exit code.
int measure_flood(std::vector<unsigned> cpus, unsigned clients, duration time);

} // namespace corewire::bench
