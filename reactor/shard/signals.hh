// SIGINT and SIGTERM as mail for one shard. While this object lives both are blocked (make it before any thread, which
// inherit the mask) and a thread of its own takes those that are sent to the process (not to one of its threads):
//
//     first   --> a flag and an eventfd --> the shard it is a poller of --> on_first
//     second  --> (a quarter of a second after the first, or later: what comes sooner is the same wish, told twice)
//                 _exit(130), also while that shard is held by a task that does not give way, or by none at all
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace corewire {

class signal_watch final : public poller {
public:
    /// `on_first`: on the shard's thread. Throws std::system_error if there is no descriptor or thread.
    explicit signal_watch(std::function<void()> on_first);
    ~signal_watch();

private:
    bool poll(time_point now) override;
    bool prepare_sleep() override { return told_ || !arrived_.load(std::memory_order_acquire); }
    int wake_fd() const override { return wake_.get(); }
    void listen() noexcept;

    std::function<void()> on_first_;
    bool told_ = false; ///< the shard's
    std::atomic<bool> arrived_{false};
    sigset_t previous_{};
    unique_fd signals_, wake_, end_;
    std::thread thread_; ///< last: it uses the others
};

} // namespace corewire
