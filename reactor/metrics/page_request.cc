#include <corewire/reactor/metrics/page_request.hh>

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/metrics/metrics_page.hh>
#include <corewire/reactor/metrics/page_reader.hh>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace corewire {

namespace {

using clock = std::chrono::steady_clock;
constexpr auto between_looks = std::chrono::milliseconds{5};
constexpr off_t box_at = offsetof(page::header, request);

page_answer not_asked(std::string why) { return {false, std::move(why)}; }
page_answer not_asked(const char* what, int error) {
    return not_asked(fmt::format("{}: {}", what, std::generic_category().message(error)));
}

template <typename T>
bool read_at(int file, off_t at, T& value) noexcept {
    return ::pread(file, &value, sizeof value, at) == static_cast<ssize_t>(sizeof value);
}
template <typename T>
bool write_at(int file, off_t at, const T& value) noexcept {
    return ::pwrite(file, &value, sizeof value, at) == static_cast<ssize_t>(sizeof value);
}

bool lock(int file, clock::time_point until) noexcept {
    while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (clock::now() >= until) return false;
        std::this_thread::sleep_for(between_looks);
    }
    return true;
}

/// The process that made the page, held fast: its pid is nobody else's from here on.
unique_fd maker_of(const page::header& head) noexcept {
    unique_fd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(head.pid), 0)));
    const std::uint64_t started = process ? process_start_time(head.pid) : 0;
    struct stat about{};
    const std::string folder = fmt::format("/proc/{}", head.pid);
    const bool same = started != 0 && started == head.start_time && ::stat(folder.c_str(), &about) == 0 && about.st_uid == ::geteuid();
    return same ? std::move(process) : unique_fd{};
}

} // namespace

page_answer ask_for_log_levels(const std::string& path, std::string_view levels, duration patience) {
    const auto until = clock::now() + patience;
    if (levels.size() >= page::request_capacity)
        return not_asked(fmt::format("levels of {} bytes: {} are read", levels.size(), page::request_capacity - 1));
    const unique_fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) return not_asked("its page", errno);
    struct stat about{};
    if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != ::geteuid())
        return not_asked("its page is not a file of this user's");
    if (!lock(file.get(), until)) return not_asked("somebody else is asking it");
    page::header head;
    if (!read_at(file.get(), 0, head) || head.magic != page::magic || head.version != page::version)
        return not_asked("its page is none of this version");
    const unique_fd process = maker_of(head);
    if (!process) return not_asked("it has ended");
    if (head.request.taken == 0) return not_asked("it takes no requests (now)");

    const std::uint64_t number = head.request.asked + 1; // that of nobody who has given up
    std::array<char, page::request_capacity> text{};
    std::copy(levels.begin(), levels.end(), text.begin());
    if (!write_at(file.get(), box_at + offsetof(page::request_box, levels), text) ||
        !write_at(file.get(), box_at + offsetof(page::request_box, asked), number) ||
        ::syscall(SYS_pidfd_send_signal, process.get(), SIGUSR1, nullptr, 0) != 0)
        return not_asked("asking it", errno);
    for (page::request_box box;; std::this_thread::sleep_for(between_looks)) {
        if (!read_at(file.get(), box_at + offsetof(page::request_box, answered), box.answered)) return not_asked("its page", errno);
        if (box.answered == number) {
            if (!read_at(file.get(), box_at, box)) return not_asked("its page", errno);
            return {box.refused == 0, printable({box.answer.data(), ::strnlen(box.answer.data(), box.answer.size())})};
        }
        if (clock::now() >= until) return not_asked("it does not answer: it is stopped or hangs, and will read them when it goes on");
    }
}

} // namespace corewire
