#include <corewire/net/kernel/kernel_datagrams.hh>

#include <corewire/net/kernel/kernel_provider.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>

namespace corewire {

namespace {

/// What one small datagram costs the kernel's receive buffer (sk_buff and its head).
constexpr std::uint32_t bytes_a_datagram = 768;

} // namespace

kernel_datagrams::kernel_datagrams(kernel_provider& provider, unique_fd fd, const udp_options& options)
    : kernel_object(std::move(fd)), starved_receiver([](starved_receiver& self) noexcept {
          auto& socket = static_cast<kernel_datagrams&>(self);
          if (socket.receiving_.empty()) return false;
          socket.receive();
          return true;
      }),
      provider_(provider), local_(local_address_of(fd_.get())),
      limit_(std::clamp<std::uint32_t>(options.receive_queue, 1, unread_limit)) {
    provider.keep(*this);
    layout_.msg_namelen = sizeof(sockaddr_in6);
    // Bounded by net.core.rmem_max.
    const int room = static_cast<int>(std::min<std::uint64_t>(std::uint64_t{options.receive_queue} * bytes_a_datagram, 1u << 30));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
}

// ---- receiving ----

bool kernel_datagrams::start_receive(receive_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    if (receiving_.empty() && take_datagram(op)) return true;
    if (pending_error_ != std::errc{}) {
        op.error = std::exchange(pending_error_, {});
        return true;
    }
    receiving_.push_back(op);
    receive();
    return false;
}

/// As kernel_connection::receive().
void kernel_datagrams::receive(bool wait_first) noexcept {
    if (receive_.in_kernel()) return;
    starved_receiver::unlink();
    waits_first_ = wait_first;
    provider_.ring().start(receive_, [&](io_uring_sqe& entry) {
        io_uring_prep_recvmsg_multishot(&entry, fd_.get(), &layout_, 0);
        if (wait_first) entry.ioprio |= IORING_RECVSEND_POLL_FIRST;
        entry.flags |= IOSQE_BUFFER_SELECT;
        entry.buf_group = provider_.datagram_buffers().group();
    });
}

void kernel_datagrams::on_received(int result, unsigned flags) noexcept {
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        frame& f = provider_.datagram_buffers().take(flags);
        if (result > 0 && !closed_) {
            ++provider_.statistics().udp.receives;
            received_.push(f, static_cast<std::uint32_t>(result));
        } else {
            release(f);
        }
    }
    const bool goes_on = (flags & IORING_CQE_F_MORE) != 0;
    if (!goes_on) stopping_receive_ = false;
    if (closed_) {
        if (!in_kernel()) fd_.reset();
        settle();
        return;
    }
    if (result < 0) receive_failed(-result);
    serve();
    if (goes_on && received_.count() >= limit_ && !stopping_receive_) {
        stopping_receive_ = true;
        provider_.ring().cancel(receive_);
    } else if (!receive_.in_kernel() && result != -ENOBUFS && !receiving_.empty()) {
        receive();
    }
}

void kernel_datagrams::receive_failed(int error) noexcept {
    switch (error) {
    case ECANCELED:
    case EINTR:
    case EAGAIN:
        return;
    case ENOBUFS:
        if (receiving_.empty()) return;
        if (provider_.datagram_buffers().replenish()) {
            receive();
        } else if (!waits_first_) {
            receive(true);
        } else {
            provider_.datagram_buffers().starve(*this);
        }
        return;
    default:
        ++provider_.statistics().datagram_errors;
        pending_error_ = static_cast<std::errc>(error);
    }
}

/// Datagrams and errors to those who wait, in order.
void kernel_datagrams::serve() noexcept {
    while (!receiving_.empty()) {
        auto& op = static_cast<receive_operation&>(receiving_.front());
        if (!take_datagram(op)) {
            if (pending_error_ == std::errc{}) return;
            op.error = std::exchange(pending_error_, {});
        }
        op.unlink();
        op.complete();
    }
}

/// The buffer holds io_uring_recvmsg_out, room for the sender's address, and the datagram (io_uring_prep_recvmsg(3)).
bool kernel_datagrams::take_datagram(receive_operation& op) noexcept {
    while (!received_.empty()) {
        buffer data = received_.pop();
        auto* header = io_uring_recvmsg_validate(data.mutable_data(), static_cast<int>(data.size()), &layout_);
        if (header == nullptr) continue;
        const auto* sender = static_cast<const sockaddr*>(io_uring_recvmsg_name(header));
        system_address from;
        std::memcpy(&from.generic, sender, std::min<std::size_t>(header->namelen, sizeof(sockaddr_in6)));
        op.received.from = from.decoded();
        data.remove_prefix(static_cast<std::uint32_t>(sizeof *header + layout_.msg_namelen));
        provider_.statistics().udp.received_bytes += data.size();
        op.received.data = std::move(data);
        return true;
    }
    return false;
}

// ---- sending ----

bool kernel_datagrams::start_send(send_operation& op) noexcept {
    if (closed_) {
        op.error = std::errc::bad_file_descriptor;
        return true;
    }
    if (pending_error_ != std::errc{}) {
        op.error = std::exchange(pending_error_, {});
        return true;
    }
    if (op.to_connected_peer && !connected_) {
        op.error = std::errc::destination_address_required;
        return true;
    }
    if (sending_.empty() && push(op)) return true;
    sending_.push_back(op);
    if (!room_.in_kernel()) {
        provider_.ring().start(room_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_.get(), POLLOUT); });
    }
    return false;
}

/// True when the operation has ended, well or badly; false when the kernel's transmit queue is full.
bool kernel_datagrams::push(send_operation& op) noexcept {
    const byte_span bytes = op.owned.underlying_frame() != nullptr ? op.owned.bytes() : op.borrowed;
    ssize_t sent;
    do {
        if (op.to_connected_peer) {
            sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        } else {
            const system_address to(op.to);
            sent = ::sendto(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT, &to.generic, to.size);
        }
    } while (sent < 0 && errno == EINTR);
    kernel_statistics& count = provider_.statistics();
    if (sent < 0 && errno == EAGAIN) {
        ++count.udp.send_waits;
        return false;
    }
    if (sent < 0) {
        ++count.datagrams_refused;
        op.error = static_cast<std::errc>(errno);
    } else {
        ++count.udp.sends;
        count.udp.sent_bytes += static_cast<std::uint64_t>(sent);
    }
    op.owned = {};
    return true;
}

void kernel_datagrams::on_writable(int result, unsigned) noexcept {
    if (closed_) {
        if (!in_kernel()) fd_.reset();
        settle();
        return;
    }
    while (!sending_.empty()) {
        auto& op = static_cast<send_operation&>(sending_.front());
        if (result < 0) op.error = static_cast<std::errc>(-result); // nobody watches for room
        else if (!push(op)) {
            provider_.ring().start(room_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_.get(), POLLOUT); });
            return;
        }
        op.unlink();
        op.complete();
    }
}

std::errc kernel_datagrams::connect(const socket_address& peer) noexcept {
    if (closed_) return std::errc::bad_file_descriptor;
    const system_address to(peer);
    if (::connect(fd_.get(), &to.generic, to.size) != 0) return static_cast<std::errc>(errno);
    connected_ = true;
    local_ = local_address_of(fd_.get());
    return {};
}

namespace {

void cancel_all(intrusive_list<waiter>& waiting) noexcept {
    while (!waiting.empty()) {
        auto& op = static_cast<socket_operation&>(waiting.pop_front());
        op.error = std::errc::operation_canceled;
        op.complete();
    }
}

} // namespace

void kernel_datagrams::end_waits(ended_waits which) noexcept {
    if (which == ended_waits::for_any_peer || !connected_) cancel_all(receiving_);
}

void kernel_datagrams::close() noexcept {
    if (closed_) return;
    closed_ = true;
    received_.clear();
    starved_receiver::unlink();
    cancel_all(receiving_);
    cancel_all(sending_);
    provider_.ring().cancel(receive_);
    provider_.ring().cancel(room_);
    if (!in_kernel()) fd_.reset();
}

buffer kernel_udp_socket::allocate(std::uint32_t size) { return datagrams_.provider().allocate(size); }

} // namespace corewire
