// descriptor: what an fd stands for, whatever its kind: readiness, and flags that fcntl sets.
// Owned by the fd_table, one owner a file description. On its stack's shard.
#pragma once

#include <corewire/net/posix/outcome.hh>

#include <cstdint>
#include <fcntl.h>
#include <poll.h>

namespace corewire::posix {

class descriptor {
public:
    descriptor() = default;
    descriptor(const descriptor&) = delete;
    virtual ~descriptor() = default;

    /// POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP...: what holds now.
    virtual unsigned events() const = 0;
    /// Counts what a waiter on edges would be woken by: it changes when there is news for readers (writers).
    virtual std::uint64_t edges() const { return 0; }

    int status_flags = O_RDWR; ///< F_GETFL
    int owner = 0, signal = 0; ///< F_GETOWN, F_GETSIG: told again, nobody is sent a signal
    bool non_blocking() const noexcept { return (status_flags & O_NONBLOCK) != 0; }
};

} // namespace corewire::posix
