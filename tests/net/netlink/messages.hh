// Netlink messages as the kernel writes them, for tests: libmnl puts them together.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstring>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <vector>

namespace netlink_test {

using corewire::byte_span;
using corewire::ipv4;
using corewire::mac_address;
using corewire::net_address;

/// One message of `type`, with a fixed part and what `put(header)` adds.
template <typename Fixed, typename Put>
std::vector<std::byte> message(std::uint16_t type, const Fixed& fixed, Put put) {
    std::vector<std::byte> bytes(512);
    nlmsghdr* header = mnl_nlmsg_put_header(bytes.data());
    header->nlmsg_type = type;
    *static_cast<Fixed*>(mnl_nlmsg_put_extra_header(header, sizeof(Fixed))) = fixed;
    put(header);
    bytes.resize(header->nlmsg_len);
    return bytes;
}

inline std::uint8_t family_of(const net_address& address) { return address.is_v4() ? AF_INET : AF_INET6; }

inline void put(nlmsghdr* header, std::uint16_t type, const net_address& address) {
    std::byte octets[16];
    if (address.is_v4()) address.v4().store(octets);
    else address.v6().store(octets);
    mnl_attr_put(header, type, address.is_v4() ? 4 : 16, octets);
}

/// Of the gateway's family.
inline std::vector<std::byte> route(std::uint16_t type, std::uint8_t length, const net_address& destination, const net_address& gateway,
                                    std::uint32_t interface, std::uint32_t metric = 0, std::uint16_t flags = 0) {
    const rtmsg fixed{.rtm_family = family_of(gateway), .rtm_dst_len = length, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    return message(type, fixed, [&](nlmsghdr* h) {
        h->nlmsg_flags = flags;
        if (length != 0) put(h, RTA_DST, destination);
        if (!gateway.is_any()) put(h, RTA_GATEWAY, gateway);
        mnl_attr_put_u32(h, RTA_OIF, interface);
        if (metric != 0) mnl_attr_put_u32(h, RTA_PRIORITY, metric);
    });
}

struct way {
    int interface;
    net_address gateway; ///< of the first one's family, or (RTA_VIA) the other
    unsigned char flags = 0;
};

/// The default route over several gateways, as one route.
inline std::vector<std::byte> several_ways(std::uint16_t type, const std::vector<way>& ways, std::uint16_t flags = 0) {
    const std::uint8_t family = family_of(ways.front().gateway);
    const rtmsg fixed{.rtm_family = family, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    return message(type, fixed, [&](nlmsghdr* h) {
        h->nlmsg_flags = flags;
        mnl_attr_put_u32(h, RTA_PRIORITY, 1024);
        nlattr* const all = mnl_attr_nest_start(h, RTA_MULTIPATH);
        for (const way& each : ways) {
            const std::uint32_t before = h->nlmsg_len;
            rtnexthop hop{.rtnh_len = 0, .rtnh_flags = each.flags, .rtnh_hops = 0, .rtnh_ifindex = each.interface};
            auto* const at = static_cast<std::byte*>(mnl_nlmsg_get_payload_tail(h));
            h->nlmsg_len += static_cast<std::uint32_t>(sizeof hop);
            if (family_of(each.gateway) == family) put(h, RTA_GATEWAY, each.gateway);
            else mnl_attr_put(h, RTA_VIA, 18, std::vector<std::byte>(18).data());
            hop.rtnh_len = static_cast<std::uint16_t>(h->nlmsg_len - before);
            std::memcpy(at, &hop, sizeof hop);
        }
        mnl_attr_nest_end(h, all);
    });
}

inline std::vector<std::byte> link(std::uint16_t type, int interface, unsigned flags, std::uint8_t family = AF_UNSPEC) {
    const ifinfomsg fixed{.ifi_family = family, .__ifi_pad = 0, .ifi_type = 1, .ifi_index = interface, .ifi_flags = flags, .ifi_change = 0};
    return message(type, fixed, [](nlmsghdr*) {});
}

/// `interface` 0: a group, which says none.
inline std::vector<std::byte> nexthop(std::uint16_t type, std::uint32_t interface) {
    const nhmsg fixed{.nh_family = AF_INET, .nh_scope = 0, .nh_protocol = 0, .resvd = 0, .nh_flags = 0};
    return message(type, fixed, [&](nlmsghdr* h) {
        mnl_attr_put_u32(h, NHA_ID, 7);
        if (interface != 0) mnl_attr_put_u32(h, NHA_OIF, interface);
    });
}

inline std::vector<std::byte> neighbor(std::uint16_t type, const net_address& address, mac_address mac, std::uint16_t state,
                                       int interface) {
    const ndmsg fixed{.ndm_family = family_of(address), .ndm_pad1 = 0, .ndm_pad2 = 0, .ndm_ifindex = interface, .ndm_state = state,
                      .ndm_flags = 0, .ndm_type = 0};
    return message(type, fixed, [&](nlmsghdr* h) {
        put(h, NDA_DST, address);
        std::byte octets[mac_address::size];
        mac.store(octets);
        if (!mac.is_zero()) mnl_attr_put(h, NDA_LLADDR, sizeof octets, octets);
    });
}

inline std::vector<std::byte> address(std::uint16_t type, std::uint8_t length, const net_address& local, const net_address& peer,
                                      unsigned interface, std::uint32_t flags = 0) {
    const ifaddrmsg fixed{.ifa_family = family_of(local), .ifa_prefixlen = length, .ifa_flags = 0, .ifa_scope = 0, .ifa_index = interface};
    return message(type, fixed, [&](nlmsghdr* h) {
        put(h, IFA_ADDRESS, peer);
        if (local.is_v4()) put(h, IFA_LOCAL, local);
        if (flags != 0) mnl_attr_put_u32(h, IFA_FLAGS, flags);
    });
}

} // namespace netlink_test
