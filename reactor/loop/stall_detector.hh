// Says which code keeps a reactor from turning: one thread that looks at the start of each reactor's present turn, and reports a
// turn that lasts longer than `limit`, once, with the backtrace of what runs in it and its scheduling group.
//
//     reactor:   turn_began = now, every turn (one store)         asleep: a mark instead
//     detector:  sleeps until the oldest turn it knows of would be too old --> still the same turn? --> signal to that thread
//                     (its handler writes down the addresses) --> names them, prints
//
// A turn is exactly as old as it looks, so none that is too long is missed, at one wake-up in `limit`. While all reactors sleep the
// detector sleeps as well, without end; the first to wake up rouses it. Time that the thread waited for a CPU which others had is not
// counted against it (/proc, schedstat). A thread that does not answer the signal (in an uninterruptible wait) is reported
// without a backtrace. A blocking system call that the signal interrupts may end with EINTR: it was a stall.
//
// Made and destroyed by one thread (the runtime's); watch() and unwatch() are called on each shard's own. Uses the signal
// SIGRTMIN + 4. Bounds: one report in `between_reports`, the others are counted; 64 frames.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace corewire {

class reactor;

struct stall_report {
    unsigned shard = 0;
    std::string group;                ///< the scheduling group that has the core
    duration held{};                  ///< so far
    std::vector<std::string> frames;  ///< innermost first; empty when the thread did not answer
    std::uint64_t unreported = 0;     ///< stalls since the last report
};

struct stall_options {
    duration limit{}; ///< zero: no detector
    duration between_reports = std::chrono::seconds{1};
    /// On the detector's thread. Empty: prints to stderr.
    std::function<void(const stall_report&)> report{};
};

class stall_detector {
public:
    /// Throws std::system_error when there can be no thread or no handler.
    explicit stall_detector(stall_options options);
    ~stall_detector();
    stall_detector(const stall_detector&) = delete;
    stall_detector& operator=(const stall_detector&) = delete;

    /// From now on, until unwatch(). On the thread that runs `loop`.
    void watch(reactor& loop);
    void unwatch(reactor& loop) noexcept;
    /// By a reactor that has slept. Costs a fence and a load, and a system call when the detector sleeps.
    void woke_up() noexcept;

    /// Turns that were too long, reported or not.
    std::uint64_t stalls() const noexcept { return stalls_.load(std::memory_order_relaxed); }

private:
    struct watched;
    struct capture;
    static void on_signal(int) noexcept;
    void keep_looking();
    void rest() noexcept;
    bool everybody_sleeps();
    time_point look_at(watched& one, time_point now);
    bool ask(watched& one);
    void note(watched& one, duration held, bool answered);

    inline static thread_local constinit capture* mine_ = nullptr; ///< where this thread's handler writes
    stall_options options_;
    std::mutex mutex_; ///< watched_, stopping_; held while a thread is asked, so that it cannot leave meanwhile
    std::condition_variable wake_;
    std::vector<std::unique_ptr<watched>> watched_;
    bool stopping_ = false;
    std::uint64_t unreported_ = 0;
    time_point next_report_{};
    std::atomic<std::uint64_t> stalls_{0};
    std::atomic<int> resting_{0};
    std::thread thread_;
};

/// One line and one for each frame.
std::string to_string(const stall_report& report);

} // namespace corewire
