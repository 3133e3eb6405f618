// Whether a text may be given to hwloc's XML reader at all. It comes from a user: sizes first, meaning afterwards.
// hwloc reads XML by itself (searching, not by the grammar) or through libxml2. What is taken here is so narrow that both see the same
// tags and attributes as the check does: no '<' or '>' in a value, double quotes, headings as hwloc writes them, one in a line.
// A plain function; the bounds are the constants below, and each has a test.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace corewire::xml_limits {

inline constexpr std::size_t most_bytes = 16u << 20; ///< lstopo's of 2,000 PUs has 2 MiB
inline constexpr std::size_t most_objects = 65'536;
inline constexpr std::size_t most_depth = 64;
inline constexpr std::size_t most_value = 16'384;    ///< bytes of one attribute: a CPU set of 8,192 CPUs has 2,816
inline constexpr unsigned most_os_index = 65'535;    ///< hwloc keeps a bit for each number below
inline constexpr unsigned most_distances = 4096;     ///< rows of a matrix of distances; hwloc keeps the square

} // namespace corewire::xml_limits

namespace corewire {

/// Nothing: harmless. Otherwise why not, as the end of a sentence: "has more than 65536 objects".
std::optional<std::string> refuse_xml(std::string_view text);

} // namespace corewire
