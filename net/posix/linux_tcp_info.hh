// A connection as Linux's struct tcp_info tells it (tcp(7)).
#pragma once

#include <corewire/net/socket/linux_tcp_info_fields.hh>
#include <corewire/net/tcp/tcb.hh>

namespace corewire::posix {

/// `now`: for the fields that count milliseconds since something. `ip_header`: bytes, 20 or 40. `path_mtu`: bytes, for tcpi_pmtu.
/// What nobody counts is 0: unless Linux's habits are followed tcpi_rehash, and what came marked without AccECN.
/// With Linux's habits, or parameters::counted, segments are counted one by one (tcp::segment_tally), the rate of delivery is sampled, and
/// tcpi_busy_time and what limited it measured; without, tcpi_segs_in and its like are 0, tcpi_delivered counts full ones,
/// tcpi_last_data_recv is not known, tcpi_bytes_acked and the first transmissions in tcpi_bytes_sent are modulo 2^32, and what is in flight
/// is counted as the scoreboard tells it apart.
/// `asked`: bytes, TCP_MAXSEG of who has opened it; 0: none.
linux_tcp_info_fields linux_tcp_info(const tcp::tcb& block, time_point now, unsigned ip_header, std::uint32_t path_mtu,
                                     std::uint32_t asked) noexcept;
/// Of a socket without a connection: as Linux makes sockets. A listener tells little but who waits to be accepted, and how many may.
linux_tcp_info_fields linux_unconnected_info(tcp::tcp_state s, std::uint32_t waiting, std::uint32_t backlog) noexcept;
/// struct tcp_bbr_info (linux/inet_diag.h), which TCP_CC_INFO tells of a connection with BBR.
struct linux_bbr_info {
    std::uint32_t bandwidth_low = 0, bandwidth_high = 0; ///< bytes a second
    std::uint32_t min_rtt = 0;                           ///< microseconds; all ones: not known
    std::uint32_t pacing_gain = 0, window_gain = 0;      ///< 256 is 1
};
/// struct tcp_dctcp_info, the same of DCTCP. Where ECN was not agreed all is 0, as of Linux's dctcp_reno.
struct linux_dctcp_info {
    std::uint16_t enabled = 0, last_marked = 0;
    std::uint32_t alpha = 0;                    ///< of 1024
    std::uint32_t bytes_marked = 0, bytes_acked = 0;
};
/// Null: of a socket without a connection.
linux_dctcp_info linux_dctcp_info_of(const tcp::tcb* block) noexcept;
linux_bbr_info linux_bbr_info_of(const tcp::path_belief& path) noexcept;
/// Before the peer has said anything: what was asked for, else what every host takes (RFC 9293 MUST-15, RFC 8200 5), less the timestamps
/// that we offer (tcp_connect_init()).
std::uint32_t presumed_segment(const tcp::parameters& p, unsigned ip_header, std::uint32_t path_mtu, std::uint32_t asked) noexcept;
/// Linux's number of a state: TCP_ESTABLISHED is 1.
std::uint8_t linux_state(tcp::tcp_state s) noexcept;

} // namespace corewire::posix
