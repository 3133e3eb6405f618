#include <corewire/reactor/shard/signals.hh>

#include <corewire/reactor/base/without_signals.hh>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

/// timeout(1), and others that look after processes, signal a process and its group, within microseconds: that is one wish.
constexpr auto one_request = std::chrono::milliseconds{250};

void add_one(int event_fd) noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_fd, &one, sizeof one));
}

} // namespace

signal_watch::signal_watch(std::function<void()> on_first)
    : on_first_(std::move(on_first)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), end_(::eventfd(0, EFD_CLOEXEC)) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    signals_.reset(::signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!signals_ || !wake_ || !end_) throw std::system_error(errno, std::generic_category(), "a descriptor for SIGINT and SIGTERM");
    {
        const without_signals while_it_begins;
        thread_ = std::thread([this] { listen(); });
    }
    pthread_sigmask(SIG_BLOCK, &ours, &previous_);
}

signal_watch::~signal_watch() {
    unlink();
    add_one(end_.get());
    thread_.join();
    // A signal that nobody has taken has had its wish: the program is at its end.
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {}
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void signal_watch::listen() noexcept {
    ::pthread_setname_np(::pthread_self(), "signals");
    std::chrono::steady_clock::time_point counts_from{}; // a second one, from here on
    for (;;) {
        std::array<pollfd, 2> both{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
        if (::poll(both.data(), both.size(), -1) < 0 && errno != EINTR) return;
        if (both[1].revents != 0) return;
        std::array<signalfd_siginfo, 4> came;
        if (::read(signals_.get(), came.data(), sizeof came) <= 0) continue;
        const auto now = std::chrono::steady_clock::now();
        if (!arrived_.load(std::memory_order_relaxed)) {
            counts_from = now + one_request;
            arrived_.store(true, std::memory_order_release);
            add_one(wake_.get());
        } else if (now >= counts_from) {
            ::_exit(130);
        }
    }
}

bool signal_watch::poll(time_point) {
    if (told_ || !arrived_.load(std::memory_order_acquire)) [[likely]]
        return false;
    std::uint64_t count; // it is written after the flag is set; left there it would wake the shard for ever
    if (::read(wake_.get(), &count, sizeof count) != sizeof count) return false;
    told_ = true;
    on_first_();
    return true;
}

} // namespace corewire
