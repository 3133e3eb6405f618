// How an idle reactor waits: ppoll(2) on every descriptor that can bring work, until the next timer.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <array>
#include <poll.h>

namespace corewire {

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
