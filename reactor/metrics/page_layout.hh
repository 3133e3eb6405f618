// The bytes of a process's metrics page: a file that its shards write and that cw-stat reads, alive or dead.
//
//     | page_header | section of shard 0 | section of shard 1 | ...
//
//     section:  | section_header | row_capacity rows | series | values | strings |
//
// A section is written by its shard alone. Readers copy the file and believe nothing in the copy (page_reader.hh). A value
// is eight aligned bytes, stored at once. A row is written back to front (`end`, fields, `begin`) and copied front to back, so
// that a row whose two marks are equal is whole. Offsets of strings are from the section's `strings`.
// Bounds: the capacities below. The file is sparse; what is not used takes no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::page {

inline constexpr std::uint64_t magic = 0x31'65'67'61'70'2d'77'63; // "cw-page1", little-endian
inline constexpr std::uint32_t version = 3; ///< moves with anything below, and with what a row holds
inline constexpr std::uint32_t max_shards = 1024;
inline constexpr std::uint32_t series_capacity = 16'384;
inline constexpr std::uint32_t value_capacity = 32'768; ///< a histogram takes several
inline constexpr std::uint32_t string_capacity = 2u << 20;
inline constexpr std::uint32_t row_capacity = 256;
inline constexpr std::size_t row_fields = 23;
inline constexpr std::size_t request_capacity = 1536; ///< log_levels::max_modules of them fit

/// What the process's own user may ask of it while it runs: other log levels (page_request.hh). All else in a page is written by the
/// process alone.
struct request_box {
    std::uint64_t taken = 0;    ///< by the process: not zero while requests are
    std::uint64_t asked = 0;    ///< by who asks, after the text: number of the request
    std::uint64_t answered = 0; ///< by the process, after the answer: that number
    std::uint64_t refused = 0;  ///< by the process: the answer says why
    std::array<char, request_capacity> levels{}; ///< by who asks; ends with a zero, or with the array
    std::array<char, request_capacity> answer{}; ///< by the process, likewise
};

struct header {
    std::uint64_t magic = 0;
    std::uint32_t version = 0;
    std::uint32_t header_size = 0;
    std::uint32_t pid = 0;
    std::uint32_t shards = 0;
    std::uint64_t start_time = 0;   ///< of the process, field 22 of /proc/PID/stat: tells a reused pid from ours
    std::uint64_t created = 0;      ///< CLOCK_BOOTTIME, nanoseconds
    std::uint64_t section_size = 0; ///< bytes from one section to the next
    std::array<char, 64> program{}; ///< ends with a zero
    std::array<char, 64> network{};
    request_box request{};
};

/// One line of the table that a section carries: of a connection, as net/stack/connection_row.hh fills it in.
struct row {
    std::uint64_t begin = 0;
    std::array<std::uint64_t, row_fields> fields{};
    std::uint64_t end = 0;
};

struct series {
    std::uint32_t name = 0, help = 0, labels = 0; ///< offsets
    std::uint16_t name_size = 0, help_size = 0, labels_size = 0;
    std::uint8_t kind = 0; ///< metric_kind
    std::uint8_t unit = 0; ///< metric_unit
    std::uint32_t value = 0;    ///< index of its first value
    std::uint16_t buckets = 0;  ///< of a histogram: that many bounds, counts up to each bound, then number and sum
    std::uint16_t live = 0;     ///< 0: unregistered
};

struct section_header {
    std::uint64_t generation = 0;   ///< moves when a series comes or goes
    std::uint64_t published = 0;    ///< CLOCK_BOOTTIME in nanoseconds of the last round
    std::uint64_t publications = 0; ///< rounds
    std::uint64_t interval = 0;     ///< nanoseconds until the next, if nothing hangs
    std::uint32_t series_count = 0;
    std::uint32_t row_count = 0;    ///< filled in
    std::uint64_t row_total = 0;    ///< there were that many
};

inline constexpr std::size_t alignment = 4096;
constexpr std::size_t padded(std::size_t size) noexcept { return (size + alignment - 1) / alignment * alignment; }

inline constexpr std::size_t header_size = padded(sizeof(header));
inline constexpr std::size_t rows_at = 256;
static_assert(sizeof(section_header) <= rows_at);
inline constexpr std::size_t series_at = padded(rows_at + row_capacity * sizeof(row));
inline constexpr std::size_t values_at = padded(series_at + series_capacity * sizeof(series));
inline constexpr std::size_t strings_at = padded(values_at + value_capacity * sizeof(std::uint64_t));
inline constexpr std::size_t section_size = padded(strings_at + string_capacity);

constexpr std::size_t size_for(std::size_t shards) noexcept { return header_size + shards * section_size; }

} // namespace corewire::page
