#include <corewire/net/socket/tcp_information.hh>

#include <corewire/net/socket/linux_tcp_info_fields.hh>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <linux/tcp.h>

namespace corewire {

namespace {

/// By Linux's number: TCP_ESTABLISHED is 1 (include/net/tcp_states.h).
tcp_state state_of(unsigned number) noexcept {
    using enum tcp_state;
    constexpr std::array states{closed,     established, syn_sent,  syn_received, fin_wait_1, fin_wait_2,
                                time_wait,  closed,      close_wait, last_ack,    listen,     closing,
                                syn_received};
    return number < states.size() ? states[number] : closed;
}

constexpr duration microseconds(std::uint64_t n) noexcept { return std::chrono::microseconds{n}; }
constexpr duration milliseconds(std::uint64_t n) noexcept { return std::chrono::milliseconds{n}; }

constexpr std::uint32_t no_threshold = 0x7fff'ffff; ///< TCP_INFINITE_SSTHRESH

} // namespace

tcp_information information_from_linux(const void* from, std::size_t size) noexcept {
    linux_tcp_info_fields t;
    std::memset(&t, 0, sizeof t);
    std::memcpy(&t, from, std::min(size, sizeof t));
    const std::uint64_t mss = t.tcpi_snd_mss;
    tcp_information i;
    i.state = state_of(t.tcpi_state);
    i.repair = static_cast<tcp_repair>(std::min<unsigned>(t.tcpi_ca_state, TCP_CA_Loss));
    i.timeouts = t.tcpi_retransmits;
    i.window_probes = t.tcpi_probes;
    i.backoff = t.tcpi_backoff;
    i.timestamps = (t.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
    i.sack = (t.tcpi_options & TCPI_OPT_SACK) != 0;
    i.window_scaling = (t.tcpi_options & TCPI_OPT_WSCALE) != 0;
    i.ecn = (t.tcpi_options & TCPI_OPT_ECN) != 0;
    i.ecn_seen = (t.tcpi_options & TCPI_OPT_ECN_SEEN) != 0;
    i.data_in_syn = (t.tcpi_options & TCPI_OPT_SYN_DATA) != 0;
    i.opened_early = (t.tcpi_options & linux_fast_open_child) != 0;
    i.fast_open = static_cast<fast_open_failure>(t.tcpi_fastopen_client_fail);
    i.send_scale = t.tcpi_snd_wscale;
    i.receive_scale = t.tcpi_rcv_wscale;
    i.rto = microseconds(t.tcpi_rto);
    i.rtt = microseconds(t.tcpi_rtt);
    i.rtt_variation = microseconds(t.tcpi_rttvar);
    if (t.tcpi_min_rtt != 0 && t.tcpi_min_rtt != ~std::uint32_t{0}) i.min_rtt = microseconds(t.tcpi_min_rtt);
    i.delayed_ack = microseconds(t.tcpi_ato);
    i.send_segment = t.tcpi_snd_mss;
    i.received_segment = t.tcpi_rcv_mss;
    i.announced_segment = t.tcpi_advmss;
    i.path_mtu = t.tcpi_pmtu;
    i.congestion_window = t.tcpi_snd_cwnd * mss;
    if (t.tcpi_snd_ssthresh < no_threshold) i.slow_start_threshold = t.tcpi_snd_ssthresh * mss;
    i.unacknowledged = t.tcpi_unacked * mss;
    i.sacked = t.tcpi_sacked * mss;
    i.lost = t.tcpi_lost * mss;
    i.retransmitted = t.tcpi_retrans * mss;
    i.unsent = t.tcpi_notsent_bytes;
    i.send_window = t.tcpi_snd_wnd;
    i.receive_window = t.tcpi_rcv_space;
    i.bytes_acknowledged = t.tcpi_bytes_acked;
    i.bytes_received = t.tcpi_bytes_received;
    i.segments_retransmitted = t.tcpi_total_retrans;
    i.segments_out_of_order = t.tcpi_rcv_ooopack;
    if (t.tcpi_pacing_rate != ~std::uint64_t{0}) i.pacing_rate = t.tcpi_pacing_rate;
    i.since_received = milliseconds(t.tcpi_last_ack_recv);
    i.bytes_sent = t.tcpi_bytes_sent;
    i.bytes_retransmitted = t.tcpi_bytes_retrans;
    i.segments_sent = t.tcpi_segs_out;
    i.segments_received = t.tcpi_segs_in;
    i.data_segments_sent = t.tcpi_data_segs_out;
    i.data_segments_received = t.tcpi_data_segs_in;
    i.segments_delivered = t.tcpi_delivered;
    i.segments_delivered_marked = t.tcpi_delivered_ce;
    i.delivery_rate = t.tcpi_delivery_rate;
    i.duplicates_reported = t.tcpi_dsack_dups;
    i.reorderings = t.tcpi_reord_seen;
    i.reordering_segments = t.tcpi_reordering;
    i.busy = microseconds(t.tcpi_busy_time);
    i.limited_by_receiver = microseconds(t.tcpi_rwnd_limited);
    i.limited_by_send_buffer = microseconds(t.tcpi_sndbuf_limited);
    i.since_data_sent = milliseconds(t.tcpi_last_data_sent);
    i.since_data_received = milliseconds(t.tcpi_last_data_recv);
    i.receive_rtt = microseconds(t.tcpi_rcv_rtt);
    if (t.tcpi_max_pacing_rate != ~std::uint64_t{0}) i.max_pacing_rate = t.tcpi_max_pacing_rate;
    i.receive_threshold = t.tcpi_rcv_ssthresh;
    i.receive_space = t.tcpi_rcv_space;
    i.delivery_rate_limited_by_application = t.tcpi_delivery_rate_app_limited != 0;
    if (size >= offsetof(linux_tcp_info_fields, tcpi_total_rto)) { // since 6.2
        i.receive_buffer_room = t.tcpi_rcv_wnd;
        i.rehashes = t.tcpi_rehash;
    }
    if (size >= offsetof(linux_tcp_info_fields, tcpi_received_ce)) { // since 6.7
        i.timeouts_total = t.tcpi_total_rto;
        i.timeout_rows = t.tcpi_total_rto_recoveries;
        i.in_timeouts = milliseconds(t.tcpi_total_rto_time);
    }
    if (size >= offsetof(linux_tcp_info_fields, tcpi_received_ce_bytes) + sizeof t.tcpi_received_ce_bytes) { // since 6.18
        i.marks = mark_tally{.received = t.tcpi_received_ce,
                             .delivered = t.tcpi_delivered_ce,
                             .received_ect_1 = t.tcpi_received_e1_bytes,
                             .received_ect_0 = t.tcpi_received_e0_bytes,
                             .received_ce = t.tcpi_received_ce_bytes,
                             .delivered_ect_1 = t.tcpi_delivered_e1_bytes,
                             .delivered_ect_0 = t.tcpi_delivered_e0_bytes,
                             .delivered_ce = t.tcpi_delivered_ce_bytes};
    }
    return i;
}

} // namespace corewire
