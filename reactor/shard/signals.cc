#include <corewire/reactor/shard/signals.hh>

#include <cerrno>
#include <pthread.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

signal_watch::signal_watch(std::function<void()> on_first) : on_first_(std::move(on_first)) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    fd_.reset(::signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
    pthread_sigmask(SIG_BLOCK, &ours, &previous_);
}

signal_watch::~signal_watch() {
    unlink();
    // A signal that nobody looked at any more has had its wish: the program is at its end.
    signalfd_siginfo info;
    while (::read(fd_.get(), &info, sizeof info) == sizeof info) {}
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

bool signal_watch::poll(time_point now) {
    if (now < next_look_) return false;
    next_look_ = now + look_every;
    return look();
}

bool signal_watch::look() {
    signalfd_siginfo info;
    if (::read(fd_.get(), &info, sizeof info) != sizeof info) return false;
    one_arrived();
    return true;
}

void signal_watch::one_arrived() {
    if (asked_) ::_exit(130);
    asked_ = true;
    on_first_();
}

} // namespace corewire
