// run_until_complete: drives a reactor from the outside until one task has finished, and gives its result. For tests,
// tools, and programs that only need one answer. sleep_until_complete: the same for programs that mostly wait.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/task.hh>

namespace corewire {

/// Turns without sleeping. Rethrows what the task threw.
template <typename T>
T run_until_complete(reactor& r, task<T> t) {
    reactor::scope here(r);
    const auto frame = t.handle();
    frame.resume();
    while (!frame.done()) r.poll_once();
    return frame.promise().take();
}

/// Sleeps while there is nothing to do, as reactor::run() does. Rethrows what the task threw.
template <typename T>
T sleep_until_complete(reactor& r, task<T> t) {
    struct exit_at_end {
        reactor& on;
        ~exit_at_end() { on.request_exit(); }
    };
    constexpr auto bounded = [](reactor& on, task<T> work) -> task<T> {
        const exit_at_end guard{on};
        co_return co_await std::move(work);
    };
    reactor::scope here(r);
    const task<T> whole = bounded(r, std::move(t));
    whole.handle().resume();
    r.run();
    return whole.handle().promise().take();
}

} // namespace corewire
