#include <corewire/reactor/file/process/descriptor_timer.hh>

#include <corewire/reactor/file/process/stream_requests.hh>

#include <algorithm>
#include <cerrno>
#include <sys/timerfd.h>
#include <system_error>

namespace corewire {

namespace {

timespec of(duration d) noexcept { return {.tv_sec = d.count() / 1'000'000'000, .tv_nsec = d.count() % 1'000'000'000}; }

void set(int fd, int flags, duration first, duration interval) {
    const itimerspec when{of(interval), of(first)};
    if (::timerfd_settime(fd, flags, &when, nullptr) != 0) throw std::system_error(errno, std::generic_category(), "timerfd_settime");
}

} // namespace

descriptor_timer::descriptor_timer(clock which)
    : clock_(which), fd_(::timerfd_create(which == clock::wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    if (!fd_) throw std::system_error(errno, std::generic_category(), "timerfd_create");
}

void descriptor_timer::arm(duration first, duration interval) {
    set(fd_.get(), 0, std::max(first, duration{1}), interval); // 0 would disarm it
}

void descriptor_timer::arm_at(std::chrono::system_clock::time_point at, duration interval) {
    CW_ASSERT(clock_ == clock::wall, "a time of the wall clock needs a wall-clock timer");
    const auto since_1970 = std::chrono::duration_cast<duration>(at.time_since_epoch());
    set(fd_.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, std::max(since_1970, duration{1}), interval);
}

void descriptor_timer::disarm() { set(fd_.get(), 0, {}, {}); }

task<std::uint64_t> descriptor_timer::expirations(wait_limits limits) {
    std::uint64_t count = 0;
    co_await io_awaiter<void>(stream_bytes(io_opcode::read, fd_.get(), &count, sizeof count), limits);
    co_return count;
}

} // namespace corewire
