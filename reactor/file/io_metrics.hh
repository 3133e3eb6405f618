// The metrics of a shard's files: what its io_engine counts. Zero until the shard does its first I/O through it.
#pragma once

#include <corewire/reactor/metrics/registry.hh>

namespace corewire {

class reactor;

/// On the shard. Registers by reference: the reactor outlives the group.
void register_file_metrics(metric_group& group, const reactor& loop);

} // namespace corewire
