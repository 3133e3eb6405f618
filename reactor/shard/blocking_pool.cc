#include <corewire/reactor/shard/blocking_pool.hh>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace corewire {

std::string to_string(const blocking_remainder& left) {
    return std::to_string(left.calls) + (left.calls == 1 ? " call" : " calls") + " of run_blocking() still run, the longest for " +
           std::to_string(left.longest.count() / 1'000'000) + " ms: the program ends when they return, or with a second signal";
}

struct blocking_pool::running : list_hook {
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

blocking_pool::blocking_pool(blocking_options options)
    : options_(std::move(options)), workers_("cw-blocking", std::max(options_.threads, 1u), affinity_of_this_thread(),
                                             [this](std::unique_lock<std::mutex>& lock) { one_job(lock); }) {}

bool blocking_pool::start(std::unique_ptr<blocking_job>& job) {
    {
        const std::lock_guard lock(workers_.mutex());
        if (queue_.size() >= options_.queue) return refuse();
        queue_.push_back(std::move(job)); // may throw, so before it is expected
        if (!workers_.expect_job()) {
            job = std::move(queue_.back());
            queue_.pop_back();
            return refuse();
        }
    }
    workers_.job_there();
    return true;
}

/// With the mutex held.
bool blocking_pool::refuse() noexcept {
    ++statistics_.refused;
    return false;
}

bool blocking_pool::withdraw(const blocking_job& job) noexcept {
    std::unique_ptr<blocking_job> left; // outlives the lock: a callable may own what withdraws another call when it goes
    const std::lock_guard lock(workers_.mutex());
    const auto at = std::find_if(queue_.begin(), queue_.end(), [&](const auto& each) { return each.get() == &job; });
    if (at == queue_.end()) return false;
    left = std::move(*at);
    queue_.erase(at);
    workers_.job_withdrawn();
    ++statistics_.withdrawn;
    return true;
}

blocking_statistics blocking_pool::statistics() const {
    const std::lock_guard lock(workers_.mutex());
    blocking_statistics now = statistics_;
    now.threads = workers_.threads();
    return now;
}

void blocking_pool::one_job(std::unique_lock<std::mutex>& lock) noexcept {
    std::unique_ptr<blocking_job> job = std::move(queue_.front());
    queue_.pop_front();
    ++statistics_.begun;
    running here;
    running_.push_back(here);
    lock.unlock();
    job->execute();
    external_inbox* home = job->home;
    home->bring_back(std::move(job));
    lock.lock();
    here.unlink();
    if (running_.empty()) idle_.notify_all();
}

blocking_remainder blocking_pool::wait_until_idle(duration at_most) {
    std::unique_lock lock(workers_.mutex());
    if (idle_.wait_for(lock, at_most, [this] { return running_.empty(); })) return {};
    return {running_.count(), std::chrono::steady_clock::now() - running_.front().since};
}

} // namespace corewire
