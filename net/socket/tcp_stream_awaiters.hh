// The awaiters of tcp_stream::read and write: part of tcp_stream.hh, kept apart so that page reads as an API.
#pragma once

#include <corewire/net/socket/backend_awaiter.hh>
#include <corewire/net/socket/tcp_stream.hh>

namespace corewire {

namespace detail {

/// `Base`: backend_awaiter or bounded_backend_awaiter of a read_operation.
template <typename Base>
class reading : public Base {
public:
    using Base::Base;
    [[gnu::always_inline]] ~reading() {}
    bool await_ready() noexcept {
        if (this->backend_ != nullptr) [[likely]] return this->backend_->start_read(*this);
        this->error = std::errc::bad_file_descriptor;
        return true;
    }
    auto await_suspend(std::coroutine_handle<> h) noexcept { return this->wait(h); }
    buffer await_resume() {
        this->check("read");
        return std::move(this->data);
    }
};

/// The same of a write_operation.
template <typename Base>
class writing : public Base {
public:
    template <typename... Limits>
    writing(tcp_backend* backend, buffer&& data, const Limits&... limits) noexcept : Base(backend, limits...) {
        this->owned.take(data);
    }
    template <typename... Limits>
    writing(tcp_backend* backend, byte_span data, const Limits&... limits) noexcept : Base(backend, limits...) {
        this->borrowed = data;
    }
    [[gnu::always_inline]] ~writing() {}
    bool await_ready() noexcept {
        if (this->backend_ != nullptr) [[likely]] return this->backend_->start_write(*this);
        this->error = std::errc::bad_file_descriptor;
        return true;
    }
    auto await_suspend(std::coroutine_handle<> h) noexcept { return this->wait(h); }
    void await_resume() { this->check("write"); }
};

} // namespace detail

class tcp_stream::read_awaiter final : public detail::reading<backend_awaiter<tcp_backend, read_operation>> {
public:
    using reading::reading;
    [[gnu::always_inline]] ~read_awaiter() {} // in the coroutine: its buffer has just been moved from there
};
class tcp_stream::bounded_read_awaiter final : public detail::reading<bounded_backend_awaiter<tcp_backend, read_operation>> {
    using reading::reading;
};
class tcp_stream::write_awaiter final : public detail::writing<backend_awaiter<tcp_backend, write_operation>> {
public:
    using writing::writing;
    [[gnu::always_inline]] ~write_awaiter() {}
};
class tcp_stream::bounded_write_awaiter final : public detail::writing<bounded_backend_awaiter<tcp_backend, write_operation>> {
    using writing::writing;
};

inline tcp_stream::read_awaiter tcp_stream::read() noexcept { return read_awaiter{backend_.get()}; }
inline tcp_stream::bounded_read_awaiter tcp_stream::read(wait_limits limits) noexcept { return {backend_.get(), limits}; }
inline tcp_stream::write_awaiter tcp_stream::write(buffer&& data) noexcept { return {backend_.get(), std::move(data)}; }
inline tcp_stream::bounded_write_awaiter tcp_stream::write(buffer&& data, wait_limits limits) noexcept {
    return {backend_.get(), std::move(data), limits};
}
inline tcp_stream::write_awaiter tcp_stream::write(byte_span data) noexcept { return {backend_.get(), data}; }
inline tcp_stream::bounded_write_awaiter tcp_stream::write(byte_span data, wait_limits limits) noexcept {
    return {backend_.get(), data, limits};
}
inline tcp_stream::write_awaiter tcp_stream::write(std::string_view text) noexcept {
    return {backend_.get(), std::as_bytes(std::span{text})};
}
inline tcp_stream::bounded_write_awaiter tcp_stream::write(std::string_view text, wait_limits limits) noexcept {
    return {backend_.get(), std::as_bytes(std::span{text}), limits};
}

} // namespace corewire
