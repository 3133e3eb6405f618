// Awaiting a plain_operation of a backend: "start it; if it did not finish at once, wait for it; throw what it failed of".
#pragma once

#include <corewire/net/socket/tcp_stream_awaiters.hh>

namespace corewire {

/// `start` is a member function `bool (Backend::*)(plain_operation&)`.
template <typename Backend, bool (Backend::*start)(plain_operation&) noexcept>
class operation_awaiter final : public backend_awaiter<Backend, plain_operation> {
public:
    operation_awaiter(Backend& backend, const wait_limits& limits, const char* what) noexcept
        : backend_awaiter<Backend, plain_operation>(&backend, limits), what_(what) {}
    bool await_ready() noexcept { return (this->backend_->*start)(*this); }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return this->wait(h); }
    void await_resume() { this->check(what_); }

private:
    const char* what_;
};

} // namespace corewire
