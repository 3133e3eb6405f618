// run_blocking(callable): calls something that may block (a library, a slow system call) on a helper thread, and awaits what it
// returns or throws. The shard goes on meanwhile.
//
//     auto call = run_blocking([path] { return read_whole_file(path); }, {.deadline = soon});
//     std::string text = co_await call;
//
// A call allocates once: what the helper has may outlive the wait. The callable is moved to the helper, runs there (no reactor is
// current) and is destroyed on either side. A deadline or a stop ends the wait: a call that still waits for a helper is taken back,
// one that has begun runs on, and its result is dropped. Throws EAGAIN when too many wait
// (blocking_options::queue), and ETIMEDOUT or ECANCELED by its limits; ENOTSUP on a simulated shard.
#pragma once

#include <corewire/reactor/shard/blocking_pool.hh>
#include <corewire/reactor/shard/outcome.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/waiter.hh>

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace corewire {

/// The caller's end: an awaitable, awaited once. Neither copied nor moved.
template <typename F>
class [[nodiscard]] blocking_call final : public bounded_waiter {
public:
    using value = std::invoke_result_t<F&>;

    blocking_call(F called, const wait_limits& limits)
        : bounded_waiter(limits), pool_(runtime::current().blocking()), unstarted_(std::make_unique<job>(std::move(called))) {}
    ~blocking_call() { leave(); }
    blocking_call(const blocking_call&) = delete;
    blocking_call& operator=(const blocking_call&) = delete;

    struct awaiter {
        blocking_call& call;
        bool await_ready() const noexcept { return false; }
        bool await_suspend(std::coroutine_handle<> h) { return call.begin(h); }
        value await_resume() {
            call.throw_if_failed("run_blocking");
            return call.outcome_.take();
        }
        std::error_code failure_code() const noexcept { return call.failure_code(); }
    };
    awaiter operator co_await() & noexcept { return {*this}; }
    awaiter operator co_await() && noexcept {
#if defined(__GNUC__) && !defined(__clang__)
        static_assert(std::is_trivially_destructible_v<F>,
                      "g++ would destroy this callable twice: write auto call = run_blocking(...); co_await call;");
#endif
        return {*this};
    }

private:
    struct job final : blocking_job {
        explicit job(F f) : called(std::move(f)) {}
        void execute() noexcept override {
            try {
                if constexpr (std::is_void_v<value>) {
                    called();
                    result.set({});
                } else {
                    result.set(called());
                }
            } catch (...) {
                result.fail(std::current_exception());
            }
        }
        void run(std::unique_ptr<external_call>) noexcept override {
            if (caller != nullptr) caller->answered(std::move(result));
        }
        F called;
        outcome<value> result;
        blocking_call* caller = nullptr; ///< the shard's; null: nobody waits any more
    };

    bool begin(std::coroutine_handle<> h) {
        CW_ASSERT(unstarted_ != nullptr, "a blocking call is awaited twice");
        handle = h;
        if (!arm_limits()) return false;
        job* started = unstarted_.get();
        started->caller = this;
        started->home = &runtime::current().inbox(this_shard::id());
        std::unique_ptr<blocking_job> owned = std::move(unstarted_);
        try {
            if (pool_.start(owned)) {
                started_ = started;
                return true;
            }
        } catch (...) { // no memory: the caller goes on with that, and nothing of this call may wake it later
            disarm_limits();
            throw;
        }
        disarm_limits();
        fail(std::errc::resource_unavailable_try_again);
        return false;
    }
    void answered(outcome<value>&& result) noexcept {
        started_ = nullptr;
        outcome_ = std::move(result);
        disarm_limits();
        reactor::make_ready(*this);
    }
    void leave() noexcept {
        job* left = std::exchange(started_, nullptr);
        if (left != nullptr && !pool_.withdraw(*left)) left->caller = nullptr;
    }
    void abandon() noexcept override {
        leave();
        unlink();
    }

    blocking_pool& pool_;
    std::unique_ptr<job> unstarted_;
    job* started_ = nullptr; ///< while it is out
    outcome<value> outcome_;
};

/// See the head of this file. On a shard of a runtime.
template <typename F>
blocking_call<std::decay_t<F>> run_blocking(F&& called, wait_limits limits = {}) {
    return {std::forward<F>(called), limits};
}

} // namespace corewire
