// The calls that wait for more than one socket, and those between a socket and a pipe or a file.
#include "calls.hh"

#include <corewire/reactor/base/unique_fd.hh>

#include <cerrno>
#include <fcntl.h>
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
    if (entries == nullptr) return no_socket(set) == -ENOTSOCK ? -EINVAL : -EBADF;
    if (d == nullptr) return ::fcntl(fd, F_GETFD) < 0 ? -EBADF : -EPERM;
    const outcome r = entries->control(operation, fd, d, event);
    host_.settle();
    return r;
}

outcome calls::epoll_wait(int set, std::span<epoll_event> out, int milliseconds) {
    access a(host_);
    const auto entries = fds_.find_as<epoll_set>(set);
    if (entries == nullptr) return no_socket(set) == -ENOTSOCK ? -EINVAL : -EBADF;
    if (out.empty()) return -EINVAL;
    host_.settle();
    outcome r = entries->collect(out);
    const time_point deadline = deadline_of(milliseconds);
    while (r == 0 && milliseconds != 0 && host_.wait(a, deadline)) r = entries->collect(out);
    return r != 0 ? r : entries->collect(out);
}

// ---- splice(2) ----

outcome calls::splice(int in, off64_t* in_offset, int out, off64_t* out_offset, std::size_t size, unsigned flags) {
    if (size == 0) return 0; // whatever there is
    if ((flags & ~(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)) != 0) return -EINVAL;
    const bool from_ours = owns(in);
    const bool to_ours = owns(out);
    if (from_ours && to_ours) return -EINVAL; // one of them must be a pipe
    if (from_ours || to_ours) { // the pipe's end may be the other one
        const int ways = ::fcntl(from_ours ? out : in, F_GETFL);
        if (ways < 0 || (ways & O_ACCMODE) == (from_ours ? O_RDONLY : O_WRONLY)) return -EBADF;
    }
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

/// Nothing is taken out of the pipe but what the socket has taken: that is found out with a copy (tee(2)), of as much as goes into another
/// pipe, which is what Linux has in one message (splice_to_socket()).
outcome calls::from_pipe(int pipe, int socket, std::size_t size, unsigned flags) {
    int waiting = 0;
    if (::ioctl(pipe, FIONREAD, &waiting) < 0) return -EINVAL;
    if (waiting == 0) return (flags & SPLICE_F_NONBLOCK) != 0 ? -EAGAIN : 0;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) return -errno;
    const unique_fd copy_read{ends[0]}, copy_write{ends[1]};
    std::size_t left = std::min(size, static_cast<std::size_t>(waiting));
    std::vector<std::byte> bytes;
    outcome r = 0;
    for (outcome sent = 0; left != 0; sent += r) {
        const ssize_t copied = ::tee(pipe, copy_write.get(), left, SPLICE_F_NONBLOCK);
        if (copied <= 0) return sent != 0 ? sent : copied < 0 ? -errno : 0;
        bytes.resize(static_cast<std::size_t>(copied));
        if (::read(copy_read.get(), bytes.data(), bytes.size()) != copied) return sent != 0 ? sent : -EIO;
        left -= bytes.size();
        const iovec from{bytes.data(), bytes.size()};
        r = send(socket, {&from, 1}, left != 0 || (flags & SPLICE_F_MORE) != 0 ? MSG_MORE : 0);
        if (r <= 0) return sent != 0 ? sent : r;
        if (::read(pipe, bytes.data(), static_cast<std::size_t>(r)) != r) return sent != 0 ? sent : -EIO;
        if (left == 0 || r < copied) return sent + r;
    }
    return r;
}

// ---- sendfile(2) ----

outcome calls::send_file(int socket, int file, off64_t* offset, std::size_t size) {
    constexpr std::size_t most = 0x7fff'f000, piece = 65'536; // MAX_RW_COUNT; the pipe that Linux has in between
    size = std::min(size, most);
    const off64_t start = offset != nullptr ? *offset : ::lseek64(file, 0, SEEK_CUR);
    if (start < 0) return offset == nullptr && errno == EBADF ? -EBADF : -EINVAL;
    const auto read_at = [&](std::vector<std::byte>& bytes, std::size_t done) -> outcome {
        bytes.resize(std::min(piece, size - done));
        const ssize_t n = ::pread64(file, bytes.data(), bytes.size(), start + static_cast<off64_t>(done));
        bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return n < 0 ? -errno : n;
    };
    std::vector<std::byte> bytes, next;
    std::size_t sent = 0;
    outcome r = read_at(bytes, 0);
    while (r > 0) {
        if (read_at(next, sent + bytes.size()) < 0) next.clear();
        const iovec from{bytes.data(), bytes.size()};
        r = send(socket, {&from, 1}, next.empty() ? 0 : MSG_MORE);
        if (r <= 0) break;
        sent += static_cast<std::size_t>(r);
        if (static_cast<std::size_t>(r) < bytes.size()) break;
        bytes.swap(next);
        r = static_cast<outcome>(bytes.size());
    }
    if (sent == 0) return r;
    const off64_t end = start + static_cast<off64_t>(sent);
    if (offset != nullptr) *offset = end;
    else ::lseek64(file, end, SEEK_SET);
    return static_cast<outcome>(sent);
}

} // namespace corewire::packetdrill
