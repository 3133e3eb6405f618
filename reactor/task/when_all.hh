// when_all: several tasks at once, awaited together.
//
//     auto [a, b] = co_await cw::when_all(first(), second());
//     co_await cw::when_all(std::move(tasks));                 // std::vector<task<>>
//
// All are started in order, then all are waited for, also when one fails; then the first failure, in the order of the
// arguments, is thrown. Destroying the wait destroys the tasks.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <tuple>
#include <vector>

namespace corewire {

namespace detail {

/// Who waited for tasks goes on as the deciding one ends, like one who awaits a task: were it put in line, a limit reached meanwhile, or
/// another task, could throw away what that one gave. In line only when the task ended in another scheduling group.
inline void go_on(waiter& w) noexcept {
    if (w.queue != running_queue) return reactor::make_ready(w);
    w.unlink();
    w.handle.resume();
}

/// Counts tasks down and wakes the one who waits for the last.
class countdown : public task_listener, public waiter {
public:
    countdown() noexcept : task_listener{&countdown::on_task_done} {}
    template <typename T>
    void start(const task<T>& t) {
        ++running_;
        const auto frame = t.handle();
        frame.promise().listener = this;
        frame.resume();
    }
    bool await_ready() const noexcept { return running_ == 0; }
    void await_suspend(std::coroutine_handle<> h) noexcept { handle = h; }
    void await_resume() const noexcept {}

private:
    static void on_task_done(task_listener& listener, task_promise&) noexcept {
        auto& self = static_cast<countdown&>(listener);
        if (--self.running_ == 0 && self.handle) go_on(self);
    }
    std::size_t running_ = 0;
};

struct nothing {};
template <typename T>
using something = std::conditional_t<std::is_void_v<T>, nothing, T>;

template <typename T>
something<T> result_of(task<T>& t) {
    if constexpr (std::is_void_v<T>) {
        t.handle().promise().take();
        return {};
    } else {
        return t.handle().promise().take();
    }
}

} // namespace detail

/// A tuple of the results; void becomes detail::nothing.
template <typename... T>
task<std::tuple<detail::something<T>...>> when_all(task<T>... tasks) {
    detail::countdown all;
    (all.start(tasks), ...);
    co_await all;
    co_return std::tuple<detail::something<T>...>{detail::result_of(tasks)...};
}

inline task<> when_all(std::vector<task<>> tasks) {
    detail::countdown all;
    for (task<>& t : tasks) all.start(t);
    co_await all;
    for (task<>& t : tasks) detail::result_of(t);
}

template <typename T>
task<std::vector<T>> when_all(std::vector<task<T>> tasks) {
    detail::countdown all;
    for (task<T>& t : tasks) all.start(t);
    co_await all;
    std::vector<T> results;
    results.reserve(tasks.size());
    for (task<T>& t : tasks) results.push_back(detail::result_of(t));
    co_return results;
}

} // namespace corewire
