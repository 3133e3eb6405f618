// Linux's habits where it keeps less of a connection than its socket: half open at a listener (tcp_check_req()), in TIME-WAIT, and closed
// in FIN-WAIT-2 (tcp_timewait_state_process()). There it goes by fewer steps than RFC 9293 3.10.7.4. Asked for under like_linux() alone.
#include <corewire/net/tcp/arrives/steps.hh>

#include <chrono>

namespace corewire::tcp {

namespace {

constexpr duration longest_rest = std::chrono::seconds{60}; ///< TCP_TIMEWAIT_LEN: before, a socket waits for the FIN

/// PAWS; here a reset is judged, too.
bool too_old(const control_block& c, const arrival& a) noexcept {
    const timestamp_echo& t = c.receiving.timestamps;
    const wire::tcp_options& o = a.seg.options;
    return c.timestamps && o.has_timestamps() && t.recent() != 0 && t.too_early(o.timestamp_value, a.now);
}

/// tcp_in_window().
bool inside(const control_block& c, const arrival& a) noexcept {
    const receiver& r = c.receiving;
    const seq_number edge = r.next + r.room();
    return a.seq == r.next || (a.end() > r.next && a.seq < edge) || (a.seq == edge && a.length() == 0);
}

/// Where we stand, without SACK blocks; what carries no data is answered twice a second at most.
verdict tell_again(control_block& c, const arrival& a) noexcept {
    ++c.count->unacceptable_segments;
    const bool speaks = a.length() != 0 && !a.syn;
    if (!speaks && !pause_is_over(c, a.now)) return verdict::finished;
    c.receiving.has_duplicate = false;
    if (c.ecn.accurate != nullptr) c.ecn.accurate->habit.out_of_place = true;
    c.receiving.acks.acknowledge_now();
    c.output_wanted = true;
    return verdict::finished;
}

/// As if there were nobody.
verdict deny(control_block& c, arrival& a, std::errc why) noexcept {
    c.reset = a.seg.has(tcp_flags::ack) ? pending_reset::at(a.seg.ack) : pending_reset::acking(a.end());
    c.timestamps = false; // nor does it carry any
    a.events |= die(c, why, event::reset);
    return verdict::finished;
}

/// The echo is of no SYN-ACK of ours, of which the first left at `progress` (since 6.15).
bool echoes_nothing(const control_block& c, const arrival& a) noexcept {
    const std::uint32_t echo = a.seg.options.timestamp_echo, offset = c.timestamp_offset;
    if (!c.timestamps || !a.seg.options.has_timestamps() || echo == 0 || !a.seg.has(tcp_flags::ack)) return false;
    const std::uint32_t first = timestamp_echo::clock(c.sending.progress, offset);
    return echo - first > timestamp_echo::clock(a.now, offset) - first;
}

/// A SYN in the window, which is another one, ends it; the SYN-ACK of a peer that opens, too, is out of place.
verdict half_open(control_block& c, arrival& a) noexcept {
    if (!a.syn && !a.seg.has(tcp_flags::rst) && !too_old(c, a) && echoes_nothing(c, a)) return tell_again(c, a);
    if (!a.syn || a.seg.has(tcp_flags::rst) || too_old(c, a)) return verdict::go_on;
    const bool acks = a.seg.has(tcp_flags::ack);
    if (acks && a.seg.ack != c.sending.max) return verdict::go_on;
    if (!inside(c, a)) return acks ? tell_again(c, a) : verdict::go_on;
    return a.seq == c.irs ? verdict::go_on : deny(c, a, std::errc::connection_refused);
}

/// An orphan in FIN-WAIT-2 waits for nothing but a FIN with nothing new before it. Its ACK field says nothing any more.
verdict wait_for_fin(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    if (too_old(c, a) || !inside(c, a)) return tell_again(c, a);
    if (a.seg.has(tcp_flags::rst)) {
        a.events |= die(c, std::errc{}, event::none);
        return verdict::finished;
    }
    if (a.syn && a.seq >= r.next) return deny(c, a, std::errc::connection_aborted);
    if (!a.seg.has(tcp_flags::ack) || a.length() == 0 || a.end() <= r.next) return verdict::finished;
    if (!a.fin || a.end() != r.next + 1) {
        ++c.count->data_after_orphan;
        return deny(c, a, std::errc::connection_aborted);
    }
    if (c.timestamps && a.seg.options.has_timestamps()) r.timestamps.enable(a.seg.options.timestamp_value, a.now);
    r.has_duplicate = false;
    a.head.clear();
    a.body.clear();
    a.seq = r.next;
    a.size = 0;
    return check_fin(c, a);
}

/// All but a bare segment in its place is answered, data too.
verdict time_wait(control_block& c, arrival& a) noexcept {
    const bool old = too_old(c, a), reset = a.seg.has(tcp_flags::rst);
    if (!old && a.seq == c.receiving.next && (a.length() == 0 || reset)) {
        if (c.timestamps && a.seg.options.has_timestamps()) c.receiving.timestamps.enable(a.seg.options.timestamp_value, a.now);
        if (!reset) wait_two_lifetimes(c, a.now);
        else if (!c.options->keeps_time_wait) a.events |= die(c, std::errc{}, event::none);
        return verdict::finished;
    }
    if (reset) {
        ++c.count->resets_ignored;
        return verdict::finished;
    }
    if (old || a.seg.has(tcp_flags::ack)) wait_two_lifetimes(c, a.now);
    return tell_again(c, a);
}

} // namespace

bool linux_defers(control_block& c, const arrival& a) noexcept {
    const sender& s = c.sending;
    const bool bare = a.seg.seq + a.seg.length() == c.receiving.next;
    if (!bare || s.attempts >= s.known().handshake.time_outs) return false;
    c.sending.need().handshake.heard = true;
    return true;
}

verdict linux_shortcuts(control_block& c, arrival& a) noexcept {
    switch (c.state) {
    case tcp_state::syn_received: return c.passive && !c.fast_open.get().serving ? half_open(c, a) : verdict::go_on;
    case tcp_state::fin_wait_2:
        return c.orphaned && c.timers.at(timer_slot::life) - a.now <= longest_rest ? wait_for_fin(c, a) : verdict::go_on;
    case tcp_state::time_wait: return time_wait(c, a);
    default: return verdict::go_on;
    }
}

} // namespace corewire::tcp
