// Where each shard runs: its CPU, the NUMA node of its memory, its NIC queues. What `--placement FILE` reads, `cw-topo plan` writes
// and `--shard` says on a command line. Values; no state.
//
//     # a comment, to the end of the line
//     interface = "eth1"
//     shard = "pu:33,numa:1,queue:0"      # shard 0: CPU 33, memory of node 1, queue 0 of eth1
//     shard = "pu:34,numa:1,queue:1+63"   # shard 1: two queues; the first one also transmits
//
// `numa` and `queue` may be left out: memory is then the CPU's own node's, and queues are dealt out in turn. The same
// lines stand in a config file, and `--interface eth1 --shard pu:33,numa:1,queue:0 --shard ...` says the same.
// The text comes from a user: the bounds below come before any meaning, and each has a test.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace corewire {

namespace placement_limits {
inline constexpr std::size_t most_bytes = 1u << 20;
inline constexpr std::size_t most_line = 4096;
inline constexpr std::size_t most_shards = 1024;
inline constexpr std::size_t most_queues = 256;     ///< of one shard; the XDP program's map has as many
inline constexpr unsigned most_queue_number = 4095;
inline constexpr std::size_t most_name = 63;        ///< of an interface: Linux allows 15
} // namespace placement_limits

struct shard_place {
    unsigned cpu = 0;                     ///< the kernel's number
    std::optional<unsigned> numa_node{};  ///< the kernel's number; nothing: the CPU's own
    std::vector<unsigned> queues{};       ///< empty: dealt out in turn
    std::string why{};                    ///< the comment behind it; free text in one line

    bool operator==(const shard_place&) const = default;
};

struct placement {
    std::string interface{};              ///< whose queues are meant; empty: none
    std::vector<shard_place> shards{};

    bool operator==(const placement&) const = default;
};

/// "pu:33,numa:1,queue:0+8": the value of a `shard` line and of --shard. Throws std::invalid_argument with a sentence.
shard_place parse_shard(std::string_view text);
std::string to_string(const shard_place& shard);

/// Throws std::invalid_argument with a sentence that names the line and says what it should be.
placement parse_placement(std::string_view text);
/// The same from a file; the sentence names the file.
placement read_placement(const std::string& path);
/// What parse_placement() reads back. `heading`: lines of comment to begin with.
std::string to_text(const placement& placement, const std::vector<std::string>& heading = {});

} // namespace corewire
