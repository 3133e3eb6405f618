// calls: fcntl(2) and ioctl(2).
#include "calls.hh"

#include <algorithm>
#include <csignal>
#include <linux/sockios.h>
#include <sys/ioctl.h>

namespace corewire::packetdrill {

using posix::stream_socket;

namespace {

constexpr int set_signal = 10, get_signal = 11, set_pipe_size = 1031, get_pipe_size = 1032; ///< F_SETSIG, F_GETSIG, F_SETPIPE_SZ...

/// F_SETOWN: a process or, below 0, a group of them that there is; 0: nobody (f_setown()).
outcome take_owner(posix::descriptor& d, int owner) {
    if (owner == INT32_MIN) return -EINVAL;
    if (owner != 0 && ::kill(owner, 0) != 0 && errno == ESRCH) return -ESRCH;
    d.owner = owner;
    return 0;
}

} // namespace

outcome calls::fcntl(int fd, int command, long argument) {
    access a(host_);
    const auto d = fds_.find(fd);
    if (d == nullptr || command == F_GETFD || command == F_SETFD) {
        const int r = ::fcntl(fd, command, argument);
        return r < 0 ? -errno : r;
    }
    constexpr int settable = O_NONBLOCK | O_APPEND | O_ASYNC | 0'1000'000; // O_NOATIME
    constexpr long most_signals = 64;                                     // _NSIG
    const bool like_freebsd = host_.habits().stream.like_freebsd;
    switch (command) {
    case F_GETFL: return d->status_flags;
    case F_SETFL: d->status_flags = (d->status_flags & ~settable) | (static_cast<int>(argument) & settable); return 0;
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        if (argument < 0 || like_freebsd) return -EINVAL;
        return fds_.duplicate(d, static_cast<int>(std::min<long>(argument, INT32_MAX)), command == F_DUPFD_CLOEXEC);
    case F_SETOWN: return like_freebsd ? -EINVAL : take_owner(*d, static_cast<int>(argument));
    case F_GETOWN: return d->owner;
    case set_signal:
        if (argument < 0 || argument > most_signals || like_freebsd) return -EINVAL;
        d->signal = static_cast<int>(argument);
        return 0;
    case get_signal: return d->signal;
    case set_pipe_size: // of pipes
    case get_pipe_size: return -EBADF;
    default: return -EINVAL;
    }
}

outcome calls::ioctl(int fd, unsigned long request, void* argument) {
    access a(host_);
    const auto d = fds_.find(fd);
    if (d == nullptr) {
        const int r = ::ioctl(fd, request, argument);
        return r < 0 ? -errno : r;
    }
    if (argument == nullptr) return -EFAULT;
    auto* const value = static_cast<int*>(argument);
    const auto s = std::dynamic_pointer_cast<stream_socket>(d);
    switch (request) {
    case FIONBIO:
    case FIOASYNC: {
        const int flag = request == FIONBIO ? O_NONBLOCK : O_ASYNC;
        d->status_flags = *value != 0 ? d->status_flags | flag : d->status_flags & ~flag;
        return 0;
    }
    case FIOGETOWN:
    case SIOCGPGRP:
        if (s != nullptr) *value = d->owner;
        return s != nullptr ? 0 : -EINVAL;
    default: return s == nullptr ? -EINVAL : s->ioctl(request, value);
    }
}

} // namespace corewire::packetdrill
