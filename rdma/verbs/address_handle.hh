// Where a datagram goes: a destination that the device has resolved. Making one may ask the kernel (ARP) and block for up
// to a second: keep them (a cache is the user's), and on a shard let waiting_calls.hh make them. Belongs to the shard that made it.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/rdma/verbs/protection_domain.hh>

namespace corewire::verbs {

struct destination {
    ibv_gid gid{};
    std::uint16_t lid = 0;          ///< InfiniBand only
    std::uint8_t port = 1;          ///< of ours
    std::uint8_t gid_index = 0;     ///< of our address
    std::uint8_t hop_limit = 64;
    std::uint8_t traffic_class = 0;
    std::uint8_t service_level = 0;
};

class address_handle {
public:
    address_handle() noexcept = default;
    /// Throws std::system_error with a sentence.
    address_handle(const protection_domain& in, const destination& to);
    /// The way back to the sender of a received datagram; `header` is the 40 bytes in front of its payload.
    address_handle(const protection_domain& in, ibv_wc& received, ibv_grh& header, std::uint8_t port = 1);
    ibv_ah* get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

private:
    handle<ibv_ah, &verbs_api::destroy_ah> handle_;
};

/// RoCE, groups of IPv4 (::ffff:239.1.2.3) and of IPv6 (ff0e::1): has the kernel join on the network interface behind an
/// address of ours (IGMP, MLD), so that interface and switches let the group's datagrams through. On InfiniBand it does nothing.
class group_membership {
public:
    group_membership() noexcept = default;
    /// Throws std::system_error with a sentence.
    group_membership(const port_address& ours, const ibv_gid& group);

private:
    unique_fd socket_; ///< the membership is its
};

/// Lets a UD queue pair receive what is sent to a multicast group, until it is destroyed. The port must be a member as well: on
/// RoCE by group_membership, on InfiniBand by the subnet's administrator (rdma_cm asks that).
class multicast_attachment {
public:
    /// Throws std::system_error with a sentence.
    multicast_attachment(const verbs_api& api, ibv_qp* pair, const ibv_gid& group, std::uint16_t lid = 0);
    multicast_attachment(multicast_attachment&& other) noexcept;
    multicast_attachment& operator=(multicast_attachment&&) = delete;
    ~multicast_attachment();

private:
    const verbs_api* api_;
    ibv_qp* pair_;
    ibv_gid group_;
    std::uint16_t lid_;
    std::uint32_t generation_ = process_generation(); ///< a forked child leaves its parent's alone, as handle<> does
};

} // namespace corewire::verbs
