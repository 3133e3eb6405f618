// switch_to(group), run_in(group, task): moving work into another scheduling group (loop/scheduling_group.hh).
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <exception>

namespace corewire {

/// From here on, this coroutine (and who awaits it) runs as part of `group`. It stands in line there first, unless it
/// belongs to it already. An awaitable that was made before the switch wakes it in the group where it was made.
class switch_awaiter final : public waiter {
public:
    explicit switch_awaiter(scheduling_group group) noexcept { queue = &group.queue(); }
    bool await_ready() const noexcept { return queue == detail::running_queue; }
    void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        reactor::make_ready(*this);
    }
    void await_resume() const noexcept {}
};
inline switch_awaiter switch_to(scheduling_group group) noexcept { return switch_awaiter{group}; }

/// Runs `work` as part of `group`, and comes back into the caller's own with its result or its exception.
template <typename T>
task<T> run_in(scheduling_group group, task<T> work) {
    const scheduling_group home = scheduling_group::current();
    std::exception_ptr failure;
    co_await switch_to(group);
    try {
        if constexpr (std::is_void_v<T>) {
            co_await work;
            co_await switch_to(home);
            co_return;
        } else {
            T result = co_await work;
            co_await switch_to(home);
            co_return std::move(result);
        }
    } catch (...) {
        failure = std::current_exception();
    }
    co_await switch_to(home);
    std::rethrow_exception(failure);
}

} // namespace corewire
