#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/wire/ecn.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <system_error>

namespace corewire {

namespace {

void set_option(int fd, int level, int name, int value) noexcept { ::setsockopt(fd, level, name, &value, sizeof value); }

/// As the kernel takes them: more than MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL, 32767, it refuses.
int whole_seconds(duration d) noexcept {
    return static_cast<int>(std::clamp<std::int64_t>(std::chrono::duration_cast<std::chrono::seconds>(d).count(), 1, 32'767));
}

} // namespace

system_address::system_address(const socket_address& from) noexcept : v6{} {
    if (from.is_v4()) {
        v4 = {};
        v4.sin_family = AF_INET;
        v4.sin_port = htons(from.port);
        v4.sin_addr.s_addr = htonl(from.v4().value());
        size = sizeof v4;
        return;
    }
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(from.port);
    std::get<ipv6>(from.address).store(reinterpret_cast<std::byte*>(&v6.sin6_addr));
    size = sizeof v6;
}

socket_address system_address::decoded() const noexcept {
    if (generic.sa_family == AF_INET) return {ipv4(ntohl(v4.sin_addr.s_addr)), ntohs(v4.sin_port)};
    if (generic.sa_family == AF_INET6) {
        return {ipv6::load(reinterpret_cast<const std::byte*>(&v6.sin6_addr)), ntohs(v6.sin6_port)};
    }
    return {};
}

socket_address local_address_of(int fd) noexcept {
    system_address a;
    return ::getsockname(fd, &a.generic, &a.size) == 0 ? a.decoded() : socket_address{};
}

socket_address peer_address_of(int fd) noexcept {
    system_address a;
    return ::getpeername(fd, &a.generic, &a.size) == 0 ? a.decoded() : socket_address{};
}

void throw_errno(int error, const std::string& what) { throw std::system_error(error, std::generic_category(), what); }

unique_fd open_socket(const socket_address& family_of, int type) {
    unique_fd fd{::socket(family_of.is_v4() ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0)};
    if (!fd) throw_errno(errno, "cannot open a socket");
    // RFC 6093 6: urgent bytes stay in line, as over our own stack; the kernel would leave the last of them out. Accepted streams inherit
    // it.
    if (type == SOCK_STREAM) set_option(fd.get(), SOL_SOCKET, SO_OOBINLINE, 1);
    else set_option(fd.get(), SOL_SOCKET, SO_BROADCAST, 1); // as over our own stack
    return fd;
}

void bind_shared(int fd, const socket_address& at, bool ipv6_only) {
    if (!at.is_v4()) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, ipv6_only ? 1 : 0);
    if (at.port != 0) { // else the kernel might choose a port that another of our sockets has (for datagrams with either of the two)
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    const system_address where(at);
    if (::bind(fd, &where.generic, where.size) != 0) throw_errno(errno, "bind " + at.to_string());
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
}

namespace {

std::string kernels_name_of(int fd) {
    char name[16] = {};
    socklen_t size = sizeof name - 1;
    return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 ? std::string(name) : std::string();
}

/// What the kernel gives to a new socket.
std::string kernels_choice() {
    const unique_fd fresh{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    return kernels_name_of(fresh.get());
}

} // namespace

std::errc apply_congestion(int fd, congestion_algorithm how) {
    const std::string name = how == congestion_algorithm::standard  ? kernels_choice()
                             : how == congestion_algorithm::newreno ? "reno"
                                                                    : std::string(name_of(how));
    if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) return {};
    return static_cast<std::errc>(errno);
}

void require_congestion(int fd, congestion_algorithm how) {
    if (how == congestion_algorithm::standard) return;
    const std::errc why = apply_congestion(fd, how);
    if (why == std::errc{}) return;
    const std::string name(name_of(how));
    throw_errno(static_cast<int>(why), "this kernel lets us have no congestion control '" + name + "' (`modprobe tcp_" + name +
                                           "`, and sysctl net.ipv4.tcp_allowed_congestion_control)");
}

std::string congestion_of(int fd) {
    std::string name = kernels_name_of(fd);
    const auto ours = congestion_named(name);
    return ours ? std::string(name_of(*ours)) : name;
}

int state_of(int fd) noexcept {
    tcp_info info{};
    socklen_t size = sizeof info;
    ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info.tcpi_state;
}

void resets_on_close(int fd) noexcept {
    const linger none{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

void apply_options(int fd, const tcp_options_set& options, const tcp_options_set& before) noexcept {
    const tcp_options_set defaults;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, options.no_delay);
    // Buffers of a stated size end the kernel's own tuning of them, so only when somebody states one.
    if (options.receive_buffer != defaults.receive_buffer) {
        set_option(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(std::min<std::uint32_t>(options.receive_buffer, 1u << 30)));
    }
    if (options.send_buffer != defaults.send_buffer) {
        set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(std::min<std::uint32_t>(options.send_buffer, 1u << 30)));
    }
    if (options.fast_open && !before.fast_open) set_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    if (options.user_timeout != before.user_timeout) {
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(options.user_timeout).count();
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::clamp<std::int64_t>(ms, 0, INT32_MAX)));
    }
    if (options.fin_wait_2 != before.fin_wait_2) {
        const duration patience = options.fin_wait_2;
        set_option(fd, IPPROTO_TCP, TCP_LINGER2, patience < duration{0} ? -1 : patience == duration{0} ? 0 : whole_seconds(patience));
    }
    if (options.max_pacing_rate != before.max_pacing_rate) { // socket(7): 64 bits since Linux 4.20
        const std::uint64_t rate = options.max_pacing_rate;
        ::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    }
    if (options.hops != before.hops) { // a socket of both families has both; one of IPv4 refuses the second
        const int hops = options.hops == 0 ? -1 : options.hops;
        set_option(fd, IPPROTO_IP, IP_TTL, hops);
        set_option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops);
    }
    if (options.traffic_class != before.traffic_class) { // ECN's bits the kernel leaves as they are
        set_option(fd, IPPROTO_IP, IP_TOS, wire::without_ecn(options.traffic_class));
        set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, wire::without_ecn(options.traffic_class));
    }
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, options.keepalive);
    if (options.keepalive) {
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, whole_seconds(options.keepalive_idle));
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, whole_seconds(options.keepalive_interval));
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(std::clamp(options.keepalive_probes, 1u, 127u)));
    }
}

} // namespace corewire
