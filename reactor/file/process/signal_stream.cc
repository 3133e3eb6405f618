#include <corewire/reactor/file/process/signal_stream.hh>

#include <corewire/reactor/file/process/stream_requests.hh>

#include <cerrno>
#include <poll.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

sigset_t set_of(std::initializer_list<int> signals) noexcept {
    sigset_t set;
    sigemptyset(&set);
    for (const int each : signals) sigaddset(&set, each);
    return set;
}

} // namespace

blocked_signals::blocked_signals(std::initializer_list<int> signals) {
    const sigset_t set = set_of(signals);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
}

blocked_signals::~blocked_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

signal_stream::signal_stream(std::initializer_list<int> signals) {
    const sigset_t set = set_of(signals);
    fd_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

/// The read is ours, not the ring's: a signalfd gives what is pending for the thread that reads.
task<signal_event> signal_stream::next(wait_limits limits) {
    signalfd_siginfo info;
    while (::read(fd_.get(), &info, sizeof info) != sizeof info) {
        if (errno != EAGAIN && errno != EINTR) throw std::system_error(errno, std::generic_category(), "read of a signalfd");
        co_await io_awaiter<void>(until_ready(fd_.get(), POLLIN), limits);
    }
    co_return signal_event{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid), info.ssi_int};
}

} // namespace corewire
