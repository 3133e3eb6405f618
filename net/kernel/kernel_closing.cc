// How a connection of the kernel's opens with Fast Open (RFC 7413), and how it closes: FIN, what write() took before it, reset.
#include <corewire/net/kernel/kernel_connection.hh>
#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/kernel/system_address.hh>

#include <algorithm>
#include <cerrno>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

namespace corewire {

namespace {

constexpr duration first_drain_look = std::chrono::microseconds{20};
constexpr duration last_drain_look = std::chrono::milliseconds{10};

} // namespace

// ---- Fast Open ----

/// The kernel keeps its SYN back for the first write; who waits for the peer's first word instead sends it without data, as an empty
/// send(2) does. False: it has failed, with error_ set.
bool kernel_connection::hurry() noexcept {
    if (opening_ != opening::deferred || !sending_.empty()) return true; // what is queued takes the SYN along
    opening_ = opening::on_its_way;
    if (::send(fd_.get(), nullptr, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EINPROGRESS && errno != EAGAIN) {
        fail(static_cast<std::errc>(errno));
    }
    return error_ == std::errc{};
}

/// The SYN has left, and shutdown(2) or close(2) would end the attempt, and with it what the SYN took along.
bool kernel_connection::shakes_hands() noexcept {
    if (opening_ == opening::on_its_way && state_of(fd_.get()) != TCP_SYN_SENT) opening_ = opening::done;
    return opening_ == opening::on_its_way;
}

// ---- closing ----

std::errc kernel_connection::shutdown() noexcept {
    if (error_ != std::errc{}) return error_;
    if (!connected_) return std::errc::not_connected;
    if (shut_down_) return {};
    shut_down_ = true;
    if (send_queued()) {
        send_fin();
    } else {
        wait_for_room();
    }
    return error_;
}

/// Once nothing stands before it.
void kernel_connection::send_fin() noexcept {
    if (fin_sent_ || writer_ != nullptr || !sending_.empty() || !hurry()) return;
    if (shakes_hands()) return wait_for_room();
    fin_sent_ = true;
    ::shutdown(fd_.get(), SHUT_WR);
}

bool kernel_connection::start_drain(plain_operation& op) noexcept {
    CW_ASSERT(draining_ == nullptr, "one close at a time");
    if (error_ != std::errc{} || drained()) {
        op.error = error_;
        return true;
    }
    draining_ = &op;
    drain_interval_ = first_drain_look;
    provider_.loop().timers().arm(drain_timer_, provider_.loop().now() + drain_interval_);
    return false;
}

/// Everything written has been acknowledged, FIN included (tcp(7), SIOCOUTQ); or the connection is gone, with error_ set
/// if it went badly.
bool kernel_connection::drained() noexcept {
    if (state_of(fd_.get()) == TCP_CLOSE) {
        int why = 0;
        socklen_t size = sizeof why;
        ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &why, &size);
        if (why == 0 && shut_down_ && !fin_sent_) why = ECONNRESET; // the handshake came to nothing, of which a recv has heard
        if (why != 0) fail(why == EPIPE ? std::errc::connection_reset : static_cast<std::errc>(why));
        return true;
    }
    int unacknowledged = 0;
    ::ioctl(fd_.get(), SIOCOUTQ, &unacknowledged);
    return unacknowledged == 0 && writer_ == nullptr && sending_.empty() && (fin_sent_ || !shut_down_);
}

/// The kernel tells nobody when the last acknowledgement comes, so we ask, ever less often.
void kernel_connection::look_whether_drained() noexcept {
    if (abandoned()) give_up(); // it has lingered long enough
    if (draining_ == nullptr) return;
    if (drained()) {
        finish(draining_, error_);
        return;
    }
    drain_interval_ = std::min(2 * drain_interval_, last_drain_look);
    provider_.loop().timers().arm(drain_timer_, provider_.loop().now() + drain_interval_);
}

void kernel_connection::abort() noexcept {
    error_ = std::errc::connection_aborted;
    resets_on_close(fd_.get());
    // The descriptor closes only when the kernel has given our requests back; dissolving the association sends the RST
    // now (connect(2), AF_UNSPEC).
    const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
    ::connect(fd_.get(), &nowhere, sizeof nowhere);
    received_.clear();
    front_ = {};
    queued_sender::unlink();
    if (!send_.in_kernel()) sending_ = {};
    cancel_all();
    fail_all(error_);
}

void kernel_connection::stop() noexcept {
    fail_all(std::errc::operation_canceled);
    drain_timer_.cancel();
    starved_receiver::unlink();
    if (!received_.empty() || !front_.empty() || options_.reset_on_close) {
        // RFC 2525 2.17: bytes that nobody will ever read are lost, and the peer must hear of it. Or it was asked for.
        resets_on_close(fd_.get());
        queued_sender::unlink();
    } else if (!send_queued() || shakes_hands()) {
        // What write() has taken is still sent; then the connection closes.
        wait_for_room();
        provider_.ring().cancel(receive_);
        provider_.loop().timers().arm(drain_timer_, provider_.loop().now() + linger);
        return;
    } else if (in_kernel()) {
        ::shutdown(fd_.get(), SHUT_RDWR); // FIN now; the descriptor closes when the kernel gives our requests back
    }
    received_.clear();
    front_ = {};
    cancel_all();
}

bool kernel_connection::in_kernel() const noexcept {
    return connect_.in_kernel() || receive_.in_kernel() || send_.in_kernel() || room_.in_kernel();
}

void kernel_connection::give_up() noexcept {
    given_up_ = true;
    cancel_all();
}

void kernel_connection::cancel_all() noexcept {
    uring& ring = provider_.ring();
    ring.cancel(connect_);
    ring.cancel(receive_);
    ring.cancel(send_);
    ring.cancel(room_);
}

} // namespace corewire
