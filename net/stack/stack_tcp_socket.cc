#include <corewire/net/stack/stack_sockets.hh>

#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

stack_tcp_socket::~stack_tcp_socket() { connection_.layer().let_go(connection_); }

void stack_tcp_socket::set_options(const tcp_options_set& options) {
    tcp::tcb& tcb = connection_.tcb;
    tcb.set_no_delay(options.no_delay);
    const bool roomier = options.send_buffer > tcb.options().send_buffer;
    tcb.set_buffers(options.receive_buffer, options.send_buffer);
    tcb.set_keepalive(connection_.layer().now(), options.keepalive, options.keepalive_idle, options.keepalive_interval,
                      options.keepalive_probes);
    tcb.set_user_timeout(options.user_timeout);
    tcb.advertise_user_timeout(options.advertised_user_timeout);
    tcb.set_fin_wait_2(options.fin_wait_2 != duration{0} ? options.fin_wait_2 : connection_.layer().standard_fin_wait_2());
    tcb.set_reset_on_close(options.reset_on_close);
    tcb.set_counted(options.statistics);
    if (options.max_pacing_rate != tcb.options().max_pacing_rate) {
        tcb.set_max_pacing_rate(connection_.layer().now(), options.max_pacing_rate);
    }
    if (const tcp_options_set before = this->options(); options.traffic_class != before.traffic_class || options.hops != before.hops)
        connection_.layer().mark(connection_, options);
    if (roomier) connection_.react(tcp::event::writable);
    connection_.layer().mark_dirty(connection_); // Nagle may have held something back; the timer may have moved
}

tcp_options_set stack_tcp_socket::options() const {
    const tcp::parameters& p = connection_.tcb.options();
    tcp_options_set out;
    out.no_delay = p.no_delay;
    out.receive_buffer = p.receive_buffer;
    out.send_buffer = p.send_buffer;
    out.keepalive = p.keepalive;
    out.keepalive_idle = p.keepalive_idle;
    out.keepalive_interval = p.keepalive_interval;
    out.keepalive_probes = p.keepalive_probes;
    out.user_timeout = p.user_timeout;
    out.advertised_user_timeout = p.advertised_user_timeout;
    out.fin_wait_2 = p.fin_wait_2;
    out.reset_on_close = p.reset_on_close;
    out.max_pacing_rate = p.max_pacing_rate;
    out.statistics = p.counted;
    out.fast_open = connection_.chosen_fast_open();
    out.mtu_probing = connection_.chosen_probing();
    const bool four = connection_.six == nullptr;
    out.hops = four ? p.time_to_live : p.hop_limit;
    out.traffic_class = four ? p.type_of_service : p.traffic_class;
    out.congestion = congestion_named(connection_.tcb.congestion()).value_or(congestion_algorithm::standard);
    return out;
}

std::errc stack_tcp_socket::set_congestion(congestion_algorithm how) {
    const tcp::congestion_factory chosen = factory_of(how);
    connection_.tcb.set_congestion(chosen != nullptr ? chosen : connection_.layer().standard_congestion());
    return {};
}

std::string stack_tcp_socket::congestion() const { return std::string(name_of(options().congestion)); }

namespace {

/// What is kept for connections that ask (tcp_options_set::statistics).
void add_counts(tcp_information& i, const tcp::connection_info& t, time_point now) {
    const tcp::segment_tally& n = t.tally;
    i.segments_sent = n.out;
    i.segments_received = n.in;
    i.data_segments_sent = n.data_out;
    i.data_segments_received = n.data_in;
    const bool opening = t.state == tcp_state::syn_sent || t.state == tcp_state::syn_received;
    i.segments_delivered = opening ? 0u : 1u + n.delivered + t.sacked_segments; // the SYN counts
    i.segments_delivered_marked = n.delivered_marked;
    using work = tcp::segment_tally::work;
    const auto spent = [&](work w) { return n.spent[static_cast<unsigned>(w)] + (n.now == w ? now - n.since : duration{0}); };
    i.limited_by_receiver = spent(work::window);
    i.limited_by_send_buffer = spent(work::buffer);
    i.busy = spent(work::busy) + *i.limited_by_receiver + *i.limited_by_send_buffer;
    if (t.receive_rtt != duration{0}) i.receive_rtt = t.receive_rtt;
}

} // namespace

tcp_information stack_tcp_socket::info() const {
    const tcp::tcb& tcb = connection_.tcb;
    const tcp::connection_info t = tcb.info();
    const tcp::parameters& p = tcb.options();
    constexpr std::uint32_t no_threshold = 0x3fff'ffff; // what controllers start with is beyond any window (RFC 7323 2.3)
    tcp_information i;
    i.state = t.state;
    i.repair = t.timed_out    ? tcp_repair::loss
               : t.recovering ? tcp_repair::recovery
               : t.reduced    ? tcp_repair::reduced
               : t.disordered ? tcp_repair::disorder
                              : tcp_repair::open;
    i.soft_error = tcb.soft_error();
    i.timeouts = t.attempts;
    i.window_probes = t.probes;
    i.backoff = t.backoff;
    i.timestamps = t.timestamps;
    i.sack = t.sack;
    i.window_scaling = t.scaling;
    i.ecn = t.ecn;
    i.accurate_ecn = t.accurate_ecn;
    i.ecn_seen = t.ecn_seen;
    i.data_in_syn = t.data_in_syn;
    i.opened_early = t.opened_early;
    i.fast_open = t.fast_open;
    i.send_scale = t.send_scale;
    i.receive_scale = t.receive_scale;
    i.rto = t.rto;
    i.rtt = t.srtt;
    i.rtt_variation = t.rttvar;
    if (t.min_rtt != duration{0}) i.min_rtt = t.min_rtt;
    i.delayed_ack = p.delayed_ack;
    i.send_segment = t.segment_payload;
    i.received_segment = t.received_segment;
    i.announced_segment = p.mss;
    i.path_mtu = t.packet_size + (connection_.six == nullptr ? 0 : 20);
    i.congestion_window = t.cwnd;
    if (t.ssthresh < no_threshold) i.slow_start_threshold = t.ssthresh;
    i.unacknowledged = t.unacknowledged;
    i.sacked = t.sacked;
    i.lost = t.lost;
    i.retransmitted = t.resent;
    i.unsent = t.unsent;
    i.send_window = t.send_window;
    i.receive_window = t.receive_window;
    i.bytes_acknowledged = t.bytes_acked;
    i.bytes_received = t.bytes_received;
    i.segments_retransmitted = tcb.statistics().retransmitted_segments;
    i.segments_out_of_order = tcb.statistics().out_of_order;
    if (t.paced) i.pacing_rate = t.pacing_rate;
    const time_point now = connection_.layer().now();
    i.since_received = now - tcb.last_heard();
    if (t.last_sent != time_point{}) i.since_data_sent = now - t.last_sent;
    if (t.last_payload != time_point{}) i.since_data_received = now - t.last_payload;
    i.bytes_sent = t.bytes_sent;
    i.bytes_retransmitted = tcb.statistics().retransmitted_bytes;
    i.duplicates_reported = tcb.statistics().duplicates_reported;
    i.reorderings = tcb.statistics().reorderings;
    i.reordering_segments = t.reordering;
    i.receive_buffer_room = t.receive_window;
    if (t.max_pacing_rate != tcp::congestion_controller::not_paced) i.max_pacing_rate = t.max_pacing_rate;
    if (t.receive_space != 0) i.receive_space = t.receive_space;
    i.timeouts_total = tcb.statistics().retransmission_timeouts;
    i.timeout_rows = t.tally.time_out_rows;
    i.in_timeouts = t.tally.in_rows + (t.tally.row_since != time_point{} ? now - t.tally.row_since : duration{0});
    if (t.delivery_rate != 0) {
        i.delivery_rate = t.delivery_rate;
        i.delivery_rate_limited_by_application = t.delivery_rate_limited;
    }
    if (t.accurate_ecn) i.marks = t.marks;
    if (t.counted) add_counts(i, t, now);
    return i;
}

bool stack_tcp_socket::readable() const noexcept {
    return connection_.tcb.readable() != 0 || connection_.tcb.at_end() || connection_.tcb.error() != std::errc{};
}

bool stack_tcp_socket::writable() const noexcept { return connection_.room() != 0; }

} // namespace corewire
