// condition: "something has changed, look again". There is no mutex to it: on one shard nobody else runs between the look
// and the wait.
//
//     co_await c.wait_until([&] { return queue.size() > 3; });         elsewhere: queue.push(x); c.notify_one();
//
// notify_one() wakes the one who has waited longest; notify_all() those who wait now. A notification that its receiver did not
// live to see goes to the next in line. One shard's.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/wait_queue.hh>

#include <concepts>
#include <cstddef>

namespace corewire {

class condition {
public:
    std::size_t waiting() const noexcept { return line_.size(); }
    void notify_one() noexcept {
        if (line_.empty()) return;
        batons_.push_back(static_cast<awaiter&>(line_.front()).baton_);
        line_.wake_front();
    }
    void notify_all() noexcept { line_.wake_all(); }

private:
    /// Held by one that notify_one() has chosen, until it runs. Leaves the list by itself, whoever goes first.
    struct baton : list_hook {};

public:
    class awaiter final : public queued_waiter {
    public:
        awaiter(condition& c, const wait_limits& limits) noexcept : queued_waiter(limits), condition_(c) {}
        ~awaiter() {
            if (!baton_.linked()) return;
            baton_.unlink();
            condition_.notify_one(); // was chosen, and destroyed instead of resumed
        }
        bool await_ready() const noexcept { return false; }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return stand_in(condition_.line_, h); }
        void await_resume() {
            baton_.unlink();
            throw_if_failed("waiting for a condition");
        }

    private:
        friend class condition;
        condition& condition_;
        baton baton_;
    };
    /// Waits for the next notification. Throws ETIMEDOUT or ECANCELED by its limits; ECANCELED when the condition is
    /// destroyed.
    awaiter wait(wait_limits limits = {}) noexcept { return {*this, limits}; }
    /// Waits until `holds()`: looks now and after each notification. The predicate is kept in the waiting task's frame.
    template <std::predicate P>
    task<> wait_until(P holds, wait_limits limits = {}) {
        while (!holds()) co_await wait(limits);
    }

private:
    wait_queue line_;
    intrusive_list<baton> batons_;
};

} // namespace corewire
