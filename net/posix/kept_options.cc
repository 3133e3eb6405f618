#include <corewire/net/posix/kept_options.hh>

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace corewire::posix {

namespace {

// Newer than many a header.
constexpr int so_interface = 62, so_prefers_polling = 69, so_rehash = 74, so_receive_mark = 75;
constexpr int ip_extended_errors = 26, ip_local_ports = 51;

} // namespace

bool is_kept(int level, int name) noexcept {
    switch (level) {
    case SOL_SOCKET:
        switch (name) {
        case SO_DONTROUTE:
        case SO_MARK:
        case SO_BUSY_POLL:
        case SO_BROADCAST:
        case SO_INCOMING_CPU:
        case so_interface:
        case so_prefers_polling:
        case so_rehash:
        case so_receive_mark: return true;
        default: return false;
        }
    case IPPROTO_IP:
        switch (name) {
        case IP_RECVTOS:
        case IP_RECVTTL:
        case IP_PKTINFO:
        case IP_FREEBIND:
        case IP_TRANSPARENT:
        case IP_RECVOPTS:
        case ip_extended_errors:
        case ip_local_ports:
        case IP_BIND_ADDRESS_NO_PORT: return true;
        default: return false;
        }
    case IPPROTO_IPV6:
        switch (name) {
        case IPV6_RECVTCLASS:
        case IPV6_RECVHOPLIMIT:
        case IPV6_RECVPKTINFO:
        case IPV6_FREEBIND:
        case IPV6_TRANSPARENT:
        case IPV6_AUTOFLOWLABEL:
        case IPV6_DONTFRAG:
        case IPV6_ADDR_PREFERENCES: return true;
        default: return false;
        }
    default: return false;
    }
}

bool is_kept_number(int level, int name) noexcept {
    if (level == SOL_SOCKET) {
        return name == SO_MARK || name == SO_BUSY_POLL || name == SO_INCOMING_CPU || name == so_interface || name == so_rehash;
    }
    if (level == IPPROTO_IP) return name == ip_local_ports;
    return level == IPPROTO_IPV6 && name == IPV6_ADDR_PREFERENCES;
}

bool may_be_kept(int level, int name, int n) noexcept {
    if (level == SOL_SOCKET) return name != so_rehash || (n >= -1 && n <= 1);
    return level != IPPROTO_IP || name != ip_extended_errors || n == 0 || n == 1;
}

int first_of_kept(int level, int name) noexcept {
    if (level != SOL_SOCKET) return 0;
    return name == so_rehash ? 1 : name == SO_INCOMING_CPU ? -1 : 0;
}

outcome set_to_null(int family, int level, int name, socklen_t size) noexcept {
    const outcome of_int = size < sizeof(int) ? -EINVAL : -EFAULT;
    switch (level) {
    case SOL_SOCKET: return name == SO_BINDTODEVICE ? -EFAULT : of_int;
    case IPPROTO_TCP:
        if (name == TCP_CONGESTION || name == TCP_ULP) return -EFAULT;
        if (name == TCP_FASTOPEN_KEY) return size == 16 || size == 32 ? -EFAULT : -EINVAL;
        return of_int;
    case IPPROTO_IP: return -EFAULT;
    case IPPROTO_IPV6: return family == AF_INET6 ? 0 : -ENOPROTOOPT;
    default: return -ENOPROTOOPT;
    }
}

} // namespace corewire::posix
