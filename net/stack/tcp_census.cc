#include <corewire/net/stack/tcp_census.hh>

#include <corewire/net/stack/connection_row.hh>
#include <corewire/net/stack/tcp_layer.hh>

#include <algorithm>
#include <bit>

namespace corewire {

namespace {

struct description {
    std::uint64_t tcp::counters::*counter;
    const char* name;
    const char* help;
};

constexpr std::array descriptions{
    description{&tcp::counters::retransmitted_segments, "corewire_tcp_segments_retransmitted_total", "Segments sent again."},
    description{&tcp::counters::retransmission_timeouts, "corewire_tcp_retransmission_timeouts_total",
                "Times a retransmission timer ran out."},
    description{&tcp::counters::fast_recoveries, "corewire_tcp_fast_recoveries_total", "Losses found by acknowledgments."},
    description{&tcp::counters::spurious_recoveries, "corewire_tcp_spurious_recoveries_total", "Recoveries found needless and undone."},
    description{&tcp::counters::tail_loss_probes, "corewire_tcp_tail_loss_probes_total", "Probes for a lost end of a flight (RFC 8985)."},
    description{&tcp::counters::window_probes, "corewire_tcp_window_probes_total", "Probes of a closed window."},
    description{&tcp::counters::keepalive_probes, "corewire_tcp_keepalive_probes_total", "Keep-alive probes sent."},
    description{&tcp::counters::challenge_acks, "corewire_tcp_challenge_acks_total", "Challenge ACKs sent (RFC 5961)."},
    description{&tcp::counters::challenge_acks_withheld,
                "corewire_tcp_challenge_acks_withheld_total", "Challenge ACKs that the limiter withheld."},
    description{&tcp::counters::unacceptable_segments, "corewire_tcp_segments_unacceptable_total", "Segments outside the window."},
    description{&tcp::counters::paws_rejected, "corewire_tcp_segments_paws_rejected_total", "Segments with an old timestamp (RFC 7323)."},
    description{&tcp::counters::bad_acks, "corewire_tcp_bad_acks_total", "Acknowledgments of what was never sent, or far too old."},
    description{&tcp::counters::resets_ignored, "corewire_tcp_resets_ignored_total", "Resets that were not exactly where they must be."},
    description{&tcp::counters::out_of_order, "corewire_tcp_segments_out_of_order_total", "Segments that arrived beyond a gap."},
    description{&tcp::counters::duplicates, "corewire_tcp_segments_duplicate_total", "Segments that brought nothing new."},
    description{&tcp::counters::receive_queue_full,
                "corewire_tcp_receive_queue_full_total", "Segments dropped because the receive queue was full."},
    description{&tcp::counters::congestion_marks, "corewire_tcp_congestion_marks_total", "Congestion marks seen (RFC 3168)."},
    description{&tcp::counters::mark_reductions, "corewire_tcp_mark_reductions_total",
                "Windows reduced because the peer echoed congestion marks."},
    description{&tcp::counters::path_probes, "corewire_tcp_path_probes_total", "Segments sent to find a larger path MTU (RFC 4821)."},
    description{&tcp::counters::path_probes_lost, "corewire_tcp_path_probes_lost_total", "Of these, those that did not get through."},
    description{&tcp::counters::path_black_holes,
                "corewire_tcp_path_black_holes_total", "Times segments became smaller because large ones vanished."},
    description{&tcp::counters::path_reports_deferred,
                "corewire_tcp_path_reports_deferred_total", "ICMP reports of a smaller MTU that had to wait for a time-out (RFC 5927)."},
    description{&tcp::counters::data_after_orphan, "corewire_tcp_data_after_close_total", "Segments with data that nobody will read."},
    description{&tcp::counters::handshake_repeats, "corewire_tcp_handshake_repeats_total", "SYN or SYN-ACK that came again."},
    description{&tcp::counters::retransmitted_bytes, "corewire_tcp_retransmitted_bytes_total", "Payload sent again."},
    description{&tcp::counters::reorderings, "corewire_tcp_reorderings_total",
                "Acknowledgments that told of a segment which others had overtaken."},
    description{&tcp::counters::duplicates_reported, "corewire_tcp_duplicates_reported_total",
                "Segments that peers report to have had twice (RFC 2883)."},
    description{&tcp::counters::sack_refused, "corewire_tcp_sack_refused_total", "SACK blocks that found no room."},
    description{&tcp::counters::beyond_gap_dropped, "corewire_tcp_segments_beyond_gap_dropped_total",
                "Segments beyond a gap that found no room."},
};

} // namespace

std::size_t tcp_census::described_counters() noexcept { return descriptions.size(); }

void tcp_census::register_metrics(metric_group& group) {
    for (int s = 0; s < tcp::tcp_state_count; ++s)
        if (static_cast<tcp::tcp_state>(s) != tcp::tcp_state::listen) // of listeners, which are no connections
            group.gauge("corewire_tcp_connections", "TCP connections by state.", states_[static_cast<std::size_t>(s)],
                        metric_label("state", tcp::name_of(static_cast<tcp::tcp_state>(s))));
    group.histogram("corewire_tcp_rtt_seconds", "Smoothed round-trip times of open connections, each taken once a publication.",
                    round_trips_);
    for (const description& d : descriptions) group.counter(d.name, d.help, sums_.*d.counter);
}

bool tcp_census::collect(metric_registry& registry, bool first) noexcept {
    if (first) {
        next_ = 0;
        states_so_far_ = {};
        sums_so_far_ = tcp_.closed_counters();
    }
    next_ = tcp_.visit_connections(next_, slots_a_slice, [&](const tcp_connection& c) {
        ++states_so_far_[static_cast<std::size_t>(c.tcb.state())];
        sums_so_far_ += c.tcb.statistics();
        const tcp::connection_info info = c.tcb.info();
        if (info.state == tcp::tcp_state::established && info.srtt > duration{0})
            round_trips_.record(static_cast<std::uint64_t>(info.srtt.count()));
        if (registry.rows_full()) return registry.count_row();
        registry.add_row(connection_row{c.name(), info, c.tcb.statistics().retransmitted_segments}.pack());
    });
    if (next_ != 0) return true;
    states_ = states_so_far_;
    auto shown = std::bit_cast<tcp::counter_list>(sums_);
    const auto found = std::bit_cast<tcp::counter_list>(sums_so_far_);
    for (std::size_t i = 0; i < shown.size(); ++i) shown[i] = std::max(shown[i], found[i]);
    sums_ = std::bit_cast<tcp::counters>(shown);
    return false;
}

} // namespace corewire
