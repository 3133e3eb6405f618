#include <corewire/reactor/base/worker_threads.hh>

#include <corewire/reactor/base/without_signals.hh>

#include <exception>
#include <utility>

namespace corewire {

cpu_set_t affinity_of_this_thread() noexcept {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    return set;
}

worker_threads::worker_threads(const char* name, unsigned most, const cpu_set_t& where, one_job run)
    : name_(name), most_(most), where_(where), run_(std::move(run)) {}

void worker_threads::end() noexcept {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        waiting_ = 0;
    }
    work_.notify_all();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

bool worker_threads::expect_job() noexcept {
    if (ending_) return false;
    const bool enough = idle_ > waiting_ || threads_.size() >= most_;
    if (!enough && !one_more() && threads_.empty()) return false;
    ++waiting_;
    return true;
}

bool worker_threads::one_more() noexcept {
    try {
        const without_signals here;
        threads_.emplace_back([this] { work(); });
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

void worker_threads::work() noexcept {
    ::pthread_setname_np(::pthread_self(), name_);
    ::sched_setaffinity(0, sizeof where_, &where_);
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        work_.wait(lock, [this] { return waiting_ != 0 || ending_; });
        --idle_;
        if (waiting_ == 0) return;
        --waiting_;
        run_(lock);
    }
}

} // namespace corewire
