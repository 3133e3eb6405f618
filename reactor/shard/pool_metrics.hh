// The metrics of what stands outside of a shard's loop: calls of other threads, the helpers of run_blocking(), the stall detector.
#pragma once

#include <corewire/reactor/metrics/registry.hh>

namespace corewire {

class runtime;

/// On the shard, while run() runs. Pool and detector are the process's and are registered by shard 0.
void register_pool_metrics(metric_group& group, runtime& of, unsigned shard);

} // namespace corewire
