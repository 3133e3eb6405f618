// event: a flag that coroutines wait for. set() wakes all who wait, in the order they came; it stays set until reset().
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/waiter.hh>

#include <system_error>

namespace corewire {

class event {
public:
    bool is_set() const noexcept { return set_; }
    void set() noexcept {
        set_ = true;
        while (!waiting_.empty()) {
            auto& w = static_cast<awaiter&>(waiting_.pop_front());
            w.woken();
        }
    }
    void reset() noexcept { set_ = false; }

    class awaiter final : public bounded_waiter {
    public:
        awaiter(event& e, const wait_limits& limits) noexcept : bounded_waiter(limits), event_(e) {}
        bool await_ready() const noexcept { return event_.set_; }
        bool await_suspend(std::coroutine_handle<> h) noexcept {
            handle = h;
            if (!arm_limits()) return false;
            event_.waiting_.push_back(*this);
            return true;
        }
        void await_resume() const {
            if (failure() != std::errc{}) throw std::system_error(std::make_error_code(failure()), "waiting for an event");
        }

    private:
        friend class event;
        void woken() noexcept {
            disarm_limits();
            reactor::current().make_ready(*this);
        }
        event& event_;
    };
    awaiter wait(wait_limits limits = {}) noexcept { return {*this, limits}; }

private:
    intrusive_list<waiter> waiting_;
    bool set_ = false;
};

} // namespace corewire
