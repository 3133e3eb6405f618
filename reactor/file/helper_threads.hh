// Threads that block so that the shard need not: for what io_uring cannot do (getdents64, copy_file_range), and for every
// file operation where io_uring is forbidden. A few a shard, started when first needed, ended with it.
//
//     shard: start(request) --queue--> a helper: execute() --done--> shard: poll() delivers
//
// start, withdraw, poll and wait belong to the shard's thread. Bounds: `most` threads; the queue is bounded by the engine's
// lines. A mutex guards both lists; the shard takes it once a request and once a batch of answers.
#pragma once

#include <corewire/reactor/file/io_request.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace corewire {

class helper_threads {
public:
    helper_threads(reactor& loop, io_engine& engine, unsigned most) noexcept : loop_(loop), engine_(engine), most_(most) {}
    /// Nothing is queued or running any more.
    ~helper_threads();

    /// False when not even one thread can be had.
    bool start(io_request& r) noexcept;
    /// Takes back one that no helper has begun. False: it will complete as usual.
    bool withdraw(io_request& r) noexcept;
    /// Delivers what is done.
    bool poll() noexcept;
    bool quiet() const noexcept { return !any_done_.load(std::memory_order_acquire); }
    /// Blocks until something is done, and delivers it.
    void wait() noexcept;
    unsigned threads() const noexcept { return static_cast<unsigned>(threads_.size()); }

private:
    void work() noexcept;
    bool one_more() noexcept;

    reactor& loop_;
    io_engine& engine_;
    unsigned most_;
    std::vector<std::thread> threads_; ///< the shard's
    std::mutex mutex_;                 ///< guards what follows
    std::condition_variable work_;
    std::condition_variable finished_;
    intrusive_list<io_request> queue_;
    intrusive_list<io_request> done_;
    unsigned idle_ = 0;
    unsigned queued_ = 0;
    bool ending_ = false;
    std::atomic<bool> any_done_{false};
};

} // namespace corewire
