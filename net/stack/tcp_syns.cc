// SYNs that are answered with a cookie (RFC 4987), and those whose headers are kept for who accepts the connection (TCP_SAVE_SYN).
#include <corewire/net/stack/tcp_layer.hh>

#include <corewire/net/tcp/open/syn_cookies.hh>
#include <corewire/net/tcp/receive/timestamps.hh>
#include <corewire/net/tcp/receive/window.hh>
#include <corewire/net/wire/ethernet.hh>

#include <algorithm>
#include <new>

namespace corewire {

using wire::tcp_flags;

/// Keeps nothing: what the handshake needs to know travels in the SYN-ACK (RFC 4987 3.6).
void tcp_layer::answer_with_cookie(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s) {
    const tcp::parameters p = parameters_for(listener.options().stream, flow.remote, listener.tuning());
    const std::uint16_t mss = s.options.has_mss() ? s.options.mss : std::uint16_t{536}; // RFC 9293 3.7.1 (MUST-15)
    const bool remembers = p.timestamps && s.options.has_timestamps();
    const tcp_flags ecn = tcp::cookie_flags(p, s, remembers);
    tcp::outgoing_segment answer;
    answer.make_bare(tcp::make_cookie(cookie_key_, now, tuple_of(flow), s.seq, mss), tcp_flags::syn | tcp_flags::ack | ecn);
    answer.ack = s.seq + 1;
    const std::uint32_t carried = p.mss - wire::tcp_options::usual_size(remembers); // Linux's window is whole segments
    answer.window = tcp::receive_window::unscaled(p.receive_buffer, p.like_linux() ? carried : 1);
    wire::tcp_options options;
    options.set_mss(p.mss);
    if (ecn != tcp_flags::none && ecn != tcp_flags::ece) tcp::offer_counters(p, options); // RFC 9768 3.2.3.2.1
    if (remembers) {
        tcp::cookie_terms terms;
        terms.ecn = p.like_linux() ? ecn != tcp_flags::none : ecn == tcp_flags::ece;
        terms.sack = p.sack && s.options.has_sack_permitted();
        if (p.window_scaling && s.options.has_window_scale()) terms.window_scale = s.options.window_scale;
        const std::uint32_t stamp = tcp::cookie_timestamp(tcp::timestamp_echo::clock(now, 0), terms);
        options.set_timestamps(stamp + timestamp_offset(flow), s.options.timestamp_value); // added behind, and taken off first
        if (terms.sack) options.set_sack_permitted();
        if (terms.window_scale != tcp::no_window_scale) options.set_window_scale(tcp::receive_window::scale_for(p.largest_window()));
    }
    answer.option_size = static_cast<std::uint8_t>(options.emit(answer.options));
    ++statistics_.tcp_cookies_sent;
    listener.gave_cookie(now);
    send_bare(flow, answer, p);
}

/// `p.head` starts behind the SYN's TCP header, and what came before it lies there still.
void tcp_layer::save_syn(const tcp_connection& c, tcp_listen_socket& listener, const packet& p) {
    const std::uint32_t room = p.head.headroom();
    std::uint32_t size = syn_ip_header_;
    if (room < syn_header_ + size) return;
    const std::byte* const tcp = p.head.data() - syn_header_;
    constexpr std::uint32_t link_size = wire::ethernet_header::size;
    if (listener.saved_headers() == tcp_listen_socket::syn_headers::from_link && room - syn_header_ - size >= link_size) {
        const std::uint16_t type = load_be16(tcp - size - 2); // what was put together of fragments has none
        if (type == static_cast<std::uint16_t>(c.name().is_v4() ? wire::ether_type::ipv4 : wire::ether_type::ipv6)) size += link_size;
    }
    try {
        saved_syns_.insert_or_assign(&c, std::vector<std::byte>(tcp - size, tcp + syn_header_));
    } catch (const std::bad_alloc&) { // they are not kept: the listener asked for them, the connection does without
    }
}

/// As `p` lies for save_syn(). ECN's bits are the connection's own.
void tcp_layer::reflect_service(tcp::parameters& ours, const flow_name& flow, const packet& p) const noexcept {
    if (p.head.headroom() < syn_header_ + syn_ip_header_) return;
    const std::byte* const ip = p.head.data() - syn_header_ - syn_ip_header_;
    if (flow.is_v4()) ours.type_of_service = wire::without_ecn(load_u8(ip + 1));
    else ours.traffic_class = wire::without_ecn(load_be16(ip) >> 4);
}

std::vector<std::byte> tcp_layer::take_saved_syn(const tcp_connection& c) {
    if (saved_syns_.empty()) return {};
    const auto found = saved_syns_.find(&c);
    if (found == saved_syns_.end()) return {};
    std::vector<std::byte> headers = std::move(found->second);
    saved_syns_.erase(found);
    return headers;
}

} // namespace corewire
