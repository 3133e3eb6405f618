// Where the lines of the log go: stderr, or a file. The writer's thread only (made before it).
//
//     2026-03-01T09:15:02.123456Z warning s1 tcp: every checksum from 192.0.2.9 is wrong (3 more left out)
//     time (UTC)                  level   shard module: message           "-" is no shard: another thread of the process
//
// A line is one write(2), at most 4 KiB, so that lines of several processes do not mix. Where the other side does not read, it
// waits (the shards do not: their rings fill up and they count what they drop), but not longer than a second once the end has been asked
// for. A file that has been renamed or removed is made anew within a second of the next line, as logrotate wants it.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/log/log_level.hh>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace corewire {

class log_output {
public:
    using wall_time = std::chrono::system_clock::time_point;
    /// One whole line, with its end. False: it is lost.
    using line_writer = std::function<bool(std::string_view line)>;

    /// Empty: stderr. Throws std::system_error when the file cannot be opened.
    explicit log_output(std::string file);
    explicit log_output(line_writer to);
    ~log_output();
    log_output(const log_output&) = delete;
    log_output& operator=(const log_output&) = delete;

    /// The message has been made safe (escape.hh). False: the line is lost.
    bool write(wall_time at, log_level level, std::string_view module, std::optional<unsigned> shard, std::string_view message);
    /// Before some lines, at most once a second: is the file still there?
    void follow_the_name() noexcept;
    /// From any thread: from now on the patience with a reader that does not read is a second altogether.
    void hurry() noexcept { hurry_.store(true, std::memory_order_relaxed); }

private:
    struct layout;
    bool write_all(std::string_view line) noexcept;
    bool wait_until_writable() noexcept;

    std::string file_;
    unique_fd own_;
    int fd_ = -1;
    line_writer to_;
    std::unique_ptr<layout> layout_;
    std::atomic<bool> hurry_{false};
    unsigned patience_ = 10; ///< waits of 100 ms once in a hurry
    std::chrono::steady_clock::time_point next_look_{};
};

} // namespace corewire
