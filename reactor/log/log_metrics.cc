#include <corewire/reactor/log/log_metrics.hh>

#include <corewire/reactor/log/log_writer.hh>

#include <exception>
#include <string>

namespace corewire {

namespace {

template <std::uint64_t log_writer_statistics::*Counter>
std::uint64_t of_writer(const void* of) noexcept {
    return static_cast<const log_writer*>(of)->statistics().*Counter;
}

std::uint64_t occurred_in_threads(const void* of) noexcept {
    return static_cast<const log_writer::thread_event*>(of)->occurred.load(std::memory_order_relaxed);
}

constexpr std::string_view events_total = "corewire_log_events_total";
constexpr std::string_view events_help = "How often an event has occurred, written or not.";

std::string labels_of(const log_site& site) { return join_labels(metric_label("module", site.module), metric_label("event", site.name)); }

} // namespace

log_metrics::log_metrics(metric_registry& registry, const shard_log& log, const log_writer* writer)
    : log_(log), writer_(writer), group_(&registry) {
    const shard_log_statistics& s = log.statistics();
    group_.counter("corewire_log_records_total", "Messages given to the log's writer.", s.written);
    group_.counter("corewire_log_dropped_total", "Messages dropped because the shard's ring was full.", s.dropped);
    group_.counter("corewire_log_left_out_total", "Messages left out because they came more often than their rate.", s.left_out);
    group_.counter("corewire_log_other_events_total", "Events beyond those that have a count of their own.", log.others().occurred);
    if (writer == nullptr) return;
    group_.counter("corewire_log_lines_total", "Lines written by the process.", of_writer<&log_writer_statistics::lines>, writer);
    group_.counter("corewire_log_lost_total", "Lines that the log file or stderr did not take.",
                   of_writer<&log_writer_statistics::lost>, writer);
    group_.counter("corewire_log_thread_lines_dropped_total", "Lines of other threads dropped because too many waited.",
                   of_writer<&log_writer_statistics::dropped>, writer);
}

/// One new event a slice.
bool log_metrics::collect(metric_registry&, bool) noexcept {
    const auto events = log_.events();
    for (std::size_t i = 0; i < events.size(); ++i) {
        const log_site* const site = events[i].site;
        if (site == nullptr || known_[i]) continue;
        known_[i] = true;
        try {
            group_.counter(events_total, events_help, events[i].occurred, labels_of(*site));
        } catch (const std::exception&) { // two events of one name: the first has the series
        }
        return true;
    }
    return writer_ != nullptr && collect_threads();
}

bool log_metrics::collect_threads() noexcept {
    for (const log_writer::thread_event& each : writer_->thread_events()) {
        const log_site* const site = each.site.load(std::memory_order_acquire);
        const auto place = static_cast<std::size_t>(&each - writer_->thread_events().data());
        if (site == nullptr || known_in_threads_[place]) continue;
        known_in_threads_[place] = true;
        try {
            group_.counter(events_total, events_help, occurred_in_threads, &each, labels_of(*site));
        } catch (const std::exception&) { // a shard's event has this name
        }
        return true;
    }
    return false;
}

} // namespace corewire
