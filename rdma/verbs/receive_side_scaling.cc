#include <corewire/rdma/verbs/receive_side_scaling.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace corewire::verbs {

receive_work_queue::receive_work_queue(const protection_domain& in, completion_queue& completions, unsigned max_receives,
                                       unsigned pieces) {
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = max_receives;
    attributes.max_sge = pieces;
    attributes.pd = in.get();
    attributes.cq = completions.get();
    const std::string what = fmt::format("make a receive work queue of {} on {}", max_receives, in.device_name());
    ibv_wq* made = in.api().create_wq(in.context(), &attributes);
    if (made == nullptr) fail(operation::create_receive_queue, errno, what);
    queue_ = {in.api(), made};
    if (const int error = start(); error != 0) fail(operation::create_receive_queue, error, what);
}

int receive_work_queue::move_to(ibv_wq_state state) noexcept {
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_STATE;
    attributes.wq_state = state;
    return queue_.api().modify_wq(queue_.get(), &attributes);
}

spread::spread(const device& on, std::span<receive_work_queue* const> queues, unsigned slots) : slots_(std::bit_ceil(slots)) {
    std::vector<ibv_wq*> entries(slots_);
    for (unsigned i = 0; i < slots_; ++i) entries[i] = queues[i % queues.size()]->get();
    ibv_rwq_ind_table_init_attr attributes{};
    attributes.log_ind_tbl_size = static_cast<std::uint32_t>(std::countr_zero(slots_));
    attributes.ind_tbl = entries.data();
    ibv_rwq_ind_table* made = on.api().create_rwq_ind_table(on.context(), &attributes);
    const int error = errno;
    if (made == nullptr)
        fail(operation::create_receive_table, error,
             fmt::format("make a table of {} entries that spreads packets over {} queues on {}", slots_, queues.size(), on.name()));
    table_ = {on.api(), made};
}

queue_pair spread::pair_for(const protection_domain& in, hashed fields, std::span<const std::uint8_t, 40> key, bool six) const {
    std::array<std::uint8_t, 40> copy;
    std::copy(key.begin(), key.end(), copy.begin());
    queue_pair_options options{.type = transport::raw_packet, .indirection = table_.get()};
    options.hash.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
    options.hash.rx_hash_key = copy.data();
    options.hash.rx_hash_key_len = static_cast<std::uint8_t>(copy.size());
    options.hash.rx_hash_fields_mask = six ? IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 : IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
    if (fields == hashed::tcp) options.hash.rx_hash_fields_mask |= IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
    if (fields == hashed::udp) options.hash.rx_hash_fields_mask |= IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
    return queue_pair(in, options);
}

} // namespace corewire::verbs
