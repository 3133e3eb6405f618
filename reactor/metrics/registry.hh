// One shard's metrics: what is counted, under which name, and where the count stands.
//
//     modules' plain counters <--reference-- registry --publish, a few times a second--> values of the shard's section
//                                                    --catalog()--> text exposition
//
// Registering costs the data path nothing: a module counts in its own struct as ever, and the registry knows the address.
// One shard's, on its own thread; only the section's values may be read by others. Bounds: page::series_capacity series
// with value_capacity values and string_capacity bytes of text; what does not fit is refused and counted (refused()).
#pragma once

#include <corewire/reactor/base/log2_histogram.hh>
#include <corewire/reactor/metrics/histogram.hh>
#include <corewire/reactor/metrics/metric.hh>
#include <corewire/reactor/metrics/metrics_page.hh>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace corewire {

/// Reads a metric that is no counter in memory. Called on the registry's shard.
using metric_reader = std::uint64_t (*)(const void* of) noexcept;

/// What a scrape needs to know of a series.
struct catalog_entry {
    std::string name, help, labels;
    metric_kind kind;
    metric_unit unit;
    std::uint32_t value;   ///< index of its first value
    std::uint16_t buckets; ///< of a histogram
};

class metric_registry {
public:
    using series_id = std::uint32_t;
    static constexpr series_id refused_id = UINT32_MAX;

    /// `labels`: what every series gets, e.g. `shard="0"`. The page outlives the registry.
    metric_registry(metrics_page& to, unsigned shard, std::string labels);
    metric_registry(const metric_registry&) = delete;
    metric_registry& operator=(const metric_registry&) = delete;

    /// The registry of the running shard; null where nobody wants metrics.
    static metric_registry* current_or_null() noexcept;

    // A wrong name, an empty help, or a series that is registered already is a programmer's error (std::invalid_argument).
    // What is referred to must stay until remove(): use metric_group.
    series_id add(std::string_view name, std::string_view help, metric_kind kind, const std::uint64_t& value, metric_unit unit,
                  std::string_view labels);
    series_id add(std::string_view name, std::string_view help, metric_kind kind, metric_reader read, const void* of,
                  metric_unit unit, std::string_view labels);
    /// `bounds` ascend, at most 64 of them, in the unit of the recorded values.
    series_id add(std::string_view name, std::string_view help, const histogram& values, std::span<const std::uint64_t> bounds,
                  metric_unit unit, std::string_view labels);
    /// Its bounds are its own: log2_histogram::bounds().
    series_id add(std::string_view name, std::string_view help, const log2_histogram& values, metric_unit unit,
                  std::string_view labels);
    void remove(series_id id) noexcept;

    /// Copies the values of `count` series from `first` on into the section. Returns where to go on; 0: that was all.
    series_id publish(series_id first, series_id count) noexcept;
    /// Says in the section that a round is over, and when the next is due.
    void end_round(std::uint64_t interval_ns) noexcept;

    /// The live ones of `count` series from `first` on are appended; returns where to go on, 0: that was all.
    series_id catalog(series_id first, series_id count, std::vector<catalog_entry>& out) const;
    /// Moves whenever a series comes or goes.
    std::uint64_t generation() const noexcept { return generation_; }

    std::size_t size() const noexcept { return live_; }
    std::uint64_t refused() const noexcept { return refused_; }
    std::uint64_t publications() const noexcept { return publications_; }
    std::byte* section() const noexcept { return section_; }
    page::section_header& head() noexcept { return *reinterpret_cast<page::section_header*>(section_); }
    /// A round's rows of the section's table: begin, add (more than page::row_capacity are only counted), and end_round().
    void begin_rows() noexcept { rows_ = 0; }
    bool rows_full() const noexcept { return rows_ >= page::row_capacity; }
    void add_row(const std::array<std::uint64_t, page::row_fields>& fields) noexcept;
    void count_row() noexcept { ++rows_; }
    /// Row `index` of the section's table (page_layout.hh): below page::row_capacity.
    page::row& row(std::size_t index) noexcept {
        return reinterpret_cast<page::row*>(section_ + page::rows_at)[index];
    }
    std::uint64_t value(series_id id, std::uint32_t offset = 0) const noexcept;

private:
    struct source {
        const void* at = nullptr;     ///< of a counter, or what `read` wants; null: unregistered
        metric_reader read = nullptr; ///< null: `at` is the counter
        const histogram* values = nullptr;
        const log2_histogram* powers = nullptr;
    };
    struct place {
        std::uint32_t at = 0;
        std::uint16_t size = 0;
    };
    series_id insert(std::string_view name, std::string_view help, metric_kind kind, metric_unit unit, std::string_view labels,
                     std::uint16_t buckets, const source& from);
    series_id refuse() noexcept;
    bool room(std::size_t strings, std::size_t values) noexcept;
    place intern(std::string_view text) noexcept;
    page::series* entries() const noexcept { return reinterpret_cast<page::series*>(section_ + page::series_at); }
    std::uint64_t* values() const noexcept { return reinterpret_cast<std::uint64_t*>(section_ + page::values_at); }
    std::string_view text(std::uint32_t at, std::uint16_t size) const noexcept;
    series_id insert_histogram(std::string_view name, std::string_view help, std::span<const std::uint64_t> bounds, metric_unit unit,
                               std::string_view labels, const source& from);
    void publish_histogram(const page::series& entry, const source& from) noexcept;

    metrics_page& page_;
    unsigned shard_;
    std::byte* section_;
    std::string labels_;
    std::vector<source> sources_; ///< by series_id
    std::unordered_map<std::string, series_id> known_; ///< name{labels}, removed ones too: their place is used again
    struct family {
        metric_kind kind;
        metric_unit unit;
        place name, help;
    };
    std::unordered_map<std::string, family> families_;
    std::size_t live_ = 0;
    std::uint32_t values_used_ = 0, values_reserved_ = 0;
    std::uint32_t strings_used_ = 0, strings_reserved_ = 0;
    std::uint32_t entries_reserved_ = 0;
    std::uint64_t generation_ = 0, publications_ = 0;
    std::uint64_t refused_ = 0;
    std::uint64_t rows_ = 0;
};

/// Registers for as long as it lives. A module's owner makes one beside it.
class metric_group {
public:
    /// `labels`: of every series of the group. A null registry: nothing is registered.
    explicit metric_group(metric_registry* registry, std::string labels = {}) : registry_(registry), labels_(std::move(labels)) {}
    ~metric_group() { clear(); }
    metric_group(metric_group&& other) noexcept
        : registry_(other.registry_), labels_(std::move(other.labels_)), ids_(std::move(other.ids_)) {
        other.ids_.clear();
    }
    metric_group& operator=(metric_group&&) = delete;

    void counter(std::string_view name, std::string_view help, const std::uint64_t& value, std::string_view labels = {},
                 metric_unit unit = metric_unit::count);
    void counter(std::string_view name, std::string_view help, metric_reader read, const void* of, std::string_view labels = {},
                 metric_unit unit = metric_unit::count);
    void gauge(std::string_view name, std::string_view help, const std::uint64_t& value, std::string_view labels = {},
               metric_unit unit = metric_unit::count);
    void gauge(std::string_view name, std::string_view help, metric_reader read, const void* of, std::string_view labels = {},
               metric_unit unit = metric_unit::count);
    void histogram(std::string_view name, std::string_view help, const corewire::histogram& values,
                   std::span<const std::uint64_t> bounds, std::string_view labels = {}, metric_unit unit = metric_unit::nanoseconds);
    void histogram(std::string_view name, std::string_view help, const log2_histogram& values, std::string_view labels = {},
                   metric_unit unit = metric_unit::nanoseconds);
    void clear() noexcept;
    std::size_t size() const noexcept { return ids_.size(); }

private:
    void keep(metric_registry::series_id id) {
        if (id != metric_registry::refused_id) ids_.push_back(id);
    }
    metric_registry* registry_;
    std::string labels_;
    std::vector<metric_registry::series_id> ids_;
};

/// 1 us to 10 s in steps of 1, 2, 5: bounds for durations in nanoseconds.
std::span<const std::uint64_t> duration_bounds() noexcept;

} // namespace corewire
