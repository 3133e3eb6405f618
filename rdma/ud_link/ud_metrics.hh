// The metrics of a verbs-ud port beyond those of every port: doorbells, groups, address handles, failures.
#pragma once

#include <corewire/reactor/metrics/registry.hh>

namespace corewire {

class ud_port;

/// On the port's shard. Registers by reference: the port outlives the group.
void register_ud_metrics(metric_group& group, const ud_port& device);

} // namespace corewire
