// The exported symbol: fills in the table, each entry a line that turns the C call into one of calls.hh.
#include "interface.hh"

#include "calls.hh"
#include "preload.hh"

#include <cerrno>
#include <cstdarg>
#include <exception>
#include <memory>

namespace corewire::packetdrill {

namespace {

calls& of(void* userdata) { return *static_cast<calls*>(userdata); }

/// A pipe or a file that the script has made beside the sockets.
bool is_foreign(void* u, int fd) { return !of(u).owns(fd); }

iovec part(const void* bytes, std::size_t size) { return {const_cast<void*>(bytes), size}; }

/// What is looked at as a vector is taken over (iovec_from_user()).
outcome refuse(const iovec* parts, int count) {
    if (count < 0 || count > UIO_MAXIOV) return -EINVAL;
    return parts == nullptr && count != 0 ? -EFAULT : 0;
}

ssize_t receive(void* u, int fd, const iovec* parts, int count, int flags) {
    if (const outcome r = refuse(parts, count); r < 0) return posix_result<ssize_t>(r);
    return posix_result<ssize_t>(of(u).receive(fd, {parts, static_cast<std::size_t>(count)}, flags));
}

ssize_t read_into(void* u, int fd, const iovec* parts, int count) {
    if (const outcome r = refuse(parts, count); r < 0) return posix_result<ssize_t>(r);
    return posix_result<ssize_t>(of(u).read(fd, {parts, static_cast<std::size_t>(count)}));
}

ssize_t send(void* u, int fd, const iovec* parts, int count, int flags) {
    if (const outcome r = refuse(parts, count); r < 0) return posix_result<ssize_t>(r);
    return posix_result<ssize_t>(of(u).send(fd, {parts, static_cast<std::size_t>(count)}, flags));
}

int netdev_receive(void* u, void* buffer, size_t* count, long long* time_usecs) {
    // 0 bytes is what no IP packet is: who waits for a packet that never comes is told so, and does not hang.
    *time_usecs = 0;
    *count = of(u).packet_out({static_cast<std::byte*>(buffer), *count}, *time_usecs);
    return 0;
}

int gettimeofday(void* u, timeval* tv, struct timezone* tz) {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(of(u).now().time_since_epoch()).count();
    if (tv != nullptr) *tv = {.tv_sec = now / 1'000'000, .tv_usec = now % 1'000'000};
    if (tz != nullptr) *tz = {};
    return 0;
}

int fcntl(void* u, int fd, int command, ...) {
    std::va_list more;
    va_start(more, command);
    const long argument = va_arg(more, long);
    va_end(more);
    return posix_result(of(u).fcntl(fd, command, argument));
}

int ioctl(void* u, int fd, unsigned long request, ...) {
    std::va_list more;
    va_start(more, request);
    void* const argument = va_arg(more, void*);
    va_end(more);
    return posix_result(of(u).ioctl(fd, request, argument));
}

} // namespace

} // namespace corewire::packetdrill

extern "C" [[gnu::visibility("default")]] void packetdrill_interface_init(const char* flags, packetdrill_interface* out) {
    using namespace corewire::packetdrill;
    auto made = std::make_unique<calls>(flags != nullptr ? flags : "");
    remember_for_preload(made.get());
    packetdrill_interface& i = *out;
    i.userdata = made.release();
    i.free = [](void* u) {
        remember_for_preload(nullptr);
        delete static_cast<calls*>(u);
    };
    i.socket = [](void* u, int domain, int type, int protocol) { return posix_result(of(u).socket(domain, type, protocol)); };
    i.bind = [](void* u, int fd, const sockaddr* a, socklen_t n) { return posix_result(of(u).bind(fd, a, n)); };
    i.listen = [](void* u, int fd, int backlog) { return posix_result(of(u).listen(fd, backlog)); };
    i.accept = [](void* u, int fd, sockaddr* a, socklen_t* n) { return posix_result(of(u).accept(fd, a, n)); };
    i.connect = [](void* u, int fd, const sockaddr* a, socklen_t n) { return posix_result(of(u).connect(fd, a, n)); };
    i.read = [](void* u, int fd, void* bytes, size_t n) {
        if (is_foreign(u, fd)) return ::read(fd, bytes, n);
        const iovec v = part(bytes, n);
        return read_into(u, fd, &v, 1);
    };
    i.readv = [](void* u, int fd, const iovec* v, int n) { return is_foreign(u, fd) ? ::readv(fd, v, n) : read_into(u, fd, v, n); };
    i.recv = [](void* u, int fd, void* bytes, size_t n, int how) {
        const iovec v = part(bytes, n);
        return receive(u, fd, &v, 1, how);
    };
    i.recvfrom = [](void* u, int fd, void* bytes, size_t n, int how, sockaddr* from, socklen_t* size) {
        const iovec v = part(bytes, n);
        const ssize_t r = receive(u, fd, &v, 1, how);
        if (r < 0 || from == nullptr) return r;
        if (size == nullptr) return posix_result<ssize_t>(-EFAULT);
        *size = 0; // a stream does not say from whom
        return r;
    };
    i.recvmsg = [](void* u, int fd, msghdr* m, int how) { return posix_result<ssize_t>(of(u).receive_message(fd, m, how)); };
    i.write = [](void* u, int fd, const void* bytes, size_t n) {
        if (is_foreign(u, fd)) return ::write(fd, bytes, n);
        const iovec v = part(bytes, n);
        return send(u, fd, &v, 1, 0);
    };
    i.writev = [](void* u, int fd, const iovec* v, int n) { return is_foreign(u, fd) ? ::writev(fd, v, n) : send(u, fd, v, n, 0); };
    i.send = [](void* u, int fd, const void* bytes, size_t n, int how) {
        const iovec v = part(bytes, n);
        return posix_result<ssize_t>(of(u).send_to(fd, {&v, 1}, how, nullptr, 0));
    };
    i.sendto = [](void* u, int fd, const void* bytes, size_t n, int how, const sockaddr* a, socklen_t size) {
        const iovec v = part(bytes, n);
        return posix_result<ssize_t>(of(u).send_to(fd, {&v, 1}, how, a, size));
    };
    i.sendmsg = [](void* u, int fd, const msghdr* m, int how) { return posix_result<ssize_t>(of(u).send_message(fd, m, how)); };
    i.fcntl = fcntl;
    i.ioctl = ioctl;
    i.close = [](void* u, int fd) { return posix_result(of(u).close(fd)); };
    i.shutdown = [](void* u, int fd, int how) { return posix_result(of(u).shutdown(fd, how)); };
    i.getsockopt = [](void* u, int fd, int level, int name, void* value, socklen_t* n) {
        return posix_result(of(u).get_option(fd, level, name, value, n));
    };
    i.setsockopt = [](void* u, int fd, int level, int name, const void* value, socklen_t n) {
        return posix_result(of(u).set_option(fd, level, name, value, n));
    };
    i.poll = [](void* u, pollfd* fds, nfds_t n, int timeout) {
        return posix_result(fds == nullptr && n != 0 ? -EFAULT : of(u).poll({fds, n}, timeout));
    };
    i.netdev_send = [](void* u, const void* packet, size_t n) {
        return posix_result(of(u).packet_in({static_cast<const std::byte*>(packet), n}));
    };
    i.netdev_receive = netdev_receive;
    i.usleep = [](void* u, useconds_t n) {
        of(u).sleep(std::chrono::microseconds{n});
        return 0;
    };
    i.gettimeofday = gettimeofday;
    i.epoll_create = [](void* u, int n) { return posix_result(of(u).epoll_create(n)); };
    i.epoll_ctl = [](void* u, int set, int op, int fd, epoll_event* e) { return posix_result(of(u).epoll_control(set, op, fd, e)); };
    i.epoll_wait = [](void* u, int set, epoll_event* e, int n, int timeout) {
        if (n <= 0) return posix_result(-EINVAL);
        if (e == nullptr) return posix_result(-EFAULT);
        return posix_result(of(u).epoll_wait(set, {e, static_cast<std::size_t>(n)}, timeout));
    };
    i.pipe = [](void*, int fds[2]) { return ::pipe(fds); };
    i.splice = [](void* u, int in, off64_t* in_at, int to, off64_t* to_at, size_t n, unsigned how) {
        return posix_result(of(u).splice(in, in_at, to, to_at, n, how));
    };
}
