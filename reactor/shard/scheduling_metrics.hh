// The metrics of a shard's scheduling groups, by name. A collector: a group gets its series in the round after it was made.
// Bounds: fair_scheduler::max_groups.
#pragma once

#include <corewire/reactor/metrics/publisher.hh>

namespace corewire {

class scheduling_group;

class scheduling_metrics final : public metric_collector {
public:
    /// Both outlive it.
    scheduling_metrics(metric_registry& registry, reactor& loop) : reactor_(loop), group_(&registry) {}
    bool collect(metric_registry& registry, bool first) noexcept override;

private:
    void add(const scheduling_group& one);
    reactor& reactor_;
    metric_group group_;
    std::size_t known_ = 0;
};

} // namespace corewire
