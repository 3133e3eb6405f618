#include <corewire/rdma/verbs/cm_api.hh>

namespace corewire::verbs {

namespace {

constexpr cm_api librdmacm{
    .create_event_channel = ::rdma_create_event_channel,
    .destroy_event_channel = ::rdma_destroy_event_channel,
    .get_cm_event = ::rdma_get_cm_event,
    .ack_cm_event = ::rdma_ack_cm_event,
    .create_id = ::rdma_create_id,
    .destroy_id = ::rdma_destroy_id,
    .set_option = ::rdma_set_option,
    .bind_addr = ::rdma_bind_addr,
    .listen = ::rdma_listen,
    .get_src_port = ::rdma_get_src_port,
    .resolve_addr = ::rdma_resolve_addr,
    .resolve_route = ::rdma_resolve_route,
    .create_qp = ::rdma_create_qp,
    .destroy_qp = ::rdma_destroy_qp,
    .connect = ::rdma_connect,
    .accept = ::rdma_accept,
    .reject = ::rdma_reject,
    .disconnect = ::rdma_disconnect,
    .join_multicast = ::rdma_join_multicast,
    .leave_multicast = ::rdma_leave_multicast,
};

} // namespace

const cm_api& system_cm() noexcept { return librdmacm; }

} // namespace corewire::verbs
