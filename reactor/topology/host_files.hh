// What the kernel says of CPUs and interfaces in /sys and /proc and hwloc does not: isolated CPUs, CPUs without a tick, the
// cgroup's CPU quota, the queues of an interface. `root` stands before every path, so that a test can make up a machine.
// Plain functions; every file is read to 64 KiB at most, and one that is absent or odd reads as "nothing said".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace corewire {

// A quota in CPUs: what a machine's XML may say, to two digits. The kernel takes a smaller one (it is read as the least), and one that
// nobody can use up ("no limit"; it reads as none).
inline constexpr double least_quota = 0.01;
inline constexpr double most_quota = 8192; // CPUs that Linux can be built for

struct cpu_facts {
    std::vector<unsigned> isolated{}; ///< isolcpus=: the scheduler puts nothing there that does not ask for it
    std::vector<unsigned> tickless{}; ///< nohz_full=: no timer tick while one thread runs
    std::optional<double> quota{};    ///< CPUs' worth of time a period that the cgroup (v1 or v2) may use
};

cpu_facts read_cpu_facts(const std::string& root = {});

/// Receive queues of a network interface; 0 if there is no such interface.
unsigned interface_queues(const std::string& interface, const std::string& root = {});

/// The names in /sys/class/net, sorted, 1024 at most.
std::vector<std::string> interface_names(const std::string& root = {});

/// The first 64 KiB of a file; nothing if it cannot be opened.
std::optional<std::string> read_small_file(const std::string& path);

} // namespace corewire
