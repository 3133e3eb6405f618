// Threads that block so that the shard need not: for what io_uring cannot do (getdents64, copy_file_range), and for every
// file operation where io_uring is forbidden. A few a shard, started when first needed, ended with it.
//
//     shard: start(request) --queue--> a helper: execute() --done--> shard: poll() delivers
//
// start, withdraw, poll and wait belong to the shard's thread. Bounds: `most` threads; the queue is bounded by the engine's
// lines. The workers' mutex guards both lists; the shard takes it once a request and once a batch of answers.
#pragma once

#include <corewire/reactor/base/worker_threads.hh>
#include <corewire/reactor/file/io_request.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace corewire {

class helper_threads {
public:
    /// It goes when nothing is queued or running any more.
    helper_threads(reactor& loop, io_engine& engine, unsigned most);

    /// False when not even one thread can be had.
    bool start(io_request& r) noexcept;
    /// Takes back one that no helper has begun. False: it will complete as usual.
    bool withdraw(io_request& r) noexcept;
    /// Delivers what is done.
    bool poll() noexcept;
    bool quiet() const noexcept { return !any_done_.load(std::memory_order_acquire); }
    /// Blocks until something is done, and delivers it.
    void wait() noexcept;
    unsigned threads() const noexcept { return workers_.threads(); }

private:
    void one_request(std::unique_lock<std::mutex>& lock) noexcept;

    reactor& loop_;
    io_engine& engine_;
    std::condition_variable finished_;
    intrusive_list<io_request> queue_; ///< guarded, like done_, by the workers' mutex
    intrusive_list<io_request> done_;
    std::atomic<bool> any_done_{false};
    worker_threads workers_; ///< the last member: they end first
};

} // namespace corewire
