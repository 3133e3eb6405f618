// as_result: awaits without throwing; what would be thrown is a value.
//
//     auto turn = co_await cw::as_result(m.lock({.deadline = soon}));      // result<mutex::guard, std::error_code>
//     if (!turn) return busy(turn.error());
//     auto reply = co_await cw::as_result(ask(peer));                      // of a task: result<T, std::exception_ptr>
//
// For the waits of this folder and for tasks nothing is thrown on the way, so an error costs what a value costs. Other awaitables
// are caught: a std::system_error becomes its code, anything else passes through. An error that has a long way to go travels
// cheapest in the tasks' own type: task<result<T>>.
// Awaited where it is written: it refers to the wait, which is a temporary of the same expression.
#pragma once

#include <corewire/reactor/base/result.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <concepts>
#include <coroutine>
#include <exception>
#include <system_error>
#include <type_traits>
#include <utility>

namespace corewire {

namespace detail {

/// Of a task: looks at its promise instead of asking it to throw.
template <typename T>
class task_as_result {
public:
    explicit task_as_result(task<T>&& t) noexcept : task_(std::move(t)) {}
    bool await_ready() noexcept { return task_.operator co_await().await_ready(); }
    bool await_suspend(std::coroutine_handle<> h) { return task_.operator co_await().await_suspend(h); }
    result<T, std::exception_ptr> await_resume() {
        if constexpr (std::is_void_v<T>)
            if (!task_) return {}; // it has taken its frame with it
        auto& promise = task_.handle().promise();
        if (promise.failure) return unexpected{std::move(promise.failure)};
        if constexpr (std::is_void_v<T>)
            return {};
        else
            return std::move(*promise.value);
    }

private:
    task<T> task_;
};

/// Of any other awaiter.
template <typename Awaiter>
class wait_as_result {
    using value = decltype(std::declval<Awaiter&>().await_resume());

public:
    explicit wait_as_result(Awaiter& inner) noexcept : inner_(inner) {}
    bool await_ready() { return inner_.await_ready(); }
    auto await_suspend(std::coroutine_handle<> h) { return inner_.await_suspend(h); }
    result<value, std::error_code> await_resume() {
        if constexpr (std::derived_from<Awaiter, queued_waiter>) {
            if (inner_.failure() != std::errc{}) return unexpected{std::make_error_code(inner_.failure())};
            return take();
        } else {
            try {
                return take();
            } catch (const std::system_error& e) {
                return unexpected{e.code()};
            }
        }
    }

private:
    result<value, std::error_code> take() {
        if constexpr (std::is_void_v<value>) {
            inner_.await_resume();
            return {};
        } else {
            return inner_.await_resume();
        }
    }
    Awaiter& inner_;
};

} // namespace detail

template <typename T>
[[nodiscard]] detail::task_as_result<T> as_result(task<T>&& t) noexcept {
    return detail::task_as_result<T>(std::move(t));
}
template <typename Awaiter>
    requires(!std::is_lvalue_reference_v<Awaiter> && requires(Awaiter& a) { a.await_resume(); })
[[nodiscard]] detail::wait_as_result<Awaiter> as_result(Awaiter&& wait) noexcept {
    return detail::wait_as_result<Awaiter>(wait);
}

} // namespace corewire
