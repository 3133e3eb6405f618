// The set-up half of libibverbs as a table of functions: the library's own, or those of the fake in rdma/fake.
//
//     set-up calls (open, register, create, modify, destroy, events)   -> through this table, a pointer in every handle
//     data path (ibv_post_send, ibv_poll_cq, ibv_wr_*, ibv_start_poll)  -> the library's inline functions, unchanged: they
//                                                                         go through the ibv_context that a provider made
//
// So what runs for every packet is the same code on a NIC and on the fake. A table lives as long as the process.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace corewire::verbs {

/// Names, arguments, results and errno are those of the man pages: ibv_alloc_pd(3) and so on.
struct verbs_api {
    ibv_device** (*get_device_list)(int* count);
    void (*free_device_list)(ibv_device** list);
    std::uint64_t (*get_device_guid)(ibv_device* device); ///< network byte order
    ibv_context* (*open_device)(ibv_device* device);
    int (*close_device)(ibv_context* context);
    int (*query_device)(ibv_context* context, ibv_device_attr_ex* out);
    int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* out);
    int (*query_pkey)(ibv_context* context, std::uint8_t port, int index, __be16* out);
    std::ptrdiff_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* out, std::size_t room);

    ibv_pd* (*alloc_pd)(ibv_context* context);
    int (*dealloc_pd)(ibv_pd* domain);
    ibv_td* (*alloc_td)(ibv_context* context);
    int (*dealloc_td)(ibv_td* domain);
    ibv_pd* (*alloc_parent_domain)(ibv_context* context, ibv_pd* domain, ibv_td* thread);
    ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t size, unsigned access);
    int (*dereg_mr)(ibv_mr* region);

    ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
    int (*destroy_comp_channel)(ibv_comp_channel* channel);
    ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector);
    ibv_cq_ex* (*create_cq_ex)(ibv_context* context, ibv_cq_init_attr_ex* attributes);
    int (*modify_cq)(ibv_cq* queue, ibv_modify_cq_attr* attributes);
    int (*destroy_cq)(ibv_cq* queue);
    int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** user);
    void (*ack_cq_events)(ibv_cq* queue, unsigned count);

    ibv_srq* (*create_srq)(ibv_pd* domain, ibv_srq_init_attr* attributes);
    int (*modify_srq)(ibv_srq* queue, ibv_srq_attr* attributes, int mask);
    int (*destroy_srq)(ibv_srq* queue);

    ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes); ///< `cap` says what was given
    ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp* pair); ///< null if it was made without send_ops_flags
    int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
    int (*query_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* made_with);
    int (*destroy_qp)(ibv_qp* pair);

    ibv_wq* (*create_wq)(ibv_context* context, ibv_wq_init_attr* attributes);
    int (*modify_wq)(ibv_wq* queue, ibv_wq_attr* attributes);
    int (*destroy_wq)(ibv_wq* queue);
    ibv_rwq_ind_table* (*create_rwq_ind_table)(ibv_context* context, ibv_rwq_ind_table_init_attr* attributes);
    int (*destroy_rwq_ind_table)(ibv_rwq_ind_table* table);
    ibv_flow* (*create_flow)(ibv_qp* pair, ibv_flow_attr* rule);
    int (*destroy_flow)(ibv_flow* rule);

    ibv_ah* (*create_ah)(ibv_pd* domain, ibv_ah_attr* attributes);
    int (*init_ah_from_wc)(ibv_context* context, std::uint8_t port, ibv_wc* completion, ibv_grh* header, ibv_ah_attr* out);
    int (*destroy_ah)(ibv_ah* handle);
    /// Ours, of a RoCE port: whether create_ah and modify_qp (to RTR) may wait for the network before they have a way to a GID.
    bool (*waits_for)(ibv_context* context, const ibv_gid* to);
    int (*attach_mcast)(ibv_qp* pair, const ibv_gid* group, std::uint16_t lid);
    int (*detach_mcast)(ibv_qp* pair, const ibv_gid* group, std::uint16_t lid);

    int (*get_async_event)(ibv_context* context, ibv_async_event* out);
    void (*ack_async_event)(ibv_async_event* event);
    ibv_fork_status (*is_fork_initialized)();
};

/// libibverbs itself.
const verbs_api& system_api() noexcept;

} // namespace corewire::verbs
