#include <corewire/reactor/file/readiness.hh>

#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/file/io_execute.hh>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <system_error>

namespace corewire {

namespace {

std::uint32_t events_of(const io_arguments& a) noexcept {
    if (a.opcode == io_opcode::poll) return a.flags; // EPOLLIN is POLLIN, and so on
    return a.opcode == io_opcode::write ? EPOLLOUT : EPOLLIN;
}

} // namespace

readiness::readiness(io_engine& engine) : engine_(engine), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

/// Each request watches through a descriptor of its own (`result_`), since epoll(7) takes a descriptor once only, and a pipe
/// may have several readers.
int readiness::start(io_request& r) noexcept {
    const int watched = ::fcntl(r.arguments.fd, F_DUPFD_CLOEXEC, 0);
    if (watched < 0) return -errno;
    epoll_event event{};
    event.events = events_of(r.arguments);
    event.data.ptr = &r;
    r.result_ = watched;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watched, &event) < 0) {
        const int error = errno;
        ::close(watched);
        r.result_ = -1;
        return -error;
    }
    ++waiting_;
    return 0;
}

void readiness::withdraw(io_request& r) noexcept {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, r.result_, nullptr); // closing does not do it while copies are open
    ::close(std::exchange(r.result_, -1));
    --waiting_;
}

bool readiness::poll(time_point now) noexcept {
    if (waiting_ == 0 || now < next_look_) return false;
    next_look_ = now + look_every;
    std::array<epoll_event, 64> events;
    const int found = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    bool worked = false;
    for (int i = 0; i < found; ++i) {
        auto& r = *static_cast<io_request*>(events[static_cast<std::size_t>(i)].data.ptr);
        const int result = execute_ready(r.arguments);
        if (result == -EAGAIN) continue; // another process was faster
        withdraw(r);
        engine_.finished(r, result);
        worked = true;
    }
    return worked;
}

} // namespace corewire
