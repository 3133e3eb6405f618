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

sockaddr_in6 as_mapped(const socket_address& a) noexcept {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(a.port);
    in.sin6_addr.s6_addr[10] = in.sin6_addr.s6_addr[11] = 0xff;
    const std::uint32_t v4 = htonl(a.v4().value());
    std::memcpy(&in.sin6_addr.s6_addr[12], &v4, sizeof v4);
    return in;
}

} // namespace

outcome read_name(const sockaddr* name, socklen_t size, int family, socket_address& out) noexcept {
    sa_family_t given = AF_UNSPEC;
    if (name == nullptr || size < sizeof given) return -EINVAL;
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
    if (IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr)) {
        out = {ipv4::any(), ntohs(in.sin6_port)};
        return 0;
    }
    if (!IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) return -EADDRNOTAVAIL;
    std::uint32_t v4;
    std::memcpy(&v4, &in.sin6_addr.s6_addr[12], sizeof v4);
    out = {ipv4(ntohl(v4)), ntohs(in.sin6_port)};
    return 0;
}

void write_name(const socket_address& address, int family, sockaddr* name, socklen_t* size) noexcept {
    if (size == nullptr) return;
    const sockaddr_in in = as_v4(address);
    const sockaddr_in6 in6 = as_mapped(address);
    const void* from = family == AF_INET6 ? static_cast<const void*>(&in6) : &in;
    const socklen_t whole = family == AF_INET6 ? sizeof in6 : sizeof in;
    if (name != nullptr) std::memcpy(name, from, std::min(whole, *size));
    *size = whole;
}

} // namespace corewire::posix
