#include <corewire/reactor/file/io_wait.hh>

#include <cerrno>
#include <system_error>
#include <unistd.h>

namespace corewire {

io_wait::guard::deadline_timer::deadline_timer(io_wait* o) noexcept
    : timer([](timer& t) noexcept { static_cast<deadline_timer&>(t).owner->give_up(-ETIMEDOUT); }), owner(o) {}

io_wait::guard::stopper::stopper(io_wait* o) noexcept
    : stop_callback([](stop_callback& c) noexcept { static_cast<stopper&>(c).owner->give_up(-ECANCELED); }), owner(o) {}

bool io_wait::arm_limits() noexcept {
    if (limits_.stop.stop_requested()) {
        result_ = why_ = -ECANCELED;
        return false;
    }
    reactor& r = reactor::current();
    if (limits_.deadline <= r.now()) {
        result_ = why_ = -ETIMEDOUT;
        return false;
    }
    guard_.emplace(this);
    if (limits_.deadline != never) r.timers().arm(guard_->expiry, limits_.deadline);
    limits_.stop.subscribe(guard_->stop);
    return true;
}

/// Called by the guard's timer or callback, which is off its list by then. The guard goes with the completion.
void io_wait::give_up(int why) noexcept {
    if (why_ == 0) why_ = why;
    reactor::current().files().cancel(request_);
}

/// The only requests whose answer somebody must take care of, though nobody waits for it: a new descriptor is closed, and
/// one that was to be closed is.
void io_wait::abandon() noexcept {
    if (request_.active()) {
        result_ = reactor::current().files().abandon(request_);
        why_ = 0;
    }
    if (request_.arguments.opcode == io_opcode::open && result_ >= 0) ::close(result_);
    if (request_.arguments.opcode == io_opcode::close && (result_ == -ECANCELED || cut_short())) ::close(request_.arguments.fd);
}

void io_wait::on_complete(io_request& r, int result) noexcept {
    io_wait& self = *static_cast<owned_request&>(r).owner;
    if (result != -ECANCELED) self.why_ = 0;
    self.result_ = self.why_ != 0 ? self.why_ : result;
    if (self.guard_) {
        self.guard_->expiry.cancel();
        self.guard_->stop.unlink();
    }
    reactor::current().make_ready(self);
}

void io_wait::fail() const {
    std::string what{name_of(request_.arguments.opcode)};
    if (on_ != nullptr) what += " of '" + *on_ + "'";
    throw std::system_error(-result_, std::generic_category(), what);
}

} // namespace corewire
