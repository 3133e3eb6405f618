// A connection as Linux's struct tcp_info tells it (tcp(7), linux/tcp.h): the layout that programs compiled for Linux read.
#pragma once

#include <corewire/net/tcp/tcb.hh>

#include <cstddef>
#include <linux/tcp.h>

namespace corewire::posix {

/// struct tcp_info as Linux 7.2 has it (as 6.18, but for AccECN's last word). The headers of the host that builds this may know the
/// beginning of it alone.
struct linux_tcp_info_fields {
    std::uint8_t tcpi_state, tcpi_ca_state, tcpi_retransmits, tcpi_probes, tcpi_backoff, tcpi_options;
    std::uint8_t tcpi_snd_wscale : 4, tcpi_rcv_wscale : 4;
    std::uint8_t tcpi_delivery_rate_app_limited : 1, tcpi_fastopen_client_fail : 2;
    std::uint32_t tcpi_rto, tcpi_ato, tcpi_snd_mss, tcpi_rcv_mss;
    std::uint32_t tcpi_unacked, tcpi_sacked, tcpi_lost, tcpi_retrans, tcpi_fackets;
    std::uint32_t tcpi_last_data_sent, tcpi_last_ack_sent, tcpi_last_data_recv, tcpi_last_ack_recv;
    std::uint32_t tcpi_pmtu, tcpi_rcv_ssthresh, tcpi_rtt, tcpi_rttvar, tcpi_snd_ssthresh, tcpi_snd_cwnd, tcpi_advmss, tcpi_reordering;
    std::uint32_t tcpi_rcv_rtt, tcpi_rcv_space, tcpi_total_retrans;
    std::uint64_t tcpi_pacing_rate, tcpi_max_pacing_rate, tcpi_bytes_acked, tcpi_bytes_received;
    std::uint32_t tcpi_segs_out, tcpi_segs_in, tcpi_notsent_bytes, tcpi_min_rtt, tcpi_data_segs_in, tcpi_data_segs_out;
    std::uint64_t tcpi_delivery_rate, tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited;
    std::uint32_t tcpi_delivered, tcpi_delivered_ce;
    std::uint64_t tcpi_bytes_sent, tcpi_bytes_retrans;
    std::uint32_t tcpi_dsack_dups, tcpi_reord_seen, tcpi_rcv_ooopack, tcpi_snd_wnd;
    std::uint32_t tcpi_rcv_wnd, tcpi_rehash;
    std::uint16_t tcpi_total_rto, tcpi_total_rto_recoveries;
    std::uint32_t tcpi_total_rto_time;
    std::uint32_t tcpi_received_ce, tcpi_delivered_e1_bytes, tcpi_delivered_e0_bytes, tcpi_delivered_ce_bytes;
    std::uint32_t tcpi_received_e1_bytes, tcpi_received_e0_bytes, tcpi_received_ce_bytes;
    std::uint32_t tcpi_ecn_mode : 2, tcpi_accecn_opt_seen : 2, tcpi_accecn_fail_mode : 4, tcpi_options2 : 24;
};
static_assert(sizeof(linux_tcp_info_fields) == 280);
static_assert(offsetof(linux_tcp_info_fields, tcpi_snd_wnd) == offsetof(tcp_info, tcpi_snd_wnd));
static_assert(offsetof(linux_tcp_info_fields, tcpi_bytes_acked) == offsetof(tcp_info, tcpi_bytes_acked));
static_assert(offsetof(linux_tcp_info_fields, tcpi_delivered) == offsetof(tcp_info, tcpi_delivered));

/// `now`: for the fields that count milliseconds since something. `ip_header`: bytes, 20 or 40. `path_mtu`: bytes, for tcpi_pmtu.
/// What nobody counts is 0: unless Linux's habits are followed tcpi_rehash, and what came marked without AccECN.
/// With Linux's habits, or parameters::counted, segments are counted one by one (tcp::segment_tally), the rate of delivery is sampled, and
/// tcpi_busy_time and what limited it measured; without, tcpi_segs_in and its like are 0, tcpi_delivered counts full ones,
/// tcpi_last_data_recv is not known, tcpi_bytes_acked and the first transmissions in tcpi_bytes_sent are modulo 2^32, and what is in flight
/// is counted as the scoreboard tells it apart.
linux_tcp_info_fields linux_tcp_info(const tcp::tcb& block, time_point now, unsigned ip_header, std::uint32_t path_mtu) noexcept;
/// Of a socket without a connection: as Linux makes sockets. A listener tells little but who waits to be accepted, and how many may.
linux_tcp_info_fields linux_unconnected_info(tcp::tcp_state s, std::uint32_t waiting, std::uint32_t backlog) noexcept;
/// struct tcp_bbr_info (linux/inet_diag.h), which TCP_CC_INFO tells of a connection with BBR.
struct linux_bbr_info {
    std::uint32_t bandwidth_low = 0, bandwidth_high = 0; ///< bytes a second
    std::uint32_t min_rtt = 0;                           ///< microseconds; all ones: not known
    std::uint32_t pacing_gain = 0, window_gain = 0;      ///< 256 is 1
};
linux_bbr_info linux_bbr_info_of(const tcp::path_belief& path) noexcept;
/// Before the peer has said anything: what every host takes (RFC 9293 MUST-15, RFC 8200 5), less the timestamps that we offer.
std::uint32_t presumed_segment(const tcp::parameters& p, unsigned ip_header) noexcept;
/// Linux's number of a state: TCP_ESTABLISHED is 1.
std::uint8_t linux_state(tcp::tcp_state s) noexcept;

} // namespace corewire::posix
