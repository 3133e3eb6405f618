// event: a flag that coroutines wait for. set() wakes all who wait, in the order they came; it stays set until reset().
#pragma once

#include <corewire/reactor/task/wait_queue.hh>

namespace corewire {

class event {
public:
    bool is_set() const noexcept { return set_; }
    void set() noexcept {
        set_ = true;
        waiting_.wake_all();
    }
    void reset() noexcept { set_ = false; }
    std::size_t waiting() const noexcept { return waiting_.size(); }

    class awaiter final : public queued_waiter {
    public:
        awaiter(event& e, const wait_limits& limits) noexcept : queued_waiter(limits), event_(e) {}
        bool await_ready() const noexcept { return event_.set_; }
        bool await_suspend(std::coroutine_handle<> h) noexcept { return stand_in(event_.waiting_, h); }
        void await_resume() const { throw_if_failed("waiting for an event"); }

    private:
        event& event_;
    };
    /// Throws ETIMEDOUT or ECANCELED by its limits; ECANCELED when the event is destroyed.
    awaiter wait(wait_limits limits = {}) noexcept { return {*this, limits}; }

private:
    wait_queue waiting_;
    bool set_ = false;
};

} // namespace corewire
