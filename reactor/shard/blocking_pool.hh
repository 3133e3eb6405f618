// Threads on which calls may block, so that no shard does: the other end of run_blocking(). Owned by the runtime, used by all
// shards. The workers' mutex guards the queue.
//
//     shard: start(job) --queue--> a helper: execute() --the shard's external_inbox--> shard: the caller is woken
//
// Helpers are made when there is a job and none is idle, up to `threads`; they may run on any CPU that the process may use, take no
// signals, and end with the runtime, which waits for what they are doing. Bounds: `threads`; `queue` jobs that wait: a
// further one is refused (EAGAIN) and counted.
#pragma once

#include <corewire/reactor/base/worker_threads.hh>
#include <corewire/reactor/shard/external_inbox.hh>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

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
    /// Its end waits for what runs; what waits is destroyed.
    explicit blocking_pool(blocking_options options);

    /// False: no room, and `job` stays with the caller. From any shard.
    bool start(std::unique_ptr<blocking_job>& job);
    /// Takes a job back that no helper has begun, and destroys it. False: it will come back.
    bool withdraw(const blocking_job& job) noexcept;
    blocking_statistics statistics() const;

private:
    bool refuse() noexcept;
    void one_job(std::unique_lock<std::mutex>& lock) noexcept;

    const blocking_options options_;
    std::deque<std::unique_ptr<blocking_job>> queue_; ///< guarded, like the statistics, by the workers' mutex
    blocking_statistics statistics_;
    mutable worker_threads workers_; ///< the last member: they end first
};

} // namespace corewire
