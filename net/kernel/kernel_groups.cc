// Multicast groups of the kernel's datagram sockets: ip(7), ipv6(7).
#include <corewire/net/kernel/kernel_datagrams.hh>

#include <cerrno>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>

namespace corewire {

namespace {

/// The interface that has an address; 0: none has it.
unsigned interface_of(const net_address& address) noexcept {
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return 0;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> keep(all, ::freeifaddrs);
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr) continue;
        const auto* bytes = reinterpret_cast<const std::byte*>(each->ifa_addr);
        const int family = each->ifa_addr->sa_family;
        const bool has = (family == AF_INET && address == ipv4::load(bytes + offsetof(sockaddr_in, sin_addr))) ||
                         (family == AF_INET6 && address == ipv6::load(bytes + offsetof(sockaddr_in6, sin6_addr)));
        if (has) return ::if_nametoindex(each->ifa_name);
    }
    return 0;
}

std::errc set(int fd, int level, int option, const void* value, std::size_t size) noexcept {
    return ::setsockopt(fd, level, option, value, static_cast<socklen_t>(size)) == 0 ? std::errc{} : static_cast<std::errc>(errno);
}

std::errc set(int fd, int level, int option, int value) noexcept { return set(fd, level, option, &value, sizeof value); }

} // namespace

std::errc kernel_datagrams::change_membership(bool join, const net_address& group, const net_address& on) noexcept {
    if (closed_) return std::errc::bad_file_descriptor;
    if (!group.is_multicast()) return std::errc::invalid_argument;
    const bool four = local_.is_v4();
    if (four && !group.is_v4()) return std::errc::address_family_not_supported;
    const unsigned interface = on.is_any() ? 0 : interface_of(on);
    if (!on.is_any() && interface == 0) return std::errc::address_not_available;
    if (group.is_v4()) {
        ip_mreqn what{};
        group.v4().store(reinterpret_cast<std::byte*>(&what.imr_multiaddr));
        what.imr_ifindex = static_cast<int>(interface);
        return set(fd_.get(), IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &what, sizeof what);
    }
    ipv6_mreq what{};
    group.v6().store(reinterpret_cast<std::byte*>(&what.ipv6mr_multiaddr));
    what.ipv6mr_interface = interface;
    return set(fd_.get(), IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &what, sizeof what);
}

std::errc kernel_datagrams::set_multicast(const multicast_options& how) noexcept {
    if (closed_) return std::errc::bad_file_descriptor;
    const unsigned interface = how.on.is_any() ? 0 : interface_of(how.on);
    if (!how.on.is_any() && interface == 0) return std::errc::address_not_available;
    ip_mreqn on{};
    on.imr_ifindex = static_cast<int>(interface);
    const int fd = fd_.get();
    std::errc why = set(fd, IPPROTO_IP, IP_MULTICAST_TTL, how.hops);
    if (why == std::errc{}) why = set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, how.loopback ? 1 : 0);
    if (why == std::errc{}) why = set(fd, IPPROTO_IP, IP_MULTICAST_IF, &on, sizeof on);
    if (why != std::errc{} || local_.is_v4()) return why;
    why = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, how.hops);
    if (why == std::errc{}) why = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, how.loopback ? 1 : 0);
    if (why == std::errc{}) why = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface));
    return why;
}

} // namespace corewire
