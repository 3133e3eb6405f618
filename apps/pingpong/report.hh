// What a run prints: one JSON object for programs, a table of the same for people, and a progress line while it lasts.
#pragma once

#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/port/port.hh>

#include <optional>
#include <string>

namespace corewire::pingpong {

struct run_report {
    std::string net; ///< "wire", "xdp", "kernel"...: what the run went over
    workload load;
    outcome result;
    /// Data-path counters of the client's ports, summed; only where there are ports (not over the kernel's sockets).
    std::optional<port_statistics> port{};
};

/// {"net","protocol","size","connections","pipeline","round_trips","seconds","rate","errors","rtt_ns":{..}}, and for
/// bulk runs "gbit_per_s" besides (rtt_ns is null there: nothing goes round). With `statistics`, also "port":{..}.
std::string to_json(const run_report& report, bool statistics);
std::string to_table(const run_report& report);

/// One line, to be rewritten in place on a terminal: "2.0 s  1'234'567 round trips  617 k/s".
std::string progress_line(double seconds, std::uint64_t round_trips, std::uint64_t errors);

/// Adds up the counters of several ports.
port_statistics operator+(const port_statistics& a, const port_statistics& b) noexcept;

} // namespace corewire::pingpong
