// udp_socket: datagrams for coroutines. Belongs to the shard that made it; move-only; closed when destroyed.
#pragma once

#include <corewire/net/socket/tcp_stream_awaiters.hh>

namespace corewire {

class udp_socket {
public:
    class receive_awaiter;

    udp_socket() = default;
    explicit udp_socket(std::unique_ptr<udp_backend> backend) noexcept : backend_(std::move(backend)) {}

    /// Port 0: any free one. Throws std::system_error: EADDRINUSE, EADDRNOTAVAIL.
    static udp_socket bind(socket_address at, udp_options options = {});
    /// A connected socket: only this peer's datagrams, and ECONNREFUSED when it answers port-unreachable.
    static udp_socket connect(socket_address to, udp_options options = {});

    /// The next datagram, whole, and who sent it (zero-copy).
    receive_awaiter receive_from(wait_limits limits = {}) noexcept;
    /// Sends one datagram; waits while the transmit queue is full. Throws EMSGSIZE, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED.
    task<> send_to(buffer data, socket_address to, wait_limits limits = {});
    task<> send_to(byte_span data, socket_address to, wait_limits limits = {});
    /// To the connected peer. ENOTCONN (EDESTADDRREQ) if there is none.
    task<> send(buffer data, wait_limits limits = {});
    task<> send(byte_span data, wait_limits limits = {});
    /// The same without waiting: std::errc{} or why not (resource_unavailable_try_again when the queue is full).
    std::errc try_send_to(buffer data, const socket_address& to) noexcept { return backend_->send_to(std::move(data), to); }
    std::errc try_send_to(byte_span data, const socket_address& to) noexcept { return backend_->send_to(data, to); }

    buffer allocate(std::uint32_t size) { return backend_->allocate(size); }
    socket_address local_address() const { return backend_->local_address(); }
    void close() noexcept {
        if (backend_) backend_->close();
    }

private:
    std::unique_ptr<udp_backend> backend_;
    socket_address peer_{};
};

class udp_socket::receive_awaiter final : public backend_awaiter<udp_backend, receive_operation> {
public:
    using backend_awaiter::backend_awaiter;
    bool await_ready() noexcept {
        if (backend_ != nullptr) return backend_->start_receive(*this);
        error = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return wait(h); }
    datagram await_resume() {
        check("receive_from");
        return std::move(received);
    }
};

inline udp_socket::receive_awaiter udp_socket::receive_from(wait_limits limits) noexcept {
    return {backend_.get(), limits};
}

} // namespace corewire
