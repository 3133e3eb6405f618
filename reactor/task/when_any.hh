// when_any: several tasks at once; the first that ends decides, and the others are destroyed where they stand.
//
//     auto first = co_await cw::when_any(reply_of(a), reply_of(b));              // a variant: first.index() says which
//     auto [index, value] = co_await cw::when_any(std::move(tasks));              // std::vector<task<T>>
//
// They are started in order, up to the first that ends at once. If the first to end fails, its exception is thrown. The others
// are gone before anything else runs: their frames, and with them their waits, guards and children. So two that receive from channels
// take one value in all. What one has taken and still works on when it is destroyed goes with it: it should take with its last wait.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/task/when_all.hh>

#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace corewire {

namespace detail {

/// Told by tasks that they have ended; the one who waits goes on with the first of them.
class first_done : public task_listener, public waiter {
public:
    first_done() noexcept : task_listener{&first_done::on_task_done} {}
    /// Unless one has ended already.
    template <typename T>
    void start(const task<T>& t) {
        if (first_ != nullptr) return;
        CW_ASSERT(t, "an empty task was awaited");
        t.handle().promise().listener = this;
        t.handle().resume();
    }
    template <typename T>
    bool is(const task<T>& t) const noexcept {
        return first_ == &t.handle().promise();
    }
    bool await_ready() const noexcept { return first_ != nullptr; }
    void await_suspend(std::coroutine_handle<> h) noexcept { handle = h; }
    void await_resume() const noexcept {}

private:
    static void on_task_done(task_listener& listener, task_promise& finished) noexcept {
        auto& self = static_cast<first_done&>(listener);
        if (self.first_ != nullptr) return;
        self.first_ = &finished;
        if (self.handle) go_on(self);
    }
    const task_promise* first_ = nullptr;
};

/// Takes the winner's result, whichever it is, after the others have been destroyed.
template <typename Result, typename Tasks, std::size_t... I>
Result take_first(const first_done& first, Tasks& tasks, std::index_sequence<I...>) {
    std::optional<Result> taken;
    ((first.is(std::get<I>(tasks)) ? static_cast<void>(0) : static_cast<void>(std::get<I>(tasks) = {})), ...);
    const auto take = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
        auto& t = std::get<At>(tasks);
        if (t) taken.emplace(std::in_place_index<At>, result_of(t));
    };
    (take(std::integral_constant<std::size_t, I>{}), ...);
    return std::move(*taken);
}

} // namespace detail

/// What the first of several tasks of one type gave, and its place among them. void becomes detail::nothing.
template <typename T>
struct first_of {
    std::size_t index;
    detail::something<T> value;
};

/// A variant whose index is the place of the task that ended first; void becomes detail::nothing.
template <typename... T>
    requires(sizeof...(T) > 0)
task<std::variant<detail::something<T>...>> when_any(task<T>... tasks) {
    std::tuple<task<T>...> all{std::move(tasks)...};
    detail::first_done first;
    std::apply([&](auto&... each) { (first.start(each), ...); }, all);
    co_await first;
    using result = std::variant<detail::something<T>...>;
    co_return detail::take_first<result>(first, all, std::index_sequence_for<T...>{});
}

template <typename T>
task<first_of<T>> when_any(std::vector<task<T>> tasks) {
    CW_ASSERT(!tasks.empty(), "when_any() of no tasks would wait for ever");
    detail::first_done first;
    for (const task<T>& t : tasks) first.start(t);
    co_await first;
    std::size_t index = 0;
    while (!first.is(tasks[index])) ++index;
    task<T> winner = std::move(tasks[index]);
    tasks.clear();
    co_return first_of<T>{index, detail::result_of(winner)};
}

} // namespace corewire
