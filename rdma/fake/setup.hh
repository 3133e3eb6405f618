// The set-up calls of the fake, as functions with the signatures of verbs_api; internal to rdma/fake. Each takes the lock,
// honours faults, and checks what the kernel and a device would check.
#pragma once

#include <corewire/rdma/fake/objects.hh>

#include <algorithm>
#include <cerrno>

namespace corewire::fake {

namespace detail {
std::vector<state*>& all_nics() noexcept;
} // namespace detail

/// errno and null, as the calls that make things fail.
inline std::nullptr_t refuse(int error) noexcept {
    errno = error;
    return nullptr;
}

/// ::ffff:a.b.c.d
inline bool is_mapped(const ibv_gid& g) noexcept {
    constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(mapped, mapped + 12, g.raw);
}
/// ff00::/8, or an IPv4 group (RoCE).
inline bool is_group(const ibv_gid& g) noexcept { return g.raw[0] == 0xff || (is_mapped(g) && g.raw[12] >> 4 == 0xe); }

// setup_queues.cc
ibv_srq* create_srq(ibv_pd* in, ibv_srq_init_attr* attributes);
int modify_srq(ibv_srq* queue, ibv_srq_attr* attributes, int mask);
int destroy_srq(ibv_srq* queue);
ibv_qp* create_qp(ibv_context* on, ibv_qp_init_attr_ex* attributes);
ibv_qp_ex* qp_to_qp_ex(ibv_qp* pair);
int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* made_with);
int destroy_qp(ibv_qp* pair);
ibv_wq* create_wq(ibv_context* on, ibv_wq_init_attr* attributes);
int modify_wq(ibv_wq* queue, ibv_wq_attr* attributes);
int destroy_wq(ibv_wq* queue);
ibv_rwq_ind_table* create_table(ibv_context* on, ibv_rwq_ind_table_init_attr* attributes);
int destroy_table(ibv_rwq_ind_table* table);
ibv_ah* create_ah(ibv_pd* in, ibv_ah_attr* attributes);
int init_ah_from_wc(ibv_context* on, std::uint8_t port, ibv_wc* completion, ibv_grh* header, ibv_ah_attr* out);
int destroy_ah(ibv_ah* handle);
int attach_mcast(ibv_qp* pair, const ibv_gid* group, std::uint16_t lid);
int detach_mcast(ibv_qp* pair, const ibv_gid* group, std::uint16_t lid);
// connected.cc
ibv_mw* alloc_mw(ibv_pd* in, ibv_mw_type type);
int dealloc_mw(ibv_mw* window);
// setup.cc
ibv_context* open_device(ibv_device* device);
int close_device(ibv_context* context);
// cm.cc
void tell_of_removal(const state& nic);
// setup_flows.cc
ibv_flow* create_flow(ibv_qp* pair, ibv_flow_attr* rule);
int destroy_flow(ibv_flow* rule);

} // namespace corewire::fake
