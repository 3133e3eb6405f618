// io_arguments as a system call that blocks: what a helper thread does. Stateless.
#pragma once

#include <corewire/reactor/file/io_arguments.hh>

namespace corewire {

/// What the call returned, or -errno: the same answers as io_uring's.
int execute(const io_arguments& arguments) noexcept;

/// For a stream that poll(2) has just called ready: does what cannot block. A write is shortened to what a pipe has room
/// for then (pipe(7), PIPE_BUF); -EAGAIN when another process was faster.
int execute_ready(const io_arguments& arguments) noexcept;

} // namespace corewire
