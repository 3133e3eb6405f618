#include <corewire/net/kernel/kernel_listener.hh>

#include <corewire/net/kernel/kernel_connection.hh>
#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/socket/tcp_listener.hh>

#include <cerrno>

namespace corewire {

kernel_listener::kernel_listener(kernel_provider& provider, unique_fd fd, const socket_address& local,
                                 const tcp_options_set& stream)
    : kernel_object(std::move(fd)), provider_(provider), local_(local), stream_(stream) {
    provider.keep(*this);
}

bool kernel_listener::start_accept(accept_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::operation_canceled;
        return true;
    }
    if (!ready_.empty()) {
        unique_fd fd = std::move(ready_.front());
        ready_.pop_front();
        hand_over(op, std::move(fd));
        return true;
    }
    accepting_.push_back(op);
    accept();
    return false;
}

void kernel_listener::cancel(socket_operation& op) noexcept { op.unlink(); }

void kernel_listener::accept() noexcept {
    if (accept_.in_kernel()) return;
    provider_.ring().start(accept_, [&](io_uring_sqe& entry) {
        io_uring_prep_multishot_accept(&entry, fd_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    });
}

void kernel_listener::hand_over(accept_operation& op, unique_fd fd) noexcept {
    ++provider_.statistics().accepted;
    op.accepted = std::make_unique<kernel_tcp_socket>(*new kernel_connection(provider_, std::move(fd), stream_));
}

void kernel_listener::on_accepted(int result, unsigned flags) noexcept {
    unique_fd fd{result};
    const bool goes_on = (flags & IORING_CQE_F_MORE) != 0;
    if (!goes_on) stopping_accept_ = false;
    if (closed_) {
        if (fd) resets_on_close(fd.get()); // nobody will ask for it: as those that the kernel still has
        fd.reset();
        if (!accept_.in_kernel()) fd_.reset();
        settle();
        return;
    }
    if (fd) {
        if (accepting_.empty()) {
            ready_.push_back(std::move(fd));
        } else {
            auto& op = static_cast<accept_operation&>(accepting_.pop_front());
            hand_over(op, std::move(fd));
            op.complete();
        }
    } else if (result < 0 && accept_may_recover({-result, std::generic_category()})) {
        // The process is out of something: those who accept must hear of it, since waiting alone mends nothing.
        ++provider_.statistics().accepts_failed;
        fail_all(static_cast<std::errc>(-result));
    }
    if (goes_on && ready_.size() >= ready_limit && !stopping_accept_) {
        stopping_accept_ = true;
        provider_.ring().cancel(accept_);
    } else if (!accepting_.empty()) {
        accept(); // ECONNABORTED, EINTR, or a multishot that the kernel has ended
    }
}

void kernel_listener::close() noexcept {
    if (closed_) return;
    closed_ = true;
    for (const unique_fd& nobodys : ready_) resets_on_close(nobodys.get());
    ready_.clear();
    ::shutdown(fd_.get(), SHUT_RD); // refuses from now on, though the kernel may hold the descriptor a little longer
    provider_.ring().cancel(accept_);
    if (!accept_.in_kernel()) fd_.reset();
    fail_all(std::errc::operation_canceled);
}

void kernel_listener::fail_all(std::errc why) noexcept {
    while (!accepting_.empty()) {
        auto& op = static_cast<accept_operation&>(accepting_.pop_front());
        op.error = why;
        op.complete();
    }
}

} // namespace corewire
