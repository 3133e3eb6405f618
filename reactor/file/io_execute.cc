#include <corewire/reactor/file/io_execute.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace corewire {

namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(io_opcode::count)> names{
    "nop",   "read",   "write", "vectored read", "vectored write", "sync",   "allocate", "truncate",       "advise", "open",
    "close", "status", "rename", "unlink",       "link",           "symlink", "make directory", "poll", "list", "call", "copy"};

int answer(ssize_t returned) noexcept { return returned < 0 ? -errno : static_cast<int>(returned); }

int copy_range(const io_arguments& a, std::size_t bytes) noexcept {
    auto from = static_cast<off_t>(a.offset);
    auto to = static_cast<off_t>(a.other_offset);
    return answer(::copy_file_range(a.fd, &from, a.other_fd, &to, bytes, 0));
}

/// A FIFO without a peer, or a line without a carrier, holds nobody up, as with io_uring: the helper could not be called back. What is
/// leased to somebody says EWOULDBLOCK, for a time that the kernel bounds.
int open_without_waiting(const io_arguments& a, const char* path) noexcept {
    const int flags = static_cast<int>(a.flags);
    if ((flags & (O_NONBLOCK | O_PATH)) != 0) return answer(::openat(a.fd, path, flags, a.mode));
    const int fd = ::openat(a.fd, path, flags | O_NONBLOCK, a.mode);
    if (fd < 0) return errno == EWOULDBLOCK ? answer(::openat(a.fd, path, flags, a.mode)) : -errno;
    const int status = ::fcntl(fd, F_GETFL);
    if (status < 0 || ::fcntl(fd, F_SETFL, status & ~O_NONBLOCK) < 0) {
        const int error = errno;
        ::close(fd);
        return -error;
    }
    return fd;
}

bool is_ready(int fd, short events) noexcept {
    pollfd one{fd, events, 0};
    return ::poll(&one, 1, 0) > 0;
}

} // namespace

std::string_view name_of(io_opcode opcode) noexcept { return names[static_cast<std::size_t>(opcode)]; }

int execute(const io_arguments& a) noexcept {
    const auto path = static_cast<const char*>(a.address);
    const auto other_path = static_cast<const char*>(a.other);
    const auto vector = static_cast<const iovec*>(a.address);
    const int flags = static_cast<int>(a.flags);
    const auto offset = static_cast<off_t>(a.offset);
    const auto length = static_cast<off_t>(a.length);
    const bool stream = a.offset == io_arguments::no_offset;
    const std::size_t bytes = std::min<std::uint64_t>(a.length, io_arguments::most_bytes);
    switch (a.opcode) {
    case io_opcode::read: return answer(stream ? ::read(a.fd, a.address, bytes) : ::pread(a.fd, a.address, bytes, offset));
    case io_opcode::write: return answer(stream ? ::write(a.fd, a.address, bytes) : ::pwrite(a.fd, a.address, bytes, offset));
    case io_opcode::read_vectored: return answer(::preadv2(a.fd, vector, static_cast<int>(a.length), offset, 0));
    case io_opcode::write_vectored: return answer(::pwritev2(a.fd, vector, static_cast<int>(a.length), offset, 0));
    case io_opcode::sync: return answer(a.flags == io_arguments::sync_data ? ::fdatasync(a.fd) : ::fsync(a.fd));
    case io_opcode::allocate: return answer(::fallocate(a.fd, flags, offset, length));
    case io_opcode::truncate: return answer(::ftruncate(a.fd, length));
    case io_opcode::advise: return -::posix_fadvise(a.fd, offset, length, flags);
    case io_opcode::open: return open_without_waiting(a, path);
    case io_opcode::close: return answer(::close(a.fd));
    case io_opcode::stat: return answer(::statx(a.fd, path, flags, a.mode, static_cast<struct statx*>(a.other)));
    case io_opcode::rename: return answer(::renameat2(a.fd, path, a.other_fd, other_path, a.flags));
    case io_opcode::unlink: return answer(::unlinkat(a.fd, path, flags));
    case io_opcode::link: return answer(::linkat(a.fd, path, a.other_fd, other_path, flags));
    case io_opcode::symlink: return answer(::symlinkat(path, a.other_fd, other_path));
    case io_opcode::make_directory: return answer(::mkdirat(a.fd, path, a.mode));
    case io_opcode::list: return answer(::syscall(SYS_getdents64, a.fd, a.address, bytes));
    case io_opcode::copy: return copy_range(a, bytes);
    case io_opcode::call: return a.function(a.address);
    case io_opcode::nop: return 0;
    case io_opcode::poll: // by the readiness set, never by a helper: it may last for ever
    case io_opcode::count: break;
    }
    return -EINVAL;
}

int execute_ready(const io_arguments& a) noexcept {
    if (a.opcode == io_opcode::poll) {
        pollfd one{a.fd, static_cast<short>(a.flags), 0};
        const int ready = ::poll(&one, 1, 0);
        return ready < 0 ? -errno : ready == 0 ? -EAGAIN : one.revents;
    }
    const bool writes = a.opcode == io_opcode::write;
    if ((!writes && a.opcode != io_opcode::read) || a.offset != io_arguments::no_offset) return execute(a);
    if (!is_ready(a.fd, writes ? POLLOUT : POLLIN)) return -EAGAIN; // another request of this turn was faster
    io_arguments now = a;
    now.length = std::min<std::uint64_t>(a.length, writes ? PIPE_BUF : io_arguments::most_bytes);
    const iovec all{a.address, static_cast<std::size_t>(now.length)};
    const int done = answer(writes ? ::pwritev2(a.fd, &all, 1, -1, RWF_NOWAIT) : ::preadv2(a.fd, &all, 1, -1, RWF_NOWAIT));
    return done == -EOPNOTSUPP ? execute(now) : done; // poll(2) has promised; of terminals see pipe_writer
}

} // namespace corewire
