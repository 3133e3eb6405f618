// Threads that wait for jobs which may block, for whoever must not: the mechanism below reactor/file's helper_threads and
// reactor/shard's blocking_pool. The queue is its user's, guarded by mutex(); this knows how many jobs wait in it.
//
//     user: lock, expect_job(), queue the job, unlock, job_there() ----> a worker: one_job(lock) takes it out, unlocks, does it, locks
//
// Threads are made when a job finds none idle, up to `most`, and kept until end(). They run wherever they were told to, not on
// the core of the shard that made them, and take no signals. Bounds: `most` threads; the queue is its user's to bound.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <sched.h>
#include <thread>
#include <vector>

namespace corewire {

/// Where the calling thread may run now: for workers, asked before it is pinned.
cpu_set_t affinity_of_this_thread() noexcept;

class worker_threads {
public:
    /// Called on a worker, with the mutex held and a job waiting: takes it out, does it unlocked, and locks again.
    using one_job = std::function<void(std::unique_lock<std::mutex>& lock)>;

    /// `name`: of each thread, at most 15 characters (pthread_setname_np(3)).
    worker_threads(const char* name, unsigned most, const cpu_set_t& where, one_job run);
    ~worker_threads() { end(); }
    worker_threads(const worker_threads&) = delete;
    worker_threads& operator=(const worker_threads&) = delete;

    std::mutex& mutex() noexcept { return mutex_; }

    // These with the mutex held.

    /// A job is about to be queued. False: there is no thread for it, nor will there be; it was not counted.
    bool expect_job() noexcept;
    /// One was taken out of the queue by its user.
    void job_withdrawn() noexcept { --waiting_; }
    std::size_t waiting() const noexcept { return waiting_; }
    unsigned threads() const noexcept { return static_cast<unsigned>(threads_.size()); }

    // And these without.

    void job_there() noexcept { work_.notify_one(); }
    /// No further job is begun. Blocks until those that were have been done, and the threads have ended.
    void end() noexcept;

private:
    void work() noexcept;
    bool one_more() noexcept;

    const char* const name_;
    const unsigned most_;
    const cpu_set_t where_;
    const one_job run_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;
    std::size_t waiting_ = 0;
    bool ending_ = false;
};

} // namespace corewire
