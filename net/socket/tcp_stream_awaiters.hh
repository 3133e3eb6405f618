// The awaiters of tcp_stream::read and write: part of tcp_stream.hh, kept apart so that page reads as an API.
#pragma once

#include <corewire/net/socket/tcp_stream.hh>

namespace corewire {

/// Shared by the awaiters of all sockets: leave the backend when the wait is cut short or the frame destroyed.
template <typename Backend, typename Operation>
class backend_awaiter : public Operation {
public:
    backend_awaiter(Backend* backend, const wait_limits& limits) noexcept : Operation(limits), backend_(backend) {}

protected:
    [[gnu::always_inline]] ~backend_awaiter() {
        if (this->pending_) [[unlikely]] backend_->cancel(*this);
    }
    /// After start_*() returned false: true if the coroutine should stay suspended.
    bool wait(std::coroutine_handle<> h) noexcept {
        this->handle = h;
        this->pending_ = true;
        if (this->arm_limits()) return true;
        abandon();
        return false;
    }
    void abandon() noexcept override {
        if (!this->pending_) return;
        this->pending_ = false;
        backend_->cancel(*this);
    }
    /// Throws what the operation failed of.
    void check(const char* what) const {
        if (this->error != std::errc{}) [[unlikely]] fail(this->error, what);
        if (this->failure() != std::errc{}) [[unlikely]] fail(this->failure(), what);
    }
    [[noreturn, gnu::cold]] static void fail(std::errc code, const char* what) {
        throw std::system_error(std::make_error_code(code), what);
    }
    Backend* backend_;
};

class tcp_stream::read_awaiter final : public backend_awaiter<tcp_backend, read_operation> {
public:
    using backend_awaiter::backend_awaiter;
    bool await_ready() noexcept {
        if (backend_ != nullptr) return backend_->start_read(*this);
        error = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return wait(h); }
    buffer await_resume() {
        check("read");
        return std::move(data);
    }
};

class tcp_stream::write_awaiter final : public backend_awaiter<tcp_backend, write_operation> {
public:
    write_awaiter(tcp_backend* backend, const wait_limits& limits, buffer&& data) noexcept
        : backend_awaiter(backend, limits) {
        owned.take(data);
    }
    write_awaiter(tcp_backend* backend, const wait_limits& limits, byte_span data) noexcept
        : backend_awaiter(backend, limits) {
        borrowed = data;
    }
    bool await_ready() noexcept {
        if (backend_ != nullptr) return backend_->start_write(*this);
        error = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return wait(h); }
    void await_resume() { check("write"); }
};

inline tcp_stream::read_awaiter tcp_stream::read(wait_limits limits) noexcept { return {backend_.get(), limits}; }
inline tcp_stream::write_awaiter tcp_stream::write(buffer data, wait_limits limits) noexcept {
    return {backend_.get(), limits, std::move(data)};
}
inline tcp_stream::write_awaiter tcp_stream::write(byte_span data, wait_limits limits) noexcept {
    return {backend_.get(), limits, data};
}
inline tcp_stream::write_awaiter tcp_stream::write(std::string_view text, wait_limits limits) noexcept {
    return {backend_.get(), limits, std::as_bytes(std::span{text})};
}

} // namespace corewire
