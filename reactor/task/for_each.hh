// parallel_for_each, max_concurrent_for_each: a task for each element of a range, all at once or so many at a time.
//
//     co_await cw::parallel_for_each(peers, [](peer& p) { return p.flush(); });
//     co_await cw::max_concurrent_for_each(files, 16, [](const std::string& name) { return copy(name); });
//
// Elements are started in order. After the first failure no more are started; those that run are waited for; then it is thrown.
// The function is kept in the frame until the last task has ended, so its captures outlive them. A range that is an lvalue is
// used by reference, a temporary is kept. Destroying the wait destroys the tasks; for limits see with_deadline.hh.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <ranges>
#include <utility>

namespace corewire {

namespace detail {

/// Tasks of one parent, which waits until few enough are left.
class children final : public task_listener, public waiter {
public:
    children() noexcept : task_listener{&children::on_task_done} {}
    ~children() {
        while (!tasks_.empty()) {
            task_promise& youngest = tasks_.back();
            youngest.unlink();
            std::coroutine_handle<>::from_address(youngest.self).destroy();
        }
    }
    void start(task<> t) {
        CW_ASSERT(t, "an empty task was awaited");
        const auto frame = t.release();
        task_promise& promise = frame.promise();
        promise.listener = this;
        promise.self = frame.address();
        tasks_.push_back(promise);
        ++running_;
        frame.resume();
    }
    void fail(std::exception_ptr why) noexcept {
        if (!failure_) failure_ = std::move(why);
    }
    const std::exception_ptr& failure() const noexcept { return failure_; }
    /// co_await waits until `most` or fewer run.
    void wait_for_at_most(std::size_t most) noexcept { most_ = most; }
    bool await_ready() const noexcept { return running_ <= most_; }
    void await_suspend(std::coroutine_handle<> h) noexcept { handle = h; }
    void await_resume() noexcept { handle = nullptr; }

private:
    static void on_task_done(task_listener& listener, task_promise& finished) noexcept {
        auto& self = static_cast<children&>(listener);
        if (finished.failure) self.fail(std::move(finished.failure));
        finished.unlink();
        std::coroutine_handle<>::from_address(finished.self).destroy();
        if (--self.running_ == self.most_ && self.handle) reactor::make_ready(self);
    }
    intrusive_list<task_promise> tasks_;
    std::size_t running_ = 0;
    std::size_t most_ = 0;
    std::exception_ptr failure_;
};

template <typename View, typename F>
task<> for_each_within(View elements, std::size_t most, F f) {
    CW_ASSERT(most > 0, "a for_each that may run nothing at a time");
    children running;
    for (auto&& element : elements) {
        try {
            running.start(std::invoke(f, std::forward<decltype(element)>(element)));
        } catch (...) {
            running.fail(std::current_exception()); // before there was a task
        }
        if (running.failure()) break;
        running.wait_for_at_most(most - 1);
        co_await running;
        if (running.failure()) break;
    }
    running.wait_for_at_most(0);
    co_await running;
    if (running.failure()) std::rethrow_exception(running.failure());
}

} // namespace detail

/// `f(element)`, a task<>, for each element; at most `most` (at least 1) at a time.
template <std::ranges::viewable_range Range, typename F>
task<> max_concurrent_for_each(Range&& range, std::size_t most, F f) {
    return detail::for_each_within(std::views::all(std::forward<Range>(range)), most, std::move(f));
}
/// `f(element)`, a task<>, for each element, all at once.
template <std::ranges::viewable_range Range, typename F>
task<> parallel_for_each(Range&& range, F f) {
    return max_concurrent_for_each(std::forward<Range>(range), std::numeric_limits<std::size_t>::max(), std::move(f));
}

} // namespace corewire
