#include <corewire/rdma/verbs/async_events.hh>

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace corewire::verbs {

namespace {

device_event plain(const ibv_async_event& e) {
    device_event out;
    out.what = e.event_type;
    switch (e.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: out.pair = e.element.qp; break;
    case IBV_EVENT_CQ_ERR: out.completions = e.element.cq; break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: out.shared_receives = e.element.srq; break;
    case IBV_EVENT_WQ_FATAL: out.receives = e.element.wq; break;
    case IBV_EVENT_DEVICE_FATAL: break;
    default: out.port = static_cast<std::uint8_t>(e.element.port_num); break;
    }
    return out;
}

} // namespace

std::string to_string(const device_event& event, std::string_view device) {
    switch (event.what) {
    case IBV_EVENT_PORT_ERR: return fmt::format("port {} of {} is down", event.port, device);
    case IBV_EVENT_PORT_ACTIVE: return fmt::format("port {} of {} is up", event.port, device);
    case IBV_EVENT_DEVICE_FATAL: return fmt::format("{} has failed or was removed", device);
    case IBV_EVENT_CQ_ERR: return fmt::format("a completion queue of {} overran", device);
    default: break;
    }
    if (event.pair != nullptr)
        return fmt::format("queue pair {:#x} on {}: {}", event.pair->qp_num, device, ::ibv_event_type_str(event.what));
    return fmt::format("{}: {}", device, ::ibv_event_type_str(event.what));
}

async_events::async_events(const device& of, reactor& on, listener tell)
    : api_(of.api()), context_(of.context()), fd_(of.context()->async_fd), tell_(std::move(tell)), looked_(on.now()) {
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
    on.add_poller(*this);
}

bool async_events::poll(time_point now) {
    if (gone_ || (now - looked_ < interval && !woken_)) return false;
    looked_ = now;
    woken_ = false;
    return drain();
}

bool async_events::prepare_sleep() { return gone_ || !drain(); }

bool async_events::drain() {
    bool any = false;
    ibv_async_event event{};
    while (!gone_) {
        errno = 0;
        if (api_.get_async_event(context_, &event) != 0) {
            if (errno != EIO && errno != ENODEV) return any;
            gone_ = true; // what a removed device answers when all is said: to us, or to somebody else who hears its events
            tell_({.what = IBV_EVENT_DEVICE_FATAL});
            return true;
        }
        any = true;
        const device_event what = plain(event);
        gone_ = what.device_gone();
        tell_(what);
        api_.ack_async_event(&event);
    }
    return any;
}

} // namespace corewire::verbs
