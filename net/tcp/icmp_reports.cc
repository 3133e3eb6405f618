// What the network says of a connection, by ICMP: trouble (RFC 5927, 5461), no route (RFC 6069), the path's MTU (RFC 1191, 8201).
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/tcb.hh>

namespace corewire::tcp {

namespace {

/// FreeBSD's habits (tcp_drop_syn_sent(), tcp_notify(), syncache_unreach()): `hard` ends SYN-SENT and says nothing else; whatever is said
/// twice ends what has not been opened after three repetitions.
event take_freebsd_report(control_block& c, std::errc what, bool hard) noexcept {
    constexpr unsigned patience = 3;
    const bool half_open = c.passive && c.state == tcp_state::syn_received;
    const bool again = c.count.get().soft_error != std::errc{};
    if (half_open && again && c.sending.attempts >= patience) return die(c, std::errc::connection_refused, event::reset);
    if (hard && !half_open) return c.state == tcp_state::syn_sent ? die(c, what, event::reset) : event::none;
    if (what == std::errc::host_unreachable && c.state == tcp_state::established) return event::none;
    if (!half_open && !is_synchronized(c.state) && again && c.sending.attempts > patience) {
        if (c.state == tcp_state::syn_received) c.reset = pending_reset::acking(c.receiving.next, c.sending.max);
        return die(c, what, event::reset);
    }
    c.count->soft_error = what;
    return event::none;
}

} // namespace

event tcb::on_icmp_error(std::errc what, bool hard, seq_number seq) noexcept {
    const sender& s = c_.sending;
    // RFC 5927 4.1: it must speak of something that is in flight.
    if (c_.state == tcp_state::closed || !(s.una <= seq && seq < s.max)) return event::none;
    if (c_.options->like_freebsd()) return take_freebsd_report(c_, what, hard);
    const bool opening = c_.state == tcp_state::syn_sent || (c_.state == tcp_state::syn_received && !c_.passive);
    const bool connecting = opening && c_.options->like_linux(); // whatever it is, connect() fails
    if ((hard && !is_synchronized(c_.state)) || connecting) return die(c_, what, event::reset);
    c_.count->soft_error = what;
    return event::none;
}

void tcb::on_no_route(time_point now, seq_number seq) noexcept {
    sender& s = c_.sending;
    if (!is_synchronized(c_.state) || seq != s.una || s.waiting_for != awaited::timeout || s.attempts == 0 || s.rto.backoff() == 0) return;
    const duration was = s.rto.current(*c_.options);
    s.rto.take_back_off();
    const time_point at = c_.timers.at(timer_slot::retransmit) - (was - s.rto.current(*c_.options));
    c_.timers.arm(timer_slot::retransmit, std::max(at, now));
}

event tcb::on_path_mtu(time_point now, std::uint32_t mtu, seq_number seq) noexcept {
    const std::uint32_t size = std::clamp<std::uint32_t>(mtu, 40, 0xffff) - 40;
    return take_mtu_report(c_, now, static_cast<std::uint16_t>(size), seq);
}

void tcb::fit_into_path(std::uint32_t mtu) noexcept {
    const std::uint32_t size = std::clamp<std::uint32_t>(mtu, 40, 0xffff) - 40;
    const auto most = static_cast<std::uint16_t>(size);
    if (c_.state == tcp_state::syn_sent && most < c_.options->path_mss) c_.options.set(&parameters::path_mss, most);
    else if (most < c_.sending.mss) shrink_segments(c_, most);
    // Unlike a report it holds for good: no search goes beyond it.
    if (path_search* const p = c_.sending.search(); p != nullptr) p->ceiling = std::min(p->ceiling, most);
}

} // namespace corewire::tcp
