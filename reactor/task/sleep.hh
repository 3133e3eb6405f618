// sleep_until, sleep_for, yield, maybe_yield: giving the core away for a time, for a turn, or when it is time to.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/waiter.hh>

#include <system_error>

namespace corewire {

/// Wakes at its time; ends early, with ECANCELED thrown, when its token stops.
class sleep_awaiter final : public bounded_waiter {
public:
    sleep_awaiter(time_point until, stop_token stop) noexcept : bounded_waiter({until, stop}), until_(until) {}
    bool await_ready() const noexcept { return until_ <= reactor::current().now(); }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        return arm_limits();
    }
    std::error_code failure_code() const noexcept {
        return failure() == std::errc::operation_canceled ? std::make_error_code(failure()) : std::error_code{};
    }
    void await_resume() const {
        if (const std::error_code why = failure_code()) throw std::system_error(why, "sleep");
    }

private:
    time_point until_;
};

inline sleep_awaiter sleep_until(time_point at, stop_token stop = {}) noexcept { return {at, stop}; }
inline sleep_awaiter sleep_for(duration d, stop_token stop = {}) noexcept {
    const time_point now = reactor::current().now();
    return {d < never - now ? now + d : never, stop};
}

/// Gives way: everybody else who is ready runs, and every poller has its look, before this coroutine goes on.
class yield_awaiter final : public waiter {
public:
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        reactor::make_ready_next_turn(*this);
    }
    void await_resume() const noexcept {}
};
inline yield_awaiter yield() noexcept { return {}; }

/// For long loops: gives way once the turn has lasted as long as the loop allows (reactor_options::resume_time), and costs a
/// count otherwise; the clock is looked at every 16 calls.
///     for (auto& entry : everything) { work(entry); co_await cw::maybe_yield(); }
class maybe_yield_awaiter final : public waiter {
public:
    bool await_ready() const noexcept { return !reactor::current().turn_is_long(); }
    void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        reactor::make_ready_next_turn(*this);
    }
    void await_resume() const noexcept {}
};
inline maybe_yield_awaiter maybe_yield() noexcept { return {}; }

} // namespace corewire
