#include <corewire/net/posix/stream_settings.hh>

#include <corewire/net/ip/path_mtu.hh>

#include <algorithm>

namespace corewire::posix {

namespace {
constexpr std::uint32_t unbounded = 1u << 30; ///< bytes
}

tcp_options_set stream_settings::for_backend() const {
    tcp_options_set o;
    o.no_delay = no_delay;
    o.receive_buffer = std::max(receive_buffer / buffer_overhead(), like_freebsd ? 1u : 1024u);
    if (window_clamp != 0) o.receive_buffer = std::min(o.receive_buffer, window_clamp);
    o.send_buffer = std::max(send_buffer / buffer_overhead(), like_freebsd ? 1u : 2048u);
    if (send_buffer_most != 0 && !like_freebsd) o.send_buffer = unbounded; // stream_socket counts as Linux does
    o.keepalive = keepalive || like_freebsd; // net.inet.tcp.always_keepalive
    o.user_timeout = std::chrono::milliseconds{user_timeout};
    o.fin_wait_2 = fin_wait_2_duration();
    o.max_pacing_rate = pacing_rate;
    o.reset_on_close = linger && linger_time == 0;
    o.keepalive_idle = std::chrono::seconds{keepalive_idle};
    o.keepalive_interval = std::chrono::seconds{keepalive_interval};
    o.keepalive_probes = static_cast<unsigned>(keepalive_probes);
    return o;
}

tcp::congestion_factory stream_settings::congestion_controller() const noexcept {
    return congestion == "reno"    ? tcp::reno_congestion
           : congestion == "dctcp" ? tcp::dctcp_congestion
           : congestion == "bbr"   ? tcp::bbr_congestion
                                   : tcp::cubic_congestion;
}

void stream_settings::apply_times(tcp::parameters& p) const {
    if (rto_min_us != 0) p.min_rto = std::chrono::microseconds{rto_min_us};
    if (rto_min_us != 0 && p.like_linux()) p.peer_delayed_ack = p.min_rto; // tcp_schedule_loss_probe()
    if (rto_max_ms != 0) p.max_rto = std::chrono::milliseconds{rto_max_ms};
    if (delayed_ack_most_us != 0) p.delayed_ack = std::min<duration>(p.delayed_ack, std::chrono::microseconds{delayed_ack_most_us});
}

void stream_settings::apply(tcp::parameters& p, bool opened_here) const {
    if (max_segment != 0 && !like_freebsd) p.mss = static_cast<std::uint16_t>(std::min<std::uint32_t>(p.mss, max_segment));
    p.path_mss = std::min(p.path_mss, p.mss);
    // Half of a buffer is window, the other half what keeping it costs (tcp_adv_win_scale = 1).
    p.receive_growth_limit = receive_buffer_set || !receive_buffer_grows ? 0 : receive_buffer_most / 2;
    if (receive_buffer_set && !like_freebsd) p.receive_buffer_limit = std::min(p.receive_buffer_limit, p.receive_buffer); // for the scale
    if (window_clamp != 0) {
        p.receive_buffer = std::min(p.receive_buffer, window_clamp); // it may have been set after listen()
        p.receive_growth_limit = std::min(p.receive_growth_limit, window_clamp);
        p.receive_buffer_limit = std::min(p.receive_buffer_limit, window_clamp); // of which the window's scale is made
    }
    if (p.like_linux()) p.receive_memory = receive_buffer;
    p.send_growth_limit = 0;
    p.fast_open_without_cookie = fast_open_without_cookie || (fast_open_allowed & 4) != 0;
    if (syn_count != 0 && (opened_here || like_freebsd)) p.syn_retries = static_cast<std::uint8_t>(syn_count);
    else if (syn_count != 0) p.syn_ack_retries = static_cast<std::uint8_t>(syn_count);
    p.congestion = congestion_controller();
    if (thin_linear_timeouts) p.thin_linear_timeouts = true;
    apply_times(p);
    p.ecn = (opened_here ? ecn_offered : ecn_accepted) || congestion == "dctcp"; // which can't do without
    p.accurate_ecn = opened_here ? accurate_ecn_offered : accurate_ecn_accepted;
    p.cork = cork;
    p.type_of_service = static_cast<std::uint8_t>(type_of_service);
    p.traffic_class = static_cast<std::uint8_t>(traffic_class);
    p.time_to_live = time_to_live_or_host();
    p.hop_limit = hop_limit_or_host();
    p.least_time_to_live = static_cast<std::uint8_t>(least_time_to_live);
    p.least_hop_limit = static_cast<std::uint8_t>(least_hop_limit);
    if (least_time_to_live != 0 || least_hop_limit != 0) p.fast_path = false;
    p.heeds_path_reports = heeds_reports_v4();
    p.shrinks_later = p.like_linux() && path_mtu_discovery == 0;
    if (no_path_discovery == 1) p.presumed_mtu = path_mtu_cache::minimum;
    p.heeds_path_reports6 = heeds_reports(path_mtu_discovery6);
}

} // namespace corewire::posix
