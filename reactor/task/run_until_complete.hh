// run_until_complete: drives a reactor from the outside until one task has finished, and gives its result. For tests,
// tools, and programs that only need one answer.
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

} // namespace corewire
