// What a metric is: names, kinds and units, by the conventions of Prometheus (prometheus.io/docs/practices/naming).
// Plain values; used when something is registered, never on the data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace corewire {

enum class metric_kind : std::uint8_t {
    counter,   ///< only grows; its name ends in _total
    gauge,     ///< goes up and down
    histogram, ///< how many values were at most each bound, their number and their sum
};

/// How the stored integer is shown. Prometheus wants base units: seconds, bytes, ratios.
enum class metric_unit : std::uint8_t {
    count,             ///< as it is: packets, bytes, calls
    nanoseconds,       ///< shown in seconds
    parts_per_million, ///< shown as a ratio, 0 to 1
};

// Bytes of a series' texts. Who registers is held to them, and so is what a page says.
inline constexpr std::size_t max_metric_name = 100;
inline constexpr std::size_t max_metric_help = 1000;
inline constexpr std::size_t max_metric_labels = 1000;

/// `name="value"`, the value with backslash, quote and newline escaped as the text format wants it.
std::string metric_label(std::string_view name, std::string_view value);

/// Both joined by a comma; either may be empty.
std::string join_labels(std::string_view a, std::string_view b);

/// [a-zA-Z_][a-zA-Z0-9_]*, at most max_metric_name characters. (Prometheus would also take colons; those are for recording rules.)
bool valid_metric_name(std::string_view name) noexcept;

std::string_view name_of(metric_kind kind) noexcept;

} // namespace corewire
