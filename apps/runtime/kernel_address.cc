#include <corewire/apps/runtime/kernel_address.hh>

#include <corewire/apps/runtime/setup_error.hh>

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
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

netlink::prefix named_address(std::span<const netlink::address_change> known, const net_address& wanted, const std::string& interface) {
    const auto found = std::ranges::find_if(known, [&](const netlink::address_change& each) { return each.address.address == wanted; });
    if (found == known.end())
        throw setup_error(fmt::format("--shared: the kernel does not have {} on {}: leave --address out, or --shared", to_string(wanted),
                                      interface));
    if (!found->proven)
        throw setup_error(fmt::format("--shared: the kernel does not use {} yet, or another host has it: `ip address show dev {}` says "
                                      "tentative, or dadfailed",
                                      to_string(wanted), interface));
    return found->address;
}

std::optional<netlink::prefix> first_address(std::span<const netlink::address_change> known, bool of_ipv4) noexcept {
    const auto found = std::ranges::find_if(known, [&](const netlink::address_change& each) {
        const net_address& a = each.address.address;
        return each.usable && a.is_v4() == of_ipv4 && (of_ipv4 || (!each.secondary && !a.v6().is_link_local()));
    });
    return found == known.end() ? std::nullopt : std::optional(found->address);
}

} // namespace corewire
