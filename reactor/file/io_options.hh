// How a reactor does its I/O through the kernel. Plain values, part of reactor_options; read once, on first use.
#pragma once

namespace corewire {

struct io_options {
    /// False: as if io_uring were forbidden. Files then go through helper threads, sockets by epoll.
    bool allow_uring = true;
    /// A kernel thread takes the ring's submissions (IORING_SETUP_SQPOLL): no system call to submit, for one more busy core.
    bool sqpoll = false;
    /// Milliseconds without a submission after which that kernel thread sleeps.
    unsigned sqpoll_idle_ms = 100;
    /// File operations that the kernel has at a time, and the helpers two each at most; the rest wait in line, fairly between groups.
    unsigned in_flight = 256;
    /// Waits without an end of their own (pipes, timers, signals, children) that the kernel has at a time; the rest in line.
    unsigned waits = 1024;
    /// Helper threads of one shard, at most; started when first needed.
    unsigned helpers = 4;
};

} // namespace corewire
