// SIGINT and SIGTERM as mail for one shard. While this object lives both are blocked (make it before any thread, which
// inherit the mask) and arrive on a descriptor; it is a poller of the shard it is added to.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <csignal>
#include <functional>

namespace corewire {

class signal_watch final : public poller {
public:
    /// Throws std::system_error if the kernel gives no signalfd.
    explicit signal_watch(std::function<void()> on_first);
    ~signal_watch();

    /// For when no loop runs any more. True if a signal had come.
    bool look();

private:
    /// A read is a system call, so a busy shard looks once a millisecond; a sleeping one is woken by the descriptor.
    static constexpr duration look_every = std::chrono::milliseconds{1};
    bool poll(time_point now) override;
    void finish_sleep() override { next_look_ = {}; }
    int wake_fd() const override { return fd_.get(); }
    void one_arrived();

    std::function<void()> on_first_;
    bool asked_ = false;
    time_point next_look_{};
    sigset_t previous_{};
    unique_fd fd_;
};

} // namespace corewire
