// stream_socket's options: SOL_SOCKET, IPPROTO_TCP and IPPROTO_IP as socket(7), tcp(7) and ip(7) describe them. What is not
// here is ENOPROTOOPT; a value that is out of its range is EINVAL.
#include <corewire/net/posix/kept_options.hh>
#include <corewire/net/posix/linux_tcp_info.hh>
#include <corewire/net/posix/socket_names.hh>
#include <corewire/net/posix/stream_socket.hh>
#include <corewire/net/tcp/receive/timestamps.hh>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <netinet/in.h>
#include <optional>
#include <sys/time.h>

namespace corewire::posix {

namespace {

constexpr int so_max_pacing_rate = 47;
constexpr int so_zerocopy = 60;
constexpr int so_timestamping_new = 65;
constexpr int tcp_is_mptcp = 43, tcp_rto_max_ms = 44, tcp_rto_min_us = 45, tcp_delack_max_us = 46; ///< newer than many a header
constexpr int so_memory = 55, so_napi_id = 56, so_cookie = 57, so_transmit_time = 61, so_interface = 62;
constexpr int so_polling_budget = 70, so_reserved = 73;
constexpr int least_tick_us = 4001; ///< Linux's least time is two ticks, of 4 ms here, and is rounded up to them
constexpr std::uint32_t least_receive_buffer = 2304; ///< SOCK_MIN_RCVBUF
constexpr std::uint32_t least_send_buffer = 4608;    ///< SOCK_MIN_SNDBUF
constexpr std::uint32_t largest_buffer = 1u << 30;

std::optional<int> int_of(const void* value, socklen_t size) noexcept {
    if (value == nullptr || size < sizeof(int)) return std::nullopt;
    int n;
    std::memcpy(&n, value, sizeof n);
    return n;
}

/// Hands out what fits, as Linux does.
outcome give(const void* from, std::size_t have, void* value, socklen_t* size) noexcept {
    if (size == nullptr || (value == nullptr && *size != 0)) return -EFAULT;
    if (static_cast<std::int32_t>(*size) < 0) return -EINVAL;
    const auto n = static_cast<socklen_t>(std::min<std::size_t>(have, *size));
    std::memcpy(value, from, n);
    *size = n;
    return 0;
}

outcome give_int(int n, void* value, socklen_t* size) noexcept { return give(&n, sizeof n, value, size); }

/// FreeBSD's SO_RCVBUF and SO_SNDBUF: as they are asked for, within kern.ipc.maxsockbuf less what keeping the bytes costs.
outcome take_size(int asked, std::uint32_t& into) noexcept {
    constexpr int most = 1'864'135;
    if (asked < 1) return -EINVAL;
    if (asked > most) return -ENOBUFS;
    into = static_cast<std::uint32_t>(asked);
    return 0;
}

/// FreeBSD tells a flag by the bit that it keeps it in.
int freebsd_flag(int name) noexcept {
    switch (name) {
    case SO_ACCEPTCONN: return 0x2;
    case SO_REUSEADDR: return 0x4;
    case SO_KEEPALIVE: return 0x8;
    case SO_DONTROUTE: return 0x10;
    case SO_BROADCAST: return 0x20;
    case SO_LINGER: return 0x80;
    case SO_OOBINLINE: return 0x100;
    case SO_REUSEPORT: return 0x200;
    default: return 1;
    }
}

std::uint32_t doubled(int asked, std::uint32_t least) noexcept {
    const auto n = static_cast<std::uint32_t>(std::clamp(asked, 0, static_cast<int>(largest_buffer / 2)));
    return std::max(2 * n, least);
}

/// As an unsigned number, which a negative one is a large one of (socket(7)).
int within(int asked, std::uint32_t cap) noexcept {
    return static_cast<int>(std::min({static_cast<std::uint32_t>(asked), cap, std::uint32_t{INT32_MAX}}));
}

/// A time of 0 is for ever (socket(7), SO_RCVTIMEO).
outcome take_time(const void* value, socklen_t size, duration& into) noexcept {
    timeval t;
    if (size < sizeof t) return -EINVAL;
    std::memcpy(&t, value, sizeof t);
    if (t.tv_usec < 0 || t.tv_usec >= 1'000'000) return -EDOM;
    into = std::chrono::seconds{std::max<std::int64_t>(t.tv_sec, 0)} + std::chrono::microseconds{t.tv_usec};
    return 0;
}

outcome give_time(duration d, void* value, socklen_t* size) noexcept {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(d).count();
    const timeval t{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
    return give(&t, sizeof t, value, size);
}

/// TCP_DEFER_ACCEPT counts in time-outs of a SYN-ACK, which double: 1, 3, 7, 15... seconds. The least that is enough.
int whole_time_outs(int seconds) noexcept {
    int sum = 0;
    for (int step = 1, n = 0; sum < seconds && n < 255; step = std::min(2 * step, 120), ++n) sum += step;
    return sum;
}

bool in_range(int n, int least, int most) noexcept { return n >= least && n <= most; }

} // namespace

outcome stream_socket::set_option(int level, int name, const void* value, socklen_t size) {
    outcome r = -ENOPROTOOPT;
    if (static_cast<std::int32_t>(size) < 0) return -EINVAL;
    if (value == nullptr && size != 0) {
        static constexpr int zero = 0;
        if (r = settings_.like_freebsd ? -EFAULT : set_to_null(family_, level, name, size); r != 0) return r;
        return set_option(level, name, &zero, std::min<socklen_t>(size, sizeof zero));
    }
    if (level == SOL_SOCKET) r = set_socket_option(name, value, size);
    if (level == IPPROTO_TCP) r = set_tcp_option(name, value, size);
    if (is_kept(level, name) && (level != IPPROTO_IPV6 || family_ == AF_INET6)) {
        const bool byte = level == IPPROTO_IP && size >= 1 && size < sizeof(int);
        const std::optional<int> n = byte ? int{*static_cast<const unsigned char*>(value)} : int_of(value, size);
        if (!n || !may_be_kept(level, name, *n)) return -EINVAL;
        kept_[{level, name}] = is_kept_number(level, name) ? *n : *n != 0;
        return 0;
    }
    if (level == IPPROTO_IP) r = set_ip_option(name, value, size);
    if (level == IPPROTO_IPV6 && family_ == AF_INET6) r = set_ipv6_option(name, value, size);
    if (r == 0) apply_settings();
    return r;
}

outcome stream_socket::set_socket_option(int name, const void* value, socklen_t size) {
    stream_settings& s = settings_;
    if (name == SO_RCVTIMEO) return take_time(value, size, s.receive_timeout);
    if (name == SO_SNDTIMEO) return take_time(value, size, s.send_timeout);
    if (name == SO_LINGER) {
        struct linger l;
        if (size < sizeof l) return -EINVAL;
        std::memcpy(&l, value, sizeof l);
        s.linger = l.l_onoff != 0;
        s.linger_time = std::max(l.l_linger, 0);
        return 0;
    }
    if (name == SO_BINDTODEVICE) return size == 0 || *static_cast<const char*>(value) == '\0' ? 0 : -ENODEV;
    if (name == so_max_pacing_rate && size == sizeof(std::uint64_t)) {
        std::memcpy(&s.pacing_rate, value, sizeof s.pacing_rate);
        return 0;
    }
    const std::optional<int> n = int_of(value, size);
    if (!n) return -EINVAL;
    switch (name) {
    case SO_REUSEADDR: s.reuse_address = *n != 0; return 0;
    case SO_REUSEPORT: s.reuse_port = *n != 0; return 0;
    case SO_KEEPALIVE: s.keepalive = *n != 0; return 0;
    case SO_OOBINLINE: s.inline_urgent = *n != 0; return 0;
    case SO_RCVBUF:
    case SO_RCVBUFFORCE:
        if (s.like_freebsd) {
            const outcome r = take_size(*n, s.receive_buffer);
            s.receive_buffer_set = s.receive_buffer_set || r == 0;
            return r;
        }
        s.receive_buffer = doubled(name == SO_RCVBUF ? within(*n, s.receive_buffer_cap) : *n, least_receive_buffer);
        s.receive_buffer_set = true;
        return 0;
    case SO_SNDBUF:
    case SO_SNDBUFFORCE:
        if (s.like_freebsd) {
            const outcome r = take_size(*n, s.send_buffer);
            s.send_buffer_set = s.send_buffer_set || r == 0;
            return r;
        }
        s.send_buffer = doubled(name == SO_SNDBUF ? within(*n, s.send_buffer_cap) : *n, least_send_buffer);
        s.send_buffer_set = true;
        return 0;
    case SO_RCVLOWAT: set_low_water(*n); return 0;
    case SO_PRIORITY: s.priority = *n; return 0;
    case SO_PEEK_OFF: s.peek_offset = *n; return 0;
    case SO_PASSCRED: // of AF_UNIX
    case so_reserved: return -EOPNOTSUPP;
    case so_polling_budget: return in_range(*n, 0, 65'535) ? 0 : -EINVAL;
    case so_transmit_time: return -EINVAL;
    case SO_ATTACH_FILTER: return size == sizeof(int) ? -EINVAL : -ENOPROTOOPT;
    case SO_TIMESTAMPING:
    case so_timestamping_new: return set_timestamping(*n);
    case SO_TIMESTAMP:
    case SO_TIMESTAMPNS: s.receive_stamps = *n != 0 ? name : 0; return 0;
    case so_max_pacing_rate: s.pacing_rate = *n == -1 ? ~std::uint64_t{0} : static_cast<std::uint32_t>(*n); return 0;
    case so_zerocopy:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        s.zero_copy = *n != 0;
        return 0;
    default: return -ENOPROTOOPT;
    }
}

outcome stream_socket::set_tcp_option(int name, const void* value, socklen_t size) {
    stream_settings& s = settings_;
    if (name == TCP_CONGESTION) {
        if (size < 1) return -EINVAL;
        const auto* text = static_cast<const char*>(value);
        const std::string wanted(text, ::strnlen(text, std::min<socklen_t>(size, 15)));
        if (wanted != "cubic" && wanted != "reno" && wanted != "dctcp" && wanted != "bbr") return -ENOENT;
        s.congestion = wanted;
        if (tcp_connection* const c = connection(); c != nullptr && c->tcb.congestion() != wanted) {
            c->tcb.set_congestion(s.congestion_controller());
            stack_.tcp().mark_dirty(*c);
        }
        return 0;
    }
    if (s.like_freebsd && connection() != nullptr && connection()->tcb.state() == tcp::tcp_state::closed) return -ECONNRESET;
    if (name == TCP_FASTOPEN_KEY) return set_fast_open_key(value, size);
    if (name == TCP_ULP) return size < 1 ? -EINVAL : -ENOENT; // there is none
    const std::optional<int> n = int_of(value, size);
    if (!n) return -EINVAL;
    switch (name) {
    case TCP_NODELAY:
        s.no_delay = *n != 0;
        if (tcp_connection* const c = connection(); c != nullptr && s.no_delay && held_) { // pushes what there is past a cork, too
            c->tcb.set_cork(false);
            uncorked_ = true;
        }
        return 0;
    case TCP_CORK:
        s.cork = held_ = *n != 0;
        if (tcp_connection* const c = connection(); c != nullptr) {
            c->tcb.set_cork(s.cork);
            stack_.tcp().mark_dirty(*c);
        }
        return 0;
    case TCP_MAXSEG:
        if (*n != 0 && !in_range(*n, 88, 32'767)) return -EINVAL;
        s.max_segment = static_cast<std::uint32_t>(*n);
        return 0;
    case TCP_KEEPIDLE:
        if (!in_range(*n, 1, 32'767)) return -EINVAL;
        s.keepalive_idle = *n;
        return 0;
    case TCP_KEEPINTVL:
        if (!in_range(*n, 1, 32'767)) return -EINVAL;
        s.keepalive_interval = *n;
        return 0;
    case TCP_KEEPCNT:
        if (!in_range(*n, 1, 127)) return -EINVAL;
        s.keepalive_probes = *n;
        return 0;
    case TCP_SYNCNT:
        if (!in_range(*n, 1, 127)) return -EINVAL;
        s.syn_count = *n;
        return 0;
    case TCP_LINGER2: s.fin_wait_2 = *n < 0 ? -1 : *n == 0 ? 60 : std::min(*n, 120); return 0;
    case TCP_DEFER_ACCEPT: s.defer_accept = whole_time_outs(*n); return 0;
    case TCP_WINDOW_CLAMP:
        if (*n == 0 && connection_ != nullptr) return -EINVAL;
        s.window_clamp = *n == 0 ? 0 : std::max(static_cast<std::uint32_t>(*n), least_receive_buffer / 2); // as Linux
        return 0;
    case TCP_USER_TIMEOUT:
        if (*n < 0) return -EINVAL;
        s.user_timeout = static_cast<std::uint32_t>(*n);
        return 0;
    case TCP_QUICKACK:
        if (tcp_connection* const c = connection(); c != nullptr) c->tcb.set_quick_acks(*n != 0, *n % 2 == 0), stack_.tcp().mark_dirty(*c);
        return 0;
    case TCP_NOTSENT_LOWAT: s.own_unsent_low_water = static_cast<std::uint32_t>(*n); return 0;
    case TCP_FASTOPEN:
        if (*n < 0 || connection_ != nullptr) return -EINVAL;
        s.fast_open = *n;
        if (listener_ != nullptr) listener_->set_fast_open(s.early_limit(listener_->options().backlog), s.fast_open_without_cookie);
        return 0;
    case TCP_FASTOPEN_CONNECT:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        if (!s.may_open_fast()) return -EOPNOTSUPP;
        if (connection_ != nullptr || listener_ != nullptr) return -EINVAL;
        s.fast_open_connect = *n != 0;
        return 0;
    case TCP_FASTOPEN_NO_COOKIE:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        if (connection_ != nullptr || listener_ != nullptr) return -EINVAL;
        s.fast_open_without_cookie = *n != 0;
        return 0;
    case TCP_INQ:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        s.inquire = *n != 0;
        return 0;
    case TCP_THIN_LINEAR_TIMEOUTS:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        s.thin_linear_timeouts = *n != 0;
        if (connection() != nullptr) connection()->tcb.set_thin_linear_timeouts(s.thin_linear_timeouts);
        return 0;
    case TCP_THIN_DUPACK: return in_range(*n, 0, 1) ? 0 : -EINVAL;
    case tcp_rto_max_ms:
        if (!in_range(*n, 1000, 120'000)) return -EINVAL;
        s.rto_max_ms = *n;
        return 0;
    case tcp_rto_min_us:
        if (!in_range(*n, least_tick_us, 200'000)) return -EINVAL;
        s.rto_min_us = *n;
        return 0;
    case tcp_delack_max_us:
        if (!in_range(*n, least_tick_us, 200'000)) return -EINVAL;
        s.delayed_ack_most_us = *n;
        return 0;
    case TCP_SAVE_SYN:
        if (!in_range(*n, 0, 2)) return -EINVAL;
        s.save_syn = *n;
        return 0;
    case TCP_MD5SIG: return size == sizeof(int) ? -EINVAL : -ENOPROTOOPT;
    case TCP_REPAIR:
    case TCP_TIMESTAMP: return -EPERM; // but while repairing, which there is none of here
    default: return -ENOPROTOOPT;
    }
}

/// 16 bytes, or 32: the key and the one before it, which is still good. The listener's own.
outcome stream_socket::set_fast_open_key(const void* value, socklen_t size) {
    if (size != 16 && size != 32) return -EINVAL;
    const auto* at = static_cast<const std::byte*>(value);
    tcp::fast_open_keys keys;
    keys.current = tcp::fast_open_keys::key_of(std::span<const std::byte, 16>(at, 16));
    if (size == 32) keys.older = tcp::fast_open_keys::key_of(std::span<const std::byte, 16>(at + 16, 16));
    own_keys_ = keys;
    if (listener_ != nullptr) listener_->set_fast_open_keys(keys);
    return 0;
}

outcome stream_socket::get_fast_open_key(void* value, socklen_t* size) const {
    std::array<std::byte, 32> bytes{}; // net.ipv4.tcp_fastopen_key tells of the host's
    if (own_keys_) tcp::fast_open_keys::bytes_of(own_keys_->current, std::span<std::byte, 16>(bytes.data(), 16));
    if (own_keys_ && own_keys_->older) tcp::fast_open_keys::bytes_of(*own_keys_->older, std::span<std::byte, 16>(bytes.data() + 16, 16));
    return give(bytes.data(), !own_keys_ ? 0 : own_keys_->older ? 32 : 16, value, size);
}

outcome stream_socket::set_ip_option(int name, const void* value, socklen_t size) {
    int n = 0;
    if (size >= sizeof(int)) {
        n = *int_of(value, size);
    } else if (size >= 1) {
        n = *static_cast<const unsigned char*>(value);
    } else {
        return -EINVAL;
    }
    switch (name) {
    case IP_OPTIONS: return -EINVAL; // none are ever sent
    case IP_TOS: settings_.type_of_service = n & 0xfc; return 0; // ECN's bits are the connection's
    case IP_TTL:
        if (n != -1 && !in_range(n, 1, 255)) return -EINVAL;
        settings_.time_to_live = n;
        return 0;
    case IP_MTU_DISCOVER:
        if (!in_range(n, 0, 5)) return -EINVAL;
        settings_.path_mtu_discovery = n;
        return 0;
    case IP_RECVERR: settings_.receive_errors = n != 0; return 0;
    default: return -ENOPROTOOPT;
    }
}

/// ipv6(7), RFC 3493, RFC 3542.
outcome stream_socket::set_ipv6_option(int name, const void* value, socklen_t size) {
    const std::optional<int> n = int_of(value, size);
    if (!n) return -EINVAL;
    switch (name) {
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
    case IPV6_MTU_DISCOVER:
        if (!in_range(*n, 0, 5)) return -EINVAL;
        settings_.path_mtu_discovery6 = *n;
        return 0;
    case IPV6_RECVERR: settings_.receive_errors6 = *n != 0; return 0;
    default: return -ENOPROTOOPT;
    }
}

std::uint32_t stream_socket::path_mtu(const tcp_connection& c) const {
    const std::uint32_t longer = c.six == nullptr ? 0 : 20; // than the 40 bytes of IPv4's and TCP's headers
    if (!c.tcb.options().like_linux()) return c.tcb.packet_size() + longer;
    return std::min(host_times().mss + 40 + longer, stack_.ip().path_mtu_to(stack_.tcp().now(), c.name().remote));
}

outcome stream_socket::give_path_mtu(void* value, socklen_t* size) const {
    const tcp_connection* const c = connection();
    if (c == nullptr) return -ENOTCONN;
    return give_int(static_cast<int>(path_mtu(*c)), value, size);
}

outcome stream_socket::get_ip_option(int name, void* value, socklen_t* size) const {
    const stream_settings& s = settings_;
    switch (name) {
    case IP_OPTIONS: return give("", 0, value, size);
    case IP_TOS: return give_int(s.type_of_service, value, size);
    case IP_TTL: return give_int(s.time_to_live_or_host(), value, size);
    case IP_MTU_DISCOVER: return give_int(s.path_mtu_discovery, value, size);
    case IP_RECVERR: return give_int(s.receive_errors, value, size);
    case IP_MTU: return give_path_mtu(value, size);
    default: return -ENOPROTOOPT;
    }
}

outcome stream_socket::get_ipv6_option(int name, void* value, socklen_t* size) const {
    const stream_settings& s = settings_;
    switch (name) {
    case IPV6_V6ONLY: return give_int(s.ipv6_only, value, size);
    case IPV6_TCLASS: return give_int(s.traffic_class, value, size);
    case IPV6_UNICAST_HOPS: return give_int(s.hop_limit == -1 ? 64 : s.hop_limit, value, size);
    case IPV6_MTU_DISCOVER: return give_int(s.path_mtu_discovery6, value, size);
    case IPV6_RECVERR: return give_int(s.receive_errors6, value, size);
    case IPV6_MTU: return give_path_mtu(value, size);
    default: return -ENOPROTOOPT;
    }
}

/// Half of the buffer at most, which grows for it unless SO_RCVBUF was set, as Linux has it (tcp_set_rcvlowat()).
void stream_socket::set_low_water(int bytes) {
    stream_settings& s = settings_;
    if (s.like_freebsd) {
        s.receive_low_water = static_cast<std::uint32_t>(bytes < 0 ? INT32_MAX : std::max(bytes, 1));
        return;
    }
    const std::uint32_t most = (s.receive_buffer_set ? s.receive_buffer : std::max(s.receive_buffer, s.receive_buffer_most)) / 2;
    const std::uint32_t wanted = bytes < 0 ? most : std::min(static_cast<std::uint32_t>(bytes), most);
    s.receive_low_water = std::max(wanted, 1u);
    const bool grows = !s.receive_buffer_set && 2 * wanted > grown(s.receive_buffer, &tcp::connection_info::receive_buffer);
    if (grows) s.receive_buffer = 2 * wanted;
}

/// TCP_SAVED_SYN: told once, and whole or not at all.
outcome stream_socket::give_saved_syn(void* value, socklen_t* size) {
    if (*size < saved_syn_.size()) {
        *size = static_cast<socklen_t>(saved_syn_.size());
        return -EINVAL;
    }
    if (saved_syn_.empty()) return give("", 0, value, size);
    const outcome r = give(saved_syn_.data(), saved_syn_.size(), value, size);
    if (r == 0) saved_syn_ = {};
    return r;
}

/// SO_COOKIE: one of its own for every socket, for good.
outcome stream_socket::give_cookie(void* value, socklen_t* size) {
    static std::atomic<std::uint64_t> last{0};
    if (*size < sizeof cookie_) return -EINVAL;
    if (cookie_ == 0) cookie_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return give(&cookie_, sizeof cookie_, value, size);
}

outcome stream_socket::get_option(int level, int name, void* value, socklen_t* size) {
    const stream_settings& s = settings_;
    if (size == nullptr) return -EFAULT;
    if (level == IPPROTO_TCP) return get_tcp_option(name, value, size);
    if (is_kept(level, name) && (level != IPPROTO_IPV6 || family_ == AF_INET6)) {
        const auto found = kept_.find({level, name});
        return give_int(found == kept_.end() ? first_of_kept(level, name) : found->second, value, size);
    }
    if (level == IPPROTO_IP) return get_ip_option(name, value, size);
    if (level == IPPROTO_IPV6 && family_ == AF_INET6) return get_ipv6_option(name, value, size);
    if (level != SOL_SOCKET) return family_ == AF_INET && !s.like_freebsd ? -EOPNOTSUPP : -ENOPROTOOPT;
    const auto give_flag = [&](bool on) { return give_int(!on ? 0 : s.like_freebsd ? freebsd_flag(name) : 1, value, size); };
    switch (name) {
    case SO_ERROR: {
        std::errc why = take_error();
        // Else what ICMP said, and the connection has outlived so far (RFC 9293 MUST-56). FreeBSD does not tell.
        const bool tells = why == std::errc{} && !s.like_freebsd;
        if (tcp_connection* const c = connection(); tells && c != nullptr && c->tcb.error() == std::errc{}) {
            why = c->tcb.take_soft_error();
        }
        return give_int(static_cast<int>(why), value, size);
    }
    case SO_PASSCRED: return -EOPNOTSUPP;
    case so_napi_id:
    case so_reserved:
    case so_transmit_time: return give_int(0, value, size);
    case SO_ATTACH_FILTER: return give("", 0, value, size); // SO_GET_FILTER: none
    case SO_BINDTODEVICE: return kept_.contains({SOL_SOCKET, so_interface}) ? -EINVAL : give("", 0, value, size);
    case so_cookie: return give_cookie(value, size);
    case so_memory: {
        const std::array<std::uint32_t, 9> told{0, grown(s.receive_buffer, &tcp::connection_info::receive_buffer), 0, send_buffer()};
        return give(told.data(), sizeof told, value, size);
    }
    case SO_PEERNAME: {
        socket_address peer;
        if (const outcome r = peer_address(peer); r < 0) return r;
        if (value == nullptr && *size != 0) return -EFAULT;
        write_name(peer, family_, static_cast<sockaddr*>(value), size);
        return 0;
    }
    case SO_SNDLOWAT: return give_int(s.like_freebsd ? 2048 : 1, value, size);
    case SO_TYPE: return give_int(SOCK_STREAM, value, size);
    case SO_PROTOCOL: return give_int(IPPROTO_TCP, value, size);
    case SO_DOMAIN: return give_int(family_, value, size);
    case SO_ACCEPTCONN: return give_flag(listener_ != nullptr);
    case SO_REUSEADDR: return give_flag(s.reuse_address);
    case SO_REUSEPORT: return give_flag(s.reuse_port);
    case SO_KEEPALIVE: return give_flag(s.keepalive);
    case SO_OOBINLINE: return give_flag(s.inline_urgent);
    case SO_RCVBUF: return give_int(static_cast<int>(grown(s.receive_buffer, &tcp::connection_info::receive_buffer)), value, size);
    case SO_SNDBUF: return give_int(static_cast<int>(send_buffer()), value, size);
    case SO_RCVLOWAT: return give_int(static_cast<int>(s.receive_low_water), value, size);
    case SO_PRIORITY: return give_int(s.priority, value, size);
    case SO_PEEK_OFF: return give_int(s.peek_offset, value, size);
    case SO_TIMESTAMPING:
    case so_timestamping_new: return give_int(static_cast<int>(s.timestamping), value, size);
    case SO_TIMESTAMP:
    case SO_TIMESTAMPNS: return give_int(s.receive_stamps == name, value, size);
    case SO_RCVTIMEO: return give_time(s.receive_timeout, value, size);
    case SO_SNDTIMEO: return give_time(s.send_timeout, value, size);
    case so_zerocopy: return give_int(s.zero_copy, value, size);
    case so_max_pacing_rate:
        if (*size >= sizeof s.pacing_rate) return give(&s.pacing_rate, sizeof s.pacing_rate, value, size);
        return give_int(static_cast<int>(std::min<std::uint64_t>(s.pacing_rate, UINT32_MAX)), value, size);
    case SO_LINGER: {
        const int on = s.like_freebsd ? freebsd_flag(name) : 1;
        const struct linger l{.l_onoff = s.linger ? on : 0, .l_linger = s.linger_time};
        return give(&l, sizeof l, value, size);
    }
    default: return -ENOPROTOOPT;
    }
}

outcome stream_socket::get_tcp_option(int name, void* value, socklen_t* size) {
    const stream_settings& s = settings_;
    const tcp_connection* const c = connection();
    if (s.like_freebsd && c != nullptr && c->tcb.state() == tcp::tcp_state::closed) return -ECONNRESET;
    switch (name) {
    case TCP_NODELAY: return give_int(!s.no_delay ? 0 : s.like_freebsd ? 4 : 1, value, size); // FreeBSD's TF_NODELAY
    case TCP_CORK: return give_int(s.cork, value, size);
    case TCP_MAXSEG:
        if (s.like_freebsd && c != nullptr && !in_handshake()) return give_int(static_cast<int>(c->tcb.packet_size() - 40), value, size);
        if (c != nullptr && !in_handshake()) return give_int(static_cast<int>(c->tcb.segment_payload()), value, size);
        return give_int(s.max_segment != 0 ? static_cast<int>(s.max_segment) : 536, value, size);
    case TCP_KEEPIDLE: return give_int(s.keepalive_idle, value, size);
    case TCP_KEEPINTVL: return give_int(s.keepalive_interval, value, size);
    case TCP_KEEPCNT: return give_int(s.keepalive_probes, value, size);
    case TCP_SYNCNT: return give_int(s.syn_count != 0 ? s.syn_count : 6, value, size);
    case TCP_LINGER2: return give_int(s.fin_wait_2, value, size);
    case TCP_DEFER_ACCEPT: return give_int(s.defer_accept, value, size);
    case TCP_WINDOW_CLAMP: return give_int(static_cast<int>(s.window_clamp), value, size);
    case TCP_USER_TIMEOUT: return give_int(static_cast<int>(s.user_timeout), value, size);
    case TCP_QUICKACK: return give_int(c == nullptr || c->tcb.quick_acks(), value, size);
    case TCP_NOTSENT_LOWAT: return give_int(static_cast<int>(s.own_unsent_low_water), value, size);
    case TCP_FASTOPEN: return give_int(connection_ == nullptr ? s.fast_open : 0, value, size);
    case TCP_FASTOPEN_CONNECT: return give_int(s.fast_open_connect, value, size);
    case TCP_FASTOPEN_NO_COOKIE: return give_int(s.fast_open_without_cookie, value, size);
    case TCP_FASTOPEN_KEY: return get_fast_open_key(value, size);
    case TCP_INQ: return give_int(s.inquire, value, size);
    case TCP_SAVE_SYN: return give_int(s.save_syn, value, size);
    case TCP_SAVED_SYN: return give_saved_syn(value, size);
    case TCP_REPAIR: return give_int(0, value, size);
    case TCP_TIMESTAMP: { // what a segment sent now would say
        const std::uint32_t offset = c != nullptr ? c->tcb.options().timestamp_offset : 0;
        return give_int(static_cast<int>(tcp::timestamp_echo::clock(stack_.tcp().now(), offset)), value, size);
    }
    case tcp_rto_max_ms:
        if (s.rto_max_ms != 0) return give_int(s.rto_max_ms, value, size);
        return give_int(static_cast<int>(host_times().max_rto / std::chrono::milliseconds{1}), value, size);
    case tcp_rto_min_us:
        if (s.rto_min_us != 0) return give_int(s.rto_min_us, value, size);
        return give_int(static_cast<int>(host_times().min_rto / std::chrono::microseconds{1}), value, size);
    case tcp_delack_max_us: return give_int(s.delayed_ack_most_us != 0 ? s.delayed_ack_most_us : 200'000, value, size);
    case tcp_is_mptcp: return give_int(0, value, size);
    case TCP_ULP:
    case TCP_CC_INFO: return give("", 0, value, size); // as Linux's CUBIC and Reno: nothing
    case TCP_THIN_LINEAR_TIMEOUTS: return give_int(s.thin_linear_timeouts, value, size);
    case TCP_THIN_DUPACK: return give_int(0, value, size);
    case TCP_CONGESTION: {
        char text[16] = {};
        std::memcpy(text, s.congestion.data(), std::min<std::size_t>(s.congestion.size(), 15));
        return give(text, sizeof text, value, size);
    }
    case TCP_INFO: {
        linux_tcp_info_fields info{};
        if (c != nullptr) {
            info = linux_tcp_info(c->tcb, stack_.tcp().now(), c->six == nullptr ? 20 : 40, path_mtu(*c));
        } else if (listener_ != nullptr) {
            info = linux_unconnected_info(tcp::tcp_state::listen, static_cast<std::uint32_t>(listener_->ready() + parked_.size()),
                                          listener_->options().backlog - 1);
        } else {
            info = linux_unconnected_info(tcp::tcp_state::closed, 0, 0);
        }
        return give(&info, sizeof info, value, size);
    }
    default: return -ENOPROTOOPT;
    }
}

} // namespace corewire::posix
