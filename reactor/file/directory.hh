// directory: what stands in one, entry by entry.
//
//     cw::directory here = co_await cw::directory::open(".");
//     while (auto entry = co_await here.next()) use(entry->name, entry->type);
//
// io_uring has no getdents64(2): a helper thread reads `buffer_size` bytes of entries at a time, and next() gives them out. One
// shard's. Entries come in the file system's order; "." and ".." do not.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/file_status.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace corewire {

struct directory_entry {
    std::string name;
    file_type type; ///< `unknown` on file systems that do not keep it here
    std::uint64_t inode;
};

class directory {
public:
    static constexpr std::size_t buffer_size = 32 * 1024;

    static task<directory> open(std::string path, wait_limits limits = {});
    /// Nothing: that was all.
    task<std::optional<directory_entry>> next(wait_limits limits = {});

private:
    directory(unique_fd fd, std::string name);
    bool take(std::optional<directory_entry>& entry);

    unique_fd fd_;
    std::string name_;
    std::vector<std::byte> buffer_;
    std::size_t at_ = 0;
    std::size_t end_ = 0;
    bool finished_ = false;
};

/// All of it at once: for small directories.
task<std::vector<directory_entry>> list_directory(std::string path, wait_limits limits = {});

} // namespace corewire
