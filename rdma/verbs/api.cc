#include <corewire/rdma/verbs/api.hh>

namespace corewire::verbs {

namespace {

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attributes) { return ::ibv_create_qp_ex(context, attributes); }

ibv_td* alloc_td(ibv_context* context) {
    ibv_td_init_attr none{};
    return ::ibv_alloc_td(context, &none);
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_pd* domain, ibv_td* thread) {
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = domain;
    attributes.td = thread;
    return ::ibv_alloc_parent_domain(context, &attributes);
}

constexpr verbs_api libibverbs{
    .get_device_list = ::ibv_get_device_list,
    .free_device_list = ::ibv_free_device_list,
    .get_device_guid = [](ibv_device* device) -> std::uint64_t { return ::ibv_get_device_guid(device); },
    .open_device = ::ibv_open_device,
    .close_device = ::ibv_close_device,
    .query_device = [](ibv_context* c, ibv_device_attr_ex* out) { return ::ibv_query_device_ex(c, nullptr, out); },
    .query_port = [](ibv_context* c, std::uint8_t port, ibv_port_attr* out) { return ibv_query_port(c, port, out); },
    .query_pkey = ::ibv_query_pkey,
    .query_gid_table = [](ibv_context* c, ibv_gid_entry* out, std::size_t room) -> std::ptrdiff_t {
        return ::ibv_query_gid_table(c, out, room, 0);
    },
    .alloc_pd = ::ibv_alloc_pd,
    .dealloc_pd = ::ibv_dealloc_pd,
    .alloc_td = alloc_td,
    .dealloc_td = ::ibv_dealloc_td,
    .alloc_parent_domain = alloc_parent_domain,
    .reg_mr = [](ibv_pd* d, void* at, std::size_t size, unsigned access) { return ibv_reg_mr(d, at, size, access); },
    .dereg_mr = ::ibv_dereg_mr,
    .create_comp_channel = ::ibv_create_comp_channel,
    .destroy_comp_channel = ::ibv_destroy_comp_channel,
    .create_cq = ::ibv_create_cq,
    .create_cq_ex = ::ibv_create_cq_ex,
    .modify_cq = ::ibv_modify_cq,
    .destroy_cq = ::ibv_destroy_cq,
    .get_cq_event = ::ibv_get_cq_event,
    .ack_cq_events = ::ibv_ack_cq_events,
    .create_srq = ::ibv_create_srq,
    .modify_srq = ::ibv_modify_srq,
    .destroy_srq = ::ibv_destroy_srq,
    .create_qp = create_qp,
    .qp_to_qp_ex = ::ibv_qp_to_qp_ex,
    .modify_qp = ::ibv_modify_qp,
    .query_qp = ::ibv_query_qp,
    .destroy_qp = ::ibv_destroy_qp,
    .create_wq = ::ibv_create_wq,
    .modify_wq = ::ibv_modify_wq,
    .destroy_wq = ::ibv_destroy_wq,
    .create_rwq_ind_table = ::ibv_create_rwq_ind_table,
    .destroy_rwq_ind_table = ::ibv_destroy_rwq_ind_table,
    .create_flow = ::ibv_create_flow,
    .destroy_flow = ::ibv_destroy_flow,
    .create_ah = ::ibv_create_ah,
    .init_ah_from_wc = ::ibv_init_ah_from_wc,
    .destroy_ah = ::ibv_destroy_ah,
    .waits_for = [](ibv_context*, const ibv_gid*) { return true; },
    .attach_mcast = ::ibv_attach_mcast,
    .detach_mcast = ::ibv_detach_mcast,
    .get_async_event = ::ibv_get_async_event,
    .ack_async_event = ::ibv_ack_async_event,
    .is_fork_initialized = ::ibv_is_fork_initialized,
};

} // namespace

const verbs_api& system_api() noexcept { return libibverbs; }

} // namespace corewire::verbs
