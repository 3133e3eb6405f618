// stream_socket's options of IP: IPPROTO_IP as ip(7) has them, IPPROTO_IPV6 as ipv6(7).
#include <corewire/net/posix/linux_tcp_info.hh>
#include <corewire/net/posix/option_values.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <netinet/in.h>

namespace corewire::posix {

namespace {
constexpr int ipv6_flow_label = 32, ipv6_min_hop_count = 73; ///< which the C library's headers lack: IPV6_FLOWLABEL_MGR, IPV6_MINHOPCOUNT
constexpr socklen_t flow_label_size = 32;                    ///< struct in6_flowlabel_req

/// Those of multicast routing, which are of raw sockets (MRT_BASE to MRT_MAX).
bool is_of_routing(int name) noexcept { return in_range(name, 200, 212); }

/// SO_PRIORITY, which IP_TOS sets as well (rt_tos2priority()).
int priority_of(int type_of_service) noexcept {
    constexpr int of_class[] = {0, 2, 6, 4}; // TC_PRIO_BESTEFFORT, _BULK, _INTERACTIVE, _INTERACTIVE_BULK
    return of_class[(type_of_service & 0x1e) >> 3];
}
}

outcome stream_socket::set_ip_option(int name, const void* value, socklen_t size) {
    if (name == IP_HDRINCL || name == IP_MTU) return -ENOPROTOOPT;
    if (is_of_routing(name)) return -EOPNOTSUPP;
    if (size == 0 && (name == IP_TTL || name == IP_MINTTL)) return -EINVAL;
    const int n = size >= sizeof(int) ? *int_of(value, size) : size != 0 ? *static_cast<const unsigned char*>(value) : 0;
    switch (name) {
    case IP_OPTIONS: return size == 0 ? 0 : -EINVAL; // none are ever sent
    case IP_TOS:
        if (settings_.type_of_service != (n & 0xfc)) settings_.priority = priority_of(n);
        settings_.type_of_service = n & 0xfc; // ECN's bits are the connection's
        return 0;
    case IP_TTL:
        if (n != -1 && !in_range(n, 1, 255)) return -EINVAL;
        settings_.time_to_live = n;
        return 0;
    case IP_MINTTL:
        if (!in_range(n, 0, 255)) return -EINVAL;
        settings_.least_time_to_live = n;
        stack_.tcp().judge_hops();
        return 0;
    case IP_MTU_DISCOVER:
        if (!in_range(n, 0, 5)) return -EINVAL;
        settings_.path_mtu_discovery = n;
        return 0;
    case IP_RECVERR: return hear_errors(settings_.receive_errors, n != 0);
    default: return -ENOPROTOOPT;
    }
}

/// Switched off it ends no error that there is already, but forgets the messages (skb_errqueue_purge()).
outcome stream_socket::hear_errors(bool& setting, bool on) {
    if (!on && !settings_.like_freebsd) {
        if (hears_soft_errors()) pending_error_ = take_error();
        forget_reports();
    }
    setting = on;
    return 0;
}

/// ipv6(7), RFC 3493, RFC 3542.
outcome stream_socket::set_ipv6_option(int name, const void* value, socklen_t size) {
    const std::optional<int> n = int_of(value, size);
    if (name == IPV6_HOPLIMIT) return -ENOPROTOOPT;
    if (is_of_routing(name)) return -EOPNOTSUPP;
    if (!n) return -EINVAL;
    switch (name) {
    case IPV6_MTU: return *n != 0 && *n < 1280 ? -EINVAL : 0; // of datagrams' fragments
    case ipv6_flow_label: return size < flow_label_size ? -EINVAL : -EPERM;
    case IPV6_V6ONLY:
        if (is_bound_ || connection_ != nullptr || listener_ != nullptr) return -EINVAL;
        settings_.ipv6_only = *n != 0;
        return 0;
    case IPV6_TCLASS:
        if (!in_range(*n, -1, 255)) return -EINVAL;
        settings_.traffic_class = *n == -1 ? 0 : *n & 0xfc;
        return 0;
    case IPV6_UNICAST_HOPS:
        if (!in_range(*n, -1, 255)) return -EINVAL;
        settings_.hop_limit = *n;
        return 0;
    case ipv6_min_hop_count:
        if (!in_range(*n, 0, 255)) return -EINVAL;
        settings_.least_hop_limit = *n;
        stack_.tcp().judge_hops();
        return 0;
    case IPV6_MTU_DISCOVER:
        if (!in_range(*n, 0, 5)) return -EINVAL;
        settings_.path_mtu_discovery6 = *n;
        return 0;
    case IPV6_RECVERR: return hear_errors(settings_.receive_errors6, *n != 0);
    default: return -ENOPROTOOPT;
    }
}

std::uint32_t stream_socket::path_mtu(const tcp_connection& c) const {
    const std::uint32_t longer = c.six == nullptr ? 0 : 20; // than the 40 bytes of IPv4's and TCP's headers
    if (!c.tcb.options().like_linux()) return c.tcb.packet_size() + longer;
    return std::min(host_times().mss + 40 + longer, stack_.ip().path_mtu_to(stack_.tcp().now(), c.name().remote));
}

std::uint32_t stream_socket::noticed_path_mtu(const tcp_connection& c) const {
    if (!c.tcb.options().shrinks_later || c.six != nullptr) return path_mtu(c);
    return known_path_mtu_ != 0 ? known_path_mtu_ : host_times().mss + 40;
}

std::uint32_t stream_socket::segment_of(const tcp_connection& c) const {
    const tcp::tcb& t = c.tcb;
    const tcp::connection_info i = t.info();
    const bool unheard = i.state == tcp::tcp_state::closed && !i.passive && i.established_at == time_point{};
    if (i.state != tcp::tcp_state::syn_sent && !unheard) return t.segment_payload();
    return presumed_segment(t.options(), c.six == nullptr ? 20 : 40, noticed_path_mtu(c), asked_segment_);
}

std::uint32_t stream_socket::told_segment() const {
    const tcp_connection* const c = connection();
    if (c == nullptr) return settings_.max_segment != 0 ? settings_.max_segment : past_segment_;
    const bool follows_linux = c->tcb.options().like_linux();
    if (follows_linux && is_closed() && settings_.max_segment != 0) return settings_.max_segment; // do_tcp_getsockopt()
    if (repair_.on && c->tcb.state() != tcp::tcp_state::syn_sent) return c->tcb.packet_size() - 40;
    if (follows_linux && c->tcb.state() != tcp::tcp_state::syn_received) return segment_of(*c);
    if (!in_handshake()) return c->tcb.segment_payload();
    return settings_.max_segment != 0 ? settings_.max_segment : 536;
}

outcome stream_socket::give_path_mtu(void* value, socklen_t* size) const {
    const tcp_connection* const c = connection();
    if (c == nullptr) return -ENOTCONN;
    return give_int(static_cast<int>(path_mtu(*c)), value, size);
}

outcome stream_socket::get_ip_option(int name, void* value, socklen_t* size) const {
    const stream_settings& s = settings_;
    if (is_of_routing(name)) return -EOPNOTSUPP;
    switch (name) {
    case IP_HDRINCL: return give_ip(0, value, size);
    case IP_OPTIONS: return give("", 0, value, size);
    case IP_TOS: return give_ip(s.type_of_service, value, size);
    case IP_TTL: return give_ip(s.time_to_live_or_host(), value, size);
    case IP_MINTTL: return give_ip(s.least_time_to_live, value, size);
    case IP_MTU_DISCOVER: return give_ip(s.path_mtu_discovery, value, size);
    case IP_RECVERR: return give_ip(s.receive_errors, value, size);
    case IP_MTU: return give_path_mtu(value, size);
    default: return -ENOPROTOOPT;
    }
}

outcome stream_socket::get_ipv6_option(int name, void* value, socklen_t* size) const {
    const stream_settings& s = settings_;
    if (is_of_routing(name)) return -EOPNOTSUPP;
    switch (name) {
    case IPV6_V6ONLY: return give_int(s.ipv6_only, value, size);
    case IPV6_TCLASS: return give_int(s.traffic_class, value, size);
    case IPV6_UNICAST_HOPS: return give_int(s.hop_limit == -1 ? 64 : s.hop_limit, value, size);
    case ipv6_min_hop_count: return give_int(s.least_hop_limit, value, size);
    case IPV6_MTU_DISCOVER: return give_int(s.path_mtu_discovery6, value, size);
    case IPV6_RECVERR: return give_int(s.receive_errors6, value, size);
    case IPV6_MTU: return give_path_mtu(value, size);
    case ipv6_flow_label: return *size < flow_label_size ? -EINVAL : -ENOENT; // there are no labels
    default: return -ENOPROTOOPT;
    }
}

} // namespace corewire::posix
