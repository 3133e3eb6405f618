// One core's event loop. Lives on one shard; everything it owns is touched by that shard's thread only.
//
// One turn (poll_once) reads as this list:
//   1. take the time once                             4. run ready coroutines, within a budget
//   2. poll: each poller takes in a bounded burst     5. flush: pollers emit what the turn caused
//      (mailboxes, stacks, io_uring's completions)       (wake-ups, segments, io_uring's submissions)
//   3. expire timers                                  6. idle policy: spin, then sleep with every source armed
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/log2_histogram.hh>
#include <corewire/reactor/base/sleep_fence.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/io_options.hh>
#include <corewire/reactor/loop/run_queue.hh>
#include <corewire/reactor/loop/sleeper.hh>
#include <corewire/reactor/loop/timer_wheel.hh>
#include <corewire/reactor/memory/frame_allocator.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/waiter.hh>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace corewire {

class fair_scheduler;
class group_names;
class io_engine;
class scheduling_group;
class stall_detector;
class uring;

/// A source of work that the loop polls every turn: a network interface, a mailbox set, an io_uring.
class poller : public list_hook {
public:
    /// Take in a bounded burst. True if anything was done.
    virtual bool poll(time_point now) = 0;
    /// Emit what this turn's coroutines and timers caused. True if anything was done.
    virtual bool flush(time_point now) { return static_cast<void>(now), false; }
    /// About to sleep: arm notification on wake_fd(). False if work has arrived meanwhile, so that the loop goes on.
    virtual bool prepare_sleep() { return true; }
    /// Awake again: disarm.
    virtual void finish_sleep() {}
    /// A descriptor that becomes readable when poll() would find work; -1 if there is none (work comes only from
    /// inside this shard).
    virtual int wake_fd() const { return -1; }
    /// For one with several descriptors: says them all to the sleeper.
    virtual void watch(sleeper& sleeping) const { sleeping.watch(wake_fd()); }

protected:
    ~poller() = default;
};

/// Where a reactor's time comes from: the TSC, or a test.
class clock_source {
public:
    virtual time_point now() noexcept = 0;

protected:
    ~clock_source() = default;
};

struct reactor_options {
    /// How long an idle reactor spins before it sleeps. `duration::max()`: never sleeps.
    duration spin = std::chrono::microseconds{200};
    /// How many coroutines are resumed in one turn before the pollers get their next look,
    unsigned resume_budget = 256;
    /// and for how long (looked at every 16 resumptions; the real clock only). Bounds the wait of other shards' messages.
    duration resume_time = std::chrono::microseconds{20};
    /// Null: the real clock.
    clock_source* clock = nullptr;
    /// Number of this shard in its runtime.
    unsigned shard = 0;
    /// How it does its I/O through the kernel.
    io_options io{};
    /// Shared by reactors that call each other. Null: other shards know its groups as "main" only.
    group_names* groups = nullptr;
};

class reactor {
public:
    explicit reactor(reactor_options options = {});
    ~reactor();
    reactor(const reactor&) = delete;
    reactor& operator=(const reactor&) = delete;

    /// The reactor this thread is running. Asserts that there is one.
    static reactor& current() noexcept {
        CW_ASSERT(current_ != nullptr, "no reactor runs on this thread");
        return *current_;
    }
    static reactor* current_or_null() noexcept { return current_; }

    /// Makes a reactor current for a scope: how a simulator drives many of them from one thread.
    class scope {
    public:
        explicit scope(reactor& r) noexcept
            : previous_(current_), previous_queue_(detail::running_queue),
              previous_frames_(frame_allocator::exchange_current(r.frames_.get())) {
            current_ = &r;
            detail::running_queue = &main_queue_of(r);
        }
        ~scope() {
            current_ = previous_;
            detail::running_queue = previous_queue_;
            frame_allocator::exchange_current(previous_frames_);
        }
        scope(const scope&) = delete;

    private:
        static run_queue& main_queue_of(reactor& r) noexcept { return r.main_; }
        reactor* previous_;
        run_queue* previous_queue_;
        frame_allocator* previous_frames_;
    };

    /// One turn, without sleeping. True if anything was done. The caller has made this reactor current.
    bool poll_once();
    /// Turns (and sleeps, by the idle policy) until request_exit(). With a virtual clock it never sleeps: the driver
    /// advances the clock between turns.
    void run();
    void request_exit() noexcept { exit_ = true; }
    /// Wakes the reactor if it sleeps. From any thread.
    void wake() noexcept;
    /// For those who hand work in from another thread: publish, then call this. Writes the eventfd once for each sleep.
    void wake_if_asleep() noexcept {
        sleep_fence::producer();
        if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
            if (asleep_.exchange(false, std::memory_order_relaxed)) wake();
    }

    /// For the stall detector, from its thread: when the present turn began; `never` while asleep.
    time_point turn_began() const noexcept { return from_ns(turn_began_.load(std::memory_order_relaxed)); }
    void set_stall_detector(stall_detector* detector) noexcept {
        turn_began_.store(to_ns(clock_->now()), std::memory_order_relaxed);
        stall_detector_ = detector;
    }

    /// The time taken at the start of this turn.
    time_point now() const noexcept { return now_; }
    /// Reads the clock itself, and moves now() on.
    time_point read_clock() noexcept;
    unsigned shard() const noexcept { return options_.shard; }
    const reactor_options& options() const noexcept { return options_; }

    /// Moves a waiter from wherever it stands to the end of its run queue.
    static void make_ready(waiter& w) noexcept {
        w.unlink();
        w.queue->ready.push_back(w);
    }
    /// The same for one that stands nowhere.
    static void make_ready_unlinked(waiter& w) noexcept { w.queue->ready.push_back(w); }
    /// The same for one that gives way: it runs in the next turn, after every poller has had its look.
    static void make_ready_next_turn(waiter& w) noexcept {
        w.unlink();
        w.queue->next_turn.push_back(w);
    }
    /// A new scheduling group (scheduling_group.hh), which lives as long as this reactor. Throws std::invalid_argument (no
    /// name, one that exists, shares out of 1..1000) or std::length_error (fair_scheduler::max_groups, group_names::most).
    scheduling_group make_scheduling_group(std::string name, unsigned shares);
    /// All of them, by number; "main" is the first.
    std::vector<scheduling_group> scheduling_groups();
    /// Where something stands in line that another shard's group of that number (group_names) wants done. Null while this reactor has
    /// one group only: nobody is charged then.
    run_queue* line_of(unsigned group) const noexcept { return fair_ == nullptr ? nullptr : line_of_group(group); }
    /// True when this turn's coroutines have had their `resume_time`. Looks at the clock every 16 calls only.
    bool turn_is_long() noexcept {
        if ((++looks_ & 15) != 0) [[likely]]
            return false;
        return clock_->now() - now_ >= options_.resume_time;
    }
    timer_wheel& timers() noexcept { return timers_; }
    /// Polled every turn from now on, until destroyed or unlinked.
    void add_poller(poller& p) noexcept { pollers_.push_back(p); }
    /// The same for one that only takes in, and little and seldom: flags of other threads. Its flush() is not called, and
    /// its poll() in every turn in which the pollers find nothing, and else in every `watch_every`th.
    void add_watcher(poller& p) noexcept { watchers_.push_back(p); }
    static constexpr unsigned watch_every = 16;
    /// Where spawn() puts its tasks; joined at shutdown.
    task_group& root_group() noexcept { return root_group_; }
    /// Tasks of all groups: walks them. For those who count.
    std::size_t tasks() noexcept {
        std::size_t all = 0;
        tallies_.for_each([&](const task_tally& each) { all += each.tasks; });
        return all;
    }
    /// Tasks of all groups that an exception has left.
    std::uint64_t tasks_failed() const noexcept { return tasks_failed_; }
    /// For task_group: its tasks are this reactor's.
    void count_tasks(task_tally& group) noexcept { tallies_.push_back(group); }
    void count_failed_task() noexcept { ++tasks_failed_; }
    frame_allocator& frames() noexcept { return *frames_; }
    /// This reactor's io_uring, or epoll in its place where it is forbidden. Made on first use by its own thread.
    uring& io(); // defined beside the ring: reactor/file/uring.cc
    /// Files, pipes, timers, signals, children: over the ring, or without it where it is forbidden. Made on first use.
    io_engine& files(); // reactor/file/io_engine.cc
    /// Null: nobody has used it.
    io_engine* files_if_made() const noexcept { return files_.get(); }
    std::uint64_t turns() const noexcept { return turns_; }
    std::uint64_t sleeps() const noexcept { return sleeps_; }
    /// Time in run() from one turn that found nothing to do to the next, sleep included. Counted in idle turns only.
    duration idle_time() const noexcept { return idle_time_; }
    /// How long the turns were that found something to do, in ns: from the beginning of each to that of the next.
    const log2_histogram& turn_lengths() const noexcept { return turn_lengths_; }
    /// The ring, if io() has made it; for those who only count.
    const uring* io_if_made() const noexcept { return io_.get(); }

    /// One pointer each for those above the loop (the runtime's shard, net's interface, rdma's devices), which it knows nothing of.
    enum class attachment : std::size_t { shard, network, rdma, application, metrics, log, count };
    void*& attached(attachment which) noexcept { return attachments_[static_cast<std::size_t>(which)]; }

private:
    run_queue* line_of_group(unsigned group) const noexcept;
    bool resume_ready() noexcept;
    bool poll_watchers(time_point now);
    bool nothing_ready() const noexcept;
    void sleep() noexcept;
    /// Watchers too.
    template <typename Visit>
    void for_each_poller(Visit&& visit) {
        pollers_.for_each(visit);
        watchers_.for_each(visit);
    }

    inline static thread_local constinit reactor* current_ = nullptr;
    reactor_options options_;
    clock_source* clock_;
    time_point now_{};
    std::uint64_t turns_ = 0;
    std::uint64_t sleeps_ = 0;
    duration idle_time_{0};
    unsigned looks_ = 0; ///< turn_is_long()
    bool exit_ = false;
    bool worked_ = false; ///< in the last turn
    log2_histogram turn_lengths_;
    frame_allocator::owner frames_ = frame_allocator::make();
    intrusive_list<poller> pollers_;
    intrusive_list<poller> watchers_; ///< polled after them
    run_queue main_;
    std::unique_ptr<fair_scheduler> fair_; ///< once there are two scheduling groups
    timer_wheel timers_;
    std::unique_ptr<uring, void (*)(uring*)> io_{nullptr, [](uring*) {}}; ///< deleted by the one who knows what it is
    std::unique_ptr<io_engine, void (*)(io_engine*)> files_{nullptr, [](io_engine*) {}}; ///< likewise; goes before the ring
    std::array<void*, static_cast<std::size_t>(attachment::count)> attachments_{};
    unique_fd wake_;
    intrusive_list<task_tally> tallies_;
    std::uint64_t tasks_failed_ = 0;
    task_group root_group_{"root"};
    std::atomic<std::int64_t> turn_began_{0};
    stall_detector* stall_detector_ = nullptr;
    alignas(64) std::atomic<bool> asleep_{false};
};

} // namespace corewire
