// Which CPU, NUMA node and NIC queues each shard gets: from --placement, --shard or --cores, worked out against this machine.
// A plain function of options and machine; nothing is kept.
#pragma once

#include <corewire/apps/runtime/network_options.hh>
#include <corewire/reactor/topology/machine.hh>
#include <corewire/reactor/topology/placement.hh>

namespace corewire {

/// What --placement or --shard say; nothing if neither is given. Fills in options.interface for a network that uses one. Throws
/// setup_error with one sentence: the file cannot be read, two options choose, or the interface is another one.
std::optional<placement> take_placement(network_options& options, bool cores_given);

/// The same for --cores, or a placement that take_placement() has read, checked against `on`. Throws setup_error.
placement choose_placement(const machine& on, const network_options& options, const std::optional<placement>& given);

} // namespace corewire
