// The steps that decide whether a segment belongs to this connection here and now: PAWS, sequence number, RST, SYN.
#include <corewire/net/tcp/arrives/steps.hh>

namespace corewire::tcp {

namespace {

/// RFC 9293 3.4, table 6.
bool acceptable(seq_number seq, std::uint32_t length, seq_number next, std::uint32_t window) noexcept {
    const auto inside = [&](seq_number s) { return s - next < window; };
    if (length == 0) return window == 0 ? seq == next : inside(seq);
    if (window == 0) return false;
    return inside(seq) || inside(seq + (length - 1)) || (seq < next && seq + length > next + window);
}

/// Pure ACKs outside the window are answered twice a second at most: two ends that both think the other is wrong would
/// otherwise keep telling each other for ever.
bool may_answer_again(control_block& c, const arrival& a) noexcept {
    constexpr duration pause = std::chrono::milliseconds{500};
    if (a.length() != 0) return true;
    time_point& last = c.count->challenged;
    if (last != time_point{} && a.now - last < pause) return false;
    last = a.now;
    return true;
}

} // namespace

void challenge(control_block& c, time_point now) noexcept {
    if (c.options->challenges != nullptr && !c.options->challenges->allow(now)) {
        ++c.count->challenge_acks_withheld;
        return;
    }
    ++c.count->challenge_acks;
    c.receiving.acks.acknowledge_now();
    c.output_wanted = true;
}

verdict check_timestamp(control_block& c, arrival& a) noexcept {
    if (!c.timestamps) return verdict::go_on;
    receiver& r = c.receiving;
    if (!a.seg.options.has_timestamps()) {
        // RFC 7323 3.2: a segment without the option SHOULD be dropped, a reset is judged without it.
        if (a.seg.has(tcp_flags::rst) || c.options->like_linux()) return verdict::go_on;
        ++c.count->paws_rejected;
        return verdict::finished;
    }
    // RFC 7323 3.2: a reset is not judged by its timestamps.
    if (!r.timestamps.too_early(a.seg.options.timestamp_value, a.now) || a.seg.has(tcp_flags::rst)) return verdict::go_on;
    ++c.count->paws_rejected;
    if (may_answer_again(c, a)) {
        if (a.size != 0) r.note_duplicate(a.seq, a.seq + a.size);
        r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::finished;
}

verdict check_sequence(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    if (acceptable(a.seq, a.length(), r.next, r.room())) return verdict::go_on;
    // A closed window takes no data, but valid ACKs and resets (RFC 9293 3.10.7.4).
    if (r.room() == 0 && a.seq == r.next) return verdict::go_on;
    ++c.count->unacceptable_segments;
    if (a.seg.has(tcp_flags::rst)) {
        ++c.count->resets_ignored;
        return verdict::finished;
    }
    // The peer repeats its FIN, or text before it: our ACK has not arrived.
    if (c.state == tcp_state::time_wait && a.length() != 0 && !a.syn) wait_two_lifetimes(c, a.now);
    if (a.size != 0 && a.seq + a.size <= r.next) {
        ++c.count->duplicates;
        r.note_duplicate(a.seq, a.seq + a.size);
    }
    if (a.syn && a.seg.has(tcp_flags::ack) && a.seg.seq == c.irs && c.ecn.accurate != nullptr && !c.passive) note_repeated_answer(c, a.seg);
    if (may_answer_again(c, a)) {
        r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::finished;
}

verdict trim_to_window(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    if (a.length() == 0) return verdict::go_on;
    if (a.seq < r.next) { // the front came before
        const std::uint32_t old = std::min(r.next - a.seq, a.size);
        if (old != 0) r.note_duplicate(a.seq, a.seq + old);
        const std::uint32_t from_head = std::min(old, a.head.size());
        a.head.remove_prefix(from_head);
        a.body.remove_prefix(old - from_head);
        a.seq += old;
        a.size -= old;
        r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    const std::uint32_t room = r.window.edge() - a.seq;
    if (a.length() > room) { // the end does not fit
        a.fin = false;
        const std::uint32_t excess = a.size > room ? a.size - room : 0;
        const std::uint32_t from_body = std::min(excess, a.body.size());
        a.body.remove_suffix(from_body);
        a.head.remove_suffix(excess - from_body);
        a.size -= excess;
        r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::go_on;
}

verdict check_reset(control_block& c, arrival& a) noexcept {
    if (!a.seg.has(tcp_flags::rst)) return verdict::go_on;
    if (a.seg.seq != c.receiving.next) {
        ++c.count->resets_ignored;
        // RFC 5961 3.2: in the window, but not where the peer knows we are (2); outside, though its text reaches in (1).
        if (a.seg.seq - c.receiving.next < c.receiving.room()) challenge(c, a.now);
        return verdict::finished;
    }
    switch (c.state) {
    case tcp_state::syn_received: // whoever has it in hand already was not refused
        a.events |= die(c, c.fast_open.get().serving ? std::errc::connection_reset : std::errc::connection_refused, event::reset);
        break;
    case tcp_state::closing:
    case tcp_state::last_ack:
    case tcp_state::time_wait: // everything was said already
        a.events |= die(c, std::errc{}, event::none);
        break;
    default: a.events |= die(c, std::errc::connection_reset, event::reset); break;
    }
    return verdict::finished;
}

verdict check_syn(control_block& c, arrival& a) noexcept {
    if (!a.syn) return verdict::go_on;
    // RFC 5961 4: whatever its number, a SYN on a synchronized connection is challenged. A peer that has restarted will
    // answer the ACK with a reset.
    challenge(c, a.now);
    return verdict::finished;
}

} // namespace corewire::tcp
