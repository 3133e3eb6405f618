// stream_socket's options: SOL_SOCKET and IPPROTO_TCP as socket(7) and tcp(7) describe them. What is not here, nor in ip_options.cc and
// kept_options.cc, is ENOPROTOOPT; a value that is out of its range is EINVAL.
#include <corewire/net/posix/freebsd_options.hh>
#include <corewire/net/posix/freebsd_tcp_info.hh>
#include <corewire/net/posix/kept_options.hh>
#include <corewire/net/posix/linux_tcp_info.hh>
#include <corewire/net/posix/option_values.hh>
#include <corewire/net/posix/socket_names.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <span>
#include <netinet/in.h>
#include <optional>
#include <string_view>
#include <sys/time.h>

namespace corewire::posix {

namespace {

constexpr int so_advice = 53; ///< SO_CNX_ADVICE
constexpr int so_stamp_new = 63, so_precise_stamp_new = 64, so_receive_timeout_new = 66, so_send_timeout_new = 67;
constexpr int so_locked_buffers = 72, so_pass_pidfd = 76; ///< SO_BUF_LOCK, SO_PASSPIDFD
constexpr int so_max_pacing_rate = 47;
constexpr int so_zerocopy = 60;
constexpr int so_timestamping_new = 65;
// Newer than many a header.
constexpr int tcp_md5_extended = 32, tcp_zero_copy_receive = 35, tcp_transmit_delay = 37, tcp_is_mptcp = 43;
constexpr int tcp_rto_max_ms = 44, tcp_rto_min_us = 45, tcp_delack_max_us = 46;
constexpr int so_memory = 55, so_napi_id = 56, so_cookie = 57, so_transmit_time = 61, so_interface = 62;
constexpr int so_polling_budget = 70, so_reserved = 73;
constexpr int only_interface = 2;     ///< of packetdrill's tun0 in its namespace, behind `lo`
constexpr char only_interface_name[] = "tun0";
constexpr int tick_ms = 4;            ///< Linux's, at 250 Hz, which times are rounded up to
constexpr int least_tick_us = 4001;   ///< its least time is two of them
constexpr socklen_t name_size = 16;   ///< IFNAMSIZ
constexpr std::uint32_t least_receive_buffer = tcp_options_set::least_receive_buffer; ///< SOCK_MIN_RCVBUF
constexpr std::uint32_t least_send_buffer = tcp_options_set::least_send_buffer;       ///< SOCK_MIN_SNDBUF
constexpr std::uint32_t largest_buffer = 1u << 30;


std::uint32_t doubled(int asked, std::uint32_t least) noexcept {
    const auto n = static_cast<std::uint32_t>(std::clamp(asked, 0, static_cast<int>(largest_buffer / 2)));
    return std::max(2 * n, least);
}

/// As an unsigned number, which a negative one is a large one of (socket(7)).
int within(int asked, std::uint32_t cap) noexcept {
    return static_cast<int>(std::min({static_cast<std::uint32_t>(asked), cap, std::uint32_t{INT32_MAX}}));
}

/// A time of 0 is for ever (socket(7), SO_RCVTIMEO), and one below that does not wait on Linux (sock_set_timeout()).
outcome take_time(const void* value, socklen_t size, bool like_freebsd, std::chrono::microseconds& into) noexcept {
    constexpr std::int64_t tick = 1000 * tick_ms, most_seconds = std::numeric_limits<std::int64_t>::max() / 1'000'000 - 1;
    timeval t;
    if (size < sizeof t) return -EINVAL;
    std::memcpy(&t, value, sizeof t);
    if (t.tv_usec < 0 || t.tv_usec >= 1'000'000 || (like_freebsd && t.tv_sec < 0)) return -EDOM;
    const std::int64_t part = like_freebsd ? t.tv_usec : (t.tv_usec + tick - 1) / tick * tick;
    const bool for_ever = (t.tv_sec == 0 && t.tv_usec == 0) || t.tv_sec > most_seconds;
    if (t.tv_sec < 0) into = {};
    else if (for_ever) into = stream_settings::for_ever;
    else into = std::chrono::seconds{t.tv_sec} + std::chrono::microseconds{part};
    return 0;
}

outcome give_time(std::chrono::microseconds d, void* value, socklen_t* size) noexcept {
    const std::int64_t us = d == stream_settings::for_ever ? 0 : d.count();
    const timeval t{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
    return give(&t, sizeof t, value, size);
}

/// Below 0 it is practically for ever on Linux (sock_set_linger(): MAX_SCHEDULE_TIMEOUT / HZ), and EDOM on FreeBSD.
outcome take_linger(const void* value, socklen_t size, stream_settings& s) noexcept {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / (1000 / tick_ms);
    struct linger l;
    if (size < sizeof l) return -EINVAL;
    std::memcpy(&l, value, sizeof l);
    if (s.like_freebsd && !in_range(l.l_linger, 0, 65'535)) return -EDOM;
    s.linger = l.l_onoff != 0;
    if (s.linger || s.like_freebsd) s.linger_time = l.l_linger < 0 ? most : l.l_linger;
    return 0;
}

int in_ticks(int microseconds) noexcept {
    constexpr int tick = 1000 * tick_ms;
    return (microseconds + tick - 1) / tick * tick;
}

/// TCP_DEFER_ACCEPT counts in time-outs of a SYN-ACK, which double: 1, 3, 7, 15... seconds. The least that is enough.
int whole_time_outs(int seconds) noexcept {
    int sum = 0;
    for (int step = 1, n = 0; sum < seconds && n < 255; step = std::min(2 * step, 120), ++n) sum += step;
    return sum;
}

} // namespace

outcome stream_socket::set_option(int level, int name, const void* value, socklen_t size) {
    outcome r = -ENOPROTOOPT;
    if (static_cast<std::int32_t>(size) < 0) return -EINVAL;
    if (listener_ != nullptr) keep_inheritance();
    if (value == nullptr && size != 0) {
        static constexpr int zero = 0;
        if (r = settings_.like_freebsd ? -EFAULT : set_to_null(family_, level, name, size); r != 0) return r;
        return set_option(level, name, &zero, std::min<socklen_t>(size, sizeof zero));
    }
    if (level != SOL_SOCKET && freebsd_closed()) return -ECONNRESET;
    if (level == SOL_SOCKET) r = set_socket_option(name, value, size);
    if (level == IPPROTO_TCP) r = set_tcp_option(name, value, size);
    if (is_kept(level, name) && (level != IPPROTO_IPV6 || family_ == AF_INET6)) {
        const std::optional<int> n = kept_value(level, name, value, size);
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
    if (name == SO_RCVTIMEO || name == so_receive_timeout_new) return take_time(value, size, s.like_freebsd, s.receive_timeout);
    if (name == SO_SNDTIMEO || name == so_send_timeout_new) return take_time(value, size, s.like_freebsd, s.send_timeout);
    if (name == SO_LINGER) return take_linger(value, size, s);
    if (name == SO_BINDTODEVICE) {
        const auto* const text = static_cast<const char*>(value);
        const std::string_view wanted(text, ::strnlen(text, std::min<socklen_t>(size, name_size - 1)));
        if (!wanted.empty() && (wanted != only_interface_name || s.like_freebsd)) return -ENODEV;
        kept_[{SOL_SOCKET, so_interface}] = wanted.empty() ? 0 : only_interface;
        return 0;
    }
    if (name == so_max_pacing_rate && size >= sizeof(std::uint64_t)) {
        std::memcpy(&s.pacing_rate, value, sizeof s.pacing_rate);
        return 0;
    }
    const std::optional<int> n = int_of(value, size);
    if (!n) return -EINVAL;
    switch (name) {
    case SO_REUSEADDR:
        s.reuse_address = *n != 0;
        repair_.forces_reuse = false;
        return 0;
    case SO_REUSEPORT: s.reuse_port = *n != 0; return 0;
    case SO_KEEPALIVE: s.keepalive = *n != 0; return 0;
    case SO_OOBINLINE: s.inline_urgent = *n != 0; return 0;
    case SO_RCVBUF:
    case SO_RCVBUFFORCE:
        if (s.like_freebsd) {
            const outcome r = take_size(*n, s.receive_buffer);
            s.receive_buffer_set = s.receive_buffer_set || r == 0;
            s.receive_low_water = std::min(s.receive_low_water, s.receive_buffer);
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
            s.send_low_water = std::min(s.send_low_water, s.send_buffer);
            return r;
        }
        s.send_buffer = doubled(name == SO_SNDBUF ? within(*n, s.send_buffer_cap) : *n, least_send_buffer);
        s.send_buffer_set = true;
        tell_writers();
        return 0;
    case SO_SNDLOWAT: return s.like_freebsd ? take_low_water(*n, send_buffer(), s.send_low_water) : -ENOPROTOOPT;
    case SO_RCVLOWAT:
        if (s.like_freebsd) {
            const std::uint32_t buffer = grown(s.receive_buffer, &tcp::connection_info::receive_buffer);
            if (const outcome r = take_low_water(*n, buffer, s.receive_low_water); r != 0) return r;
        } else {
            set_low_water(*n);
        }
        if (const tcp_connection* const c = connection(); c != nullptr && c->tcb.readable() >= s.receive_low_water) ++notice_edges_;
        return 0;
    case SO_PRIORITY: s.priority = *n; return 0; // and see IP_TOS
    case SO_PEEK_OFF: s.peek_offset = *n; return 0;
    case SO_PASSCRED: // of AF_UNIX
    case SO_PASSSEC:
    case so_pass_pidfd:
    case so_reserved: return -EOPNOTSUPP;
    case so_advice: // to look for another route
    case SO_BSDCOMPAT: return 0;
    case SO_DETACH_FILTER: return -ENOENT;
    case so_locked_buffers: // SOCK_SNDBUF_LOCK, SOCK_RCVBUF_LOCK
        if (!in_range(*n, 0, 3)) return -EINVAL;
        s.send_buffer_set = (*n & 1) != 0;
        s.receive_buffer_set = (*n & 2) != 0;
        return 0;
    case so_polling_budget: return in_range(*n, 0, 65'535) ? 0 : -EINVAL;
    case so_transmit_time: {
        std::array<std::uint32_t, 2> asked; // struct sock_txtime: clock, flags
        if (size != sizeof asked) return -EINVAL;
        std::memcpy(asked.data(), value, size);
        if ((asked[1] & ~3u) != 0) return -EINVAL;
        s.transmit_time = asked;
        return 0;
    }
    case SO_ATTACH_FILTER: return size == sizeof(int) ? -EINVAL : -ENOPROTOOPT;
    case SO_TIMESTAMPING:
    case so_timestamping_new: return set_timestamping(*n);
    case SO_TIMESTAMP:
    case SO_TIMESTAMPNS:
    case so_stamp_new:
    case so_precise_stamp_new: s.receive_stamps = *n != 0 ? name : 0; return 0;
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
        std::string wanted(text, ::strnlen(text, std::min<socklen_t>(size, 15)));
        if (s.like_freebsd) wanted = wanted == "newreno" ? "reno" : wanted == "reno" || wanted == "bbr" ? "" : wanted;
        if (wanted != "cubic" && wanted != "reno" && wanted != "dctcp" && wanted != "bbr") return s.like_freebsd ? -ESRCH : -ENOENT;
        s.congestion = wanted;
        if (tcp_connection* const c = connection(); c != nullptr && c->tcb.congestion() != wanted) {
            c->tcb.set_congestion(s.congestion_controller());
            stack_.tcp().mark_dirty(*c);
        }
        return 0;
    }
    if (name == TCP_FASTOPEN_KEY) return set_fast_open_key(value, size);
    if (name == TCP_ULP) { // there is none; MPTCP's is not for the asking
        const bool multipath = size == 5 && std::memcmp(value, "mptcp", 5) == 0;
        return size < 1 ? -EINVAL : multipath ? -EOPNOTSUPP : -ENOENT;
    }
    if (is_of_repair(name) && !s.like_freebsd) return set_repair_option(name, value, size);
    const std::optional<int> n = int_of(value, size);
    if (!n) return -EINVAL;
    if (s.like_freebsd) {
        if (const std::optional<outcome> r = set_freebsd_option(name, *n)) return *r;
    }
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
    case TCP_LINGER2: s.fin_wait_2 = *n < 0 ? -1 : *n == 0 ? s.host_fin_wait_2 : std::min(*n, 120); return 0;
    case TCP_DEFER_ACCEPT:
        s.defer_accept = whole_time_outs(*n);
        if (connection() != nullptr && in_handshake()) connection()->tcb.expect_writer(awaits_writer());
        return 0;
    case TCP_WINDOW_CLAMP:
        if (*n == 0 && (listener_ != nullptr || !is_closed())) return -EINVAL;
        s.window_clamp = *n == 0 ? 0 : std::max(static_cast<std::uint32_t>(std::max(*n, 0)), least_receive_buffer / 2); // as Linux
        return 0;
    case TCP_USER_TIMEOUT:
        if (*n < 0) return -EINVAL;
        s.user_timeout = static_cast<std::uint32_t>(*n);
        return 0;
    case TCP_QUICKACK:
        s.interactive = *n == 0;
        if (tcp_connection* const c = connection(); c != nullptr) {
            if (in_handshake()) c->tcb.expect_writer(awaits_writer());
            c->tcb.set_quick_acks(*n != 0, *n % 2 == 0);
            stack_.tcp().mark_dirty(*c);
        }
        return 0;
    case TCP_NOTSENT_LOWAT:
        s.own_unsent_low_water = static_cast<std::uint32_t>(*n);
        tell_writers();
        return 0;
    case TCP_FASTOPEN:
        if (*n < 0 || (listener_ == nullptr && !is_closed())) return -EINVAL;
        s.fast_open = s.like_freebsd ? *n : std::min(*n, s.largest_backlog);
        if (listener_ != nullptr) listener_->set_fast_open(s.early_limit(listener_->options().backlog), s.fast_open_without_cookie);
        return 0;
    case TCP_FASTOPEN_CONNECT:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        if (!s.may_open_fast()) return -EOPNOTSUPP;
        if (!is_closed()) return -EINVAL;
        s.fast_open_connect = *n != 0;
        return 0;
    case TCP_FASTOPEN_NO_COOKIE:
        if (!in_range(*n, 0, 1)) return -EINVAL;
        if (listener_ == nullptr && !is_closed()) return -EINVAL;
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
        s.rto_max_ms = (*n + tick_ms - 1) / tick_ms * tick_ms;
        return 0;
    case tcp_rto_min_us:
        if (!in_range(*n, least_tick_us, 200'000)) return -EINVAL;
        s.rto_min_us = in_ticks(*n);
        return 0;
    case tcp_delack_max_us:
        if (!in_range(*n, least_tick_us, 200'000)) return -EINVAL;
        s.delayed_ack_most_us = in_ticks(*n);
        return 0;
    case TCP_SAVE_SYN:
        if (!in_range(*n, 0, 2)) return -EINVAL;
        s.save_syn = *n;
        return 0;
    case TCP_MD5SIG:
    case tcp_md5_extended: return size < sizeof(tcp_md5sig) ? -EINVAL : -ENOPROTOOPT; // there are no keys
    case tcp_transmit_delay: // no queue below us delays anything
        if (!in_range(*n, 0, (1 << 29) - 1)) return -EINVAL;
        s.transmit_delay = *n;
        return 0;
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

/// Half of the buffer at most, which grows for it unless SO_RCVBUF was set, as Linux has it (tcp_set_rcvlowat()).
void stream_socket::set_low_water(int bytes) {
    stream_settings& s = settings_;
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

/// SO_PEERNAME: as much of the name as is asked for, which is no more than there is; also before the handshake is done, and after the end.
outcome stream_socket::give_peer_name(void* value, socklen_t* size) const {
    if (connection_ == nullptr) return -ENOTCONN;
    const flow_name& flow = connection()->name();
    sockaddr_storage name;
    socklen_t whole = sizeof name;
    write_name(socket_address(flow.remote, flow.remote_port), family_, reinterpret_cast<sockaddr*>(&name), &whole);
    if (*size > whole) return -EINVAL;
    return give(&name, whole, value, size);
}

outcome stream_socket::get_option(int level, int name, void* value, socklen_t* size) {
    const stream_settings& s = settings_;
    if (size == nullptr) return -EFAULT;
    if (level != SOL_SOCKET && freebsd_closed()) return -ECONNRESET;
    if (level == IPPROTO_TCP) return get_tcp_option(name, value, size);
    if (is_kept(level, name) && (level != IPPROTO_IPV6 || family_ == AF_INET6)) {
        const auto found = kept_.find({level, name});
        const int n = found == kept_.end() ? first_of_kept(level, name) : found->second;
        return level == IPPROTO_IP ? give_ip(n, value, size) : give_int(n, value, size);
    }
    if (level == IPPROTO_IP) return get_ip_option(name, value, size);
    if (level == IPPROTO_IPV6 && family_ == AF_INET6) return get_ipv6_option(name, value, size);
    if (level != SOL_SOCKET) return family_ == AF_INET && !s.like_freebsd ? -EOPNOTSUPP : -ENOPROTOOPT;
    if (static_cast<std::int32_t>(*size) < 0) return -EINVAL;
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
    case SO_PASSCRED:
    case SO_PASSSEC:
    case so_pass_pidfd: return -EOPNOTSUPP;
    case SO_PEERCRED: { // nobody's
        constexpr std::array<std::int32_t, 3> nobody{0, -1, -1}; // struct ucred
        return give(nobody.data(), sizeof nobody, value, size);
    }
    case so_locked_buffers: return give_int((s.send_buffer_set ? 1 : 0) | (s.receive_buffer_set ? 2 : 0), value, size);
    case SO_BSDCOMPAT:
    case so_napi_id:
    case so_reserved: return give_int(0, value, size);
    case so_transmit_time: {
        const auto told = s.transmit_time.value_or(std::array<std::uint32_t, 2>{});
        return give(told.data(), sizeof told, value, size);
    }
    case SO_ATTACH_FILTER: return give("", 0, value, size); // SO_GET_FILTER: none
    case SO_BINDTODEVICE: { // one interface has a name, whatever number was kept
        const auto bound = kept_.find({SOL_SOCKET, so_interface});
        if (bound == kept_.end() || bound->second == 0) return give("", 0, value, size);
        if (*size < name_size) return -EINVAL;
        return bound->second == only_interface ? give(only_interface_name, sizeof only_interface_name, value, size) : -ENODEV;
    }
    case so_cookie: return give_cookie(value, size);
    case so_memory: { // what has left is a device's no more, and what memory is set aside is the kernel's to know (sk_get_meminfo())
        const std::uint32_t held = connection() != nullptr && !s.like_freebsd ? connection()->tcb.held_memory() : 0;
        const std::uint32_t room = grown(s.receive_buffer, &tcp::connection_info::receive_buffer);
        const std::array<std::uint32_t, 9> told{held, room, 0, send_buffer(), 0, send_memory()};
        return give(told.data(), sizeof told, value, size);
    }
    case SO_PEERNAME: return give_peer_name(value, size);
    case SO_SNDLOWAT: return give_int(static_cast<int>(s.send_low_water), value, size);
    case SO_TYPE: return give_int(SOCK_STREAM, value, size);
    case SO_PROTOCOL: return give_int(IPPROTO_TCP, value, size);
    case SO_DOMAIN: return give_int(family_, value, size);
    case SO_ACCEPTCONN: return give_flag(listener_ != nullptr);
    case SO_REUSEADDR: return repair_.forces_reuse ? give_int(2, value, size) : give_flag(s.reuse_address);
    case SO_REUSEPORT: return give_flag(s.reuse_port);
    case SO_KEEPALIVE: return give_flag(s.keepalive);
    case SO_OOBINLINE: return give_flag(s.inline_urgent);
    case SO_RCVBUF: return give_int(static_cast<int>(grown(s.receive_buffer, &tcp::connection_info::receive_buffer)), value, size);
    case SO_SNDBUF: return give_int(static_cast<int>(send_buffer()), value, size);
    case SO_RCVLOWAT: return give_int(static_cast<int>(s.receive_low_water), value, size);
    case SO_PRIORITY: return give_int(s.priority, value, size);
    case SO_PEEK_OFF: return give_int(s.peek_offset, value, size);
    case SO_TIMESTAMPING:
    case so_timestamping_new: {
        const std::array<std::uint32_t, 2> told{s.timestamping, 0}; // struct so_timestamping; no clock of a device is bound
        return give(told.data(), s.like_freebsd ? sizeof(int) : sizeof told, value, size);
    }
    case SO_TIMESTAMP:
    case SO_TIMESTAMPNS:
    case so_stamp_new:
    case so_precise_stamp_new: return give_int(s.receive_stamps == name, value, size);
    case SO_RCVTIMEO:
    case so_receive_timeout_new: return give_time(s.receive_timeout, value, size);
    case SO_SNDTIMEO:
    case so_send_timeout_new: return give_time(s.send_timeout, value, size);
    case so_zerocopy: return give_int(s.zero_copy, value, size);
    case so_max_pacing_rate:
        if (*size >= sizeof s.pacing_rate) return give(&s.pacing_rate, sizeof s.pacing_rate, value, size);
        return give_int(static_cast<int>(std::min<std::uint64_t>(s.pacing_rate, UINT32_MAX)), value, size);
    case SO_LINGER: {
        const int on = s.like_freebsd ? freebsd_flag(name) : 1;
        const struct linger l{.l_onoff = s.linger ? on : 0, .l_linger = static_cast<int>(s.linger_time)};
        return give(&l, sizeof l, value, size);
    }
    default: return -ENOPROTOOPT;
    }
}

outcome stream_socket::get_tcp_option(int name, void* value, socklen_t* size) {
    const stream_settings& s = settings_;
    const tcp_connection* const c = connection();
    if (is_of_repair(name) && !s.like_freebsd) return get_repair_option(name, value, size);
    switch (name) {
    case TCP_NODELAY: return give_int(!s.no_delay ? 0 : s.like_freebsd ? 4 : 1, value, size); // FreeBSD's TF_NODELAY
    case TCP_CORK: return give_int(s.cork, value, size);
    case TCP_MAXSEG:
        if (s.like_freebsd) return give_int(freebsd_segment(), value, size);
        return give_int(static_cast<int>(told_segment()), value, size);
    case TCP_KEEPIDLE: return give_int(s.keepalive_idle, value, size);
    case TCP_KEEPINTVL: return give_int(s.keepalive_interval, value, size);
    case TCP_KEEPCNT: return give_int(s.keepalive_probes, value, size);
    case TCP_SYNCNT: return give_int(s.syn_count != 0 ? s.syn_count : host_times().syn_retries, value, size);
    case TCP_LINGER2: return give_int(s.fin_wait_2, value, size);
    case TCP_DEFER_ACCEPT: return give_int(s.defer_accept, value, size);
    case TCP_WINDOW_CLAMP: {
        const bool own = s.window_clamp == 0 && c != nullptr && c->tcb.options().like_linux();
        return give_int(static_cast<int>(own ? c->tcb.window_clamp() : s.window_clamp), value, size);
    }
    case TCP_USER_TIMEOUT: return give_int(static_cast<int>(s.user_timeout), value, size);
    case TCP_QUICKACK: return give_int(c == nullptr || in_handshake() ? !s.interactive : c->tcb.quick_acks(), value, size);
    case TCP_NOTSENT_LOWAT: return give_int(static_cast<int>(s.own_unsent_low_water), value, size);
    case TCP_FASTOPEN: return give_int(s.fast_open, value, size);
    case TCP_FASTOPEN_CONNECT: return give_int(s.fast_open_connect, value, size);
    case TCP_FASTOPEN_NO_COOKIE: return give_int(s.fast_open_without_cookie, value, size);
    case TCP_FASTOPEN_KEY: return get_fast_open_key(value, size);
    case TCP_INQ: return give_int(s.inquire, value, size);
    case TCP_SAVE_SYN: return give_int(s.save_syn, value, size);
    case TCP_SAVED_SYN: return give_saved_syn(value, size);
    case tcp_transmit_delay: return give_int(s.transmit_delay, value, size);
    case tcp_rto_max_ms:
        if (s.rto_max_ms != 0) return give_int(s.rto_max_ms, value, size);
        return give_int(static_cast<int>(host_times().max_rto / std::chrono::milliseconds{1}), value, size);
    case tcp_rto_min_us:
        if (s.rto_min_us != 0) return give_int(s.rto_min_us, value, size);
        return give_int(static_cast<int>(host_times().min_rto / std::chrono::microseconds{1}), value, size);
    case tcp_delack_max_us: return give_int(s.delayed_ack_most_us != 0 ? s.delayed_ack_most_us : 200'000, value, size);
    case tcp_is_mptcp: return give_int(0, value, size);
    case TCP_ULP: return give("", 0, value, size);
    case TCP_CC_INFO: { // as Linux's CUBIC and Reno: nothing
        if (s.congestion == "dctcp") {
            const linux_dctcp_info told = linux_dctcp_info_of(c != nullptr ? &c->tcb : nullptr);
            return give(&told, sizeof told, value, size);
        }
        if (s.congestion != "bbr") return give("", 0, value, size);
        const linux_bbr_info told = c == nullptr ? linux_bbr_info{} : linux_bbr_info_of(c->tcb.believed_path());
        return give(&told, sizeof told, value, size);
    }
    case tcp_zero_copy_receive: return s.like_freebsd ? -ENOPROTOOPT : receive_without_copy(value, size);
    case TCP_THIN_LINEAR_TIMEOUTS: return give_int(s.thin_linear_timeouts, value, size);
    case TCP_THIN_DUPACK: return give_int(0, value, size);
    case TCP_CONGESTION: {
        char text[16] = {};
        const std::string known = s.like_freebsd && s.congestion == "reno" ? "newreno" : s.congestion;
        std::memcpy(text, known.data(), std::min<std::size_t>(known.size(), 15));
        return give(text, s.like_freebsd ? known.size() + 1 : sizeof text, value, size);
    }
    case TCP_INFO: {
        linux_tcp_info_fields info{};
        if (c != nullptr) {
            info = linux_tcp_info(c->tcb, stack_.tcp().now(), c->six == nullptr ? 20 : 40, noticed_path_mtu(*c), asked_segment_);
        } else if (listener_ != nullptr) {
            info = linux_unconnected_info(tcp::tcp_state::listen, static_cast<std::uint32_t>(listener_->ready() + parked_.size()),
                                          listener_->options().backlog - 1);
        } else {
            info = linux_unconnected_info(tcp::tcp_state::closed, 0, 0);
            info.tcpi_snd_mss = past_segment_;
        }
        if (s.like_freebsd) {
            const auto segment = static_cast<std::uint32_t>(freebsd_segment());
            if (c != nullptr) tell_as_freebsd(info, c->tcb, stack_.tcp().now(), segment);
            else tell_as_freebsd(info, listener_ != nullptr ? tcp::tcp_state::listen : tcp::tcp_state::closed, segment);
        }
        return give(&info, sizeof info, value, size);
    }
    default: return -ENOPROTOOPT;
    }
}

} // namespace corewire::posix
