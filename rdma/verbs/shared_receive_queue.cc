#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include <corewire/rdma/verbs/error.hh>

#include <fmt/format.h>

namespace corewire::verbs {

shared_receive_queue::shared_receive_queue(const protection_domain& in, const shared_receive_queue_options& options) {
    ibv_srq_init_attr attributes{};
    attributes.attr = {options.max_receives, options.pieces, 0};
    const std::string what = fmt::format("make a shared queue of {} receives on {}", options.max_receives, in.device_name());
    ibv_srq* queue = in.api().create_srq(in.get(), &attributes);
    if (queue == nullptr) fail(operation::create_receive_queue, errno, what);
    queue_ = {in.api(), queue};
    max_receives_ = attributes.attr.max_wr;
    if (options.limit == 0) return;
    if (const int error = arm_limit(options.limit); error != 0)
        fail(operation::arm_receive_limit, error,
             fmt::format("have a shared queue of {} receives on {} tell when fewer than {} are left", options.max_receives,
                         in.device_name(), options.limit));
}

int shared_receive_queue::arm_limit(unsigned limit) noexcept {
    ibv_srq_attr attributes{};
    attributes.srq_limit = limit;
    return queue_.api().modify_srq(queue_.get(), &attributes, IBV_SRQ_LIMIT);
}

} // namespace corewire::verbs
