// A shard without a thread: a runtime of one shard whose loop is turned from outside, on a clock of its own. What asks for
// this_shard::, reactor::current() or a shard_local finds them there. Many of them live on one thread; the simulator turns each.
//
//     sim_shard host(world);
//     host.spawn([] { return serve(); });
//     while (host.turn()) {}            // then: advance the world to host.next_wake()
//
// What the kernel does in real time is not simulated: files, run_blocking(), calls from other threads.
#pragma once

#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/shard_context.hh>
#include <corewire/reactor/sim/sim_clock.hh>

#include <functional>
#include <list>
#include <memory>

namespace corewire {

class sim_shard {
public:
    explicit sim_shard(clock_source& world, duration ahead = {});
    ~sim_shard();
    sim_shard(const sim_shard&) = delete;
    sim_shard& operator=(const sim_shard&) = delete;

    /// Starts `body()` in the loop's root group, up to its first wait. The callable lives as long as the shard. What it
    /// throws is reported and counted (failed()).
    void spawn(std::function<task<>()> body);
    /// One turn of the loop. True if anything was done.
    bool turn();
    /// When the loop has something to do of itself, in the world's time; `never` if only others can cause it.
    time_point next_wake() { return clock_.to_world(loop().timers().next_expiry()); }
    /// Stop tokens fire, as after SIGTERM: this_shard::stopping() and the root group's.
    void request_stop() noexcept;
    /// Destroys every task where it stands, and what shard_local objects there are.
    void destroy_tasks() noexcept;

    reactor& loop() noexcept { return context_->loop; }
    sim_clock& clock() noexcept { return clock_; }
    std::size_t tasks() noexcept { return loop().root_group().size(); }
    std::uint64_t failed() noexcept { return loop().root_group().failed(); }

private:
    sim_clock clock_;
    runtime runtime_;
    std::unique_ptr<shard_context> context_;
    std::list<std::function<task<>()>> bodies_;
};

} // namespace corewire
