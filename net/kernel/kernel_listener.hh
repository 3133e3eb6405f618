// A listening socket of the kernel's: a multishot accept, and a few accepted connections that nobody has asked for yet.
// Kept by its provider. Bounds: when `ready_limit` connections have been accepted ahead, the accept is stopped and the
// rest waits in the kernel's backlog (one burst may bring up to a backlog more).
#pragma once

#include <corewire/net/kernel/kernel_object.hh>
#include <corewire/net/socket/provider.hh>
#include <corewire/reactor/file/uring.hh>

#include <deque>

namespace corewire {

class kernel_provider;

class kernel_listener final : public kernel_object {
public:
    static constexpr std::size_t ready_limit = 64;

    kernel_listener(kernel_provider& provider, unique_fd fd, const socket_address& local, const tcp_options_set& stream);

    bool start_accept(accept_operation& op) noexcept;
    void cancel(socket_operation& op) noexcept;
    /// Refuses new connections from now on; pending accepts fail with ECANCELED.
    void close() noexcept;
    const socket_address& local_address() const noexcept { return local_; }
    bool closed() const noexcept { return closed_; }
    void end_waits(ended_waits) noexcept override {} // close() ends them

private:
    void stop() noexcept override { close(); }
    bool in_kernel() const noexcept override { return accept_.in_kernel(); }
    void on_accepted(int result, unsigned flags) noexcept;
    void accept() noexcept;
    void hand_over(accept_operation& op, unique_fd fd) noexcept;
    void fail_all(std::errc why) noexcept;

    kernel_provider& provider_;
    socket_address local_;
    tcp_options_set stream_;
    bool closed_ = false;
    bool stopping_accept_ = false;
    intrusive_list<waiter> accepting_;
    std::deque<unique_fd> ready_;
    bound_operation<kernel_listener, &kernel_listener::on_accepted> accept_{*this};
};

/// A user's hold on a listener.
class kernel_listen_socket final : public listener_backend {
public:
    explicit kernel_listen_socket(kernel_listener& l) noexcept : listener_(l) {}
    ~kernel_listen_socket() override { listener_.let_go(); }

    bool start_accept(accept_operation& op) noexcept override { return listener_.start_accept(op); }
    void cancel(socket_operation& op) noexcept override { listener_.cancel(op); }
    socket_address local_address() const override { return listener_.local_address(); }
    void close() noexcept override { listener_.close(); }

private:
    kernel_listener& listener_;
};

} // namespace corewire
