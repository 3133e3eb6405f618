#include <corewire/net/posix/kept_options.hh>

#include <corewire/net/posix/option_values.hh>

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace corewire::posix {

namespace {

// Newer than many a header.
constexpr int so_interface = 62, so_prefers_polling = 69, so_rehash = 74, so_receive_mark = 75;
constexpr int ip_checksum = 23, ipv6_receive_original = 74, ipv6_receive_fragment_size = 77;
constexpr int ipv6_flow_info_send = 33, ip_extended_errors = 26, ip_local_ports = 51;

} // namespace

bool is_kept(int level, int name) noexcept {
    switch (level) {
    case SOL_SOCKET:
        switch (name) {
        case SO_DEBUG:
        case SO_DONTROUTE:
        case SO_RXQ_OVFL:
        case SO_MARK:
        case SO_BUSY_POLL:
        case SO_BROADCAST:
        case SO_INCOMING_CPU:
        case so_interface:
        case so_prefers_polling:
        case so_rehash:
        case so_receive_mark:
        case SO_NO_CHECK:
        case SO_NOFCS:
        case SO_LOCK_FILTER:
        case SO_SELECT_ERR_QUEUE: return true;
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
        case IP_BIND_ADDRESS_NO_PORT:
        case IP_RETOPTS:
        case IP_PASSSEC:
        case IP_RECVORIGDSTADDR:
        case ip_checksum:
        case IP_MULTICAST_LOOP:
        case IP_MULTICAST_ALL: return true;
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
        case ipv6_flow_info_send:
        case ipv6_receive_original:
        case ipv6_receive_fragment_size:
        case IPV6_MULTICAST_LOOP:
        case IPV6_MULTICAST_ALL:
        case IPV6_RECVHOPOPTS:
        case IPV6_RECVRTHDR:
        case IPV6_RECVDSTOPTS:
        case IPV6_RECVPATHMTU:
        case IPV6_ADDR_PREFERENCES: return true;
        default: return false;
        }
    default: return false;
    }
}

std::optional<int> kept_value(int level, int name, const void* value, socklen_t size) noexcept {
    const bool ports = level == IPPROTO_IP && name == ip_local_ports;
    if (ports && size != sizeof(int)) return std::nullopt;
    if (const std::optional<int> n = int_of(value, size); n) return level == SOL_SOCKET && name == so_rehash && *n == -1 ? 1 : n;
    if (level == IPPROTO_IP && size != 0) return *static_cast<const unsigned char*>(value);
    const bool may_be_nothing = level == IPPROTO_IP ? name != IP_FREEBIND && name != IP_TRANSPARENT
                                                    : level == IPPROTO_IPV6 && (name == IPV6_AUTOFLOWLABEL || name == IPV6_DONTFRAG);
    return may_be_nothing ? std::optional<int>(0) : std::nullopt;
}

bool is_kept_number(int level, int name) noexcept {
    if (level == SOL_SOCKET) {
        return name == SO_MARK || name == SO_BUSY_POLL || name == SO_INCOMING_CPU || name == so_interface || name == so_rehash;
    }
    if (level == IPPROTO_IP) return name == ip_local_ports;
    return level == IPPROTO_IPV6 && name == IPV6_ADDR_PREFERENCES;
}

bool may_be_kept(int level, int name, int n) noexcept {
    if (level == SOL_SOCKET) return name == so_rehash ? n >= -1 && n <= 1 : (name != SO_BUSY_POLL && name != so_interface) || n >= 0;
    if (level == IPPROTO_IP && name == ip_local_ports) { // the least and the greatest; 0: the host's
        const unsigned least = static_cast<unsigned>(n) & 0xffff, greatest = static_cast<unsigned>(n) >> 16;
        return least == 0 || greatest == 0 || least <= greatest;
    }
    return level != IPPROTO_IP || (name != ip_extended_errors && name != IP_MULTICAST_ALL) || n == 0 || n == 1;
}

int first_of_kept(int level, int name) noexcept {
    if (level == IPPROTO_IP) return name == IP_MULTICAST_LOOP || name == IP_MULTICAST_ALL;
    if (level == IPPROTO_IPV6) return name == IPV6_MULTICAST_LOOP || name == IPV6_MULTICAST_ALL;
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
