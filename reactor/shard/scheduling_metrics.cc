#include <corewire/reactor/shard/scheduling_metrics.hh>

#include <corewire/reactor/loop/fair_scheduler.hh>
#include <corewire/reactor/loop/scheduling_group.hh>

#include <exception>

namespace corewire {

namespace {

template <duration scheduling_statistics::*Time>
std::uint64_t nanoseconds_of(const void* of) noexcept {
    return static_cast<std::uint64_t>((static_cast<const run_queue*>(of)->statistics.*Time).count());
}

} // namespace

void scheduling_metrics::add(const scheduling_group& one) {
    const run_queue& queue = one.queue();
    const std::string label = metric_label("group", one.name());
    group_.counter("corewire_scheduling_runtime_seconds_total", "Time on the core, counted once a shard has two groups.",
                   nanoseconds_of<&scheduling_statistics::runtime>, &queue, label, metric_unit::nanoseconds);
    group_.counter("corewire_scheduling_wait_seconds_total", "Time with something ready while other groups had the core.",
                   nanoseconds_of<&scheduling_statistics::waited>, &queue, label, metric_unit::nanoseconds);
    group_.gauge("corewire_scheduling_longest_wait_seconds", "The longest such wait.",
                 nanoseconds_of<&scheduling_statistics::longest_wait>, &queue, label, metric_unit::nanoseconds);
    group_.counter("corewire_scheduling_resumptions_total", "Times a coroutine of the group was resumed.", queue.statistics.resumed, label);
    group_.counter("corewire_scheduling_picked_total", "Times the core was given to the group.", queue.statistics.picked, label);
    group_.gauge("corewire_scheduling_shares", "The group's shares of the core.",
                 [](const void* of) noexcept -> std::uint64_t { return static_cast<const run_queue*>(of)->shares; }, &queue, label);
}

bool scheduling_metrics::collect(metric_registry&, bool) noexcept {
    try {
        const std::vector<scheduling_group> all = reactor_.scheduling_groups();
        if (known_ == all.size()) return false;
        add(all[known_++]);
        return known_ != all.size();
    } catch (const std::exception&) { // no memory: at another time
        return false;
    }
}

} // namespace corewire
