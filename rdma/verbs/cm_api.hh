// rdma_cm as a table of functions, as api.hh is for libibverbs: the library's own, or those of the fake in rdma/fake. Names, arguments,
// results and errno are those of the man pages: rdma_create_id(3) and so on. A table lives as long as the process.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

namespace corewire::verbs {

struct cm_api {
    rdma_event_channel* (*create_event_channel)();
    void (*destroy_event_channel)(rdma_event_channel* channel);
    int (*get_cm_event)(rdma_event_channel* channel, rdma_cm_event** event);
    int (*ack_cm_event)(rdma_cm_event* event);

    int (*create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space);
    int (*destroy_id)(rdma_cm_id* id);
    int (*set_option)(rdma_cm_id* id, int level, int name, void* value, std::size_t size);
    int (*bind_addr)(rdma_cm_id* id, sockaddr* ours);
    int (*listen)(rdma_cm_id* id, int backlog);
    __be16 (*get_src_port)(rdma_cm_id* id);

    int (*resolve_addr)(rdma_cm_id* id, sockaddr* from, sockaddr* to, int milliseconds);
    int (*resolve_route)(rdma_cm_id* id, int milliseconds);
    int (*create_qp)(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* attributes);
    void (*destroy_qp)(rdma_cm_id* id);
    int (*connect)(rdma_cm_id* id, rdma_conn_param* parameters);
    int (*accept)(rdma_cm_id* id, rdma_conn_param* parameters);
    int (*reject)(rdma_cm_id* id, const void* data, std::uint8_t size);
    int (*disconnect)(rdma_cm_id* id);

    int (*join_multicast)(rdma_cm_id* id, sockaddr* group, void* context);
    int (*leave_multicast)(rdma_cm_id* id, sockaddr* group);
};

/// librdmacm itself.
const cm_api& system_cm() noexcept;

} // namespace corewire::verbs
