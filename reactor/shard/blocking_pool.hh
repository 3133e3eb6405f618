// Threads on which calls may block, so that no shard does: the other end of run_blocking(). Owned by the runtime, used by all
// shards. The workers' mutex guards the queue.
//
//     shard: start(job) --queue--> a helper: execute() --the shard's external_inbox--> shard: the caller is woken
//
// Helpers are made when there is a job and none is idle, up to `threads`; they may run on any CPU that the process may use, take no
// signals, and end with the runtime, which waits for what they are doing. Bounds: `threads`; `queue` jobs that wait: a
// further one is refused (EAGAIN) and counted.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/base/worker_threads.hh>
#include <corewire/reactor/shard/external_inbox.hh>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace corewire {

/// Calls that helpers are in.
struct blocking_remainder {
    std::size_t calls = 0;
    duration longest{}; ///< since the first of them began
};
/// "2 calls of run_blocking() still run, the longest for 1004 ms: ..."
std::string to_string(const blocking_remainder& left);

struct blocking_options {
    unsigned threads = 4; ///< at least one
    std::size_t queue = 256;
    /// At its end a runtime waits for what helpers are in, however long. What still runs after this time is reported.
    duration patience = std::chrono::seconds{1};
    /// On the thread that has called runtime::run(). Empty: prints to stderr.
    std::function<void(const blocking_remainder&)> report{};
};

struct blocking_statistics {
    std::uint64_t begun = 0;
    std::uint64_t refused = 0;   ///< the queue was full
    std::uint64_t withdrawn = 0; ///< given up while they waited in the queue
    unsigned threads = 0;
};

class blocking_job : public external_call {
public:
    /// On a helper. What it throws it keeps.
    virtual void execute() noexcept = 0;
    external_inbox* home = nullptr; ///< of the shard that wants the result
};

class blocking_pool {
public:
    /// On a thread that is not pinned: helpers may run wherever it may.
    /// Its end waits for what runs; what waits is destroyed.
    explicit blocking_pool(blocking_options options);

    /// False: no room, and `job` stays with the caller. From any shard.
    bool start(std::unique_ptr<blocking_job>& job);
    /// Takes a job back that no helper has begun, and destroys it. False: it will come back.
    bool withdraw(const blocking_job& job) noexcept;
    blocking_statistics statistics() const;
    /// Blocks until helpers are in no call, or for so long. What they are in then. From any thread.
    blocking_remainder wait_until_idle(duration at_most);

private:
    struct running; ///< one a helper in a call
    bool refuse() noexcept;
    void one_job(std::unique_lock<std::mutex>& lock) noexcept;

    const blocking_options options_;
    std::deque<std::unique_ptr<blocking_job>> queue_; ///< guarded, like the statistics, by the workers' mutex
    blocking_statistics statistics_;
    intrusive_list<running> running_; ///< guarded as well; the longest first
    std::condition_variable idle_;
    mutable worker_threads workers_; ///< the last member: they end first
};

} // namespace corewire
