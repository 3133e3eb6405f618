// with_deadline: a whole task, however many waits it has inside, bounded as one wait is.
//
//     auto reply = co_await cw::with_deadline(ask(peer), {.deadline = cw::reactor::current().now() + 2s, .stop = stopping});
//
// So are several at once, which take no limits of their own: with_deadline(when_any(a(), b()), limits); and when_all(),
// parallel_for_each(), max_concurrent_for_each() likewise.
//
// When its limits come first the task is destroyed where it stands, with its waits, guards and children, and ETIMEDOUT or
// ECANCELED is thrown; if it ends in the same turn before that, it has ended in time, and its result is given. What it has taken and still
// works on goes with it: to lose nothing it takes with its last wait. One that has to end in its own way (say goodbye, write back) takes a
// stop token instead.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>
#include <corewire/reactor/task/when_all.hh>

namespace corewire {

namespace detail {

/// Waits for one task that nobody awaits, within limits.
class bounded_end final : public task_listener, public bounded_waiter {
public:
    explicit bounded_end(const wait_limits& limits) noexcept
        : task_listener{&bounded_end::on_task_done}, bounded_waiter(limits) {}
    template <typename T>
    void start(const task<T>& t) {
        CW_ASSERT(t, "an empty task was awaited");
        t.handle().promise().listener = this;
        t.handle().resume();
    }
    bool await_ready() const noexcept { return done_; }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        if (arm_limits()) return true;
        handle = nullptr;
        return false;
    }
    void await_resume() const noexcept {}
    bool done() const noexcept { return done_; }
    /// To be called when the task is gone.
    void check() const { throw_if_failed("with_deadline"); }

private:
    static void on_task_done(task_listener& listener, task_promise&) noexcept {
        auto& self = static_cast<bounded_end&>(listener);
        self.done_ = true;
        if (!self.handle) return; // it ended inside start()
        self.disarm_limits();
        go_on(self); // perhaps with limits that came first, though not to the task's end
    }
    bool done_ = false;
};

} // namespace detail

/// Starts `work` and gives its result, or throws its exception; ETIMEDOUT or ECANCELED if `limits` come first.
template <typename T>
task<T> with_deadline(task<T> work, wait_limits limits) {
    detail::bounded_end end(limits);
    end.start(work);
    co_await end;
    if (!end.done()) {
        work = {};
        end.check();
    }
    co_return work.handle().promise().take();
}

} // namespace corewire
