// FreeBSD's habits where a segment arrives before the handshake is done (its SYN cache) and in TIME-WAIT (tcp_twcheck()): there it goes by
// fewer steps than RFC 9293 3.10.7.4 has. Asked for under like_freebsd() alone.
#include <corewire/net/tcp/arrives/steps.hh>

namespace corewire::tcp {

namespace {

verdict refuse(control_block& c, arrival& a) noexcept {
    ++c.count->bad_acks;
    c.reset = pending_reset::at(a.seg.ack);
    a.events |= die(c, std::errc::connection_refused, event::reset);
    return verdict::finished;
}

/// Whatever its number: the answer goes once more, and its repetitions are counted anew.
void answer_again(control_block& c, const arrival& a) noexcept {
    sender& s = c.sending;
    ++c.count->handshake_repeats;
    if (c.timestamps && a.seg.options.has_timestamps()) c.receiving.timestamps.enable(a.seg.options.timestamp_value, a.now);
    s.attempts = 0;
    s.rto.reset_back_off();
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, a.now + s.rto.current(*c.options));
    c.syn_wanted = c.syn_resent = c.output_wanted = true;
}

/// A listener's half-open connection is an entry of a cache: what does not complete it ends it, or is nothing to it.
verdict half_open(control_block& c, arrival& a) noexcept {
    const segment& seg = a.seg;
    const receiver& r = c.receiving;
    if (seg.has(tcp_flags::rst)) {
        if (seg.seq == r.next) a.events |= die(c, std::errc::connection_refused, event::reset);
        else if (++c.count->resets_ignored; seg.seq - r.next < r.room()) challenge(c, a.now);
        return verdict::finished;
    }
    if (seg.has(tcp_flags::syn)) {
        if (seg.has(tcp_flags::ack)) return refuse(c, a);
        answer_again(c, a);
        return verdict::finished;
    }
    if (!seg.has(tcp_flags::ack)) return verdict::finished;
    const wire::tcp_options& o = seg.options;
    if (c.timestamps && (!o.has_timestamps() || r.timestamps.too_early(o.timestamp_value, a.now))) {
        ++c.count->paws_rejected;
        return verdict::finished;
    }
    const bool completes = seg.ack == c.sending.max && seg.seq - r.next < r.room();
    return completes ? verdict::go_on : refuse(c, a);
}

verdict time_wait(control_block& c, arrival& a) noexcept {
    const segment& seg = a.seg;
    const receiver& r = c.receiving;
    if (seg.has(tcp_flags::rst) || !seg.has(tcp_flags::ack)) return verdict::finished; // RFC 1337
    if (c.timestamps && !seg.options.has_timestamps()) return verdict::finished;
    if (seg.has(tcp_flags::fin) && seg.seq + seg.length() == r.next) wait_two_lifetimes(c, a.now);
    const bool news = seg.flags != tcp_flags::ack || seg.payload_size != 0 || seg.seq != r.next || seg.ack != c.sending.next;
    if (news) {
        c.receiving.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::finished;
}

} // namespace

verdict freebsd_shortcuts(control_block& c, arrival& a) noexcept {
    if (c.state == tcp_state::syn_received && c.passive && !c.fast_open.get().serving) return half_open(c, a);
    return c.state == tcp_state::time_wait ? time_wait(c, a) : verdict::go_on;
}

} // namespace corewire::tcp
