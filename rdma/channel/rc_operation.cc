#include <corewire/rdma/channel/rc_operation.hh>

#include <corewire/rdma/channel/rc_connection.hh>

#include <array>

namespace corewire::rdma {

namespace {

constexpr std::array names = {"rdma send",          "rdma send in place",    "rdma write", "rdma write with immediate", "rdma read",
                              "rdma fetch and add", "rdma compare and swap", "rdma bind"};

} // namespace

bool rc_operation::await_ready() noexcept {
    if (connection_ == nullptr) {
        finish(std::errc::bad_file_descriptor);
        return true;
    }
    if (connection_->start(*this)) return true;
    if (place_ == place::nowhere) place_ = place::in_line;
    return false;
}

bool rc_operation::await_suspend(std::coroutine_handle<> h) noexcept {
    if (!arm_limits()) {
        leave();
        return false;
    }
    handle = h;
    return true;
}

void rc_operation::finish(std::errc why, std::uint64_t value) noexcept {
    error_ = why;
    value_ = value;
    place_ = place::nowhere;
    if (!handle) return; // in start()
    disarm_limits();
    reactor::make_ready(*this);
}

void rc_operation::check() const {
    const char* const what = names[static_cast<std::size_t>(request.what)];
    throw_if_failed(what);
    if (error_ != std::errc{}) throw std::system_error(std::make_error_code(error_), what);
}

/// Its memory may still be the device's when it was posted.
void rc_operation::leave() noexcept {
    if (place_ == place::in_line) connection_->leave_line(*this);
    if (place_ == place::posted) connection_->forget(sequence_);
    if (place_ == place::announced) connection_->forget_announced(sequence_);
    place_ = place::nowhere;
}

} // namespace corewire::rdma
