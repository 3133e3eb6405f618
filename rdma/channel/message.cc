#include <corewire/rdma/channel/message.hh>

namespace corewire::rdma {

void rc_connection::wake_receivers() noexcept {
    while (!receivers_.empty()) {
        const std::optional<arrival> next = take_arrival(); // none: nothing has come, or the first of them is still being fetched
        if (!next) break;
        static_cast<receive_awaiter&>(receivers_.pop_front()).give(*next);
    }
    if (!over()) return;
    while (!receivers_.empty())
        static_cast<receive_awaiter&>(receivers_.pop_front()).end(state_ == state::broken ? why_ : std::errc{});
}

receive_awaiter::~receive_awaiter() {
    if (!got_) return;
    connection_->put_back(*got_); // woken, and destroyed before it ran: the message goes to the next one
    connection_->release();
}

void receive_awaiter::take(const rc_connection::arrival& what) noexcept {
    got_ = what;
    connection_->hold();
}

bool receive_awaiter::await_ready() noexcept {
    if (connection_ == nullptr) {
        why_ = std::errc::bad_file_descriptor;
        return true;
    }
    if (!connection_->receivers().empty()) return false;
    if (const auto next = connection_->take_arrival()) {
        take(*next);
        return true;
    }
    if (!connection_->over()) return false;
    if (connection_->phase() == rc_connection::state::broken) why_ = connection_->why();
    return true;
}

bool receive_awaiter::await_suspend(std::coroutine_handle<> h) noexcept {
    if (!arm_limits()) return false;
    handle = h;
    connection_->receivers().push_back(*this);
    return true;
}

void receive_awaiter::give(const rc_connection::arrival& what) noexcept {
    take(what);
    disarm_limits();
    reactor::make_ready(*this);
}

void receive_awaiter::end(std::errc why) noexcept {
    why_ = why;
    disarm_limits();
    reactor::make_ready(*this);
}

std::optional<message> receive_awaiter::await_resume() {
    throw_if_failed("rdma receive");
    if (got_) {
        const rc_connection::arrival what = *got_;
        got_.reset();
        return message(*connection_, what);
    }
    if (why_ != std::errc{}) throw std::system_error(std::make_error_code(why_), "rdma receive");
    return std::nullopt;
}

} // namespace corewire::rdma
