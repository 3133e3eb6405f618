// What an application changes of a connection that stands: options of its socket. Those that are one word are in tcb.hh.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/tcb.hh>

namespace corewire::tcp {

void tcb::advertise_user_timeout(duration timeout) noexcept {
    if (timeout == c_.options->advertised_user_timeout) return;
    c_.options.set(&parameters::advertised_user_timeout, timeout);
    if (timeout > duration{0} && is_synchronized(c_.state)) tell_user_timeout(c_);
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
        s.congestion.own().on_timeout(flight, true);
        return s.congestion.own().limit(std::min(before, s.congestion->ssthresh()));
    }
    s.congestion.own().on_loss(flight);
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

} // namespace corewire::tcp
