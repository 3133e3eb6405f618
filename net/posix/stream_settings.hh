// What setsockopt() has asked of a stream socket: it goes to the socket's connection, and accepted sockets inherit it.
// A plain value.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/net/tcp/parameters.hh>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace corewire::posix {

/// What is the host's, and no socket's to change. Listeners follow it.
struct host_settings {
    std::uint32_t unsent_low_water = ~std::uint32_t{0}; ///< net.ipv4.tcp_notsent_lowat; all ones: none
    unsigned most_half_open = ~0u;          ///< net.ipv4.tcp_max_syn_backlog
    bool refuses_overflow = false;          ///< net.ipv4.tcp_abort_on_overflow
    bool reflects_service = false;          ///< net.ipv4.tcp_reflect_tos
    int syn_cookies = 1;                    ///< net.ipv4.tcp_syncookies: 0 never, 1 when a listener is full, 2 always
    /// net.ipv4.tcp_fastopen: as clients (1), as servers (2), without a cookie as clients (4) and as servers (0x200), every
    /// listener (0x400).
    unsigned fast_open_allowed = 1;
    bool ecn_offered = false;               ///< RFC 3168, when we open
    bool ecn_accepted = true;               ///< when the peer does
    bool accurate_ecn_offered = false;      ///< RFC 9768 in its place
    bool accurate_ecn_accepted = false;
    int default_time_to_live = 64;          ///< net.ipv4.ip_default_ttl
    int no_path_discovery = 0;              ///< net.ipv4.ip_no_pmtu_disc: 1 reports stand for 552 bytes, 2 are not heeded
};

struct stream_settings : host_settings {
    /// FreeBSD's answers where they are not Linux's: error codes, first values, buffers that are told as they are, and a keepalive for all.
    bool like_freebsd = false;
    // SOL_SOCKET
    std::uint32_t receive_buffer = 131'072; ///< as SO_RCVBUF reports it: twice what was asked for
    std::uint32_t send_buffer = 4u << 20;
    std::uint32_t receive_buffer_most = 6'291'456; ///< tcp_rmem[2]: so far it grows, unless SO_RCVBUF was set
    std::uint32_t send_buffer_most = 0;     ///< tcp_wmem[2]: so far Linux's habits let it grow, unless SO_SNDBUF was set; 0: not at all
    std::uint32_t receive_buffer_cap = 212'992; ///< net.core.rmem_max: SO_RCVBUF may ask for no more
    std::uint32_t send_buffer_cap = 212'992;    ///< net.core.wmem_max
    bool receive_buffer_grows = true;       ///< net.ipv4.tcp_moderate_rcvbuf
    int largest_backlog = 4096;             ///< net.core.somaxconn
    bool receive_buffer_set = false;        ///< by SO_RCVBUF: it does not grow any more
    bool send_buffer_set = false;
    bool reuse_address = false, reuse_port = false, keepalive = false, linger = false, inline_urgent = false;
    std::int64_t linger_time = 0;           ///< seconds
    std::uint32_t receive_low_water = 1;    ///< bytes
    std::uint32_t send_low_water = 1;       ///< the same of the room that a writer waits for: FreeBSD's SO_SNDLOWAT
    int peek_offset = -1;                   ///< SO_PEEK_OFF: bytes behind the next to be read; below 0: none, and it does not move
    static constexpr auto for_ever = std::chrono::microseconds::max();
    std::chrono::microseconds receive_timeout = for_ever, send_timeout = for_ever; ///< 0: it does not wait
    int priority = 0;
    std::uint64_t pacing_rate = ~std::uint64_t{0}; ///< bytes a second; all ones: no cap
    bool zero_copy = false;
    unsigned timestamping = 0;              ///< SO_TIMESTAMPING: SOF_TIMESTAMPING_*
    std::optional<std::array<std::uint32_t, 2>> transmit_time; ///< SO_TXTIME, told again: no queue below us waits for a time
    int receive_stamps = 0;                 ///< SO_TIMESTAMP, SO_TIMESTAMPNS or 0
    // IPPROTO_TCP
    bool no_delay = false, cork = false;
    std::uint32_t max_segment = 0;          ///< 0: as the path allows
    int keepalive_idle = 7200, keepalive_interval = 75, keepalive_probes = 9; ///< seconds, seconds, number
    bool thin_linear_timeouts = false;      ///< TCP_THIN_LINEAR_TIMEOUTS; the host's may say so as well
    bool interactive = false;               ///< TCP_QUICKACK was turned off before the handshake
    int syn_count = 0;                      ///< 0: the host's
    int host_fin_wait_2 = 60;               ///< net.ipv4.tcp_fin_timeout
    int fin_wait_2 = host_fin_wait_2;       ///< seconds (TCP_LINGER2); -1: not at all
    int defer_accept = 0;                   ///< seconds that a connection without data waits before it may be accepted
    /// The same in time-outs of a SYN-ACK, which double; defer_accept is a whole number of them.
    std::uint8_t deferred_time_outs() const noexcept {
        std::uint8_t n = 0;
        for (int left = defer_accept, step = 1; left > 0; step = std::min(2 * step, 120), ++n) left -= step;
        return n;
    }
    std::uint32_t window_clamp = 0;         ///< bytes: no larger window is announced; 0: none
    std::uint32_t user_timeout = 0;         ///< milliseconds
    std::uint32_t own_unsent_low_water = 0; ///< TCP_NOTSENT_LOWAT, bytes; 0: the host's
    std::uint32_t unsent_mark() const noexcept { return own_unsent_low_water != 0 ? own_unsent_low_water : unsent_low_water; }
    int save_syn = 0;                       ///< TCP_SAVE_SYN: 1 from IP's header on, 2 from the link's
    bool has_link_headers = true;           ///< else packets are bare, and 2 is as 1
    int fast_open = 0;                      ///< length of the queue; its listener takes data in SYNs (RFC 7413)
    bool fast_open_connect = false;
    bool fast_open_without_cookie = false;  ///< TCP_FASTOPEN_NO_COOKIE
    bool may_open_fast() const noexcept { return (fast_open_allowed & 1) != 0; }
    /// How many a listener with this backlog may accept early.
    unsigned early_limit(unsigned backlog) const noexcept {
        if ((fast_open_allowed & 2) == 0) return 0;
        if (fast_open == 0 && (fast_open_allowed & 0x400) != 0) return backlog;
        return static_cast<unsigned>(fast_open);
    }
    bool inquire = false;                   ///< TCP_INQ
    std::string congestion = "cubic";
    // IPPROTO_IP, for connections over IPv4; and IPPROTO_IPV6
    int type_of_service = 0, traffic_class = 0;
    int time_to_live = -1, hop_limit = -1;  ///< -1: the host's
    int least_time_to_live = 0, least_hop_limit = 0; ///< IP_MINTTL, IPV6_MINHOPCOUNT
    int path_mtu_discovery = 1, path_mtu_discovery6 = 1; ///< IP_PMTUDISC_WANT, IPV6_PMTUDISC_WANT
    bool ipv6_only = false;                 ///< IPV6_V6ONLY: no peers over IPv4
    bool receive_errors = false, receive_errors6 = false; ///< IP_RECVERR, IPV6_RECVERR

    /// SO_RCVBUF and SO_SNDBUF tell so many times what may be queued.
    std::uint32_t buffer_overhead() const noexcept { return like_freebsd ? 1 : 2; }
    /// Connections that may wait for accept(), for a listen() with this backlog: Linux lets in one more than asked for, FreeBSD one more
    /// than half as many again. Below 0 it is as many as go (__sys_listen(), solisten_proto_check()).
    unsigned ready_limit(int backlog) const noexcept {
        const int asked = backlog < 0 ? largest_backlog : std::min(backlog, largest_backlog);
        return static_cast<unsigned>(like_freebsd ? 3 * asked / 2 : asked) + 1;
    }
    /// Never 0, which would be the stack's.
    duration fin_wait_2_duration() const noexcept {
        return fin_wait_2 < 0 ? duration{-1} : std::max<duration>(std::chrono::seconds{fin_wait_2}, duration{1});
    }
    std::uint8_t time_to_live_or_host() const noexcept {
        return static_cast<std::uint8_t>(time_to_live > 0 ? time_to_live : default_time_to_live);
    }
    std::uint8_t hop_limit_or_host() const noexcept { return static_cast<std::uint8_t>(std::max(hop_limit, 0)); }
    /// IP_PMTUDISC_INTERFACE and _OMIT: ICMP is not heeded. TCP never sends what routers may cut, so that the others are one.
    static bool heeds_reports(int discovery) noexcept { return discovery < 4; }
    bool heeds_reports_v4() const noexcept { return heeds_reports(path_mtu_discovery) && no_path_discovery != 2; }
    /// net.ipv4.tcp_congestion_control's names; `congestion` is one of them.
    tcp::congestion_factory congestion_controller() const noexcept;
    int transmit_delay = 0;                 ///< TCP_TX_DELAY, microseconds: told again
    int rto_min_us = 0, rto_max_ms = 0;     ///< TCP_RTO_MIN_US, TCP_RTO_MAX_MS; 0: the host's
    int delayed_ack_most_us = 0;            ///< TCP_DELACK_MAX_US; 0: the host's
    bool has_own_times() const noexcept { return rto_min_us != 0 || rto_max_ms != 0 || delayed_ack_most_us != 0; }
    void apply_times(tcp::parameters& p) const;
    /// For connections to come: those that are opened from here, or those that a listener accepts.
    void apply(tcp::parameters& p, bool opened_here) const;
    tcp_options_set for_backend() const;
};

} // namespace corewire::posix
