#include <corewire/reactor/shard/blocking_pool.hh>

#include <algorithm>
#include <csignal>
#include <exception>
#include <pthread.h>
#include <utility>

namespace corewire {

blocking_pool::blocking_pool(blocking_options options) noexcept : options_(options) {
    CPU_ZERO(&everywhere_);
    ::sched_getaffinity(0, sizeof everywhere_, &everywhere_);
}

blocking_pool::~blocking_pool() {
    std::deque<std::unique_ptr<blocking_job>> unbegun;
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        unbegun.swap(queue_);
    }
    work_.notify_all();
    for (std::thread& each : threads_) each.join();
}

/// With the mutex held. Threads inherit the mask of their maker: all signals are blocked meanwhile.
bool blocking_pool::one_more() noexcept {
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = true;
    try {
        threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
        made = false;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return made;
}

bool blocking_pool::start(std::unique_ptr<blocking_job>& job) {
    {
        const std::lock_guard lock(mutex_);
        const bool enough = idle_ > queue_.size() || threads_.size() >= options_.threads;
        const bool served = enough || one_more() || !threads_.empty();
        if (!served || ending_ || queue_.size() >= options_.queue) {
            ++statistics_.refused;
            return false;
        }
        queue_.push_back(std::move(job));
    }
    work_.notify_one();
    return true;
}

bool blocking_pool::withdraw(const blocking_job& job) noexcept {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(queue_.begin(), queue_.end(), [&](const auto& each) { return each.get() == &job; });
    if (at == queue_.end()) return false;
    queue_.erase(at);
    ++statistics_.withdrawn;
    return true;
}

blocking_statistics blocking_pool::statistics() const {
    const std::lock_guard lock(mutex_);
    blocking_statistics now = statistics_;
    now.threads = static_cast<unsigned>(threads_.size());
    return now;
}

void blocking_pool::work() noexcept {
    ::pthread_setname_np(::pthread_self(), "cw-blocking");
    ::sched_setaffinity(0, sizeof everywhere_, &everywhere_);
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        work_.wait(lock, [this] { return !queue_.empty() || ending_; });
        --idle_;
        if (queue_.empty()) return;
        std::unique_ptr<blocking_job> job = std::move(queue_.front());
        queue_.pop_front();
        ++statistics_.begun;
        lock.unlock();
        job->execute();
        external_inbox* home = job->home;
        home->bring_back(std::move(job));
        lock.lock();
    }
}

} // namespace corewire
