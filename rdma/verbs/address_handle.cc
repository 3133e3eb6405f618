#include <corewire/rdma/verbs/address_handle.hh>

#include <corewire/rdma/verbs/error.hh>

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace corewire::verbs {

address_handle::address_handle(const protection_domain& in, const destination& to) {
    ibv_ah_attr a{};
    a.dlid = to.lid;
    a.sl = to.service_level;
    a.port_num = to.port;
    a.is_global = 1;
    a.grh.dgid = to.gid;
    a.grh.sgid_index = to.gid_index;
    a.grh.hop_limit = to.hop_limit;
    a.grh.traffic_class = to.traffic_class;
    ibv_ah* made = in.api().create_ah(in.plain(), &a);
    if (made == nullptr)
        fail(operation::create_address_handle, errno,
             fmt::format("make an address handle for {} on {} (GID index {})", to_string(to.gid), in.device_name(), to.gid_index));
    handle_ = {in.api(), made};
}

address_handle::address_handle(const protection_domain& in, ibv_wc& received, ibv_grh& header, std::uint8_t port) {
    ibv_ah_attr a{};
    const int error = in.api().init_ah_from_wc(in.context(), port, &received, &header, &a);
    if (error != 0)
        fail(operation::create_address_handle, error > 0 ? error : errno, "read the sender of a datagram on " + in.device_name());
    ibv_ah* made = in.api().create_ah(in.plain(), &a);
    if (made == nullptr) fail(operation::create_address_handle, errno, "make an address handle for a sender on " + in.device_name());
    handle_ = {in.api(), made};
}

group_membership::group_membership(const port_address& ours, const ibv_gid& group) {
    const port_address as_address{.gid = group};
    if (ours.interface == 0 || ours.type == IBV_GID_TYPE_IB) return;
    const bool four = as_address.is_ipv4();
    socket_.reset(::socket(four ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket_) fail(operation::join_multicast, errno, fmt::format("open a socket to join the group {} by", to_string(group)));
    ip_mreqn wish{};
    std::memcpy(&wish.imr_multiaddr, group.raw + 12, sizeof wish.imr_multiaddr);
    wish.imr_ifindex = static_cast<int>(ours.interface);
    ipv6_mreq wish6{};
    std::memcpy(&wish6.ipv6mr_multiaddr, group.raw, sizeof wish6.ipv6mr_multiaddr);
    wish6.ipv6mr_interface = ours.interface;
    const int joined = four ? ::setsockopt(socket_.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &wish, sizeof wish)
                            : ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &wish6, sizeof wish6);
    if (joined != 0)
        fail(operation::join_multicast, errno,
             fmt::format("join the group {} on the network interface of {}", to_string(group), to_string(ours.gid)));
}

multicast_attachment::multicast_attachment(const verbs_api& api, ibv_qp* pair, const ibv_gid& group, std::uint16_t lid)
    : api_(&api), pair_(pair), group_(group), lid_(lid) {
    if (const int error = api.attach_mcast(pair, &group_, lid_); error != 0)
        fail(operation::join_multicast, error, fmt::format("attach queue pair {:#x} to {}", pair->qp_num, to_string(group)));
}

multicast_attachment::multicast_attachment(multicast_attachment&& other) noexcept
    : api_(other.api_), pair_(std::exchange(other.pair_, nullptr)), group_(other.group_), lid_(other.lid_),
      generation_(other.generation_) {}

multicast_attachment::~multicast_attachment() {
    if (pair_ != nullptr && generation_ == process_generation()) api_->detach_mcast(pair_, &group_, lid_);
}

} // namespace corewire::verbs
