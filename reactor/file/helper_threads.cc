#include <corewire/reactor/file/helper_threads.hh>

#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/file/io_execute.hh>

#include <csignal>
#include <pthread.h>
#include <sched.h>
#include <system_error>

namespace corewire {

namespace {

/// Where this process may run, before any thread was pinned: helpers must not share the core of the shard that made them.
cpu_set_t affinity_at_start() noexcept {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    return set;
}
const cpu_set_t everywhere = affinity_at_start();

/// For its scope all signals are blocked: threads made meanwhile never take one.
class without_signals {
public:
    without_signals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~without_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    without_signals(const without_signals&) = delete;

private:
    sigset_t before_;
};

} // namespace

helper_threads::~helper_threads() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    work_.notify_all();
    for (std::thread& each : threads_) each.join();
}

bool helper_threads::one_more() noexcept {
    try {
        const without_signals here;
        threads_.emplace_back([this] { work(); });
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

bool helper_threads::start(io_request& r) noexcept {
    bool wanted;
    {
        const std::lock_guard lock(mutex_);
        r.begun_ = false;
        queue_.push_back(r);
        wanted = ++queued_ > idle_;
    }
    work_.notify_one();
    if (!wanted || threads_.size() >= most_ || one_more() || !threads_.empty()) return true;
    const std::lock_guard lock(mutex_);
    r.unlink();
    --queued_;
    return false;
}

bool helper_threads::withdraw(io_request& r) noexcept {
    const std::lock_guard lock(mutex_);
    if (r.begun_) return false;
    r.unlink();
    --queued_;
    return true;
}

bool helper_threads::poll() noexcept {
    if (quiet()) return false;
    intrusive_list<io_request> arrived;
    {
        const std::lock_guard lock(mutex_);
        any_done_.store(false, std::memory_order_relaxed);
        arrived.splice_back(done_);
    }
    while (!arrived.empty()) {
        io_request& r = arrived.pop_front();
        engine_.finished(r, r.result_);
    }
    return true;
}

void helper_threads::wait() noexcept {
    {
        std::unique_lock lock(mutex_);
        finished_.wait(lock, [this] { return any_done_.load(std::memory_order_relaxed); });
    }
    poll();
}

void helper_threads::work() noexcept {
    pthread_setname_np(pthread_self(), "cw-helper");
    ::sched_setaffinity(0, sizeof everywhere, &everywhere);
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        work_.wait(lock, [this] { return !queue_.empty() || ending_; });
        --idle_;
        if (queue_.empty()) return;
        io_request& r = queue_.pop_front();
        --queued_;
        r.begun_ = true;
        lock.unlock();
        const int result = execute(r.arguments);
        lock.lock();
        r.result_ = result;
        done_.push_back(r);
        any_done_.store(true, std::memory_order_release);
        lock.unlock();
        finished_.notify_one();
        loop_.wake_if_asleep();
        lock.lock();
    }
}

} // namespace corewire
