// The metrics of a shard's log: how often each event has occurred, written or not, and what became of the messages.
//
// A collector of the shard's publisher: an event gets its series in the round after it has occurred first, so that nothing is
// registered (and allocated) where it occurs. Bounds: shard_log::max_events.
#pragma once

#include <corewire/reactor/log/log_writer.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/metrics/publisher.hh>

#include <bitset>

namespace corewire {

class log_metrics final : public metric_collector {
public:
    /// All of them outlive it. The writer's own counts, and those of other threads' events, come with shard 0.
    log_metrics(metric_registry& registry, const shard_log& log, const log_writer* writer);
    bool collect(metric_registry& registry, bool first) noexcept override;

private:
    bool collect_threads() noexcept;

    const shard_log& log_;
    const log_writer* writer_;
    metric_group group_;
    std::bitset<shard_log::max_events> known_;
    std::bitset<log_writer::max_thread_events> known_in_threads_;
};

} // namespace corewire
