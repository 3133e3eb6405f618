#include <corewire/reactor/shard/pool_metrics.hh>

#include <corewire/reactor/shard/runtime.hh>

namespace corewire {

namespace {

template <auto Counter>
std::uint64_t of_inbox(const void* of) noexcept {
    return static_cast<const external_inbox*>(of)->statistics().*Counter;
}

template <auto Counter>
std::uint64_t of_pool(const void* of) noexcept {
    return static_cast<const blocking_pool*>(of)->statistics().*Counter;
}

} // namespace

void register_pool_metrics(metric_group& group, runtime& of, unsigned shard) {
    using inbox = external_inbox_statistics;
    const external_inbox& calls = of.inbox(shard);
    group.counter("corewire_thread_calls_total", "Calls of other threads taken in.", of_inbox<&inbox::accepted>, &calls);
    group.counter("corewire_thread_calls_waited_total", "Calls of other threads that found no room at first.", of_inbox<&inbox::waited>,
                  &calls);
    group.counter("corewire_thread_calls_refused_total", "Calls of other threads before the start, after the end, or without room in time.",
                  of_inbox<&inbox::refused>, &calls);
    if (shard != 0) return;
    group.counter("corewire_stalls_total", "Turns of a loop that lasted longer than --stall-ms, of all shards.",
                  [](const void* all) noexcept { return static_cast<const runtime*>(all)->stalls(); }, &of);
    using pool = blocking_statistics;
    const blocking_pool& helpers = of.blocking();
    group.counter("corewire_blocking_calls_total", "Calls that helpers of run_blocking() have begun.", of_pool<&pool::begun>, &helpers);
    group.counter("corewire_blocking_refused_total", "Calls refused because the helpers' queue was full.", of_pool<&pool::refused>,
                  &helpers);
    group.counter("corewire_blocking_withdrawn_total", "Calls given up before a helper began them.", of_pool<&pool::withdrawn>, &helpers);
    group.gauge("corewire_blocking_threads", "Helpers of run_blocking().", of_pool<&pool::threads>, &helpers);
}

} // namespace corewire
