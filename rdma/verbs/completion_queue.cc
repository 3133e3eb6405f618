#include <corewire/rdma/verbs/completion_queue.hh>

#include <corewire/rdma/verbs/error.hh>

#include <fcntl.h>
#include <fmt/format.h>

namespace corewire::verbs {

completion_channel::completion_channel(const device& on) {
    ibv_comp_channel* channel = on.api().create_comp_channel(on.context());
    if (channel == nullptr) fail(operation::create_completion_queue, errno, "make a completion channel on " + on.name());
    channel_ = {on.api(), channel};
    ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

unsigned completion_channel::drain() noexcept {
    unsigned taken = 0;
    ibv_cq* queue = nullptr;
    void* user = nullptr;
    while (channel_.api().get_cq_event(channel_.get(), &queue, &user) == 0) {
        ++taken;
        auto& count = static_cast<completion_queue::events*>(user)->unacknowledged;
        if (++count < completion_queue::acknowledge_from) continue;
        channel_.api().ack_cq_events(queue, count);
        count = 0;
    }
    return taken;
}

completion_queue::completion_queue(const device& on, const completion_queue_options& options)
    : events_(std::make_unique<events>()) {
    const verbs_api& api = on.api();
    ibv_comp_channel* const channel = options.channel == nullptr ? nullptr : options.channel->get();
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = options.entries;
    attributes.cq_context = events_.get();
    attributes.channel = channel;
    attributes.comp_vector = options.vector;
    attributes.wc_flags = options.fields;
    if (options.timestamps) attributes.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    if (options.one_thread) {
        attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        attributes.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    }
    const bool by_cursor = options.extended || options.timestamps;
    if (by_cursor || options.one_thread) {
        extended_ = api.create_cq_ex(on.context(), &attributes);
        if (extended_ == nullptr && options.one_thread) { // the flag is newer than the call
            attributes.comp_mask = 0;
            attributes.flags = 0;
            extended_ = api.create_cq_ex(on.context(), &attributes);
        }
    }
    ibv_cq* queue = extended_ == nullptr ? nullptr : ::ibv_cq_ex_to_cq(extended_);
    const std::string what = fmt::format("make a completion queue of {} entries on {}", options.entries, on.name());
    if (queue == nullptr && by_cursor)
        fail(operation::create_completion_queue, errno, what + (options.timestamps ? " with timestamps" : " with ibv_create_cq_ex"));
    if (!by_cursor) extended_ = nullptr; // poll() and a cursor may not be mixed on one queue
    if (queue == nullptr)
        queue = api.create_cq(on.context(), static_cast<int>(options.entries), events_.get(), channel,
                              static_cast<int>(options.vector));
    if (queue == nullptr) fail(operation::create_completion_queue, errno, what);
    queue_ = {api, queue};
}

completion_queue::~completion_queue() {
    if (queue_ && events_->unacknowledged != 0) queue_.api().ack_cq_events(queue_.get(), events_->unacknowledged);
}

bool completion_queue::moderate(std::uint16_t count, std::uint16_t microseconds) noexcept {
    ibv_modify_cq_attr attributes{};
    attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
    attributes.moderate = {count, microseconds};
    const int error = queue_.api().modify_cq(queue_.get(), &attributes);
    if (error > 0) errno = error;
    return error == 0;
}

} // namespace corewire::verbs
