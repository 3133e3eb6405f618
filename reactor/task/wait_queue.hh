// wait_queue: the line in which coroutines stand for a primitive, first come, first served. Every primitive of this folder
// that has a line has this one.
//
//     outside --stand_in()--> queued --wake_front()--> woken, on the run queue        (the primitive gave what was asked for)
//                               |----> deadline, stop token, destruction              (left_early() tells the primitive)
//
// Nodes live in the frames of those who wait, so a line allocates nothing and is bounded by the number of coroutines.
// A line that is destroyed ends the waits in it with ECANCELED. One shard's.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/waiter.hh>

#include <cstddef>
#include <utility>

namespace corewire {

class wait_queue;

/// A waiter that stands in a wait_queue. A primitive's awaiter derives from it:
/// await_suspend() is stand_in(); await_resume() begins with throw_if_failed(); a destructor for those who must pass on
/// what they were given, or the place they held, calls leave().
class queued_waiter : public bounded_waiter {
public:
    using bounded_waiter::bounded_waiter;

    // --- for wait_queue, which has unlinked it -------------------------------------------------------------------

    void wake(std::errc why) noexcept {
        queued_ = false;
        if (why != std::errc{}) fail(why);
        disarm_limits();
        reactor::make_ready(*this);
    }
    void forget_line() noexcept { queued_ = false; }

protected:
    ~queued_waiter() = default;
    /// False: the limits are exhausted already, do not suspend.
    inline bool stand_in(wait_queue& line, std::coroutine_handle<> h) noexcept;
    /// The frame goes: gives up a place that is still held. True if there was one; the line may move on then.
    bool leave() noexcept {
        if (!std::exchange(queued_, false)) return false;
        unlink();
        return true;
    }
    /// Called when a limit ended the wait: those behind may have waited for this one only.
    virtual void left_early() noexcept {}

private:
    void abandon() noexcept final {
        leave();
        left_early();
    }
    bool queued_ = false;
};

class wait_queue {
public:
    wait_queue() noexcept = default;
    ~wait_queue() {
        if (!empty()) abandon_all();
    }

    bool empty() const noexcept { return waiting_.empty(); }
    /// Walks the line: for tests and reports.
    std::size_t size() const noexcept { return waiting_.count(); }
    /// Who is next. The line must not be empty.
    queued_waiter& front() noexcept { return static_cast<queued_waiter&>(waiting_.front()); }
    /// Ends the first one's wait: it leaves the line and will be resumed by the loop. With `why`, its wait has failed.
    void wake_front(std::errc why = {}) noexcept { front_unlinked().wake(why); }
    void wake_all(std::errc why = {}) noexcept {
        while (!empty()) wake_front(why);
    }
    /// Ends a wait out of turn.
    void wake(queued_waiter& w, std::errc why) noexcept {
        w.unlink();
        w.wake(why);
    }
    /// Calls `visit(queued_waiter&)` in order; it may wake the one it is given.
    template <typename Visit>
    void for_each(Visit&& visit) {
        waiting_.for_each([&](waiter& w) { visit(static_cast<queued_waiter&>(w)); });
    }

private:
    friend class queued_waiter;
    queued_waiter& front_unlinked() noexcept { return static_cast<queued_waiter&>(waiting_.pop_front()); }
    [[gnu::cold, gnu::noinline]] void abandon_all() noexcept {
        if (reactor::current_or_null() != nullptr) return wake_all(std::errc::operation_canceled);
        while (!empty()) front_unlinked().forget_line(); // after their reactor: they will be destroyed, not resumed
    }
    intrusive_list<waiter> waiting_;
};

inline bool queued_waiter::stand_in(wait_queue& line, std::coroutine_handle<> h) noexcept {
    handle = h;
    if (!arm_limits()) return false;
    queued_ = true;
    line.waiting_.push_back(*this);
    return true;
}

} // namespace corewire
