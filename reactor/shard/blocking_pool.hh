// Threads on which calls may block, so that no shard does: the other end of run_blocking(). Owned by the runtime, used by all
// shards. A mutex guards the queue.
//
//     shard: start(job) --queue--> a helper: execute() --the shard's external_inbox--> shard: the caller is woken
//
// Helpers are made when there is a job and none is idle, up to `threads`; they may run on any CPU that the process may use, take no
// signals, and end with the runtime, which waits for what they are doing. Bounds: `threads`; `queue` jobs that wait: a
// further one is refused (EAGAIN) and counted.
#pragma once

#include <corewire/reactor/shard/external_inbox.hh>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <sched.h>
#include <thread>
#include <vector>

namespace corewire {

struct blocking_options {
    unsigned threads = 4;
    std::size_t queue = 256;
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
    explicit blocking_pool(blocking_options options) noexcept;
    /// Waits for what runs; what waits is destroyed.
    ~blocking_pool();

    /// False: no room, and `job` stays with the caller. From any shard.
    bool start(std::unique_ptr<blocking_job>& job);
    /// Takes a job back that no helper has begun, and destroys it. False: it will come back.
    bool withdraw(const blocking_job& job) noexcept;
    blocking_statistics statistics() const;

private:
    void work() noexcept;
    bool one_more() noexcept;

    const blocking_options options_;
    cpu_set_t everywhere_;
    mutable std::mutex mutex_;
    std::condition_variable work_;
    std::deque<std::unique_ptr<blocking_job>> queue_;
    std::vector<std::thread> threads_;
    unsigned idle_ = 0;
    bool ending_ = false;
    blocking_statistics statistics_;
};

} // namespace corewire
