// The metrics of a verbs port beyond those of every port: doorbells, ways to send, failures.
#pragma once

#include <corewire/reactor/metrics/registry.hh>

namespace corewire {

class verbs_port;

/// On the port's shard. Registers by reference: the port outlives the group.
void register_verbs_metrics(metric_group& group, const verbs_port& device);

} // namespace corewire
