// A timer of the kernel's (timerfd_create(2)): for wall-clock times and for times that must be counted while nobody looks. For
// everything else sleep_for() costs less.
#pragma once

#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <chrono>
#include <cstdint>

namespace corewire {

class descriptor_timer {
public:
    enum class clock { monotonic, wall };
    /// Throws std::system_error.
    explicit descriptor_timer(clock which = clock::monotonic);

    /// First after `first`, then every `interval`; 0: once.
    void arm(duration first, duration interval = {});
    /// At a time of the wall clock, also when somebody sets the clock. Asserts that it is a wall-clock timer.
    void arm_at(std::chrono::system_clock::time_point at, duration interval = {});
    void disarm();
    /// How often it has expired since the last call: waits until it has once. ECANCELED when the clock was set beneath arm_at().
    task<std::uint64_t> expirations(wait_limits limits = {});

private:
    clock clock_;
    unique_fd fd_;
};

} // namespace corewire
