// Which CPUs the shards run on: what `--cores` says, worked out against a machine.
//
//     2            a count: that many shards, each on a core of its own while there are cores, then on their siblings
//     0-3,6        a list of CPUs by the kernel's numbers (as taskset -c; "3-3" is CPU 3 alone); also pu:0-3,6
//     core:2-5     cores by hwloc's numbers, one shard each
//     numa:0       every core of a NUMA node (the kernel's number), one shard each
//     package:1    every core of a socket, one shard each
//     all          every allowed core, one shard each
//
// Items are separated by commas and may be mixed; a prefix holds until the next one ("core:0-1,4,pu:9").
#pragma once

#include <corewire/reactor/topology/machine.hh>

#include <string_view>
#include <vector>

namespace corewire {

/// The kernel's CPU number for each shard, in the order given. Throws std::invalid_argument with a sentence that names what
/// does not exist, what this process may not use, what is named twice, or what cannot be read.
std::vector<unsigned> select_cpus(const machine& on, std::string_view selection);

} // namespace corewire
