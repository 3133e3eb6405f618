#include <corewire/reactor/task/waiter.hh>

#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

bounded_waiter::guard::deadline_timer::deadline_timer(bounded_waiter* o) noexcept
    : timer([](timer& t) noexcept { static_cast<deadline_timer&>(t).owner->give_up(std::errc::timed_out); }), owner(o) {}

bounded_waiter::guard::stopper::stopper(bounded_waiter* o) noexcept
    : stop_callback([](stop_callback& c) noexcept { static_cast<stopper&>(c).owner->give_up(std::errc::operation_canceled); }),
      owner(o) {}

bool bounded_waiter::arm_limits_slowly() noexcept {
    if (limits_.stop.stop_requested()) {
        failure_ = std::errc::operation_canceled;
        return false;
    }
    reactor& r = reactor::current();
    if (limits_.deadline <= r.now()) {
        failure_ = std::errc::timed_out;
        return false;
    }
    guard_.emplace(this);
    if (limits_.deadline != never) r.timers().arm(guard_->expiry, limits_.deadline);
    limits_.stop.subscribe(guard_->stop);
    return true;
}

void bounded_waiter::throw_failure(const char* what) const {
    throw std::system_error(std::make_error_code(failure_), what);
}

void bounded_waiter::give_up(std::errc why) noexcept {
    failure_ = why;
    // The timer or callback that called us is inside guard_: both are off their lists by now, so it may go.
    guard_.reset();
    abandon();
    reactor::make_ready(*this);
}

} // namespace corewire
