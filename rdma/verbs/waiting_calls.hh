// Calls of libibverbs that may wait for the network, on threads of their own: what makes a way to a GID (an address handle, a queue
// pair in RTR) has the kernel ask for the neighbour behind it on RoCE, which answers nothing for up to a second if there is none. The GID
// is often a peer's word; so no shard makes such a call itself.
//
//     owner: start(call) --queue--> a thread: execute() --eventfd--> owner's poll(): finished(), and the call is gone
//
// Belongs to one thread, mostly a shard, whose reactor it may be a poller of; who has none asks take_finished(). It has threads of its own
// and takes none of run_blocking()'s, so that strangers' GIDs hold up no file, and ports may use it, which are no coroutines. Bounds:
// `threads` calls at a time, `queue` that wait for a thread: a further one is refused.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/base/worker_threads.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

namespace corewire::verbs {

class waiting_call {
public:
    waiting_call() = default;
    waiting_call(const waiting_call&) = delete;
    virtual ~waiting_call() = default;
    /// On a thread of its own. What it throws it keeps.
    virtual void execute() noexcept = 0;
    /// On the owner's thread; also if execute() was never called, when the owner ends.
    virtual void finished() noexcept = 0;
};

class waiting_calls final : public poller {
public:
    static constexpr unsigned usual_threads = 4;
    explicit waiting_calls(unsigned threads = usual_threads, std::size_t queue = 256);
    ~waiting_calls() { finish_all(); }
    waiting_calls(const waiting_calls&) = delete;

    /// False: too many wait, or there is no thread; the call stays with the caller.
    bool start(std::unique_ptr<waiting_call>& call) noexcept;
    /// True if any had finished.
    bool take_finished() noexcept;
    /// Waits for those that have begun; then all are finished(). Nothing can be started any more.
    void finish_all() noexcept;
    std::size_t under_way() const noexcept { return under_way_; }

    bool poll(time_point) override { return take_finished(); }
    bool prepare_sleep() override { return !any_finished_.load(std::memory_order_acquire); }
    int wake_fd() const override { return wake_.get(); }

private:
    void one_call(std::unique_lock<std::mutex>& lock) noexcept;

    const std::size_t limit_;
    unique_fd wake_;
    std::size_t under_way_ = 0; ///< the owner's
    std::deque<std::unique_ptr<waiting_call>> queue_;     ///< guarded, as the next, by the workers' mutex
    std::vector<std::unique_ptr<waiting_call>> finished_; ///< has room for all that are under way
    std::atomic<bool> any_finished_{false};
    worker_threads workers_; ///< the last member: they end first
};

} // namespace corewire::verbs
