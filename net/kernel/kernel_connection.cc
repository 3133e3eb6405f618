#include <corewire/net/kernel/kernel_connection.hh>

#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/socket/orderly_stop.hh>
#include <corewire/net/wire/ecn.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

namespace corewire {

namespace {

/// EINPROGRESS: the SYN of a Fast Open has left without the data after all, because its cookie was forgotten meanwhile.
bool must_wait(int error) noexcept { return error == EAGAIN || error == EINPROGRESS; }

tcp_options_set without_ecn(tcp_options_set options) noexcept {
    options.traffic_class = wire::without_ecn(options.traffic_class);
    return options;
}

} // namespace

kernel_connection::drain_timer::drain_timer(kernel_connection* c) noexcept
    : timer([](timer& t) noexcept { static_cast<drain_timer&>(t).owner->look_whether_drained(); }), owner(c) {}

kernel_connection::kernel_connection(kernel_provider& provider, unique_fd fd, const tcp_options_set& options)
    : kernel_object(std::move(fd)), starved_receiver([](starved_receiver& self) noexcept {
          auto& connection = static_cast<kernel_connection&>(self);
          if (!connection.wants_bytes()) return false;
          connection.receive();
          return true;
      }),
      provider_(provider), options_(without_ecn(options)), drain_timer_(this) {
    provider.keep(*this);
    provider.enlist(*this);
    peer_ = peer_address_of(fd_.get());
    connected_ = true;
}

kernel_connection::~kernel_connection() {
    provider_.delist(*this);
    ++provider_.statistics().closed;
}

tcp::tcp_state kernel_connection::presumed_state() const noexcept {
    if (error_ != std::errc{}) return tcp::tcp_state::closed;
    if (!connected_) return tcp::tcp_state::syn_sent;
    if (at_end_) return fin_sent_ ? tcp::tcp_state::last_ack : tcp::tcp_state::close_wait;
    return fin_sent_ ? tcp::tcp_state::fin_wait_2 : tcp::tcp_state::established;
}

kernel_connection::kernel_connection(kernel_provider& provider, unique_fd fd, const tcp_options_set& options,
                                     const socket_address& to)
    : kernel_connection(provider, std::move(fd), options) {
    opened_here_ = true;
    connected_ = false;
    peer_ = to;
    provider_.ring().start(connect_, [&](io_uring_sqe& entry) {
        connect_to_ = system_address(to);
        io_uring_prep_connect(&entry, fd_.get(), &connect_to_.generic, connect_to_.size);
    });
}

void kernel_connection::on_connected(int result, unsigned) noexcept {
    if (abandoned()) {
        settle();
        return;
    }
    if (error_ != std::errc{}) return; // aborted meanwhile
    if (result < 0) {
        fail(static_cast<std::errc>(-result));
        return;
    }
    ++provider_.statistics().connected;
    connected_ = true;
    if (options_.fast_open && state_of(fd_.get()) == TCP_SYN_SENT) opening_ = opening::deferred;
    finish(connecting_);
    if (wants_bytes()) receive();
    if (writer_ != nullptr || writable_waiter_ != nullptr) go_on_writing();
}

// ---- reading ----

bool kernel_connection::start_read(read_operation& op) noexcept {
    CW_ASSERT(reader_ == nullptr, "one reader at a time: another coroutine is reading this stream");
    if (!front_.empty() || !received_.empty()) {
        op.data = next_piece(op.max_size);
        return true;
    }
    if (at_end_) return true;
    if (error_ != std::errc{}) {
        // What came before it died, of which a send may have been the first to hear, the kernel keeps.
        const bool keeps = connected_ && !receive_.in_kernel() && error_ != std::errc::connection_aborted;
        if (keeps) op.data = provider_.receive_now(fd_.get(), op.max_size);
        if (op.data.empty()) op.error = error_;
        return true;
    }
    if (!hurry()) {
        op.error = error_;
        return true;
    }
    reader_ = &op;
    receive();
    return false;
}

bool kernel_connection::start_wait_readable(plain_operation& op) noexcept {
    if (readable() || !hurry()) return true;
    CW_ASSERT(readable_waiter_ == nullptr, "one wait_readable at a time");
    readable_waiter_ = &op;
    receive();
    return false;
}

bool kernel_connection::readable() const noexcept {
    return !front_.empty() || !received_.empty() || at_end_ || error_ != std::errc{};
}

bool kernel_connection::wants_bytes() const noexcept {
    return (reader_ != nullptr || readable_waiter_ != nullptr) && !readable();
}

/// Keeps a multishot recv in the kernel while somebody wants bytes. It takes a buffer at once, to try with, unless it is to wait first.
void kernel_connection::receive(bool wait_first) noexcept {
    if (receive_.in_kernel() || !connected_) return;
    starved_receiver::unlink();
    waits_first_ = wait_first;
    provider_.ring().start(receive_, [&](io_uring_sqe& entry) {
        io_uring_prep_recv_multishot(&entry, fd_.get(), nullptr, 0, 0);
        if (wait_first) entry.ioprio |= IORING_RECVSEND_POLL_FIRST;
        entry.flags |= IOSQE_BUFFER_SELECT;
        entry.buf_group = provider_.stream_buffers().group();
    });
}

void kernel_connection::on_received(int result, unsigned flags) noexcept {
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        frame& f = provider_.stream_buffers().take(flags);
        if (result > 0 && !abandoned()) {
            ++provider_.statistics().tcp.receives;
            provider_.statistics().tcp.received_bytes += static_cast<std::uint32_t>(result);
            received_.push(f, static_cast<std::uint32_t>(result));
        } else {
            release(f);
        }
    }
    const bool goes_on = (flags & IORING_CQE_F_MORE) != 0;
    if (!goes_on) stopping_receive_ = false;
    if (abandoned()) {
        settle();
        return;
    }
    if (result == 0) at_end_ = error_ == std::errc{};
    if (result >= 0) {
        serve_readers();
    } else {
        receive_failed(-result);
    }
    if (goes_on && received_.count() >= unread_limit && !stopping_receive_) {
        stopping_receive_ = true;
        provider_.ring().cancel(receive_);
    } else if (!receive_.in_kernel() && result != -ENOBUFS && wants_bytes()) {
        receive();
    }
}

void kernel_connection::receive_failed(int error) noexcept {
    switch (error) {
    case ECANCELED: // we stopped it: nobody was reading
    case EINTR:
    case EAGAIN:
        return;
    case ENOBUFS:
        if (!wants_bytes()) return;
        if (provider_.stream_buffers().replenish()) {
            receive();
        } else if (!waits_first_) {
            receive(true); // only for whom something has come is a buffer of use
        } else {
            provider_.stream_buffers().starve(*this);
        }
        return;
    default:
        fail(error == EPIPE ? std::errc::connection_reset : static_cast<std::errc>(error));
    }
}

/// The next bytes in order, at most `max_size`; there are some.
buffer kernel_connection::next_piece(std::uint32_t max_size) noexcept {
    if (front_.empty()) front_ = received_.pop();
    if (front_.size() <= max_size) return std::move(front_);
    buffer part = front_.share(0, max_size);
    front_.remove_prefix(max_size);
    return part;
}

void kernel_connection::serve_readers() noexcept {
    if (reader_ != nullptr && readable()) {
        read_operation& op = *std::exchange(reader_, nullptr);
        if (!received_.empty()) op.data = next_piece(op.max_size);
        op.complete();
        finish(readable_waiter_);
    } else if (readable()) {
        finish(readable_waiter_);
    }
}

// ---- writing ----

bool kernel_connection::start_write(write_operation& op) noexcept {
    CW_ASSERT(writer_ == nullptr, "one writer at a time: another coroutine is writing this stream");
    if (shut_down_ || error_ != std::errc{}) {
        op.error = shut_down_ ? std::errc::broken_pipe : error_;
        return true;
    }
    if (connected_ && sending_.empty() && !op.owned.empty() && op.owned.size() <= batched_send) {
        sending_ = std::move(op.owned);
        provider_.queue(*this);
        return true;
    }
    if (connected_ && push(op)) return true;
    writer_ = &op;
    if (connected_) wait_for_room();
    return false;
}

void kernel_connection::send_alone() noexcept {
    if (!send_queued()) wait_for_room();
}

void kernel_connection::send_by_ring() noexcept {
    queued_sender::unlink();
    provider_.ring().start(send_, [&](io_uring_sqe& entry) {
        io_uring_prep_send(&entry, fd_.get(), sending_.data(), sending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    });
}

/// The result of a send(2), or a negative error of the ring's. Leaves errno alone.
ssize_t kernel_connection::count_sent(ssize_t result) noexcept {
    kernel_traffic& count = provider_.statistics().tcp;
    if (opening_ == opening::deferred) [[unlikely]] opening_ = opening::on_its_way;
    if (result >= 0) {
        ++count.sends;
        count.sent_bytes += static_cast<std::uint64_t>(result);
    } else if (result == -EAGAIN || (result == -1 && errno == EAGAIN)) {
        ++count.send_waits;
    }
    return result;
}

/// Gives the kernel what was taken from a writer. True when none is left, also because the connection has failed.
bool kernel_connection::send_queued() noexcept {
    if (send_.in_kernel()) return false;
    queued_sender::unlink();
    while (!sending_.empty()) {
        const ssize_t sent = count_sent(::send(fd_.get(), sending_.data(), sending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
        if (sent >= 0) {
            sending_.remove_prefix(static_cast<std::uint32_t>(sent));
        } else if (must_wait(errno)) {
            return false;
        } else if (errno != EINTR) {
            const int why = errno;
            sending_ = {};
            if (!abandoned()) fail(why == EPIPE ? std::errc::connection_reset : static_cast<std::errc>(why));
            return true;
        }
    }
    sending_ = {};
    return true;
}

/// The peer of a closed stream hears of it: an end that looks orderly would make what it has the whole (RFC 2525 2.17).
void kernel_connection::lose_queued() noexcept {
    sending_ = {};
    if (!abandoned()) return;
    resets_on_close(fd_.get());
    lost_ = true;
}

void kernel_connection::on_sent(int result, unsigned) noexcept {
    if (result != -EPERM) count_sent(result); // -1, which is how send(2) says that errno has it
    if (result >= 0) {
        sending_.remove_prefix(static_cast<std::uint32_t>(result));
    } else if (!must_wait(-result) && result != -EINTR) {
        lose_queued();
        if (!abandoned()) fail(result == -EPIPE ? std::errc::connection_reset : static_cast<std::errc>(-result));
    }
    go_on_writing();
}

/// Gives the kernel what it takes. True when the operation has ended, well or badly.
bool kernel_connection::push(write_operation& op) noexcept {
    if (!send_queued()) return false;
    if (error_ != std::errc{}) {
        op.error = error_;
        return true;
    }
    for (;;) {
        const byte_span left = op.owned.empty() ? op.borrowed : op.owned.bytes();
        if (left.empty()) {
            op.owned = {};
            return true;
        }
        const ssize_t sent = count_sent(::send(fd_.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (must_wait(errno)) return false;
            op.error = errno == EPIPE ? std::errc::connection_reset : static_cast<std::errc>(errno);
            if (op.error != std::errc::not_enough_memory && op.error != std::errc::no_buffer_space) fail(op.error);
            return true;
        }
        if (op.owned.empty()) {
            op.borrowed = op.borrowed.subspan(static_cast<std::size_t>(sent));
        } else {
            op.owned.remove_prefix(static_cast<std::uint32_t>(sent));
        }
    }
}

void kernel_connection::wait_for_room() noexcept {
    if (room_.in_kernel() || send_.in_kernel()) return; // on_sent() comes here again
    provider_.ring().start(room_, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd_.get(), POLLOUT); });
}

void kernel_connection::on_writable(int result, unsigned) noexcept {
    if (result < 0 && abandoned()) given_up_ = true; // cancelled: enough waited for
    go_on_writing();
}

void kernel_connection::go_on_writing() noexcept {
    if (!send_queued()) {
        if (send_.in_kernel()) return; // on_sent() comes here again
        if (!given_up_) return wait_for_room();
        lose_queued();
    }
    if (abandoned()) {
        if (!given_up_ && shakes_hands()) return wait_for_room();
        if (!lost_) ::shutdown(fd_.get(), SHUT_RDWR);
        provider_.ring().cancel(receive_);
        settle();
        return;
    }
    if (writer_ != nullptr && push(*writer_) && writer_ != nullptr) std::exchange(writer_, nullptr)->complete();
    if (shut_down_) send_fin();
    if (writable_waiter_ != nullptr && (writable() || shut_down_)) finish(writable_waiter_);
    if (writer_ != nullptr || writable_waiter_ != nullptr) wait_for_room();
}

bool kernel_connection::start_wait_writable(plain_operation& op) noexcept {
    if (writable() || shut_down_ || error_ != std::errc{}) return true;
    CW_ASSERT(writable_waiter_ == nullptr, "one wait_writable at a time");
    writable_waiter_ = &op;
    if (connected_) wait_for_room();
    return false;
}

bool kernel_connection::writable() const noexcept {
    if (!connected_ || shut_down_ || error_ != std::errc{} || !sending_.empty()) return false;
    pollfd look{fd_.get(), POLLOUT, 0};
    return ::poll(&look, 1, 0) == 1 && (look.revents & POLLOUT) != 0;
}

// ---- operations ----

/// Everything written is acknowledged, and nothing has come for a while (tcp(7), SIOCOUTQ, TCP_INFO).
bool kernel_connection::quiet() const noexcept {
    int unacknowledged = 0;
    if (!sending_.empty() || (::ioctl(fd_.get(), SIOCOUTQ, &unacknowledged) == 0 && unacknowledged != 0)) return false;
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
    const std::chrono::milliseconds silence{std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv)};
    return silence >= orderly_stop::quiet;
}

void kernel_connection::end_waits(ended_waits which) noexcept {
    if (reader_ == nullptr && readable_waiter_ == nullptr && connecting_ == nullptr) return;
    if (which == ended_waits::for_new_work && (opened_here_ || !quiet())) return;
    if (reader_ != nullptr) {
        read_operation& op = *std::exchange(reader_, nullptr);
        op.error = std::errc::operation_canceled;
        op.complete();
    }
    finish(readable_waiter_, std::errc::operation_canceled);
    finish(connecting_, std::errc::operation_canceled);
}

bool kernel_connection::start_connected(plain_operation& op) noexcept {
    if (connected_) return true;
    if (error_ != std::errc{}) {
        op.error = error_;
        return true;
    }
    connecting_ = &op;
    return false;
}

void kernel_connection::cancel(socket_operation& op) noexcept {
    if (reader_ == &op) reader_ = nullptr;
    if (writer_ == &op) {
        writer_ = nullptr;
        if (shut_down_) send_fin();
    }
    for (plain_operation** waiting : {&connecting_, &draining_, &readable_waiter_, &writable_waiter_}) {
        if (*waiting == &op) *waiting = nullptr;
    }
}

void kernel_connection::fail(std::errc why) noexcept {
    if (error_ == std::errc{}) {
        error_ = why;
        count_failure(why);
    }
    fail_all(error_);
}

void kernel_connection::count_failure(std::errc why) noexcept {
    kernel_statistics& count = provider_.statistics();
    if (!connected_) ++count.connects_failed;
    else if (why == std::errc::connection_reset) ++count.died_by_reset;
    else if (why == std::errc::timed_out) ++count.died_by_time_out;
    else ++count.died_otherwise;
}

void kernel_connection::fail_all(std::errc why) noexcept {
    if (reader_ != nullptr) {
        read_operation& op = *std::exchange(reader_, nullptr);
        if (!at_end_) op.error = why;
        op.complete();
    }
    // A writer whose own send(2) brought the failure learns of it from start_write() or on_writable().
    if (writer_ != nullptr && writer_->error == std::errc{}) {
        write_operation& op = *std::exchange(writer_, nullptr);
        op.error = why;
        op.complete();
    }
    finish(connecting_, why);
    finish(draining_, why);
    finish(readable_waiter_);
    finish(writable_waiter_);
}

void kernel_connection::finish(plain_operation*& slot, std::errc why) noexcept {
    if (slot == nullptr) return;
    plain_operation& op = *std::exchange(slot, nullptr);
    op.error = why;
    op.complete();
}

void kernel_connection::set_options(const tcp_options_set& options) noexcept {
    tcp_options_set wanted = without_ecn(options);
    wanted.congestion = options_.congestion; // set_congestion()'s
    wanted.fast_open = options_.fast_open;   // the handshake has seen these two
    wanted.mtu_probing = options_.mtu_probing;
    apply_options(fd_.get(), wanted, options_);
    options_ = wanted;
}

std::errc kernel_connection::set_congestion(congestion_algorithm how) {
    const std::errc why = apply_congestion(fd_.get(), provider_.chosen(how));
    if (why == std::errc{}) options_.congestion = how;
    return why;
}

tcp_information kernel_connection::info() const noexcept {
    std::array<std::byte, 512> told; // a struct tcp_info of this kernel's length
    socklen_t size = sizeof told;
    if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, told.data(), &size) != 0) return {};
    return information_from_linux(told.data(), size);
}

// ---- the user's hold ----

socket_address kernel_tcp_socket::local_address() const { return local_address_of(connection_.fd()); }

buffer kernel_tcp_socket::allocate(std::uint32_t size) { return connection_.provider().allocate(size); }

} // namespace corewire
