// Lists of CPU numbers as the kernel, taskset(1) and people write them: "0-3,6". Plain functions; no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace corewire {

/// No number above this is read or kept: eight times what Linux can be built for (NR_CPUS 8192).
inline constexpr unsigned most_cpu_number = 65'535;

/// "0-3,6": numbers as people and taskset(1) write them. `numbers` need not be sorted.
std::string format_ranges(std::vector<unsigned> numbers);

/// The reverse; sorted, each once. Blanks around the whole are skipped, and an empty text is an empty list. Nothing if the text is
/// not such a list, has a range that runs backwards or a number above `most_cpu_number`.
std::optional<std::vector<unsigned>> parse_ranges(std::string_view text);

/// A decimal number without sign, blanks or anything behind it, of `most` at most.
std::optional<unsigned> parse_unsigned(std::string_view text, unsigned most = most_cpu_number) noexcept;

/// Without the blanks, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text) noexcept;

} // namespace corewire
