// What io_uring's poll does, where there is no io_uring: requests that wait until their descriptor is ready, by epoll(7). Made
// by the io_engine when first needed; one shard's. Bounded by the engine's line for waits.
#pragma once

#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/io_request.hh>

namespace corewire {

class readiness {
public:
    /// Throws std::system_error without an epoll descriptor.
    explicit readiness(io_engine& engine);

    /// 0, or -errno; -EPERM: of a kind that epoll(7) has no word for, as it is always ready: a regular file.
    int start(io_request& r) noexcept;
    void withdraw(io_request& r) noexcept;
    /// Performs and completes those whose descriptor is ready. A look is a system call, so a busy shard takes one every
    /// `look_every`; a sleeping one is woken by wake_fd().
    bool poll(time_point now) noexcept;
    void look_now() noexcept { next_look_ = {}; }
    int wake_fd() const noexcept { return epoll_.get(); }

private:
    static constexpr duration look_every = std::chrono::microseconds{50};

    io_engine& engine_;
    unique_fd epoll_;
    time_point next_look_{};
    std::size_t waiting_ = 0;
};

} // namespace corewire
