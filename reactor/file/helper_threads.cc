#include <corewire/reactor/file/helper_threads.hh>

#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/file/io_execute.hh>

namespace corewire {

namespace {

/// Where this process may run, before any thread was pinned: helpers must not share the core of the shard that made them.
const cpu_set_t everywhere = affinity_of_this_thread();

} // namespace

helper_threads::helper_threads(reactor& loop, io_engine& engine, unsigned most)
    : loop_(loop), engine_(engine),
      workers_("cw-helper", most, everywhere, [this](std::unique_lock<std::mutex>& lock) { one_request(lock); }) {}

bool helper_threads::start(io_request& r) noexcept {
    {
        const std::lock_guard lock(workers_.mutex());
        if (!workers_.expect_job()) return false;
        r.begun_ = false;
        queue_.push_back(r);
    }
    workers_.job_there();
    return true;
}

bool helper_threads::withdraw(io_request& r) noexcept {
    const std::lock_guard lock(workers_.mutex());
    if (r.begun_) return false;
    r.unlink();
    workers_.job_withdrawn();
    return true;
}

bool helper_threads::poll() noexcept {
    if (quiet()) return false;
    intrusive_list<io_request> arrived;
    {
        const std::lock_guard lock(workers_.mutex());
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
        std::unique_lock lock(workers_.mutex());
        finished_.wait(lock, [this] { return any_done_.load(std::memory_order_relaxed); });
    }
    poll();
}

void helper_threads::one_request(std::unique_lock<std::mutex>& lock) noexcept {
    io_request& r = queue_.pop_front();
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

} // namespace corewire
