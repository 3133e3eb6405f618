// A process's metrics page as its owner sees it: made before the shards, one section for each of them to write.
//
//     /dev/shm/corewire-PID   mode 0600, removed when the process ends in order; a crashed process's stays for cw-stat
//
// Its own user may ask the process for something by way of it (page_request.hh): bytes from outside, which are bounded and checked.
// When no file can be made (no /dev/shm, no room, the name taken) the page is memory of this process only: everything works
// but cw-stat, and why_private() says why. Room is reserved before it is touched, so that a full /dev/shm is a refused
// series and not a signal.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/metrics/page_layout.hh>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace corewire {

class metrics_page {
public:
    /// `folder`: where the file goes; empty: no file.
    metrics_page(std::string_view program, std::string_view network, unsigned shards, const std::string& folder = default_folder);
    ~metrics_page();
    metrics_page(const metrics_page&) = delete;
    metrics_page& operator=(const metrics_page&) = delete;

    static constexpr const char* default_folder = "/dev/shm";
    static constexpr std::string_view file_prefix = "corewire-";

    unsigned shards() const noexcept { return shards_; }
    /// The bytes of a shard's section, page::section_size long and zero at first.
    std::byte* section(unsigned shard) const noexcept;
    /// Makes sure that these bytes of the section can be written. False: there is no room.
    bool reserve(unsigned shard, std::size_t offset, std::size_t size) noexcept;
    /// The file; empty when there is none.
    const std::string& path() const noexcept { return path_; }
    const std::string& why_private() const noexcept { return why_private_; }

    // Requests: of one thread of the process.

    /// From now on they are looked for when SIGUSR1 comes; or no more.
    void take_requests(bool on) noexcept;
    /// The one that waits for an answer, if one does: at most page::request_capacity bytes, whatever they are.
    std::optional<std::string> next_request();
    /// To that one.
    void answer_request(bool granted, std::string_view text) noexcept;

private:
    bool open_file(const std::string& folder);
    page::request_box& requests() noexcept;
    unsigned shards_;
    std::size_t size_;
    std::byte* memory_ = nullptr;
    unique_fd file_;
    std::string path_;
    std::string why_private_;
    std::uint64_t request_ = 0; ///< number of the one that is being dealt with
};

/// Field 22 of /proc/PID/stat, in clock ticks since boot; 0 if there is no such process. 0 for `pid`: this one.
std::uint64_t process_start_time(std::uint32_t pid) noexcept;

/// Nanoseconds since boot, sleep included: comparable between processes.
std::uint64_t boot_time_ns() noexcept;

} // namespace corewire
