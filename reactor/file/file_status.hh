// What the kernel knows about a file: statx(2) in words.
#pragma once

#include <cstdint>
#include <string_view>
#include <sys/types.h>

struct statx;

namespace corewire {

enum class file_type { regular, directory, symlink, pipe, socket, character_device, block_device, unknown };
std::string_view name_of(file_type type) noexcept;

struct file_status {
    file_type type = file_type::unknown;
    mode_t permissions = 0; ///< the lowest twelve bits
    std::uint64_t size = 0;      ///< bytes
    std::uint64_t allocated = 0; ///< bytes on disk
    std::uint64_t inode = 0;
    std::uint64_t device = 0;
    std::uint64_t links = 0;
    uid_t owner = 0;
    gid_t group = 0;
    std::int64_t modified_ns = 0; ///< since 1970
    std::int64_t accessed_ns = 0;
    std::int64_t changed_ns = 0;
    /// What O_DIRECT wants of memory and of offsets and lengths, in bytes; 0 where it is impossible or the kernel does not say.
    std::uint32_t direct_memory_alignment = 0;
    std::uint32_t direct_offset_alignment = 0;
};

/// file_status of the kernel's answer.
file_status status_of(const struct statx& answer) noexcept;
/// The bits to ask for.
unsigned status_mask() noexcept;

} // namespace corewire
