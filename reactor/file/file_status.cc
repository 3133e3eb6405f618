#include <corewire/reactor/file/file_status.hh>

#include <cstring>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace corewire {

namespace {

constexpr unsigned direct_io_bit = 0x2000;       ///< STATX_DIOALIGN, Linux 6.1; glibc 2.36 does not know it
constexpr std::size_t direct_io_at = 0x98;       ///< stx_dio_mem_align, then stx_dio_offset_align, in the kernel's struct statx

file_type type_of(unsigned mode) noexcept {
    switch (mode & S_IFMT) {
    case S_IFREG: return file_type::regular;
    case S_IFDIR: return file_type::directory;
    case S_IFLNK: return file_type::symlink;
    case S_IFIFO: return file_type::pipe;
    case S_IFSOCK: return file_type::socket;
    case S_IFCHR: return file_type::character_device;
    case S_IFBLK: return file_type::block_device;
    default: return file_type::unknown;
    }
}

std::int64_t nanoseconds(const statx_timestamp& t) noexcept { return t.tv_sec * 1'000'000'000 + t.tv_nsec; }

std::uint32_t at(const struct statx& answer, std::size_t offset) noexcept {
    std::uint32_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(&answer) + offset, sizeof value);
    return value;
}

} // namespace

std::string_view name_of(file_type type) noexcept {
    switch (type) {
    case file_type::regular: return "regular file";
    case file_type::directory: return "directory";
    case file_type::symlink: return "symbolic link";
    case file_type::pipe: return "pipe";
    case file_type::socket: return "socket";
    case file_type::character_device: return "character device";
    case file_type::block_device: return "block device";
    case file_type::unknown: break;
    }
    return "unknown";
}

unsigned status_mask() noexcept { return STATX_BASIC_STATS | direct_io_bit; }

file_status status_of(const struct statx& a) noexcept {
    static_assert(sizeof(struct statx) >= direct_io_at + 8);
    file_status s;
    s.type = type_of(a.stx_mode);
    s.permissions = a.stx_mode & 07777;
    s.size = a.stx_size;
    s.allocated = a.stx_blocks * 512;
    s.inode = a.stx_ino;
    s.device = makedev(a.stx_dev_major, a.stx_dev_minor);
    s.links = a.stx_nlink;
    s.owner = a.stx_uid;
    s.group = a.stx_gid;
    s.modified_ns = nanoseconds(a.stx_mtime);
    s.accessed_ns = nanoseconds(a.stx_atime);
    s.changed_ns = nanoseconds(a.stx_ctime);
    if ((a.stx_mask & direct_io_bit) != 0) {
        s.direct_memory_alignment = at(a, direct_io_at);
        s.direct_offset_alignment = at(a, direct_io_at + 4);
    }
    return s;
}

} // namespace corewire
