#include <corewire/net/posix/linux_tcp_info.hh>

#include <algorithm>
#include <cstring>

namespace corewire::posix {

namespace {

std::uint32_t microseconds(duration d) noexcept {
    return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

/// Since then; 0 if it never was.
std::uint32_t milliseconds_since(time_point then, time_point now) noexcept {
    if (then == time_point{} || then >= now) return 0;
    return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count());
}

/// The SYN counts, as does what was SACKed. The rest was counted, or is told by bytes.
std::uint32_t delivered(const tcp::connection_info& i, std::uint32_t mss) noexcept {
    if (i.state == tcp::tcp_state::syn_sent || i.state == tcp::tcp_state::syn_received) return 0;
    const std::uint32_t data = i.counted ? i.tally.delivered : static_cast<std::uint32_t>((i.bytes_acked + mss - 1) / mss);
    return 1 + data + i.sacked_segments;
}

/// enum tcp_ca_state.
std::uint8_t recovery_state(const tcp::connection_info& i) noexcept {
    if (i.timed_out) return TCP_CA_Loss;
    if (i.recovering) return TCP_CA_Recovery;
    if (i.reduced) return TCP_CA_CWR;
    return i.disordered ? TCP_CA_Disorder : TCP_CA_Open;
}

void tell_marks(linux_tcp_info_fields& t, const tcp::connection_info& i) noexcept {
    const tcp::mark_tally& m = i.marks;
    t.tcpi_delivered_ce = m.delivered;
    t.tcpi_received_ce = m.received;
    t.tcpi_delivered_e1_bytes = m.delivered_ect_1;
    t.tcpi_delivered_e0_bytes = m.delivered_ect_0;
    t.tcpi_delivered_ce_bytes = m.delivered_ce;
    t.tcpi_received_e1_bytes = m.received_ect_1;
    t.tcpi_received_e0_bytes = m.received_ect_0;
    t.tcpi_received_ce_bytes = m.received_ce;
    t.tcpi_ecn_mode = i.accurate_ecn ? 2 : i.ecn ? 1 : 0;
    t.tcpi_accecn_opt_seen = m.option_seen & 3;
    t.tcpi_accecn_fail_mode = m.failures & 15;
}

/// Once SYNs are repeated, or a child's SYN-ACK twice (tcp_fastopen_synack_timer()), all is lost that is out (tcp_enter_loss()).
void tell_of_lost_handshake(linux_tcp_info_fields& t, const tcp::tcb& block, const tcp::connection_info& i) noexcept {
    const bool opening = i.state == tcp::tcp_state::syn_sent;
    if (opening && block.fast_open().syn_data != 0) t.tcpi_unacked = 2; // the SYN and what it took along
    const bool lost = opening ? i.attempts != 0 : i.state == tcp::tcp_state::syn_received && i.opened_early && i.attempts > 1;
    if (!lost) return;
    const std::string_view how = block.congestion();
    t.tcpi_ca_state = TCP_CA_Loss;
    t.tcpi_lost = t.tcpi_unacked;
    if (opening) t.tcpi_retrans = 1;
    if (how != "bbr") t.tcpi_snd_ssthresh = how == "cubic" ? t.tcpi_snd_cwnd * 717 / 1024 : t.tcpi_snd_cwnd / 2;
    t.tcpi_snd_cwnd = 1;
}

/// Before the peer has said anything.
void tell_of_syn(linux_tcp_info_fields& t, const tcp::tcb& block, unsigned ip_header, std::uint32_t asked) noexcept {
    const tcp::parameters& p = block.options();
    t.tcpi_advmss = block.asked_segment();
    t.tcpi_snd_mss = presumed_segment(p, ip_header, t.tcpi_pmtu, asked);
    t.tcpi_rcv_mss = 88; // TCP_MIN_MSS
    t.tcpi_rcv_ssthresh = t.tcpi_rcv_wnd = tcp::receive_window::unscaled(p.receive_buffer, p.mss); // what the SYN promises
}

/// The SYN-ACK has a timer of its own, and the child's is as cautious as behind a SYN that was lost.
void tell_of_early_child(linux_tcp_info_fields& t) noexcept {
    t.tcpi_rto = 3'000'000;
    t.tcpi_rttvar = t.tcpi_rto / 4;
    t.tcpi_backoff = 0;
}

/// As Linux has it, where our own ways to count are others.
void follow_linux(linux_tcp_info_fields& t, const tcp::tcb& block, const tcp::connection_info& i, unsigned ip_header,
                  std::uint32_t asked) noexcept {
    using tcp::tcp_state;
    if (i.state == tcp_state::syn_sent) tell_of_syn(t, block, ip_header, asked);
    else if (i.state == tcp_state::syn_received && i.opened_early) tell_of_early_child(t);
    else if (i.timestamps && i.state != tcp_state::syn_received) t.tcpi_advmss -= wire::tcp_options::timestamps_size;
    tell_of_lost_handshake(t, block, i);
    // Each time-out tries another way.
    t.tcpi_rehash = t.tcpi_total_rto - std::min<std::uint32_t>(t.tcpi_total_rto, i.tally.answers_timed_out);
    if (i.state == tcp_state::closed) { // there is no queue any more, nor a timer
        t.tcpi_unacked = t.tcpi_sacked = t.tcpi_lost = t.tcpi_retrans = t.tcpi_backoff = 0;
        if (block.error() == std::errc::timed_out && t.tcpi_retransmits != 0) { // at the last nothing was sent
            --t.tcpi_retransmits;
            if (t.tcpi_total_rto != 0) --t.tcpi_total_rto;
            if (t.tcpi_rehash != 0) --t.tcpi_rehash;
        }
    }
    t.tcpi_delivery_rate_app_limited = i.delivery_rate == 0 || i.delivery_rate_limited;
    if (i.state != tcp_state::syn_sent) t.tcpi_rcv_wnd = i.promised_window;
}

} // namespace

std::uint8_t linux_state(tcp::tcp_state s) noexcept {
    using tcp::tcp_state;
    switch (s) {
    case tcp_state::established: return 1;
    case tcp_state::syn_sent: return 2;
    case tcp_state::syn_received: return 3;
    case tcp_state::fin_wait_1: return 4;
    case tcp_state::fin_wait_2: return 5;
    case tcp_state::time_wait: return 7; // what waits there is no socket any more
    case tcp_state::closed: return 7;
    case tcp_state::close_wait: return 8;
    case tcp_state::last_ack: return 9;
    case tcp_state::listen: return 10;
    case tcp_state::closing: return 11;
    }
    return 7;
}

linux_tcp_info_fields linux_tcp_info(const tcp::tcb& block, time_point now, unsigned ip_header, std::uint32_t path_mtu,
                                     std::uint32_t asked) noexcept {
    const tcp::connection_info i = block.info();
    const tcp::counters& n = block.statistics();
    const std::uint32_t mss = std::max(i.segment_payload, 1u);
    linux_tcp_info_fields t;
    std::memset(&t, 0, sizeof t);
    t.tcpi_state = linux_state(i.state);
    t.tcpi_ca_state = recovery_state(i);
    t.tcpi_retransmits = static_cast<std::uint8_t>(std::min(i.attempts, 255u));
    t.tcpi_probes = static_cast<std::uint8_t>(i.probes);
    t.tcpi_backoff = static_cast<std::uint8_t>(std::min(i.backoff, 255u));
    if (i.timestamps) t.tcpi_options |= TCPI_OPT_TIMESTAMPS;
    if (i.sack) t.tcpi_options |= TCPI_OPT_SACK;
    if (i.scaling) t.tcpi_options |= TCPI_OPT_WSCALE;
    if (i.ecn) t.tcpi_options |= TCPI_OPT_ECN;
    if (i.ecn_seen) t.tcpi_options |= TCPI_OPT_ECN_SEEN;
    if (i.data_in_syn) t.tcpi_options |= TCPI_OPT_SYN_DATA;
    if (i.opened_early) t.tcpi_options |= linux_fast_open_child;
    t.tcpi_fastopen_client_fail = static_cast<std::uint8_t>(i.fast_open) & 3;
    t.tcpi_snd_wscale = i.send_scale & 15;
    t.tcpi_rcv_wscale = i.receive_scale & 15;
    t.tcpi_rto = microseconds(i.rto);
    t.tcpi_ato = block.options().like_linux() ? microseconds(i.ack_time_out) : microseconds(block.options().delayed_ack);
    t.tcpi_snd_mss = mss;
    t.tcpi_rcv_mss = i.received_segment;
    t.tcpi_unacked = i.unacknowledged_segments;
    t.tcpi_sacked = i.sacked_segments;
    t.tcpi_lost = i.lost_segments;
    t.tcpi_retrans = i.resent_segments;
    t.tcpi_last_data_sent = milliseconds_since(i.last_sent != time_point{} ? i.last_sent : i.established_at, now);
    t.tcpi_last_data_recv = milliseconds_since(i.last_payload, now);
    t.tcpi_last_ack_recv = milliseconds_since(block.last_heard(), now);
    t.tcpi_pmtu = path_mtu;
    t.tcpi_rtt = microseconds(i.srtt);
    t.tcpi_rttvar = microseconds(i.rttvar);
    t.tcpi_snd_ssthresh = i.ssthresh >= 0x3fff'ffff ? 0x7fff'ffff : i.ssthresh / mss;
    t.tcpi_snd_cwnd = i.cwnd / mss;
    t.tcpi_advmss = block.options().mss;
    t.tcpi_reordering = std::min(i.reordering, 300u); // net.ipv4.tcp_max_reordering
    t.tcpi_reord_seen = static_cast<std::uint32_t>(n.reorderings);
    t.tcpi_dsack_dups = static_cast<std::uint32_t>(n.duplicates_reported);
    t.tcpi_bytes_sent = i.bytes_sent;
    t.tcpi_bytes_retrans = n.retransmitted_bytes;
    t.tcpi_rcv_space = i.receive_space != 0 ? i.receive_space : std::min(i.receive_window, 10u * block.options().mss);
    t.tcpi_rcv_rtt = microseconds(i.receive_rtt);
    t.tcpi_rcv_ssthresh = i.receive_threshold;
    t.tcpi_rcv_wnd = i.receive_window;
    t.tcpi_total_retrans = static_cast<std::uint32_t>(n.retransmitted_segments);
    t.tcpi_pacing_rate = i.pacing_rate;
    t.tcpi_max_pacing_rate = i.max_pacing_rate;
    t.tcpi_bytes_acked = i.numbers_acked;
    t.tcpi_bytes_received = i.bytes_received;
    t.tcpi_notsent_bytes = i.unsent;
    t.tcpi_min_rtt = i.min_rtt == duration{0} ? ~std::uint32_t{0} : microseconds(i.min_rtt);
    t.tcpi_delivered = delivered(i, mss);
    t.tcpi_rcv_ooopack = static_cast<std::uint32_t>(n.out_of_order);
    t.tcpi_snd_wnd = i.send_window;
    using work = tcp::segment_tally::work;
    const auto spent = [&](work w) {
        const duration so_far = i.tally.spent[static_cast<unsigned>(w)] + (i.tally.now == w ? now - i.tally.since : duration{0});
        return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(so_far).count());
    };
    t.tcpi_rwnd_limited = spent(work::window);
    t.tcpi_sndbuf_limited = spent(work::buffer);
    t.tcpi_busy_time = spent(work::busy) + t.tcpi_rwnd_limited + t.tcpi_sndbuf_limited;
    t.tcpi_segs_in = i.tally.in;
    t.tcpi_segs_out = i.tally.out;
    t.tcpi_data_segs_in = i.tally.data_in;
    t.tcpi_data_segs_out = i.tally.data_out;
    tell_marks(t, i);
    t.tcpi_delivery_rate = i.delivery_rate;
    t.tcpi_delivery_rate_app_limited = i.delivery_rate != 0 && i.delivery_rate_limited;
    const duration in_rows = i.tally.in_rows + (i.tally.row_since != time_point{} ? now - i.tally.row_since : duration{0});
    t.tcpi_total_rto_time = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(in_rows).count());
    t.tcpi_total_rto = static_cast<std::uint16_t>(std::min<std::uint64_t>(n.retransmission_timeouts, 0xffff));
    t.tcpi_total_rto_recoveries = static_cast<std::uint16_t>(std::min(i.tally.time_out_rows, 0xffffu));
    if (block.options().like_linux()) follow_linux(t, block, i, ip_header, asked);
    return t;
}

std::uint32_t presumed_segment(const tcp::parameters& p, unsigned ip_header, std::uint32_t path_mtu, std::uint32_t asked) noexcept {
    const std::uint32_t most = asked != 0 ? asked : ip_header == 20 ? 536 : 1220;
    return std::min(most, path_mtu - ip_header - 20) - (p.timestamps ? wire::tcp_options::timestamps_size : 0);
}

linux_bbr_info linux_bbr_info_of(const tcp::path_belief& path) noexcept {
    const auto in_256ths = [](double gain) { return static_cast<std::uint32_t>(gain * 256); };
    return {.bandwidth_low = static_cast<std::uint32_t>(path.rate),
            .bandwidth_high = static_cast<std::uint32_t>(path.rate >> 32),
            .min_rtt = path.min_rtt == duration{0} ? ~std::uint32_t{0} : microseconds(path.min_rtt),
            .pacing_gain = in_256ths(path.pacing_gain),
            .window_gain = in_256ths(path.window_gain)};
}

linux_dctcp_info linux_dctcp_info_of(const tcp::tcb* block) noexcept {
    if (block == nullptr) return {.enabled = 1, .alpha = 1024};
    if (!block->tells_each_mark()) return {};
    const tcp::path_belief path = block->believed_path();
    return {.enabled = 1,
            .last_marked = block->last_was_marked(),
            .alpha = static_cast<std::uint32_t>(path.marked_share * 1024),
            .bytes_marked = static_cast<std::uint32_t>(path.marked),
            .bytes_acked = static_cast<std::uint32_t>(path.acked)};
}

linux_tcp_info_fields linux_unconnected_info(tcp::tcp_state s, std::uint32_t waiting, std::uint32_t backlog) noexcept {
    linux_tcp_info_fields t;
    std::memset(&t, 0, sizeof t);
    t.tcpi_state = linux_state(s);
    t.tcpi_snd_cwnd = 10;
    t.tcpi_reordering = 3;
    t.tcpi_pacing_rate = t.tcpi_max_pacing_rate = ~std::uint64_t{0};
    if (s == tcp::tcp_state::listen) {
        t.tcpi_unacked = waiting;
        t.tcpi_sacked = backlog;
        return t;
    }
    t.tcpi_delivery_rate_app_limited = 1;
    t.tcpi_rto = 1'000'000;
    t.tcpi_snd_mss = 536;
    t.tcpi_rttvar = 250'000;
    t.tcpi_snd_ssthresh = 0x7fff'ffff;
    t.tcpi_min_rtt = ~std::uint32_t{0};
    return t;
}

} // namespace corewire::posix
