#include "calls.hh"

#include <corewire/net/posix/socket_names.hh>

#include <cstring>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace corewire::packetdrill {

using posix::stream_socket;

namespace {

net_address destination_of(byte_span ip_packet) noexcept {
    const unsigned version = ip_packet.empty() ? 0 : load_u8(ip_packet.data()) >> 4;
    if (version == 4 && ip_packet.size() >= wire::ipv4_header::min_size) return ipv4(load_be32(ip_packet.data() + 16));
    if (version == 6 && ip_packet.size() >= wire::ipv6_header::size) return ipv6::load(ip_packet.data() + 24);
    return {};
}

/// What is left of `rest` behind its first `n` bytes; there are as many.
void skip(std::vector<iovec>& rest, std::uint64_t n) {
    while (n != 0) {
        iovec& v = rest.front();
        const std::size_t part = std::min<std::uint64_t>(n, v.iov_len);
        v.iov_base = static_cast<char*>(v.iov_base) + part;
        v.iov_len -= part;
        n -= part;
        if (v.iov_len == 0) rest.erase(rest.begin());
    }
}

} // namespace

calls::~calls() {
    access a(host_);
    host_.end_waits(a);
    fds_ = {}; // sockets go before their stack; their real fds are whoever's who has closed them
}

/// Tries, and tries again when something has changed, until it is not -EAGAIN or the deadline has come.
template <typename Attempt>
outcome calls::until(access& a, bool may_wait, time_point deadline, Attempt&& attempt) {
    outcome r = attempt();
    host_.settle();
    while (r == -EAGAIN && may_wait && host_.wait(a, deadline)) {
        r = attempt();
        if (r != -EAGAIN) host_.settle();
    }
    return r;
}

/// For calls on a stream socket that never block.
template <typename Attempt>
outcome calls::on_stream(int fd, Attempt&& attempt) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -ENOTSOCK : -EBADF;
    const outcome r = attempt(*s);
    host_.settle();
    return r;
}

time_point calls::deadline_of(int milliseconds) const {
    return milliseconds < 0 ? never : host_.now() + std::chrono::milliseconds{milliseconds};
}

bool calls::owns(int fd) {
    access a(host_);
    return fds_.find(fd) != nullptr;
}

// ---- opening and closing ----

outcome calls::socket(int domain, int type, int protocol) {
    access a(host_);
    const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (domain != AF_INET && domain != AF_INET6) return -EAFNOSUPPORT;
    if (kind != SOCK_STREAM) return -ESOCKTNOSUPPORT;
    if (protocol != 0 && protocol != IPPROTO_TCP) return -EPROTONOSUPPORT;
    host_.read_settings();
    const wire_habits& h = host_.habits();
    auto s = std::make_shared<stream_socket>(host_.stack(), domain, h.stream, h.connection_tuning());
    if ((type & SOCK_NONBLOCK) != 0) s->status_flags |= O_NONBLOCK;
    return fds_.add(std::move(s));
}

outcome calls::bind(int fd, const sockaddr* name, socklen_t size) {
    return on_stream(fd, [&](stream_socket& s) -> outcome {
        socket_address at;
        if (const outcome r = posix::read_name(name, size, s.family(), at); r < 0) return r;
        if (!at.is_v4() && at.net().is_unicast()) host_.adopt(at.net().v6());
        return s.bind(at);
    });
}

outcome calls::listen(int fd, int backlog) {
    return on_stream(fd, [&](stream_socket& s) { return s.listen(backlog); });
}

outcome calls::accept(int fd, sockaddr* name, socklen_t* size) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -ENOTSOCK : -EBADF;
    std::unique_ptr<stream_socket> made;
    const outcome r = until(a, !s->non_blocking(), deadline_after(s->settings().receive_timeout),
                            [&] { return s->accept(made); });
    if (r < 0) return r;
    if (name != nullptr) {
        socket_address peer;
        if (const outcome p = made->peer_address(peer); p < 0) return -ECONNABORTED;
        posix::write_name(peer, s->family(), name, size);
    }
    return fds_.add(std::move(made));
}

outcome calls::connect(int fd, const sockaddr* name, socklen_t size) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -ENOTSOCK : -EBADF;
    socket_address to;
    if (const outcome r = posix::read_name(name, size, s->family(), to); r < 0) return r;
    outcome r = s->connect(to);
    host_.settle();
    if (s->non_blocking() || (r != -EINPROGRESS && r != -EALREADY)) return r;
    const time_point deadline = deadline_after(s->settings().send_timeout);
    r = until(a, true, deadline, [&]() -> outcome { return s->in_handshake() ? -EAGAIN : s->connect(to); });
    return r == -EAGAIN ? -EINPROGRESS : r;
}

outcome calls::shutdown(int fd, int how) {
    return on_stream(fd, [&](stream_socket& s) { return s.shutdown(how); });
}

outcome calls::close(int fd) {
    access a(host_);
    auto gone = fds_.remove(fd);
    if (gone == nullptr) return ::close(fd) == 0 ? 0 : -errno;
    if (auto s = std::dynamic_pointer_cast<stream_socket>(gone); s != nullptr && s->unsent_at_close()) {
        s->shutdown(SHUT_RDWR);
        // socket(7): it waits though the socket does not block otherwise.
        until(a, true, deadline_after(std::chrono::seconds{s->settings().linger_time}),
              [&]() -> outcome { return s->unsent_at_close() ? -EAGAIN : 0; });
    }
    gone.reset();
    host_.settle();
    return 0;
}

// ---- data ----

outcome calls::receive_locked(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> into, int flags) {
    std::uint64_t size = 0;
    for (const iovec& v : into) size += v.iov_len;
    const std::uint64_t enough = (flags & MSG_WAITALL) != 0 ? size : std::min<std::uint64_t>(size, s->settings().receive_low_water);
    std::vector<iovec> rest(into.begin(), into.end());
    std::uint64_t taken = 0;
    const bool may_wait = !s->non_blocking() && (flags & (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)) == 0; // as Linux
    const outcome r = until(a, may_wait, deadline_after(s->settings().receive_timeout), [&]() -> outcome {
        const outcome n = s->receive(rest, flags);
        if (n <= 0) return n;
        taken += static_cast<std::uint64_t>(n);
        if (taken >= enough || (flags & MSG_PEEK) != 0) return n;
        skip(rest, static_cast<std::uint64_t>(n));
        return -EAGAIN;
    });
    return taken != 0 ? static_cast<outcome>(taken) : r;
}

outcome calls::receive(int fd, std::span<const iovec> into, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -EINVAL : -EBADF;
    return receive_locked(a, s, into, flags);
}

outcome calls::receive_message(int fd, msghdr* message, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -ENOTSOCK : -EBADF;
    const outcome r = receive_locked(a, s, {message->msg_iov, message->msg_iovlen}, flags);
    if (r < 0) return r;
    message->msg_flags = 0;
    message->msg_namelen = 0;
    const std::size_t room = message->msg_control == nullptr ? 0 : message->msg_controllen;
    message->msg_controllen = 0;
    if (!s->settings().inquire) return r;
    // tcp(7), TCP_INQ: how much more there is; 1 at the end of the stream, so that it is read.
    const int left = s->inquire();
    if (room < CMSG_SPACE(sizeof left)) {
        message->msg_flags |= MSG_CTRUNC;
        return r;
    }
    message->msg_controllen = CMSG_SPACE(sizeof left);
    cmsghdr* const c = CMSG_FIRSTHDR(message);
    c->cmsg_level = IPPROTO_TCP;
    c->cmsg_type = TCP_INQ;
    c->cmsg_len = CMSG_LEN(sizeof left);
    std::memcpy(CMSG_DATA(c), &left, sizeof left);
    return r;
}

outcome calls::send_locked(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> from, int flags) {
    std::uint64_t size = 0;
    for (const iovec& v : from) size += v.iov_len;
    if (s->deferred()) return finish_fast(a, s, from, flags, s->send_with_syn(from));
    std::vector<iovec> rest(from.begin(), from.end());
    std::uint64_t taken = 0;
    const bool may_wait = !s->non_blocking() && (flags & MSG_DONTWAIT) == 0;
    const outcome r = until(a, may_wait, deadline_after(s->settings().send_timeout), [&]() -> outcome {
        const outcome n = s->send(rest, flags);
        if (n <= 0) return n;
        taken += static_cast<std::uint64_t>(n);
        if (taken >= size) return n;
        skip(rest, static_cast<std::uint64_t>(n));
        return -EAGAIN;
    });
    return taken != 0 ? static_cast<outcome>(taken) : r;
}

outcome calls::send(int fd, std::span<const iovec> from, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -EINVAL : -EBADF;
    return send_locked(a, s, from, flags);
}

outcome calls::send_to(int fd, std::span<const iovec> from, int flags, const sockaddr* name, socklen_t size) {
    if ((flags & MSG_FASTOPEN) != 0 && name != nullptr) return send_fast(fd, from, flags & ~MSG_FASTOPEN, name, size);
    return send(fd, from, flags & ~MSG_FASTOPEN);
}

/// MSG_FASTOPEN: who does not block hears how much went along in the SYN, or EINPROGRESS; who does waits for the handshake, and all of
/// the data is sent.
outcome calls::send_fast(int fd, std::span<const iovec> from, int flags, const sockaddr* name, socklen_t size) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -ENOTSOCK : -EBADF;
    socket_address to;
    if (const outcome r = posix::read_name(name, size, s->family(), to); r < 0) return r;
    return finish_fast(a, s, from, flags, s->connect_and_send(to, from));
}

outcome calls::finish_fast(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> from, int flags, outcome went_along) {
    host_.settle();
    const bool may_wait = !s->non_blocking() && (flags & MSG_DONTWAIT) == 0;
    if (!may_wait || (went_along < 0 && went_along != -EINPROGRESS)) return went_along;
    outcome r = until(a, true, deadline_after(s->settings().send_timeout), [&] { return s->handshake_result(); });
    if (r == -EAGAIN) return went_along;
    if (r < 0) return r;
    std::vector<iovec> rest(from.begin(), from.end());
    const std::uint64_t taken = went_along > 0 ? static_cast<std::uint64_t>(went_along) : 0;
    skip(rest, taken);
    if (rest.empty()) return went_along;
    r = send_locked(a, s, rest, flags);
    return r >= 0 ? static_cast<outcome>(taken) + r : taken != 0 ? went_along : r;
}

outcome calls::send_message(int fd, const msghdr* message, int flags) {
    return send_to(fd, {message->msg_iov, message->msg_iovlen}, flags, static_cast<const sockaddr*>(message->msg_name),
                   message->msg_namelen);
}

// ---- options ----

outcome calls::fcntl(int fd, int command, long argument) {
    access a(host_);
    const auto d = fds_.find(fd);
    if (d == nullptr || command == F_GETFD || command == F_SETFD) {
        const int r = ::fcntl(fd, command, argument);
        return r < 0 ? -errno : r;
    }
    constexpr int settable = O_NONBLOCK | O_APPEND | O_ASYNC;
    switch (command) {
    case F_GETFL: return d->status_flags;
    case F_SETFL: d->status_flags = (d->status_flags & ~settable) | (static_cast<int>(argument) & settable); return 0;
    default: return -EINVAL;
    }
}

outcome calls::ioctl(int fd, unsigned long request, void* argument) {
    access a(host_);
    const auto d = fds_.find(fd);
    if (d == nullptr) {
        const int r = ::ioctl(fd, request, argument);
        return r < 0 ? -errno : r;
    }
    if (argument == nullptr) return -EFAULT;
    auto* const value = static_cast<int*>(argument);
    if (request == FIONBIO) {
        d->status_flags = *value != 0 ? d->status_flags | O_NONBLOCK : d->status_flags & ~O_NONBLOCK;
        return 0;
    }
    const auto s = std::dynamic_pointer_cast<stream_socket>(d);
    return s == nullptr ? -ENOTTY : s->ioctl(request, value);
}

outcome calls::get_option(int fd, int level, int name, void* value, socklen_t* size) {
    return on_stream(fd, [&](stream_socket& s) { return s.get_option(level, name, value, size); });
}

outcome calls::set_option(int fd, int level, int name, const void* value, socklen_t size) {
    return on_stream(fd, [&](stream_socket& s) { return s.set_option(level, name, value, size); });
}

// ---- packets and time ----

outcome calls::packet_in(byte_span ip_packet) {
    access a(host_);
    host_.stack(destination_of(ip_packet));
    const bool taken = host_.wire().put(ip_packet);
    host_.settle();
    return taken ? 0 : -EINVAL;
}

std::size_t calls::packet_out(mutable_byte_span into, long long& when) {
    access a(host_);
    host_.stack();
    host_.let_others_finish(a); // a call on its way may have something to send
    while (!host_.wire().anything_left()) {
        if (!host_.advance_to_next_timer(a)) return 0;
    }
    const left_packet& p = host_.wire().first_left();
    when = std::chrono::duration_cast<std::chrono::microseconds>(p.at.time_since_epoch()).count();
    const std::size_t size = p.bytes.size();
    const bool fits = size <= into.size();
    if (fits) std::memcpy(into.data(), p.bytes.data(), size);
    host_.wire().drop_first_left();
    return fits ? size : 0;
}

void calls::sleep(duration d) {
    access a(host_);
    host_.advance_to(a, host_.now() + d);
}

time_point calls::now() {
    access a(host_);
    return host_.look(a);
}

} // namespace corewire::packetdrill
