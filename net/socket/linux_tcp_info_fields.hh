// Linux's struct tcp_info (tcp(7), linux/tcp.h), to be read from a kernel and told to programs compiled for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <linux/tcp.h>

namespace corewire {

inline constexpr std::uint8_t linux_fast_open_child = 128; ///< of tcpi_options: TCPI_OPT_TFO_CHILD, which headers before 6.12 lack

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
static_assert(offsetof(linux_tcp_info_fields, tcpi_snd_wnd) == offsetof(::tcp_info, tcpi_snd_wnd));
static_assert(offsetof(linux_tcp_info_fields, tcpi_bytes_acked) == offsetof(::tcp_info, tcpi_bytes_acked));
static_assert(offsetof(linux_tcp_info_fields, tcpi_delivered) == offsetof(::tcp_info, tcpi_delivered));

} // namespace corewire
