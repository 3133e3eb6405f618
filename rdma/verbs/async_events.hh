// What happens to a device apart from any work: its port goes down or comes up, a queue pair fails, the device is removed.
// Delivered to one reactor: it looks once a millisecond while it is busy, and is woken from sleep.
//
//     kernel -> the context's descriptor -> async_events (a poller) -> listener, on the shard of the reactor
//
// One for each opened device; of several that share a context one hears each event, and all of them that the device has gone. The
// listener must not destroy what the event is about before it returns: an object's destruction waits until its events are acknowledged.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/rdma/verbs/device.hh>

#include <functional>
#include <string>

namespace corewire::verbs {

struct device_event {
    ibv_event_type what{};
    ibv_qp* pair = nullptr;         ///< of events about a queue pair; likewise the others
    ibv_cq* completions = nullptr;
    ibv_srq* shared_receives = nullptr;
    ibv_wq* receives = nullptr;
    std::uint8_t port = 0;

    /// The device can't be used any more: removed, or failed as a whole.
    bool device_gone() const noexcept { return what == IBV_EVENT_DEVICE_FATAL; }
};
/// "port 1 of mlx5_0 is down": for logs.
std::string to_string(const device_event& event, std::string_view device);

class async_events final : public poller {
public:
    using listener = std::function<void(const device_event&)>;
    static constexpr duration interval = std::chrono::milliseconds{1};

    async_events(const device& of, reactor& on, listener tell);
    async_events(const async_events&) = delete;

    bool poll(time_point now) override;
    /// -1 once the device has gone: its descriptor would be readable for ever.
    int wake_fd() const override { return gone_ ? -1 : fd_; }
    /// Takes the events there are, without blocking. True if there were any.
    bool drain();
    bool gone() const noexcept { return gone_; }

private:
    const verbs_api& api_;
    ibv_context* context_;
    int fd_;
    listener tell_;
    time_point looked_{};
    bool woken_ = false;
    bool gone_ = false;

    bool prepare_sleep() override;
    void finish_sleep() override { woken_ = true; }
};

} // namespace corewire::verbs
