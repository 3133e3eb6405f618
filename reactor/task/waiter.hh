// What a suspended coroutine leaves behind: a list node inside its own frame.
//
//     primitive's wait queue --wake--> reactor's run queue --turn--> handle.resume()
//
// A waiter is on at most one list at a time. When its frame is destroyed it leaves that list, so nothing dangles
// and waiting never allocates.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/loop/timer.hh>
#include <corewire/reactor/task/stop.hh>

#include <coroutine>
#include <cstdint>
#include <optional>
#include <system_error>

namespace corewire {

struct run_queue;

namespace detail {
/// Where what this thread runs now belongs: the scheduling group of the running coroutine, else its reactor's first one.
inline thread_local constinit run_queue* running_queue = nullptr;
} // namespace detail

/// Made by the coroutine that will wait, and woken in the scheduling group in which that runs.
class waiter : public list_hook {
public:
    std::coroutine_handle<> handle;
    run_queue* queue = detail::running_queue;
};

/// How long, and at whose pleasure, a wait may last. Every awaitable of Corewire takes one.
///     co_await stream.read({.deadline = reactor::current().now() + 5s, .stop = source.token()});
struct wait_limits {
    time_point deadline = never;
    stop_token stop{};
    bool bounded() const noexcept { return deadline != never || stop.stop_possible(); }
};

/// A waiter that gives up when its deadline passes (std::errc::timed_out) or its token stops
/// (std::errc::operation_canceled). The machinery is built only when limits are given: an unbounded wait costs nothing.
class bounded_waiter : public waiter {
public:
    explicit bounded_waiter(const wait_limits& limits) noexcept : limits_(limits) {}

    /// Why the wait ended early; no error if it was woken by what it waited for.
    std::errc failure() const noexcept { return failure_; }
    /// What await_resume() would throw (as_result asks): none, if it would not. Hidden by who throws for other reasons, too.
    std::error_code failure_code() const noexcept { return std::make_error_code(failure_); }

protected:
    /// The wait ends, or never begins, for a reason of the primitive's own.
    void fail(std::errc why) noexcept { failure_ = why; }
    /// Throws failure() as std::system_error if there is one; `what` names the wait.
    void throw_if_failed(const char* what) const {
        if (failure_ != std::errc{}) [[unlikely]]
            throw_failure(what);
    }
    /// Call when suspending. False: the limits are exhausted already (failure() is set), so do not suspend.
    bool arm_limits() noexcept { return !limits_.bounded() || arm_limits_slowly(); }
    /// Called when the wait must end early, before the waiter is made ready: leave the primitive (default: unlink()).
    virtual void abandon() noexcept { unlink(); }
    ~bounded_waiter() = default;

    /// Call when woken normally: disarms the timer and the stop callback.
    void disarm_limits() noexcept { guard_.reset(); }

private:
    struct guard {
        struct deadline_timer : timer {
            bounded_waiter* owner;
            explicit deadline_timer(bounded_waiter* o) noexcept;
        } expiry;
        struct stopper : stop_callback {
            bounded_waiter* owner;
            explicit stopper(bounded_waiter* o) noexcept;
        } stop;
        explicit guard(bounded_waiter* o) noexcept : expiry(o), stop(o) {}
    };
    bool arm_limits_slowly() noexcept;
    [[noreturn, gnu::cold]] void throw_failure(const char* what) const;
    void give_up(std::errc why) noexcept;

    wait_limits limits_;
    std::errc failure_{};
    std::optional<guard> guard_;
};

} // namespace corewire
