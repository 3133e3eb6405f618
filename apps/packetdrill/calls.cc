#include "calls.hh"

#include "control_messages.hh"

#include <corewire/net/posix/parts.hh>
#include <corewire/net/posix/socket_names.hh>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

/// Asks for a connection; an error message that looks like it does no harm.
bool is_syn(byte_span ip_packet) noexcept {
    const unsigned first = ip_packet.empty() ? 0 : load_u8(ip_packet.data());
    const std::size_t flags = (first >> 4 == 4 ? 4 * (first & 15) : wire::ipv6_header::size) + 13;
    return ip_packet.size() > flags && (load_u8(ip_packet.data() + flags) & 0x12) == 0x02; // and no ACK
}

/// connect(), sendto() with a name that says to forget the one there was.
bool is_unspecified(const sockaddr* name, socklen_t size) noexcept {
    sa_family_t family = AF_INET;
    if (name != nullptr && size >= sizeof family) std::memcpy(&family, name, sizeof family);
    return family == AF_UNSPEC;
}

constexpr int stamp_new = 63, precise_stamp_new = 64; ///< SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW

timespec timespec_of(time_point at) noexcept {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
    return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

/// Software's; the two others are a device's.
scm_timestamping stamps_of(time_point at) noexcept { return {{timespec_of(at), {}, {}}}; }

/// Who has sent the ICMP message, or what was stamped; else AF_UNSPEC.
template <typename Name>
Name offender(const stream_socket::notice& n, int family) noexcept {
    Name name{};
    socklen_t size = sizeof name;
    if (!n.offender.is_any()) posix::write_name(socket_address(n.offender, 0), family, reinterpret_cast<sockaddr*>(&name), &size);
    return name;
}

/// recvmsg(MSG_ERRQUEUE): what ip(7) calls an extended error.
outcome receive_notice(stream_socket& s, msghdr& message) {
    stream_socket::notice n;
    if (!s.take_notice(n)) return -EAGAIN;
    const sock_extended_err& what = n.what;
    message.msg_flags = MSG_ERRQUEUE;
    if (!n.icmp()) message.msg_namelen = 0;
    else posix::write_name(n.about, s.family(), static_cast<sockaddr*>(message.msg_name), &message.msg_namelen);
    std::size_t copied = 0; // of the packet that is spoken of: our own one's bytes are not kept
    for (std::size_t i = 0; i < message.msg_iovlen && copied < n.size; ++i) {
        const iovec& v = message.msg_iov[i];
        const std::size_t part = std::min<std::size_t>(v.iov_len, n.size - copied);
        if (part != 0 && !posix::is_reachable(v)) return -EFAULT; // the notice is gone nevertheless
        const std::size_t known = std::min(part, n.packet.size() - std::min(n.packet.size(), copied));
        if (known != 0) std::memcpy(v.iov_base, n.packet.data() + copied, known);
        if (part != known) std::memset(static_cast<char*>(v.iov_base) + known, 0, part - known);
        copied += part;
    }
    if (copied < n.size) message.msg_flags |= MSG_TRUNC;
    control_writer control(message);
    if (n.at != time_point{} && (s.settings().timestamping & SOF_TIMESTAMPING_SOFTWARE) != 0) {
        control.put(SOL_SOCKET, SCM_TIMESTAMPING, stamps_of(n.at));
    }
    if (s.family() == AF_INET) {
        const struct {
            sock_extended_err what;
            sockaddr_in offender;
        } told{what, offender<sockaddr_in>(n, AF_INET)};
        control.put(SOL_IP, IP_RECVERR, told);
    } else {
        const struct {
            sock_extended_err what;
            sockaddr_in6 offender;
        } told{what, offender<sockaddr_in6>(n, AF_INET6)};
        control.put(SOL_IPV6, IPV6_RECVERR, told);
    }
    return static_cast<outcome>(copied);
}

bool send_may_wait(const stream_socket& s, int flags) { return !s.non_blocking() && (flags & MSG_DONTWAIT) == 0; }

/// What is left of `rest` behind its first `n` bytes; there are as many.
void skip(std::vector<iovec>& rest, std::uint64_t n) {
    while (n != 0) {
        iovec& v = rest.front();
        const std::size_t part = std::min<std::uint64_t>(n, v.iov_len);
        if (posix::is_reachable(v)) v.iov_base = static_cast<char*>(v.iov_base) + part; // else it is not looked at (MSG_TRUNC)
        v.iov_len -= part;
        n -= part;
        if (v.iov_len == 0) rest.erase(rest.begin());
    }
}

} // namespace

calls::calls(std::string_view flags) : host_(wire_habits::of(flags)) {
    host_.set_follow_up([this] {
        fds_.for_each([this](int, posix::descriptor& d) {
            if (auto* const s = dynamic_cast<stream_socket*>(&d)) s->follow_up(host_.now());
        });
    });
}

calls::~calls() {
    access a(host_);
    host_.set_follow_up({});
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

/// Why `fd` cannot be what a call on a socket is for: another of ours, or of the process; or nobody's.
outcome calls::no_socket(int fd) const {
    const bool open = fds_.find(fd) != nullptr || ::fcntl(fd, F_GETFD) >= 0;
    return open ? -ENOTSOCK : -EBADF;
}

/// For calls on a stream socket that never block.
template <typename Attempt>
outcome calls::on_stream(int fd, Attempt&& attempt) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return no_socket(fd);
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
    if (kind < 0 || kind > SOCK_PACKET) return -EINVAL;
    if (kind != SOCK_STREAM) return -ESOCKTNOSUPPORT;
    constexpr int protocols = 263; // IPPROTO_MAX, MPTCP's 262 included
    if (protocol < 0 || protocol >= protocols) return -EINVAL;
    if (protocol != 0 && protocol != IPPROTO_TCP) return -EPROTONOSUPPORT;
    host_.read_settings();
    const wire_habits& h = host_.habits();
    auto s = std::make_shared<stream_socket>(host_.stack(), domain, h.stream, h.connection_tuning());
    if ((type & SOCK_NONBLOCK) != 0) s->status_flags |= O_NONBLOCK;
    return fds_.add(std::move(s), (type & SOCK_CLOEXEC) != 0);
}

outcome calls::bind(int fd, const sockaddr* name, socklen_t size) {
    return on_stream(fd, [&](stream_socket& s) -> outcome {
        socket_address at;
        if (const outcome r = posix::read_name(name, size, s.family(), at); r < 0) return r;
        if (at.port != 0 && s.local_address().port == 0 && in_use(s, at)) return -EADDRINUSE;
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
    if (s == nullptr) return no_socket(fd);
    std::unique_ptr<stream_socket> made;
    const outcome r = until(a, !s->non_blocking(), deadline_after(s->settings().receive_timeout),
                            [&] { return s->accept(made); });
    if (r < 0) return r;
    if (name != nullptr && (size == nullptr || static_cast<std::int32_t>(*size) < 0)) { // and nobody has the connection (accept4())
        made.reset();
        host_.settle();
        return size == nullptr ? -EFAULT : -EINVAL;
    }
    if (name != nullptr) {
        const flow_name& flow = made->connection()->name(); // also of what was reset already
        posix::write_name(socket_address(flow.remote, flow.remote_port), s->family(), name, size);
    }
    if (s->settings().like_freebsd) made->status_flags |= s->status_flags & (O_NONBLOCK | O_ASYNC); // accept(2) there
    return fds_.add(std::move(made));
}

outcome calls::connect(int fd, const sockaddr* name, socklen_t size) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return no_socket(fd);
    if (is_unspecified(name, size)) {
        const outcome r = s->dissolve();
        host_.settle();
        return r;
    }
    socket_address to;
    if (const outcome r = posix::read_name(name, size, s->family(), to); r < 0) return r;
    outcome r = s->connect(to);
    host_.settle();
    if (s->non_blocking() || (r != -EINPROGRESS && r != -EALREADY)) return r;
    const time_point deadline = deadline_after(s->settings().send_timeout);
    const outcome pending = r;
    r = until(a, true, deadline, [&] { return s->handshake_result(); });
    return r == -EAGAIN ? pending : r;
}

outcome calls::shutdown(int fd, int how) {
    return on_stream(fd, [&](stream_socket& s) { return s.shutdown(how); });
}

outcome calls::close(int fd) {
    access a(host_);
    auto gone = fds_.remove(fd);
    if (gone == nullptr) return ::close(fd) == 0 ? 0 : -errno;
    if (fds_.has(*gone)) return 0; // F_DUPFD
    outcome lingered = 0;
    auto s = std::dynamic_pointer_cast<stream_socket>(gone);
    if (s != nullptr) keep_port(*s);
    if (s != nullptr && s->unsent_at_close()) {
        s->shutdown(SHUT_RDWR);
        // socket(7): it waits though the socket does not block otherwise. FreeBSD's does not then, and tells when it has not been enough.
        const bool like_freebsd = s->settings().like_freebsd;
        const std::chrono::seconds patience{std::min<std::int64_t>(s->settings().linger_time, UINT32_MAX)};
        const outcome r = until(a, !like_freebsd || !s->non_blocking(), deadline_after(patience),
                                [&]() -> outcome { return s->unsent_at_close() ? -EAGAIN : 0; });
        if (like_freebsd && !s->non_blocking()) lingered = r;
    }
    s.reset();
    gone.reset();
    host_.settle();
    return lingered;
}

// ---- data ----

outcome calls::receive_locked(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> into, int flags) {
    const std::uint64_t size = posix::total_size(into);
    const std::uint64_t enough = (flags & MSG_WAITALL) != 0 ? size : std::min<std::uint64_t>(size, s->settings().receive_low_water);
    std::uint64_t taken = 0;
    const bool may_wait = !s->non_blocking() && (flags & (MSG_DONTWAIT | MSG_OOB)) == 0; // as Linux
    const time_point deadline = deadline_after(s->settings().receive_timeout);
    if ((flags & MSG_PEEK) != 0) { // each time all of it is looked at
        const int offset = s->settings().peek_offset;
        const outcome r = until(a, may_wait, deadline, [&]() -> outcome {
            s->settings().peek_offset = offset;
            const outcome n = s->receive(into, flags);
            taken = n > 0 ? static_cast<std::uint64_t>(n) : 0;
            const bool at_mark = s->is_before_mark(static_cast<std::uint64_t>(std::max(offset, 0)) + taken);
            const bool more = n > 0 && taken < enough && !at_mark && (s->events() & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
            return more ? -EAGAIN : n;
        });
        return r == -EAGAIN && taken != 0 ? static_cast<outcome>(taken) : r;
    }
    std::vector<iovec> rest(into.begin(), into.end());
    const outcome r = until(a, may_wait, deadline, [&]() -> outcome {
        if (taken != 0 && s->has_error() && s->connection() != nullptr && s->connection()->tcb.readable() == 0) return 0; // the next call's
        const outcome n = s->receive(rest, flags);
        if (n <= 0) return n;
        taken += static_cast<std::uint64_t>(n);
        const bool ends = (s->events() & (POLLRDHUP | POLLHUP | POLLERR)) != 0; // and all that came has been read
        const bool all = s->connection() == nullptr || s->connection()->tcb.readable() == 0;
        if (taken >= enough || s->is_before_mark(0) || (ends && all)) return n;
        skip(rest, static_cast<std::uint64_t>(n));
        return -EAGAIN;
    });
    return taken != 0 ? static_cast<outcome>(taken) : r;
}

outcome calls::read(int fd, std::span<const iovec> into) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -EINVAL : -EBADF;
    return posix::total_size(into) != 0 ? receive_locked(a, s, into, 0) : 0;
}

outcome calls::receive(int fd, std::span<const iovec> into, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return no_socket(fd);
    if ((flags & MSG_ERRQUEUE) != 0) {
        std::vector<iovec> parts(into.begin(), into.end());
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = parts.size();
        return receive_notice(*s, message);
    }
    return receive_locked(a, s, into, flags);
}

outcome calls::receive_message(int fd, msghdr* message, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return no_socket(fd);
    if (const outcome r = refuse(message, flags); r < 0) return r;
    if ((flags & MSG_ERRQUEUE) != 0) return receive_notice(*s, *message);
    const outcome r = receive_locked(a, s, {message->msg_iov, message->msg_iovlen}, flags);
    if (r < 0) return r;
    message->msg_flags = flags & MSG_CMSG_CLOEXEC;
    message->msg_namelen = 0;
    control_writer control(*message);
    const posix::stream_settings& set = s->settings();
    const tcp_connection* const c = s->connection();
    const bool asks_nothing = posix::total_size({message->msg_iov, message->msg_iovlen}) == 0;
    if (c != nullptr && (r > 0 || (asks_nothing && c->tcb.readable() != 0))) { // when the last of it came
        const time_point at = c->tcb.info().last_payload;
        const timespec t = timespec_of(at);
        const int kind = set.receive_stamps; // the message's, too
        if (kind == SO_TIMESTAMP || kind == stamp_new) control.put(SOL_SOCKET, kind, timeval{t.tv_sec, t.tv_nsec / 1000});
        if (kind == SO_TIMESTAMPNS || kind == precise_stamp_new) control.put(SOL_SOCKET, kind, t);
        constexpr unsigned wanted = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
        if ((set.timestamping & wanted) == wanted) control.put(SOL_SOCKET, SCM_TIMESTAMPING, stamps_of(at));
    }
    // tcp(7), TCP_INQ: how much more there is; 1 at the end of the stream, so that it is read.
    if (set.inquire) control.put(IPPROTO_TCP, TCP_INQ, s->inquire());
    return r;
}

outcome calls::send_locked(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> from, int flags,
                           write_control control) {
    const std::uint64_t size = posix::total_size(from);
    const bool may_wait = send_may_wait(*s, flags);
    if (s->deferred() && !s->under_repair()) return finish_fast(a, s, from, flags, s->send_with_syn(from, flags, may_wait));
    std::vector<iovec> rest(from.begin(), from.end());
    std::uint64_t taken = 0;
    bool waited = false;
    const outcome r = until(a, may_wait, deadline_after(s->settings().send_timeout), [&]() -> outcome {
        if (std::exchange(waited, true) && !s->wakes_writers()) return -EAGAIN;
        if (taken != 0 && s->has_error()) return -EPIPE; // the next call is told what it was
        if (!control.good && s->may_send()) return -EINVAL; // else send() tells why not
        const outcome n = s->send(rest, flags, control.stamps, may_wait);
        if (n <= 0) return n;
        taken += static_cast<std::uint64_t>(n);
        if (taken >= size) return n;
        skip(rest, static_cast<std::uint64_t>(n));
        host_.settle(); // what was taken leaves while the rest waits
        return -EAGAIN;
    });
    if (may_wait && taken != 0 && taken < size) { // it ends here
        s->end_write(flags, control.stamps, taken);
        host_.settle();
    }
    // FreeBSD's dofilewrite() tells of what was taken before a signal or SO_SNDTIMEO, but not before an error.
    if (taken == 0 || (s->settings().like_freebsd && r < 0 && r != -EAGAIN && r != -EINTR)) return r;
    return static_cast<outcome>(taken);
}

outcome calls::send(int fd, std::span<const iovec> from, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return fds_.find(fd) != nullptr ? -EINVAL : -EBADF;
    return send_locked(a, s, from, flags, {});
}

outcome calls::send_to(int fd, std::span<const iovec> from, int flags, const sockaddr* name, socklen_t size) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return no_socket(fd);
    return send_to_locked(a, s, from, flags, name, size, {});
}

outcome calls::send_to_locked(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> from, int flags,
                              const sockaddr* name, socklen_t size, write_control control) {
    if (s->under_repair()) flags &= ~MSG_FASTOPEN;
    if ((flags & MSG_FASTOPEN) != 0 && name != nullptr) return send_fast(a, s, from, flags & ~MSG_FASTOPEN, name, size);
    if ((flags & MSG_FASTOPEN) != 0 && !s->deferred()) { // to nobody (tcp_sendmsg_fastopen())
        if (!s->settings().may_open_fast()) return -EOPNOTSUPP;
        if (!s->connecting()) return s->connection() != nullptr || s->listening() ? -EISCONN : -EINVAL;
        if (s->in_handshake()) return -EALREADY;
        if (const outcome r = s->handshake_result(); r < 0) return r;
    }
    if (name != nullptr && s->connects_by_sending()) {
        socket_address to;
        if (const outcome r = posix::read_name(name, size, s->family(), to); r < 0) return r;
        const outcome taken = s->connect_by_sending(to, from);
        host_.settle();
        return taken;
    }
    return send_locked(a, s, from, flags & ~MSG_FASTOPEN, control);
}

/// MSG_FASTOPEN: who does not block hears how much went along in the SYN, or EINPROGRESS; who does waits for the handshake, and all of
/// the data is sent.
outcome calls::send_fast(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> from, int flags, const sockaddr* name,
                         socklen_t size) {
    if (is_unspecified(name, size)) return -EOPNOTSUPP;
    socket_address to;
    if (const outcome r = posix::read_name(name, size, s->family(), to); r < 0) return r;
    return finish_fast(a, s, from, flags, s->connect_and_send(to, from, flags, send_may_wait(*s, flags)));
}

outcome calls::finish_fast(access& a, const std::shared_ptr<stream_socket>& s, std::span<const iovec> from, int flags, outcome went_along) {
    host_.settle();
    const bool may_wait = !s->non_blocking() && (flags & MSG_DONTWAIT) == 0;
    if (!may_wait || (went_along < 0 && went_along != -EINPROGRESS)) return went_along;
    std::vector<iovec> rest(from.begin(), from.end());
    const std::uint64_t taken = went_along > 0 ? static_cast<std::uint64_t>(went_along) : 0;
    skip(rest, taken);
    if (tcp_connection* const c = s->connection(); c != nullptr && !rest.empty()) c->tcb.expect_writer();
    outcome r = until(a, true, deadline_after(s->settings().send_timeout), [&] { return s->handshake_result(); });
    if (r == -EAGAIN) { // it ends here
        if (taken != 0 && !rest.empty()) s->end_write(flags, 0, taken);
        return went_along;
    }
    if (r < 0) return r;
    if (rest.empty()) return went_along;
    r = send_locked(a, s, rest, flags, {});
    if (r < 0 && taken != 0) s->end_write(flags, 0, taken);
    return r >= 0 ? static_cast<outcome>(taken) + r : taken != 0 ? went_along : r;
}

outcome calls::send_message(int fd, const msghdr* message, int flags) {
    access a(host_);
    const auto s = stream(fd);
    if (s == nullptr) return no_socket(fd);
    if (const outcome r = refuse(message, flags); r < 0) return r;
    if (message->msg_control == nullptr && message->msg_controllen != 0) return -EFAULT;
    write_control control;
    control.good = read_control(*message, control.stamps, s->settings().transmit_time.has_value());
    return send_to_locked(a, s, {message->msg_iov, message->msg_iovlen}, flags, static_cast<const sockaddr*>(message->msg_name),
                          message->msg_namelen, control);
}

// ---- options ----

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
    if (is_syn(ip_packet)) tell_listeners_of_settings();
    const bool taken = host_.wire().put(ip_packet);
    host_.settle();
    return taken ? 0 : -EINVAL;
}

/// Scripts change settings between listen() and the SYN.
void calls::tell_listeners_of_settings() {
    if (!host_.habits().reads_settings) return;
    host_.read_settings();
    const wire_habits& h = host_.habits();
    fds_.for_each([&](int, posix::descriptor& d) {
        auto* const s = dynamic_cast<stream_socket*>(&d);
        if (s != nullptr && s->listening()) s->follow_host(h.stream, h.connection_tuning());
    });
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
