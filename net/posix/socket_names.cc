#include <corewire/net/posix/socket_names.hh>

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

namespace corewire::posix {

namespace {

sockaddr_in as_v4(const socket_address& a) noexcept {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(a.port);
    in.sin_addr.s_addr = htonl(a.v4().value());
    return in;
}

sockaddr_in6 as_v6(const socket_address& a) noexcept {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(a.port);
    a.net().v6().store(reinterpret_cast<std::byte*>(in.sin6_addr.s6_addr)); // IPv4's in the mapped form
    return in;
}

} // namespace

outcome read_name(const sockaddr* name, socklen_t size, int family, socket_address& out) noexcept {
    sa_family_t given = AF_UNSPEC;
    if (size > sizeof(sockaddr_storage)) return -EINVAL;
    if (name == nullptr && size != 0) return -EFAULT;
    if (size < sizeof given) return -EINVAL;
    std::memcpy(&given, name, sizeof given);
    if (given == AF_INET) {
        sockaddr_in in;
        if (size < sizeof in) return -EINVAL;
        if (family != AF_INET) return -EAFNOSUPPORT;
        std::memcpy(&in, name, sizeof in);
        out = {ipv4(ntohl(in.sin_addr.s_addr)), ntohs(in.sin_port)};
        return 0;
    }
    if (given != AF_INET6 || family != AF_INET6) return -EAFNOSUPPORT;
    sockaddr_in6 in;
    if (size < sizeof in) return -EINVAL;
    std::memcpy(&in, name, sizeof in);
    out = {net_address(ipv6::load(reinterpret_cast<const std::byte*>(in.sin6_addr.s6_addr))), ntohs(in.sin6_port)};
    return 0;
}

void write_name(const socket_address& address, int family, sockaddr* name, socklen_t* size) noexcept {
    if (size == nullptr) return;
    const auto put = [&](const auto& whole) {
        if (name != nullptr) std::memcpy(name, &whole, std::min<socklen_t>(sizeof whole, *size));
        *size = sizeof whole;
    };
    if (family == AF_INET6) put(as_v6(address));
    else put(as_v4(address));
}

} // namespace corewire::posix
