// as_result: awaits without throwing; what would be thrown is a value.
//
//     auto turn = co_await cw::as_result(m.lock({.deadline = soon}));      // result<mutex::guard, std::error_code>
//     if (!turn) return busy(turn.error());
//     auto reply = co_await cw::as_result(ask(peer));                      // of a task: result<T, std::exception_ptr>
//
// Of tasks, and of waits that say beforehand what they would throw (failure_code(): those of this folder, of files, sockets, RDMA
// channels, futures and calls between shards), nothing is thrown on the way: an error costs what a value costs. What was thrown
// elsewhere, by whoever kept a promise or ran a call, is thrown and caught here: a std::system_error becomes its code, anything else
// passes through. An error that has a long way to go travels cheapest in the tasks' own type: task<result<T>>.
// Awaited where it is written: it refers to the wait, which is a temporary of the same expression.
#pragma once

#include <corewire/reactor/base/result.hh>
#include <corewire/reactor/task/task.hh>

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
    bool await_ready() noexcept { return task_.await_ready(); }
    bool await_suspend(std::coroutine_handle<> h) { return task_.await_suspend(h); }
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

/// Says beforehand what await_resume() would throw.
template <typename Awaiter>
concept tells_failure = requires(const Awaiter& a) {
    { a.failure_code() } noexcept -> std::same_as<std::error_code>;
};

/// Of any other awaiter. `Held`: a reference to it, or itself.
template <typename Held>
class wait_as_result {
    using value = decltype(std::declval<Held&>().await_resume());

public:
    template <typename Get>
    explicit wait_as_result(Get&& get) noexcept : inner_(get()) {} // made here: awaiters do not move
    bool await_ready() { return inner_.await_ready(); }
    auto await_suspend(std::coroutine_handle<> h) { return inner_.await_suspend(h); }
    result<value, std::error_code> await_resume() {
        if constexpr (tells_failure<std::remove_reference_t<Held>>)
            if (const std::error_code why = inner_.failure_code()) return unexpected{why};
        try {
            if constexpr (std::is_void_v<value>) {
                inner_.await_resume();
                return {};
            } else {
                return inner_.await_resume();
            }
        } catch (const std::system_error& e) {
            return unexpected{e.code()};
        }
    }

private:
    Held inner_;
};

template <typename T>
concept is_task = requires { typename std::remove_cvref_t<T>::promise_type; };

} // namespace detail

template <typename T>
[[nodiscard]] detail::task_as_result<T> as_result(task<T>&& t) noexcept {
    return detail::task_as_result<T>(std::move(t));
}
template <typename Awaiter>
    requires(!std::is_lvalue_reference_v<Awaiter> && requires(Awaiter& a) { a.await_resume(); })
[[nodiscard]] auto as_result(Awaiter&& wait) noexcept {
    return detail::wait_as_result<Awaiter&>([&]() -> Awaiter& { return wait; });
}
/// What has an awaiter: a future, or a call that submit_to(), run_blocking() or foreign_ptr::invoke() has made.
///     auto call = cw::submit_to(1, work); auto done = co_await cw::as_result(call);
template <typename Awaitable>
    requires(!detail::is_task<Awaitable> && requires(Awaitable&& a) { std::forward<Awaitable>(a).operator co_await(); })
[[nodiscard]] auto as_result(Awaitable&& call) noexcept {
    using awaiter = decltype(std::forward<Awaitable>(call).operator co_await());
    return detail::wait_as_result<awaiter>([&]() -> awaiter { return std::forward<Awaitable>(call).operator co_await(); });
}

} // namespace corewire
