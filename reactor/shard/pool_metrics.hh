// The metrics of what comes from outside of a shard's loop: calls of other threads, and the helpers of run_blocking().
#pragma once

#include <corewire/reactor/metrics/registry.hh>

namespace corewire {

class runtime;

/// On the shard, while run() runs. The pool is the process's and is registered by shard 0.
void register_pool_metrics(metric_group& group, runtime& of, unsigned shard);

} // namespace corewire
