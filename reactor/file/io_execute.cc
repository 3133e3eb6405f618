#include <corewire/reactor/file/io_execute.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
    case io_opcode::open: return answer(::openat(a.fd, path, flags, a.mode));
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
    io_arguments now = a;
    if (a.opcode == io_opcode::write) now.length = std::min<std::uint64_t>(a.length, PIPE_BUF);
    if (a.opcode != io_opcode::read || a.offset != io_arguments::no_offset) return execute(now);
    const iovec into{a.address, static_cast<std::size_t>(std::min<std::uint64_t>(a.length, io_arguments::most_bytes))};
    const int got = answer(::preadv2(a.fd, &into, 1, -1, RWF_NOWAIT));
    return got == -EOPNOTSUPP ? execute(now) : got; // a terminal: poll(2) has promised
}

} // namespace corewire
