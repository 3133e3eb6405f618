// How cw-stat shows what it has read: pure functions from reports to text and JSON.
#pragma once

#include <corewire/reactor/metrics/page_reader.hh>

#include <functional>
#include <string>
#include <string_view>

namespace corewire::stat {

/// The values of all series of that name on one shard together; 0 if there is none.
std::uint64_t sum(const section_report& section, std::string_view name);

/// One line a process, and what stands above them.
std::string list_heading();
std::string list_line(const page_report& report);

/// A process: a line a shard; drops by reason and connections by state, together and by shard; and the table of connections. `before`:
/// an earlier report of the same process, for rates; null: totals only. At most `max_connections` connections.
std::string process_text(const page_report& now, const page_report* before, std::size_t max_connections = 40);

/// Everything that a page says, as a JSON object; durations in seconds, shares as ratios. In pieces of a shard at most: of many
/// shards it would take a multiple of the report.
void process_json(const page_report& report, const std::function<void(std::string_view piece)>& to);

} // namespace corewire::stat
