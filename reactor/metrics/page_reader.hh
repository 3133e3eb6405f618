// Reads the metrics pages of processes, alive, hung or dead, and believes nothing that stands in them.
//
//     /dev/shm/corewire-* --copy (a bounded number of bytes, of a regular file)--> check every number and text --> page_report
//
// The file is copied, a section at a time, before it is looked at: nothing changes under the reader, and a file cut short is no
// signal. Offsets and counts beyond their bounds are errors, texts keep printable ASCII only (they end up on terminals), and a
// page says only of itself that it is of some process: whose file it is decides. Bounds: max_page bytes of a file, max_report of
// what is kept of it (many series may share a few bytes of the file); pages in one listing.
#pragma once

#include <corewire/reactor/metrics/metric.hh>
#include <corewire/reactor/metrics/metrics_page.hh>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace corewire {

struct series_report {
    std::string name, labels;
    metric_kind kind = metric_kind::counter;
    metric_unit unit = metric_unit::count;
    /// One; of a histogram bounds, counts, number and sum.
    std::vector<std::uint64_t> values;
};

struct section_report {
    std::uint64_t published = 0;    ///< CLOCK_BOOTTIME, nanoseconds; 0: never
    std::uint64_t publications = 0;
    std::uint64_t interval = 0;     ///< nanoseconds, at most an hour
    std::uint64_t row_total = 0;
    std::vector<series_report> series;
    std::vector<std::array<std::uint64_t, page::row_fields>> rows; ///< whole ones
};

enum class process_state {
    running,
    hung, ///< alive, and a shard has not published for three of its intervals and two seconds
    dead, ///< gone, or its pid is another process's now
};
std::string_view name_of(process_state state) noexcept;

/// What may be shown on a terminal: '?' for what is no printable ASCII.
std::string printable(std::string_view raw);

struct page_report {
    std::uint32_t pid = 0;
    std::uint64_t start_time = 0;
    std::uint64_t created = 0;
    std::string program, network;
    process_state state = process_state::dead;
    std::vector<section_report> sections; ///< by shard
};

/// Why a file is no page.
enum class page_error {
    none,
    cannot_open,
    not_ours_to_read,  ///< no regular file, or of another user than the process
    too_large,
    too_short,
    not_a_page,        ///< magic, version, sizes
    damaged,           ///< an offset or a count beyond its bound
    too_much,          ///< more than max_report, or than there is memory for
};
std::string_view name_of(page_error error) noexcept;

inline constexpr std::size_t max_page = page::size_for(page::max_shards);
/// Bytes of the series of one report. A shard of ours has 200 series that take 35 KiB; 1,024 shards of three times as many fit.
inline constexpr std::size_t max_report = 128u << 20;

/// Checks the bytes of a page. `state` is not filled in.
page_error parse_page(std::span<const std::byte> bytes, page_report& out);

/// Reads and checks a file, and finds out how its process is.
page_error read_page(const std::string& path, page_report& out);

struct page_file {
    std::string path;
    std::uint32_t pid; ///< by its name
};
/// The files in `folder` that are named like pages, by pid; at most 4,096 of a user.
std::vector<page_file> find_pages(const std::string& folder = metrics_page::default_folder);

/// Removes the pages of this user's processes that are gone and published last at least `age` nanoseconds ago (files that are
/// no pages: whose process is gone). Returns how many.
std::size_t collect_dead_pages(std::uint64_t age, const std::string& folder = metrics_page::default_folder);

} // namespace corewire
