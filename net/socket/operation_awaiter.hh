// Awaiting a plain_operation of a backend (backend_awaiter.hh).
#pragma once

#include <corewire/net/socket/backend_awaiter.hh>

namespace corewire {

/// `start` is a member function `bool (Backend::*)(plain_operation&)`.
template <typename Backend, bool (Backend::*start)(plain_operation&) noexcept>
class operation_awaiter final : public bounded_backend_awaiter<Backend, plain_operation> {
public:
    operation_awaiter(Backend& backend, const wait_limits& limits, const char* what) noexcept
        : bounded_backend_awaiter<Backend, plain_operation>(&backend, limits), what_(what) {}
    bool await_ready() noexcept { return (this->backend_->*start)(*this); }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return this->wait(h); }
    void await_resume() { this->check(what_); }

private:
    const char* what_;
};

} // namespace corewire
