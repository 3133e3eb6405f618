// A simulated host's clock: the world's time, and how far the host's own clock is ahead of it. Clocks of hosts differ, and
// one that is set or resumes from suspension jumps; monotonic as they are, only forward. Owned by its sim_shard.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

class sim_clock final : public clock_source {
public:
    /// `ahead`: of the world's time, from the start.
    explicit sim_clock(clock_source& world, duration ahead = {}) noexcept : world_(world), ahead_(ahead) {}
    time_point now() noexcept override { return world_.now() + ahead_; }
    /// From now on the clock is ahead by so much more; not negative.
    void jump(duration forward) noexcept {
        CW_ASSERT(forward >= duration{}, "a monotonic clock does not jump back");
        ahead_ += forward;
    }
    duration ahead() const noexcept { return ahead_; }
    /// When the world's time has come for `ours`.
    time_point to_world(time_point ours) const noexcept { return ours == never ? never : ours - ahead_; }

private:
    clock_source& world_;
    duration ahead_;
};

} // namespace corewire
