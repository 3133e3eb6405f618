#include <corewire/reactor/file/process/pipe.hh>

#include <corewire/reactor/file/process/stream_requests.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

/// One read or write of a stream, whether its descriptor blocks or not (O_NONBLOCK may be set by whoever shares a terminal).
task<std::size_t> transfer(io_arguments what, unsigned readiness, wait_limits limits) {
    for (;;) {
        const int n = co_await io_attempt(what, limits);
        if (n >= 0) co_return static_cast<std::size_t>(n);
        if (n != -EAGAIN)
            throw std::system_error(-n, std::generic_category(), what.opcode == io_opcode::read ? "read of a pipe" : "write to a pipe");
        co_await io_awaiter<void>(until_ready(what.fd, readiness), limits);
    }
}

/// The kernel raises it in the shard's thread, where nobody can tell which write it was (pipe(7)).
void ignore_sigpipe() noexcept {
    static const bool done = [] {
        struct sigaction now {};
        if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
        return true;
    }();
    static_cast<void>(done);
}

/// poll(2) calls a terminal ready that takes a few bytes, and then write(2) waits until it has taken all; io_uring's write, too. So one is
/// written through an open file of our own that does not block: those who share the descriptor notice nothing. None for a
/// terminal's master, of which there is one only, and where there is no /proc.
unique_fd open_terminal(int fd) noexcept {
    unsigned number = 0;
    if (::isatty(fd) == 0 || ::ioctl(fd, TIOCGPTN, &number) == 0) return {};
    std::array<char, 32> path;
    std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
    return unique_fd(::open(path.data(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

} // namespace

task<std::size_t> pipe_reader::read(mutable_byte_span into, wait_limits limits) {
    return transfer(stream_bytes(io_opcode::read, fd_.get(), into.data(), into.size()), POLLIN, limits);
}

task<std::string> pipe_reader::read_all(std::size_t most, wait_limits limits) {
    std::string all;
    std::array<std::byte, 4096> part;
    for (;;) {
        const std::size_t n = co_await read(part, limits);
        if (n == 0) break;
        if (n > most - all.size())
            throw std::system_error(EMSGSIZE, std::generic_category(), "more than " + std::to_string(most) + " bytes in a pipe");
        all.append(reinterpret_cast<const char*>(part.data()), n);
    }
    co_return all;
}

pipe_writer::pipe_writer(unique_fd fd) noexcept : fd_(std::move(fd)), terminal_(open_terminal(fd_.get())) { ignore_sigpipe(); }

task<> pipe_writer::write(byte_span from, wait_limits limits) {
    const int fd = (terminal_ ? terminal_ : fd_).get();
    while (!from.empty()) {
        const io_arguments what = stream_bytes(io_opcode::write, fd, const_cast<std::byte*>(from.data()), from.size());
        const std::size_t n = co_await transfer(what, POLLOUT, limits);
        from = from.subspan(n);
    }
}

task<> pipe_writer::write(std::string_view text, wait_limits limits) { return write(std::as_bytes(std::span{text}), limits); }

std::pair<pipe_reader, pipe_writer> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    return {pipe_reader{unique_fd{ends[0]}}, pipe_writer{unique_fd{ends[1]}}};
}

pipe_reader standard_input() {
    const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "standard input");
    return pipe_reader{unique_fd{fd}};
}

} // namespace corewire
