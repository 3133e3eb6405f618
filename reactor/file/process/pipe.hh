// Pipes, terminals and standard input, for coroutines: bytes in order, without offsets.
//
//     auto [out, in] = cw::make_pipe();
//     co_await in.write("hello");
//     std::size_t n = co_await out.read(into);        // at least one byte; 0: every writer has closed
//
// Belong to the shard that made them. A wait here may last for ever: give it a deadline or a stop token. SIGPIPE is ignored from the
// first pipe_writer on, unless the program has a handler: a write without readers throws EPIPE.
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <string_view>
#include <utility>

namespace corewire {

class pipe_reader {
public:
    pipe_reader() = default;
    explicit pipe_reader(unique_fd fd) noexcept : fd_(std::move(fd)) {}
    /// What is there, at most into.size() bytes, as soon as there is any; 0 at the end.
    task<std::size_t> read(mutable_byte_span into, wait_limits limits = {});
    /// Everything up to the end, `most` bytes at most: EMSGSIZE when there are more.
    task<std::string> read_all(std::size_t most = 1 << 20, wait_limits limits = {});
    void close() noexcept { fd_.reset(); }
    int descriptor() const noexcept { return fd_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

private:
    unique_fd fd_;
};

class pipe_writer {
public:
    pipe_writer() = default;
    explicit pipe_writer(unique_fd fd) noexcept;
    /// All of it. When a limit ends it, how much went out is unknown.
    task<> write(byte_span from, wait_limits limits = {});
    task<> write(std::string_view text, wait_limits limits = {});
    /// The reader finds the end.
    void close() noexcept {
        terminal_.reset();
        fd_.reset();
    }
    int descriptor() const noexcept { return fd_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

private:
    unique_fd fd_, terminal_; ///< the second, if any, is what write() uses
};

/// Throws std::system_error: EMFILE.
std::pair<pipe_reader, pipe_writer> make_pipe();
/// A copy of descriptor 0, which stays open.
pipe_reader standard_input();

} // namespace corewire
