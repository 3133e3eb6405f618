#include <corewire/reactor/log/log_metrics.hh>

#include <corewire/reactor/log/log_writer.hh>

#include <exception>

namespace corewire {

namespace {

template <std::uint64_t log_writer_statistics::*Counter>
std::uint64_t of_writer(const void* of) noexcept {
    return static_cast<const log_writer*>(of)->statistics().*Counter;
}

} // namespace

log_metrics::log_metrics(metric_registry& registry, const shard_log& log, const log_writer* writer) : log_(log), group_(&registry) {
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
            group_.counter("corewire_log_events_total", "How often an event has occurred, written or not.", events[i].occurred,
                           join_labels(metric_label("module", site->module), metric_label("event", site->name)));
        } catch (const std::exception&) { // two events of one name: the first has the series
        }
        return true;
    }
    return false;
}

} // namespace corewire
