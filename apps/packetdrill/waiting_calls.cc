// The calls that wait for more than one socket, and those between a socket and a pipe.
#include "calls.hh"

#include <sys/ioctl.h>
#include <unistd.h>

namespace corewire::packetdrill {

using posix::epoll_set;
using posix::stream_socket;

namespace {

/// fds that are not ours, at this moment.
int poll_foreign(pollfd& p) {
    p.revents = 0;
    return ::poll(&p, 1, 0);
}

} // namespace

outcome calls::poll(std::span<pollfd> wanted, int milliseconds) {
    access a(host_);
    const auto look = [&]() -> outcome {
        int count = 0;
        for (pollfd& p : wanted) {
            p.revents = 0;
            if (p.fd < 0) continue;
            if (const auto d = fds_.find(p.fd); d != nullptr) {
                p.revents = static_cast<short>(d->events() & (static_cast<unsigned>(p.events) | POLLERR | POLLHUP));
            } else {
                poll_foreign(p);
            }
            if (p.revents != 0) ++count;
        }
        return count != 0 ? count : -EAGAIN;
    };
    host_.settle();
    outcome r = look();
    const time_point deadline = deadline_of(milliseconds);
    while (r == -EAGAIN && milliseconds != 0 && host_.wait(a, deadline)) r = look();
    if (r == -EAGAIN) r = look();
    return r == -EAGAIN ? 0 : r;
}

outcome calls::epoll_create(int size) {
    access a(host_);
    if (size <= 0) return -EINVAL;
    return fds_.add(std::make_shared<epoll_set>());
}

outcome calls::epoll_control(int set, int operation, int fd, epoll_event* event) {
    access a(host_);
    const auto entries = fds_.find_as<epoll_set>(set);
    const auto d = fds_.find(fd);
    if (entries == nullptr) return fds_.find(set) != nullptr ? -EINVAL : -EBADF;
    if (d == nullptr) return ::fcntl(fd, F_GETFD) < 0 ? -EBADF : -EPERM;
    const outcome r = entries->control(operation, fd, d, event);
    host_.settle();
    return r;
}

outcome calls::epoll_wait(int set, std::span<epoll_event> out, int milliseconds) {
    access a(host_);
    const auto entries = fds_.find_as<epoll_set>(set);
    if (entries == nullptr) return fds_.find(set) != nullptr ? -EINVAL : -EBADF;
    if (out.empty()) return -EINVAL;
    host_.settle();
    outcome r = entries->collect(out);
    const time_point deadline = deadline_of(milliseconds);
    while (r == 0 && milliseconds != 0 && host_.wait(a, deadline)) r = entries->collect(out);
    return r != 0 ? r : entries->collect(out);
}

// ---- splice(2) ----

outcome calls::splice(int in, off64_t* in_offset, int out, off64_t* out_offset, std::size_t size, unsigned flags) {
    const bool from_ours = owns(in);
    const bool to_ours = owns(out);
    if (from_ours && to_ours) return -EINVAL; // one of them must be a pipe
    if ((from_ours && in_offset != nullptr) || (to_ours && out_offset != nullptr)) return -ESPIPE;
    if (from_ours) return into_pipe(in, out, size, flags);
    if (to_ours) return from_pipe(in, out, size, flags);
    const ssize_t n = ::splice(in, in_offset, out, out_offset, size, flags);
    return n < 0 ? -errno : n;
}

outcome calls::into_pipe(int socket, int pipe, std::size_t size, unsigned flags) {
    const int capacity = ::fcntl(pipe, F_GETPIPE_SZ);
    int used = 0;
    if (capacity < 0 || ::ioctl(pipe, FIONREAD, &used) < 0) return -EINVAL;
    const auto room = static_cast<std::size_t>(std::max(capacity - used, 0));
    if (room == 0) return -EAGAIN;
    std::vector<std::byte> bytes(std::min(size, room));
    const iovec into{bytes.data(), bytes.size()};
    const outcome n = receive(socket, {&into, 1}, (flags & SPLICE_F_NONBLOCK) != 0 ? MSG_DONTWAIT : 0);
    if (n <= 0) return n;
    const ssize_t written = ::write(pipe, bytes.data(), static_cast<std::size_t>(n));
    return written < 0 ? -errno : written;
}

/// Takes out of the pipe only what the socket has room for.
outcome calls::from_pipe(int pipe, int socket, std::size_t size, unsigned flags) {
    int waiting = 0;
    if (::ioctl(pipe, FIONREAD, &waiting) < 0) return -EINVAL;
    if (waiting == 0) return (flags & SPLICE_F_NONBLOCK) != 0 ? -EAGAIN : 0;
    std::size_t room = 0;
    {
        access a(host_);
        const auto s = stream(socket);
        if (s == nullptr) return -EINVAL;
        if (const tcp_connection* const c = s->connection(); c != nullptr) room = c->tcb.writable();
        if (s->non_blocking() && room == 0 && (s->events() & (POLLERR | POLLHUP)) == 0) return -EAGAIN;
        if (room == 0) room = size; // whoever blocks waits in send(), and an error is told there
    }
    std::vector<std::byte> bytes(std::min({size, room, static_cast<std::size_t>(waiting)}));
    const ssize_t n = ::read(pipe, bytes.data(), bytes.size());
    if (n <= 0) return n < 0 ? -errno : 0;
    const iovec from{bytes.data(), static_cast<std::size_t>(n)};
    return send(socket, {&from, 1}, (flags & SPLICE_F_MORE) != 0 ? MSG_MORE : 0);
}

} // namespace corewire::packetdrill
