// What FreeBSD's struct tcp_info tells otherwise (tcp_fill_info()). It begins as Linux's does, up to tcpi_rcv_space, but has states and
// units of its own; the rest stays Linux's. Pure functions.
#pragma once

#include <corewire/net/posix/linux_tcp_info.hh>

namespace corewire::posix {

/// tcp_fsm.h: TCPS_CLOSED to TCPS_TIME_WAIT.
inline std::uint8_t freebsd_state(tcp::tcp_state s) noexcept {
    using enum tcp::tcp_state;
    switch (s) {
    case closed: return 0;
    case listen: return 1;
    case syn_sent: return 2;
    case syn_received: return 3;
    case established: return 4;
    case close_wait: return 5;
    case fin_wait_1: return 6;
    case closing: return 7;
    case last_ack: return 8;
    case fin_wait_2: return 9;
    case time_wait: return 10;
    }
    return 0;
}

inline constexpr std::uint32_t freebsd_no_window = 65'535u << 14; ///< cwnd before the handshake is done, and ssthresh before a loss

/// `segment`: t_maxseg.
inline void tell_as_freebsd(linux_tcp_info_fields& t, tcp::tcp_state s, std::uint32_t segment) noexcept {
    t.tcpi_state = freebsd_state(s);
    t.tcpi_options &= TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE | TCPI_OPT_ECN;
    t.tcpi_snd_mss = t.tcpi_rcv_mss = segment;
    if (t.tcpi_rtt == 0) t.tcpi_rttvar = 250'000; // so that the first time-out is a second
    if (tcp::is_synchronized(s)) return;
    t.tcpi_rto = std::max(t.tcpi_rto, 1'000'000u);
    t.tcpi_snd_cwnd = t.tcpi_snd_ssthresh = freebsd_no_window;
}

/// Windows in bytes, and microseconds since anything was heard.
inline void tell_as_freebsd(linux_tcp_info_fields& t, const tcp::tcb& block, time_point now, std::uint32_t segment) noexcept {
    const tcp::connection_info i = block.info();
    t.tcpi_snd_cwnd = i.cwnd;
    t.tcpi_snd_ssthresh = std::min(i.ssthresh, freebsd_no_window);
    t.tcpi_rcv_space = i.receive_window;
    t.tcpi_last_data_recv = static_cast<std::uint32_t>((now - block.last_heard()) / std::chrono::microseconds{1});
    tell_as_freebsd(t, i.state, segment);
}

} // namespace corewire::posix
