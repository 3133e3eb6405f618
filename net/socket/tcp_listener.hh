// tcp_listener: accepts TCP connections on this shard. Bind the same address on every shard: each has its own accept
// queue, and a connection is accepted on the shard whose queue received its SYN.
#pragma once

#include <corewire/net/socket/backend_awaiter.hh>
#include <corewire/net/socket/tcp_stream.hh>

namespace corewire {

class tcp_listener {
public:
    class accept_awaiter;

    tcp_listener() = default;
    explicit tcp_listener(std::unique_ptr<listener_backend> backend) noexcept : backend_(std::move(backend)) {}

    /// Throws bind_error, a std::system_error: EADDRINUSE, EADDRNOTAVAIL, EINVAL, EACCES (a privileged port of the kernel's).
    /// At `::` it is for both families (listen_options::ipv6_only: for one).
    static tcp_listener bind(socket_address at, listen_options options = {});
    /// The next connection. ECANCELED when the listener is closed; accept_may_recover() says which failures are not the end.
    accept_awaiter accept(wait_limits limits = {}) noexcept;
    /// Throws EBADF if there is none: default-made or moved from.
    socket_address local_address() const { return existing(backend_, "the listener").local_address(); }
    void close() noexcept {
        if (backend_) backend_->close();
    }

private:
    std::unique_ptr<listener_backend> backend_;
};

class tcp_listener::accept_awaiter final : public bounded_backend_awaiter<listener_backend, accept_operation> {
public:
    using bounded_backend_awaiter::bounded_backend_awaiter;
    bool await_ready() noexcept {
        if (backend_ != nullptr) return backend_->start_accept(*this);
        error = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept { return wait(h); }
    tcp_stream await_resume() {
        check("accept");
        return tcp_stream{std::move(accepted)};
    }
};

/// Whether an accept() that failed so may do better a little later: the process or the machine is out of descriptors or memory. The
/// connection waits in its queue; who tries again at once is told the same.
inline bool accept_may_recover(std::error_code why) noexcept {
    return why == std::errc::too_many_files_open || why == std::errc::too_many_files_open_in_system ||
           why == std::errc::no_buffer_space || why == std::errc::not_enough_memory;
}

inline tcp_listener::accept_awaiter tcp_listener::accept(wait_limits limits) noexcept { return {backend_.get(), limits}; }

} // namespace corewire
