#include <corewire/apps/runtime/kernel_address.hh>

#include <cstddef>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>

namespace corewire {

std::string kernel_interface_with(const net_address& address) {
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {};
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> keep(all, ::freeifaddrs);
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr) continue;
        const auto* bytes = reinterpret_cast<const std::byte*>(each->ifa_addr);
        bool taken = false;
        if (each->ifa_addr->sa_family == AF_INET) taken = address == ipv4::load(bytes + offsetof(sockaddr_in, sin_addr));
        if (each->ifa_addr->sa_family == AF_INET6) taken = address == ipv6::load(bytes + offsetof(sockaddr_in6, sin6_addr));
        if (taken) return each->ifa_name;
    }
    return {};
}

} // namespace corewire
