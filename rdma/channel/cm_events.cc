#include <corewire/rdma/channel/cm_events.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace corewire::rdma {

cm_events::cm_events(reactor& on, const verbs::cm_api& api) : api_(api), channel_(api.create_event_channel()) {
    if (channel_ == nullptr) verbs::fail(verbs::operation::open_connection_manager, errno, "make a channel for rdma_cm's events");
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK | O_CLOEXEC);
    on.add_poller(*this);
}

cm_events::~cm_events() { api_.destroy_event_channel(channel_); }

bool cm_events::poll(time_point now) {
    if (now - looked_ < interval && !woken_) return false;
    looked_ = now;
    woken_ = false;
    return drain();
}

bool cm_events::drain() noexcept {
    bool any = false;
    rdma_cm_event* event = nullptr;
    while (api_.get_cm_event(channel_, &event) == 0) {
        any = true;
        cm_event told;
        told.what = event->event;
        told.id = event->id;
        told.status = event->status;
        std::array<std::byte, 256> data; // private_data_len has 8 bits
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST || event->event == RDMA_CM_EVENT_ESTABLISHED ||
            event->event == RDMA_CM_EVENT_REJECTED) {
            const rdma_conn_param& p = event->param.conn;
            told.reads_as_responder = p.responder_resources;
            told.reads_as_initiator = p.initiator_depth;
            told.retries = p.retry_count;
            told.not_ready_retries = p.rnr_retry_count;
            if (p.private_data != nullptr) {
                std::memcpy(data.data(), p.private_data, p.private_data_len);
                told.private_data = {data.data(), p.private_data_len};
            }
        }
        auto* const handler = static_cast<cm_handler*>(event->id->context);
        api_.ack_cm_event(event);
        handler->on_cm_event(told);
    }
    return any;
}

} // namespace corewire::rdma
