// How a connection ends, by the application's wish or the network's word; and changing one's mind on options.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/receive/linux_window.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/super_segments.hh>
#include <corewire/net/tcp/tcb.hh>

namespace corewire::tcp {

void tcb::shutdown_send() noexcept {
    if (c_.sending.fin_queued || c_.state == tcp_state::closed) return;
    c_.sending.fin_queued = true;
    c_.output_wanted = true;
    c_.predictable = prediction::none;
    // During the handshake the FIN waits; establish() makes the move (RFC 9293 3.10.4).
    if (is_synchronized(c_.state)) c_.move(transition::fin_sent);
    else if (c_.fin_goes_ahead()) c_.ack_first = true;
}

void tcb::orphan(time_point now) noexcept {
    c_.orphaned = true;
    c_.predictable = prediction::none;
    if (c_.options->like_freebsd()) c_.receiving.queue.clear();
    const bool both_open = c_.options->like_freebsd() && c_.state == tcp_state::syn_received && !c_.passive;
    if (c_.state == tcp_state::syn_sent || both_open) { // RFC 9293 3.10.4: delete the TCB
        die(c_, std::errc::connection_aborted, event::none);
    } else if (c_.state == tcp_state::fin_wait_2) {
        if (c_.options->fin_wait_2 < duration{0}) return abort();
        c_.timers.arm(timer_slot::life, now + c_.options->fin_wait_2);
    }
}

void tcb::abort() noexcept {
    if (c_.state == tcp_state::closed) return;
    // RFC 9293 3.10.5: the peer is told where there is one that knows us.
    // In CLOSING and LAST-ACK everything has been said, if our FIN is out.
    const bool ending = (c_.state == tcp_state::closing || c_.state == tcp_state::last_ack) && !c_.options->like_freebsd();
    const bool said = ending && c_.sending.fin_sent();
    // Linux and FreeBSD forget what a listener has half open, and answer the ACK; but what Fast Open has given to accept() is a connection.
    const bool half_open = c_.passive && c_.state == tcp_state::syn_received && !serving_early();
    const bool forgotten = half_open && c_.options->habits != personality::standard;
    const bool tell = c_.state != tcp_state::syn_sent && c_.state != tcp_state::time_wait && !said && !forgotten;
    if (tell) c_.reset = pending_reset::acking(c_.receiving.next, c_.sending.next);
    die(c_, std::errc::connection_aborted, event::none);
}

void tcb::vanish() noexcept {
    if (c_.state != tcp_state::closed) die(c_, std::errc::connection_aborted, event::none);
}

void tcb::ask_for_window() noexcept {
    c_.sending.wl1 = c_.receiving.next - 1; // whatever is told next is news
    c_.keepalive_wanted = c_.output_wanted = true;
    c_.predictable = prediction::none;
}

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
    if (size < c_.sending.mss) shrink_segments(c_, static_cast<std::uint16_t>(size));
}

void tcb::advertise_user_timeout(duration timeout) noexcept {
    if (timeout == c_.options->advertised_user_timeout) return;
    c_.options.set(&parameters::advertised_user_timeout, timeout);
    if (timeout > duration{0} && is_synchronized(c_.state)) tell_user_timeout(c_);
}

void tcb::set_urgent() noexcept {
    if (c_.sending.queue.size() == 0 || c_.state == tcp_state::closed) return;
    c_.urgent.sending = true;
    c_.urgent.send_end = c_.sending.queue.end();
    c_.predictable = prediction::none;
    c_.output_wanted = true;
    if (c_.options->like_freebsd()) c_.sending.small_end = c_.sending.una; // it is not gathered (TF_FORCEDATA)
    // Linux only says so with its probes.
    if (is_synchronized(c_.state) && c_.sending.usable_window() <= 0 && !c_.options->like_linux()) c_.receiving.acks.acknowledge_now();
}

std::uint32_t tcb::urgent_ahead() const noexcept {
    if (!c_.urgent.known) return 0;
    const seq_number reader = c_.receiving.next - (c_.receiving.queue.size() + (c_.receiving.fin_received ? 1u : 0u));
    return c_.urgent.receive_end > reader ? c_.urgent.receive_end - reader : 0;
}

/// The reader has moved: a mark that lies behind it is forgotten.
void tcb::pass_urgent() noexcept {
    if (urgent_ahead() == 0) c_.urgent.known = false;
}

void tcb::begin_write(bool more) noexcept {
    if (c_.options->like_linux()) begin_buffers(c_, more);
}

void tcb::limit_segments(std::uint16_t size) noexcept {
    c_.sending.set_mss(std::min(size, c_.sending.mss), c_.timestamps);
    c_.sending.congestion.own().set_mss(c_.sending.payload_limit);
    c_.predictable = prediction::none;
}

void tcb::set_no_delay(bool on) noexcept {
    c_.options.set(&parameters::no_delay, on);
    if (!c_.options->like_freebsd()) c_.output_wanted = true; // what it gathers there goes with the next write, or ACK
}

namespace {

/// The loss that is under repair is answered now: the controller before kept a window of its own, and has set no ssthresh.
void answer_loss(control_block& c) noexcept {
    sender& s = c.sending;
    const bool linux_habits = c.options->like_linux();
    const std::uint32_t flight = s.max - s.una, before = std::min(s.congestion->cwnd(), flight);
    if (s.repair.phase == recovery_phase::timeout) { // slow start goes on, but knows where to end
        s.congestion.own().on_timeout(c.heard, flight, true);
        return s.congestion.own().limit(std::min(before, s.congestion->ssthresh()));
    }
    s.congestion.own().on_loss(c.heard, flight);
    s.need().reduction.start(linux_habits ? before : s.board.pipe() + s.board.lost(), linux_habits ? s.payload_limit : 1);
}

} // namespace

void tcb::set_congestion(congestion_factory how) noexcept {
    const recovery_phase phase = c_.sending.repair.phase;
    const bool timed_out = phase == recovery_phase::timeout && c_.options->habits == personality::standard;
    const bool unanswered = (phase == recovery_phase::fast || timed_out) && c_.sending.congestion->repairs_itself();
    const congestion_factory was = c_.options->controller();
    c_.options.set(&parameters::congestion, how); // in the handshake it is made anew, when the segment size is agreed on
    if (c_.options->controller() == was) return; // what it has learned stays
    c_.sending.congestion.replace(c_.options->controller());
    if (c_.options->like_linux()) c_.sending.congestion.own().follow_linux();
    if (unanswered && !c_.sending.congestion->repairs_itself()) answer_loss(c_);
    pace();
    c_.ecn.exact = c_.ecn.on && c_.sending.congestion->wants_exact_marks();
}

void tcb::set_max_pacing_rate(time_point now, std::uint64_t rate) noexcept {
    const std::uint64_t was = c_.sending.known().pace.rate();
    c_.options.set(&parameters::max_pacing_rate, std::max<std::uint64_t>(rate, 1));
    pace();
    if (c_.sending.seldom == nullptr) return;
    c_.sending.seldom->pace.hasten(now, was);
    super_segment& packets = c_.sending.seldom->leaving;
    packets.rate = std::min(packets.rate, c_.options->max_pacing_rate);
}

void tcb::pace() noexcept {
    c_.sending.set_pace(*c_.options);
    c_.predictable = prediction::none; // asked for again after the next segment
    c_.output_wanted = true;
}

void tcb::set_counted(bool on) noexcept {
    if (on == c_.options->counted) return;
    c_.options.set(&parameters::counted, on);
    if (on && is_synchronized(c_.state)) c_.sending.need().tally.acked = c_.sending.bytes_acked();
    if (!on && c_.sending.seldom != nullptr) c_.sending.seldom->tally.no_space = false; // nobody will say when there is room again
    pace();
}

void tcb::set_cork(bool on) noexcept {
    c_.sending.corked = on;
    if (on) c_.predictable = prediction::none; // asked for again after the next segment
    c_.output_wanted = true;
}

void tcb::set_quick_acks(bool on, bool once) noexcept {
    receiver& r = c_.receiving;
    ack_policy& acks = r.acks;
    acks.set_quick(on ? std::max<std::uint8_t>(c_.options->quick_acks, 1) : std::uint8_t{0});
    const bool open = c_.state == tcp_state::established || c_.state == tcp_state::close_wait;
    if (on && open && c_.options->like_linux() && acks.pending()) { // as if something had been read: tcp_cleanup_rbuf()
        acks.note_end_of_write(false);
        if (acks.due_when_read(r.next, r.queue.size() == 0 && r.ahead.empty())) acks.acknowledge_now();
        if (once) acks.set_interactive(true);
    }
    if (acks.now()) c_.output_wanted = true;
}

void tcb::set_keepalive(time_point now, bool on, duration idle, duration interval, unsigned probes) noexcept {
    const parameters& p = *c_.options;
    const bool begins = on && !p.keepalive;
    const bool clock_moves = on != p.keepalive || idle != p.keepalive_idle;
    c_.options.set(&parameters::keepalive, on);
    c_.options.set(&parameters::keepalive_idle, idle);
    c_.options.set(&parameters::keepalive_interval, interval);
    c_.options.set(&parameters::keepalive_probes, static_cast<std::uint8_t>(std::min(probes, 255u)));
    if (!clock_moves) return;
    if (!c_.options->like_linux()) c_.keepalives_out = 0;
    if (on && is_synchronized(c_.state) && c_.state != tcp_state::time_wait) { // RFC 9293 3.6.1: that lasts
        // They look when it was asked to for so long.
        const bool from_now = (begins && c_.options->like_linux()) || c_.options->like_freebsd();
        const time_point from = from_now ? now : c_.heard;
        c_.timers.arm(timer_slot::keepalive, std::max(now, from + idle));
    } else if (!on) {
        c_.timers.disarm(timer_slot::keepalive);
    }
}

void tcb::set_buffers(std::uint32_t receive, std::uint32_t send) noexcept {
    if (receive != c_.options->receive_buffer) {
        c_.options.set(&parameters::receive_buffer, receive);
        fix_buffers(true, false);
    }
    if (send != c_.options->send_buffer) {
        c_.options.set(&parameters::send_buffer, send);
        fix_buffers(false, true);
    }
}

bool tcb::drop_ahead() noexcept {
    receiver& r = c_.receiving;
    if (r.ahead.empty()) return false;
    r.ahead.clear();
    if (c_.options->like_linux()) forget_what_came_ahead(c_);
    r.acks.acknowledge_now();
    c_.output_wanted = true;
    return true;
}

void tcb::fix_buffers(bool receive, bool send) noexcept {
    if (receive) {
        c_.options.set(&parameters::receive_growth_limit, 0);
        c_.receiving.sizing.stop();
        c_.receiving.set_buffer(c_.options->receive_buffer, *c_.options);
    }
    if (send) {
        c_.options.set(&parameters::send_growth_limit, 0);
        c_.sending.queue.set_limit(c_.options->send_buffer);
    }
}

event tcb::refuse(seq_number acknowledged) noexcept {
    c_.reset = pending_reset::at(acknowledged);
    return die(c_, std::errc::connection_aborted, event::reset);
}

event tcb::end_time_wait() noexcept {
    if (c_.state != tcp_state::time_wait) return event::none;
    c_.move(transition::expired);
    return die(c_, std::errc{}, event::none);
}

bool tcb::is_told_apart() const noexcept {
    return c_.state == tcp_state::time_wait && c_.timestamps && c_.options->timestamps && !c_.options->like_freebsd();
}

bool tcb::may_be_succeeded(time_point now) const noexcept { return is_told_apart() && now - c_.heard > std::chrono::seconds{1}; }

bool tcb::may_reuse(const segment& syn) const noexcept {
    if (c_.state != tcp_state::time_wait || !syn.has(tcp_flags::syn) || syn.has(tcp_flags::ack | tcp_flags::rst)) {
        return false;
    }
    if (c_.options->like_freebsd()) return syn.seq > c_.receiving.next;
    if (syn.has(tcp_flags::fin) && !c_.options->like_linux()) return false; // no listener takes it, and this would end for nothing
    // RFC 6191 2: a later timestamp or a later number tells a new connection from an old duplicate.
    if (c_.options->timestamps && syn.options.has_timestamps()) {
        // An old duplicate would have none. Linux does not look.
        if (!c_.timestamps) return !c_.options->like_linux() || syn.seq > c_.receiving.next;
        const auto age = static_cast<std::int32_t>(syn.options.timestamp_value - c_.receiving.timestamps.recent());
        if (age != 0) return age > 0;
    }
    return syn.seq > c_.receiving.next;
}

} // namespace corewire::tcp
