// Anonymous memory that may lie in huge pages: it begins where one can.
#pragma once

#include <cstddef>

namespace corewire {

constexpr std::size_t huge_page_size = 2u << 20;

/// `size` bytes, a multiple of a small page, at a multiple of a huge one: more is mapped, and what stands over on both sides unmapped.
/// Zeroed; munmap(2) of `size` gives it back. Null: there is none (errno). Whether it is of huge pages is madvise(2)'s to say.
std::byte* map_at_huge_page(std::size_t size) noexcept;

} // namespace corewire
