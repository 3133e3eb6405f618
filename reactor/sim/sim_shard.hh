// A shard without a thread: a runtime of one shard whose loop is turned from outside, on a clock of its own. What asks for
// this_shard::, reactor::current() or a shard_local finds them there. Many of them live on one thread; the simulator turns each.
//
//     sim_shard host(world);
//     host.spawn([] { return serve(); });
//     while (host.turn()) {}            // then: advance the world to host.next_wake()
//
// It may be started anew: then its runtime and its reactor are others. Files are the machine's, and take no time: what a turn asks of
// them is done when the turn is over. What the kernel does in real time is not simulated: run_blocking(), calls from other threads.
#pragma once

#include <corewire/reactor/base/random_from.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/shard_context.hh>
#include <corewire/reactor/sim/sim_clock.hh>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace corewire {

class sim_shard {
public:
    /// `seed`: of what its code draws by random_seed().
    explicit sim_shard(clock_source& world, duration ahead = {}, std::uint64_t seed = 1);
    ~sim_shard();
    sim_shard(const sim_shard&) = delete;
    sim_shard& operator=(const sim_shard&) = delete;

    /// Makes it the current shard of this thread, in whose code random_seed() draws from its seed.
    class scope {
    public:
        explicit scope(sim_shard& s) noexcept : loop_(s.loop()), draws_(s.random_) {}

    private:
        reactor::scope loop_;
        random_from draws_;
    };

    /// Tasks that stand on the shard and are somebody else's, who may be told of their end. They go with all others in destroy_tasks().
    class guest : public list_hook {
    public:
        guest(sim_shard& on, std::string name) : shard_(on), tasks_(std::move(name)) { on.guests_.push_back(*this); }
        ~guest();
        template <typename Make>
        void spawn(Make&& make) {
            scope here(shard_);
            shard_.loop().read_clock();
            tasks_.spawn(make());
        }
        bool destroyed() const noexcept { return destroyed_; }

    private:
        friend class sim_shard;
        sim_shard& shard_;
        task_group tasks_;
        bool destroyed_ = false;
    };

    /// Starts `body()` in the loop's root group, up to its first wait. The callable lives as long as the shard. What it
    /// throws is reported and counted (failed()).
    void spawn(std::function<task<>()> body);
    /// One turn of the loop, and what it has asked of files. True if anything was done.
    bool turn();
    /// When the loop has something to do of itself, in the world's time; `never` if only others can cause it.
    time_point next_wake() { return clock_.to_world(loop().timers().next_expiry()); }
    /// As after SIGTERM: stop tokens fire, this_shard::stopping() and the root group's. Tasks that have not ended after
    /// runtime_options::drain are abandoned, which is logged.
    void request_stop() noexcept;
    /// Destroys every task where it stands, and what shard_local objects there are.
    void destroy_tasks() noexcept;
    /// Destroys the tasks, and makes the runtime and the reactor anew; the clock goes on. Not in a turn of its own.
    void restart();

    /// Until restart().
    reactor& loop() noexcept { return context_->loop; }
    sim_clock& clock() noexcept { return clock_; }
    std::size_t tasks() noexcept { return loop().root_group().size(); }
    /// Nobody's task is on it.
    bool deserted() noexcept { return tasks() == 0 && guests_.empty(); }
    /// Tasks that an exception has left, since the beginning.
    std::uint64_t failed() noexcept { return failed_before_ + loop().root_group().failed(); }

private:
    bool settle_files() noexcept;
    void end_context() noexcept;
    static task<> run(std::function<task<>()> body);

    sim_clock clock_;
    random_generator random_;
    std::unique_ptr<runtime> runtime_;
    std::unique_ptr<shard_context> context_;
    intrusive_list<guest> guests_;
    std::uint64_t failed_before_ = 0; ///< restart()
};

} // namespace corewire
