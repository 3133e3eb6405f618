#include <corewire/reactor/file/directory.hh>

#include <corewire/reactor/file/io_wait.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string_view>

namespace corewire {

namespace {

/// getdents64(2), struct linux_dirent64: inode, offset, the record's length, type, name.
constexpr std::size_t length_at = 16;
constexpr std::size_t type_at = 18;
constexpr std::size_t name_at = 19;

file_type type_of(unsigned char type) noexcept {
    switch (type) {
    case DT_REG: return file_type::regular;
    case DT_DIR: return file_type::directory;
    case DT_LNK: return file_type::symlink;
    case DT_FIFO: return file_type::pipe;
    case DT_SOCK: return file_type::socket;
    case DT_CHR: return file_type::character_device;
    case DT_BLK: return file_type::block_device;
    default: return file_type::unknown;
    }
}

} // namespace

directory::directory(unique_fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)), buffer_(buffer_size) {}

task<directory> directory::open(std::string path, wait_limits limits) {
    io_arguments a;
    a.opcode = io_opcode::open;
    a.fd = AT_FDCWD;
    a.address = path.data();
    a.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    const int fd = co_await io_awaiter<int>(a, limits, &path);
    co_return directory(unique_fd{fd}, std::move(path));
}

/// The next entry of the buffer. A record that does not fit into what the kernel gave ends it: nothing is read outside.
bool directory::take(std::optional<directory_entry>& entry) {
    while (at_ + name_at < end_) {
        const std::byte* record = buffer_.data() + at_;
        const std::size_t length = load_native<std::uint16_t>(record + length_at);
        if (length <= name_at || length > end_ - at_) break;
        at_ += length;
        const auto name = reinterpret_cast<const char*>(record + name_at);
        const std::string_view text(name, ::strnlen(name, length - name_at));
        if (text == "." || text == "..") continue;
        entry = directory_entry{std::string{text}, type_of(std::to_integer<unsigned char>(record[type_at])),
                                load_native<std::uint64_t>(record)};
        return true;
    }
    at_ = end_;
    return false;
}

task<std::optional<directory_entry>> directory::next(wait_limits limits) {
    std::optional<directory_entry> entry;
    while (!take(entry) && !finished_) {
        io_arguments a;
        a.opcode = io_opcode::list;
        a.fd = fd_.get();
        a.address = buffer_.data();
        a.length = buffer_.size();
        end_ = co_await io_awaiter<std::size_t>(a, limits, &name_);
        at_ = 0;
        finished_ = end_ == 0;
    }
    co_return entry;
}

task<std::vector<directory_entry>> list_directory(std::string path, wait_limits limits) {
    std::vector<directory_entry> all;
    directory from = co_await directory::open(std::move(path), limits);
    for (;;) {
        std::optional<directory_entry> entry = co_await from.next(limits);
        if (!entry) break;
        all.push_back(std::move(*entry));
    }
    co_return all;
}

} // namespace corewire
