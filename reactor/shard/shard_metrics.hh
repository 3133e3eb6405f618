// The metrics of one shard: its loop, tasks, memory, io_uring and mailbox. Registered by whoever composes a process.
#pragma once

#include <corewire/reactor/metrics/publisher.hh>

namespace corewire {

class mailbox;
class reactor;

/// Registers by reference: reactor and mailbox outlive the group.
void register_reactor_metrics(metric_group& group, const reactor& loop);
void register_mailbox_metrics(metric_group& group, const mailbox& mail);

/// The share of the time since the round before in which the loop was not idle, in parts per million.
class load_meter final : public metric_collector {
public:
    explicit load_meter(reactor& loop) noexcept;
    void register_metrics(metric_group& group);
    bool collect(metric_registry& registry, bool first) noexcept override;
    std::uint64_t load() const noexcept { return load_; }

private:
    reactor& reactor_;
    time_point since_;
    duration idle_before_;
    std::uint64_t load_ = 0;
};

} // namespace corewire
