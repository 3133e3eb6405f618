// Netlink messages as the kernel writes them, for tests: libmnl puts them together.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/reactor/base/bytes.hh>

#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <vector>

namespace netlink_test {

using corewire::byte_span;
using corewire::ipv4;
using corewire::mac_address;

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

inline void put(nlmsghdr* header, std::uint16_t type, ipv4 address) {
    mnl_attr_put_u32(header, type, corewire::host_to_be(address.value()));
}

inline std::vector<std::byte> route(std::uint16_t type, std::uint8_t length, ipv4 destination, ipv4 gateway, std::uint32_t interface,
                                    std::uint32_t metric = 0) {
    const rtmsg fixed{.rtm_family = AF_INET, .rtm_dst_len = length, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    return message(type, fixed, [&](nlmsghdr* h) {
        if (length != 0) put(h, RTA_DST, destination);
        if (!gateway.is_any()) put(h, RTA_GATEWAY, gateway);
        mnl_attr_put_u32(h, RTA_OIF, interface);
        if (metric != 0) mnl_attr_put_u32(h, RTA_PRIORITY, metric);
    });
}

inline std::vector<std::byte> neighbor(std::uint16_t type, ipv4 address, mac_address mac, std::uint16_t state, int interface) {
    const ndmsg fixed{.ndm_family = AF_INET, .ndm_pad1 = 0, .ndm_pad2 = 0, .ndm_ifindex = interface, .ndm_state = state, .ndm_flags = 0,
                      .ndm_type = 0};
    return message(type, fixed, [&](nlmsghdr* h) {
        put(h, NDA_DST, address);
        std::byte octets[mac_address::size];
        mac.store(octets);
        if (!mac.is_zero()) mnl_attr_put(h, NDA_LLADDR, sizeof octets, octets);
    });
}

inline std::vector<std::byte> address(std::uint16_t type, std::uint8_t length, ipv4 local, ipv4 peer, unsigned interface) {
    const ifaddrmsg fixed{.ifa_family = AF_INET, .ifa_prefixlen = length, .ifa_flags = 0, .ifa_scope = 0, .ifa_index = interface};
    return message(type, fixed, [&](nlmsghdr* h) {
        put(h, IFA_ADDRESS, peer);
        put(h, IFA_LOCAL, local);
    });
}

} // namespace netlink_test
