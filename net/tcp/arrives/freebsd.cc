// FreeBSD's habits where a segment arrives before the handshake is done (its SYN cache) and in TIME-WAIT (tcp_twcheck()): there it goes by
// fewer steps than RFC 9293 3.10.7.4 has. Asked for under like_freebsd() alone.
#include <corewire/net/tcp/arrives/steps.hh>

namespace corewire::tcp {

namespace {

/// The answer to the SYN that has come again says what that one did.
void agree_again(control_block& c, const arrival& a) noexcept {
    sender& s = c.sending;
    if (c.ecn.on && c.ecn.accurate == nullptr) c.ecn.on = a.seg.has(tcp_flags::ece) && a.seg.has(tcp_flags::cwr);
    if (!c.timestamps) return;
    if (a.seg.options.has_timestamps()) return c.receiving.timestamps.enable(a.seg.options.timestamp_value, a.now);
    c.timestamps = false;
    c.usual_options = wire::tcp_option_set::none;
    s.set_mss(s.mss, false);
    s.congestion.make(*c.options, s.payload_limit);
}

/// Whatever its number: the answer goes once more, and its repetitions are counted anew.
void answer_again(control_block& c, const arrival& a) noexcept {
    sender& s = c.sending;
    ++c.count->handshake_repeats;
    agree_again(c, a);
    s.attempts = 0;
    s.rto.reset_back_off();
    s.waiting_for = awaited::timeout;
    c.timers.arm(timer_slot::retransmit, a.now + s.rto.current(*c.options));
    c.syn_wanted = c.syn_resent = c.output_wanted = true;
}

/// A listener's half-open connection is an entry of a cache: what does not complete it is refused, challenged or nothing, and leaves it.
verdict half_open(control_block& c, arrival& a) noexcept {
    const segment& seg = a.seg;
    const receiver& r = c.receiving;
    if (seg.has(tcp_flags::rst)) {
        if (seg.seq == r.next) a.events |= die(c, std::errc::connection_refused, event::reset);
        else if (++c.count->resets_ignored; seg.seq - r.next < r.room()) challenge(c, a.now);
        return verdict::finished;
    }
    if (seg.has(tcp_flags::syn)) {
        if (!seg.has(tcp_flags::ack)) answer_again(c, a);
        return verdict::finished;
    }
    if (!seg.has(tcp_flags::ack)) return verdict::finished;
    const wire::tcp_options& o = seg.options;
    if (c.timestamps && o.has_timestamps() && r.timestamps.too_early(o.timestamp_value, a.now)) {
        ++c.count->paws_rejected;
        return verdict::finished;
    }
    if (seg.seq - r.next >= r.room()) {
        challenge(c, a.now);
        return verdict::finished;
    }
    if (seg.ack == c.sending.max) return verdict::go_on;
    ++c.count->bad_acks;
    c.reset = pending_reset::at(seg.ack);
    c.output_wanted = true;
    return verdict::finished;
}

/// Where both ends open: what acknowledges no SYN of ours, or lies before the peer's, is refused, and another SYN of his is nothing.
verdict both_open(control_block& c, arrival& a) noexcept {
    const segment& seg = a.seg;
    if (seg.has(tcp_flags::rst)) return verdict::go_on;
    const bool acks = seg.has(tcp_flags::ack);
    const bool acks_ours = c.sending.una < seg.ack && seg.ack <= c.sending.max;
    if (seg.seq < c.irs || (acks && !acks_ours)) {
        ++c.count->bad_acks;
        c.reset = acks ? pending_reset::at(seg.ack) : pending_reset::acking(seg.seq + seg.length());
        c.output_wanted = true;
        return verdict::finished;
    }
    const bool another = seg.has(tcp_flags::syn) && !acks && seg.seq != c.irs && seg.seq - c.irs <= c.receiving.room();
    return another ? verdict::finished : verdict::go_on;
}

verdict time_wait(control_block& c, arrival& a) noexcept {
    const segment& seg = a.seg;
    const receiver& r = c.receiving;
    if (seg.has(tcp_flags::rst) || !seg.has(tcp_flags::ack)) return verdict::finished; // RFC 1337
    if (seg.has(tcp_flags::fin) && seg.seq + seg.length() == r.next) wait_two_lifetimes(c, a.now);
    const bool news = seg.flags != tcp_flags::ack || seg.payload_size != 0 || seg.seq != r.next || seg.ack != c.sending.next;
    if (news) {
        c.answers_plainly = true;
        c.receiving.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::finished;
}

} // namespace

verdict freebsd_shortcuts(control_block& c, arrival& a) noexcept {
    if (c.state == tcp_state::syn_received && !c.passive) return both_open(c, a);
    if (c.state == tcp_state::syn_received && !c.fast_open.get().serving) return half_open(c, a);
    return c.state == tcp_state::time_wait ? time_wait(c, a) : verdict::go_on;
}

} // namespace corewire::tcp
