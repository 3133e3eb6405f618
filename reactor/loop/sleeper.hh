// How an idle reactor waits: ppoll(2) on every descriptor that can bring work, until the next timer.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <array>
#include <poll.h>

namespace corewire {

/// For its scope, this thread's sleeps end when they should, not up to 50 us later (the kernel's default timer slack).
class exact_sleep {
public:
    exact_sleep() noexcept;
    ~exact_sleep();
    exact_sleep(const exact_sleep&) = delete;
    exact_sleep& operator=(const exact_sleep&) = delete;

private:
    long slack_before_;
};

class sleeper {
public:
    static constexpr std::size_t max_sources = 64;

    /// -1 is ignored. Beyond the limit a source is polled by waking every millisecond.
    void watch(int fd) noexcept;
    /// Returns when a watched descriptor is readable, at `deadline`, or on a signal.
    void until(time_point deadline, time_point now) noexcept;

private:
    std::array<pollfd, max_sources> sources_;
    unsigned count_ = 0;
    bool too_many_ = false;
};

} // namespace corewire
