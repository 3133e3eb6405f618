// One shard's side of the log: counts every event, and lets through what its level and its rate allow, as a record in the ring.
//
//     log_message(event, ...) --> count it --> level? --> rate? --> record in the ring --> (the writer's thread)
//                                   |            |          |           | full
//                                   +-- occurred +-- no     +-- left_out+-- dropped        all of them metrics
//
// On its shard only; no formatting, no allocation, no system call but the one that wakes a writer that rests. Where no log is
// attached to the reactor (a bare reactor in a test, a program of one's own) the bare message goes to stderr at once.
// Bounds: max_events events of their own counts (more share one), the ring's capacity, each event's rate.
#pragma once

#include <corewire/reactor/log/log_event.hh>
#include <corewire/reactor/log/log_ring.hh>

#include <new>
#include <span>
#include <utility>

namespace corewire {

class log_writer;
class reactor;

struct shard_log_statistics {
    std::uint64_t written = 0;  ///< records given to the writer
    std::uint64_t dropped = 0;  ///< the ring was full
    std::uint64_t left_out = 0; ///< more often than the event's rate
};

class shard_log {
public:
    static constexpr std::size_t max_events = 256;

    struct event_state {
        const log_site* site = nullptr;
        std::uint64_t occurred = 0; ///< written or not
        std::uint64_t left_out = 0; ///< since the last record of it
        time_point window{};
        std::uint32_t in_window = 0;
        std::uint32_t level_generation = 0;
        log_level threshold = log_level::info;
    };

    /// The running shard's; null where there is none.
    static shard_log* current_or_null() noexcept;

    shard_log(log_writer& writer, log_ring& ring, reactor& loop) noexcept;
    ~shard_log();
    shard_log(const shard_log&) = delete;
    shard_log& operator=(const shard_log&) = delete;

    /// Where to put the arguments; null: nothing is to be written. Then commit().
    std::byte* begin(const log_site& site) noexcept;
    void commit() noexcept;

    const log_writer& writer() const noexcept { return writer_; }
    const shard_log_statistics& statistics() const noexcept { return statistics_; }
    /// In no order; those without a site have not occurred. They stay where they are.
    std::span<const event_state> events() const noexcept { return events_; }
    /// Of events beyond max_events.
    const event_state& others() const noexcept { return others_; }

private:
    event_state& state_of(const log_site& site) noexcept;

    log_writer& writer_;
    log_ring& ring_;
    reactor& loop_;
    std::array<event_state, max_events> events_{};
    event_state others_;
    shard_log_statistics statistics_;
};

namespace detail {
void print_without_a_log(const log_site& site, const std::byte* arguments) noexcept;
} // namespace detail

/// On a shard, or where none is running.
template <typename... Args, typename... Given>
void log_message(const log_event<Args...>& event, Given&&... given) noexcept {
    using arguments = typename log_event<Args...>::arguments;
    static_assert(sizeof(arguments) <= log_record::argument_bytes && alignof(arguments) <= 8, "too much for a log record");
    if (shard_log* here = shard_log::current_or_null()) {
        if (std::byte* at = here->begin(event)) {
            ::new (at) arguments(std::forward<Given>(given)...);
            here->commit();
        }
        return;
    }
    alignas(8) std::array<std::byte, log_record::argument_bytes> at;
    ::new (at.data()) arguments(std::forward<Given>(given)...);
    detail::print_without_a_log(event, at.data());
}

} // namespace corewire
