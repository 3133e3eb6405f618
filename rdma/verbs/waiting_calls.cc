#include <corewire/rdma/verbs/waiting_calls.hh>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace corewire::verbs {

namespace {

/// Where the process may run: its first thread's CPUs, as a shard's own is busy.
cpu_set_t affinity_of_the_process() noexcept {
    cpu_set_t all;
    return ::sched_getaffinity(::getpid(), sizeof all, &all) == 0 ? all : affinity_of_this_thread();
}

unique_fd make_eventfd() {
    unique_fd made{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (made.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    return made;
}

} // namespace

waiting_calls::waiting_calls(unsigned threads, std::size_t queue)
    : limit_(queue + threads), wake_(make_eventfd()),
      workers_("cw-rdma-wait", threads, affinity_of_the_process(), [this](std::unique_lock<std::mutex>& lock) { one_call(lock); }) {}

bool waiting_calls::start(std::unique_ptr<waiting_call>& call) noexcept {
    if (under_way_ >= limit_) return false;
    {
        const std::lock_guard guard(workers_.mutex());
        try {
            finished_.reserve(under_way_ + 1);
            queue_.push_back(nullptr);
        } catch (const std::exception&) {
            return false;
        }
        if (!workers_.expect_job()) {
            queue_.pop_back();
            return false;
        }
        queue_.back() = std::move(call);
    }
    ++under_way_;
    workers_.job_there();
    return true;
}

void waiting_calls::one_call(std::unique_lock<std::mutex>& lock) noexcept {
    std::unique_ptr<waiting_call> call = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    call->execute();
    lock.lock();
    finished_.push_back(std::move(call));
    any_finished_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

bool waiting_calls::take_finished() noexcept {
    if (!any_finished_.load(std::memory_order_acquire)) return false;
    for (;;) { // one at a time: what it does may start another
        std::unique_ptr<waiting_call> next;
        {
            const std::lock_guard guard(workers_.mutex());
            if (finished_.empty()) {
                any_finished_.store(false, std::memory_order_release);
                std::uint64_t count; // here, where nobody can be about to write: what stayed readable would wake us for ever
                static_cast<void>(!::read(wake_.get(), &count, sizeof count));
                return true;
            }
            next = std::move(finished_.front());
            finished_.erase(finished_.begin());
        }
        --under_way_;
        next->finished();
    }
}

void waiting_calls::finish_all() noexcept {
    workers_.end();
    take_finished();
    while (!queue_.empty()) {
        const std::unique_ptr<waiting_call> unbegun = std::move(queue_.front());
        queue_.pop_front();
        --under_way_;
        unbegun->finished();
    }
}

} // namespace corewire::verbs
