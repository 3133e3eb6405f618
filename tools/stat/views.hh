// How cw-stat shows what it has read: pure functions from reports to text and JSON.
#pragma once

#include <corewire/reactor/metrics/page_reader.hh>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace corewire::stat {

/// The values of all series of that name on one shard together; 0 if there is none.
std::uint64_t sum(const section_report& section, std::string_view name);

/// One line a process, under a heading.
std::string list_text(const std::vector<page_report>& all);

/// A process: a line a shard; drops by reason and connections by state, together and by shard; and the table of connections. `before`:
/// an earlier report of the same process, for rates; null: totals only. At most `max_connections` connections.
std::string process_text(const page_report& now, const page_report* before, std::size_t max_connections = 40);

/// Everything that a page says; durations in seconds, shares as ratios.
nlohmann::json process_json(const page_report& report);

} // namespace corewire::stat
