// An RDMA device, opened: what it can do, its ports and their addresses (GIDs).
//
// May be shared by shards: libibverbs locks where it must. Opening it again for each shard gives each its own queue of
// events and its own door-bell page, but then no object of one may stand on the other's.
// It outlives everything made from it.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/rdma/verbs/handle.hh>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace corewire::verbs {

/// The names of the devices there are: "mlx5_0". Throws std::system_error when the kernel has no RDMA support at all; an
/// empty list where it has, and no device.
std::vector<std::string> device_names(const verbs_api& api = system_api());

/// What an address of a port is good for.
struct port_address {
    ibv_gid gid{};
    unsigned index = 0;      ///< what queue pairs and address handles name it by
    ibv_gid_type type = IBV_GID_TYPE_IB;
    unsigned interface = 0;  ///< of the kernel's network interface behind it; 0: none

    bool is_ipv4() const noexcept; ///< ::ffff:a.b.c.d
    ipv4 as_ipv4() const noexcept;
    net_address as_ip() const noexcept; ///< of either family
};
/// "fe80::1", "::ffff:192.0.2.1".
std::string to_string(const ibv_gid& gid);

class device {
public:
    /// Throws std::system_error with a sentence if there is none of this name, or it may not be opened.
    static device open(std::string_view name, const verbs_api& api = system_api());
    /// The device, and the number of its port, behind a network interface ("eth0").
    struct found {
        std::string name;
        std::uint8_t port = 1;
    };
    static found find_by_interface(const std::string& interface, const verbs_api& api = system_api());
    /// One that somebody else opened and closes (an rdma_cm_id's).
    static device borrowed(ibv_context* context, const verbs_api& api = system_api());

    const std::string& name() const noexcept { return name_; }
    ibv_context* context() const noexcept { return context_; }
    const verbs_api& api() const noexcept { return *api_; }

    /// As asked when it was opened.
    const ibv_device_attr_ex& attributes() const noexcept { return attributes_; }
    const ibv_device_attr& limits() const noexcept { return attributes_.orig_attr; }
    /// Asked now. Ports count from 1.
    ibv_port_attr port(std::uint8_t number = 1) const;
    std::vector<port_address> addresses(std::uint8_t port = 1) const;
    /// The kernel's network interface in front of a port ("eth0"), up or down; empty: there is none.
    std::string interface_of(std::uint8_t port = 1) const;
    /// The address by which peers of an IP network reach us: RoCE version 2 where there is a choice. Throws with the list of
    /// those there are.
    port_address address_for(const net_address& ours, std::uint8_t port = 1) const;
    /// Where a partition stands in the port's table; InfiniBand only (Ethernet has 0xffff at 0).
    std::uint16_t partition(unsigned index, std::uint8_t port = 1) const;

private:
    device(handle<ibv_context, &verbs_api::close_device> owned, ibv_context* context, const verbs_api& api);
    const verbs_api* api_;
    handle<ibv_context, &verbs_api::close_device> owned_;
    ibv_context* context_;
    std::string name_;
    ibv_device_attr_ex attributes_{};
};

/// Bytes of "path MTU 1024" as verbs counts it, and the largest such MTU that fits into `bytes`.
constexpr std::uint32_t bytes_of(ibv_mtu mtu) noexcept { return 128u << static_cast<unsigned>(mtu); }

} // namespace corewire::verbs
