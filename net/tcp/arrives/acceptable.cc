// The steps that decide whether a segment belongs to this connection here and now: PAWS, sequence number, RST, SYN.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/receive/linux_delayed_acks.hh>

namespace corewire::tcp {

namespace {

/// RFC 9293 3.4, table 6; and an ACK at the window's right edge, for there stands a peer that has sent all it may. Two such peers whose
/// first segments were lost would otherwise believe none of each other's ACKs any more.
bool acceptable(seq_number seq, std::uint32_t length, seq_number next, std::uint32_t window) noexcept {
    const auto inside = [&](seq_number s) { return s - next < window; };
    if (length == 0) return seq - next <= window;
    if (window == 0) return false;
    return inside(seq) || inside(seq + (length - 1)) || (seq < next && seq + length > next + window);
}

/// Linux's habit (since 6.17): what ends beyond the window is taken whole, but not while anything waits to be read.
bool reaches_too_far(const control_block& c, const arrival& a) noexcept {
    const receiver& r = c.receiving;
    return c.options->like_linux() && r.queue.size() != 0 && a.end() > r.window.edge();
}

/// Pure ACKs outside the window are answered twice a second at most: two ends that both think the other is wrong would
/// otherwise keep telling each other for ever.
bool may_answer_again(control_block& c, const arrival& a) noexcept {
    if (c.options->like_freebsd()) return true;
    const bool speaks = c.options->like_linux() ? a.length() != 0 && !a.syn : a.length() != 0;
    return speaks || pause_is_over(c, a.now);
}

/// PAWS as Linux has it: one tick of disorder is none, a clock at 0 was never set, and a pure ACK that changes nothing and is not older
/// than a time-out is harmless.
bool linux_accepts_stamp(const control_block& c, const arrival& a) noexcept {
    const std::uint32_t recent = c.receiving.timestamps.recent();
    const auto age = static_cast<std::int32_t>(recent - a.seg.options.timestamp_value);
    if (age <= 1 || recent == 0) return true;
    const sender& s = c.sending;
    const std::uint32_t window = std::uint32_t{a.seg.window} << s.shift;
    const bool opens = a.seg.ack > s.una || s.wl1 < a.seg.seq || (a.seg.seq == s.wl1 && window > s.window);
    const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(s.rto.current(*c.options)).count();
    return a.length() == 0 && a.seg.has(tcp_flags::ack) && a.seg.seq == c.receiving.next && a.seg.ack == s.una && !opens && age <= grace;
}

/// A reset that is as good as one at RCV.NXT: Linux's habit.
bool linux_accepts_reset(const control_block& c, const arrival& a, bool in_window) noexcept {
    if (!c.options->like_linux()) return false;
    const bool ending = c.state == tcp_state::close_wait || c.state == tcp_state::last_ack || c.state == tcp_state::closing;
    if (ending && a.seg.seq + 1 == c.receiving.next) return true; // a peer that did not count its FIN
    if (!in_window) return false;
    return c.receiving.sack && !c.receiving.ahead.empty() && a.seg.seq == c.receiving.ahead.end();
}

/// What of the segment has a number, for a D-SACK. Linux counts the FIN.
std::uint32_t reported_length(const control_block& c, const arrival& a) noexcept {
    return c.options->like_linux() && !a.syn ? a.length() : a.size;
}

/// All of it came before, which is said at once; but its ACK field is heeded: FreeBSD's habit, and in a case Linux's.
verdict take_old_ack(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    if (a.size != 0) {
        ++c.count->duplicates;
        r.note_duplicate(a.seq, a.seq + a.size);
    }
    a.head.clear();
    a.body.clear();
    a.size = 0;
    a.fin = false;
    a.seq = r.next;
    r.acks.acknowledge_now();
    c.output_wanted = true;
    return verdict::go_on;
}

/// FreeBSD's habit: the window is what is free, though less was promised.
std::uint32_t freebsd_room(const receiver& r) noexcept { return std::max(r.window.free(r.queue.size()), r.room()); }

/// FreeBSD's habit: the peer may know no more than our last ACK has said. True: it is the reset that was to be expected there.
bool freebsd_accepts_reset(control_block& c, const arrival& a) noexcept {
    const receiver& r = c.receiving;
    const seq_number expected = r.acks.last_sent();
    if (a.seg.seq == expected) return true;
    ++c.count->resets_ignored;
    if (a.seg.seq - expected < freebsd_room(r)) challenge(c, a.now);
    return false;
}

/// Linux's habit: what ends where our last ACK did, or behind that, is no old segment (tcp_sequence()): its text came twice, but its ACK
/// field and its timestamp are heeded.
bool take_repetition(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    const std::uint32_t length = reported_length(c, a);
    const bool repeats = length != 0 && !a.syn && !a.seg.has(tcp_flags::rst) && a.end() <= r.next && a.end() >= r.acks.last_sent();
    if (!repeats || c.state == tcp_state::time_wait) return false;
    const seq_number begin = a.seq;
    if (c.ecn.accurate != nullptr) suspect_ack(c, a, begin);
    hurry_acks(c, 16);
    take_old_ack(c, a);
    r.note_duplicate(begin, begin + length);
    return true;
}

/// FreeBSD's habit: whoever is gone refuses text before it is asked where it lies, or what it acknowledges; but behind a FIN it is nothing.
bool freebsd_refuses(control_block& c, arrival& a) noexcept {
    const bool refused = c.orphaned && may_receive(c.state) && a.size != 0 && a.seq + a.size > c.receiving.next;
    if (!refused || a.syn || a.seg.has(tcp_flags::rst)) return false;
    ++c.count->data_after_orphan;
    c.reset = a.seg.has(tcp_flags::ack) ? pending_reset::at(a.seg.ack) : pending_reset::acking(a.seq + a.length());
    c.output_wanted = true;
    a.events |= die(c, std::errc::connection_aborted, event::reset);
    return true;
}

/// FreeBSD's habit: five challenges a second (ack_war_cnt, ack_war_timewindow).
bool freebsd_challenges(control_block& c, time_point now) noexcept {
    troubles& t = c.count.own();
    if (t.challenged < now) {
        t.challenged = now + std::chrono::seconds{1};
        t.challenges_left = 5;
    }
    if (t.challenges_left == 0) return false;
    --t.challenges_left;
    return true;
}

} // namespace

bool pause_is_over(control_block& c, time_point now) noexcept {
    time_point& last = c.count->challenged;
    if (last != time_point{} && now - last < c.options->answer_pause) return false;
    last = now;
    return true;
}

void challenge(control_block& c, time_point now) noexcept {
    const parameters& p = *c.options;
    if ((p.like_linux() && !pause_is_over(c, now)) || (p.like_freebsd() && !freebsd_challenges(c, now))) {
        ++c.count->challenge_acks_withheld;
        return;
    }
    if (c.options->challenges != nullptr && !c.options->challenges->allow(now)) {
        ++c.count->challenge_acks_withheld;
        return;
    }
    ++c.count->challenge_acks;
    c.answers_plainly = c.options->like_freebsd();
    c.receiving.acks.acknowledge_now();
    c.output_wanted = true;
}

verdict check_timestamp(control_block& c, arrival& a) noexcept {
    if (!c.timestamps) return verdict::go_on;
    receiver& r = c.receiving;
    if (!a.seg.options.has_timestamps()) {
        // RFC 7323 3.2: a segment without the option SHOULD be dropped, a reset is judged without it. Others are lenient.
        if (a.seg.has(tcp_flags::rst) || c.options->habits != personality::standard) return verdict::go_on;
        ++c.count->paws_rejected;
        return verdict::finished;
    }
    if (c.options->like_freebsd() && a.syn) return verdict::go_on; // it is challenged, however old
    // RFC 7323 3.2: a reset is not judged by its timestamps.
    if (!r.timestamps.too_early(a.seg.options.timestamp_value, a.now) || a.seg.has(tcp_flags::rst)) return verdict::go_on;
    if (c.options->like_linux() && linux_accepts_stamp(c, a)) return verdict::go_on;
    if (c.options->like_freebsd() && r.timestamps.recent() == 0) return verdict::go_on;
    ++c.count->paws_rejected;
    if (c.options->like_freebsd() && a.size == 0) return verdict::finished;
    if (may_answer_again(c, a)) {
        const std::uint32_t length = reported_length(c, a);
        if (length != 0 && a.seq < r.next) r.note_duplicate(a.seq, earlier(a.seq + length, r.next)); // what lies beyond has not come
        r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::finished;
}

verdict check_sequence(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    std::uint32_t room = r.room();
    if (c.options->like_freebsd()) {
        room = freebsd_room(r);
        if (freebsd_refuses(c, a)) return verdict::finished;
        if (a.size == 0 && a.seq == r.next + room) return verdict::go_on;
    }
    if (!reaches_too_far(c, a)) {
        if (acceptable(a.seq, a.length(), r.next, room)) return verdict::go_on;
        if (c.options->like_linux() && take_repetition(c, a)) return verdict::go_on;
        if (c.options->like_freebsd()) {
            if (a.seg.has(tcp_flags::rst) || a.syn) return verdict::go_on; // check_reset() has its own idea of the window, check_syn() none
            if (a.seq < r.next && a.end() <= r.next) return take_old_ack(c, a);
        }
        // A closed window takes no data, but valid ACKs and resets (RFC 9293 3.10.7.4).
        if (room == 0 && a.seq == r.next) return verdict::go_on;
    }
    ++c.count->unacceptable_segments;
    if (a.seg.has(tcp_flags::rst)) {
        if (linux_accepts_reset(c, a, false)) return verdict::go_on;
        ++c.count->resets_ignored;
        return verdict::finished;
    }
    // The peer repeats its FIN, or text before it: our ACK has not arrived.
    if (c.state == tcp_state::time_wait && a.length() != 0 && !a.syn) wait_two_lifetimes(c, a.now);
    const std::uint32_t length = reported_length(c, a);
    if (length != 0 && a.seq + length <= r.next) {
        if (a.size != 0) ++c.count->duplicates;
        if (c.ecn.accurate != nullptr) suspect_ack(c, a, a.seq);
        r.note_duplicate(a.seq, a.seq + length);
        if (c.options->like_linux()) hurry_acks(c, 16);
    }
    const bool at_the_edge = c.options->like_linux() && a.size != 0 && a.seq == r.window.edge(); // the kernel drops it later than others
    if (at_the_edge) hurry_acks(c, 16);
    if (a.syn && c.ecn.accurate != nullptr) note_repeated_answer(c, a);
    if (at_the_edge || may_answer_again(c, a)) {
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
        // Linux tells when it acknowledges what is new, and FreeBSD then, too, if it has no D-SACK to tell of.
        if (c.options->habits == personality::standard || (c.options->like_freebsd() && r.sack)) r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    const bool like_freebsd = c.options->like_freebsd();
    const std::uint32_t room = (like_freebsd ? r.next + freebsd_room(r) : r.window.edge()) - a.seq;
    const std::uint32_t length = like_freebsd ? a.size : a.length(); // there a FIN takes no room
    if (length > room && !(c.options->like_linux() && room != 0)) { // the end does not fit
        a.fin = false;
        const std::uint32_t excess = a.size > room ? a.size - room : 0;
        const std::uint32_t from_body = std::min(excess, a.body.size());
        a.body.remove_suffix(from_body);
        a.head.remove_suffix(excess - from_body);
        a.size -= excess;
        if (!like_freebsd || a.size == 0) r.acks.acknowledge_now();
        c.output_wanted = true;
    }
    return verdict::go_on;
}

verdict check_reset(control_block& c, arrival& a) noexcept {
    if (!a.seg.has(tcp_flags::rst)) return verdict::go_on;
    if (c.options->like_freebsd()) {
        if (!freebsd_accepts_reset(c, a)) return verdict::finished;
    } else if (a.seg.seq != c.receiving.next && !linux_accepts_reset(c, a, a.seg.seq - c.receiving.next < c.receiving.room())) {
        ++c.count->resets_ignored;
        // RFC 5961 3.2: in the window, but not where the peer knows we are (2); outside, though its text reaches in (1).
        if (a.seg.seq - c.receiving.next < c.receiving.room()) challenge(c, a.now);
        return verdict::finished;
    }
    switch (c.state) {
    case tcp_state::syn_received: { // whoever has it in hand already was not refused; nor, for Linux, whose SYN met another
        const bool known = c.fast_open.get().serving || (!c.passive && c.options->like_linux());
        a.events |= die(c, known ? std::errc::connection_reset : std::errc::connection_refused, event::reset);
        break;
    }
    case tcp_state::closing:
    case tcp_state::last_ack:
        if (c.options->habits != personality::standard && !c.orphaned) {
            a.events |= die(c, std::errc::connection_reset, event::reset);
            break;
        }
        [[fallthrough]];
    case tcp_state::time_wait: // everything was said already
        if (c.state == tcp_state::time_wait && c.options->keeps_time_wait) break;
        a.events |= die(c, std::errc{}, event::none);
        break;
    case tcp_state::close_wait: // Linux's word for it: the peer will not read what is written now
        a.events |= die(c, c.options->like_linux() ? std::errc::broken_pipe : std::errc::connection_reset, event::reset);
        break;
    default: a.events |= die(c, std::errc::connection_reset, event::reset); break;
    }
    return verdict::finished;
}

verdict check_syn(control_block& c, arrival& a) noexcept {
    if (!a.syn) return verdict::go_on;
    // RFC 5961 4: whatever its number, a SYN on a synchronized connection is challenged. A peer that has restarted will
    // answer the ACK with a reset.
    if (c.ecn.accurate != nullptr) note_repeated_answer(c, a);
    challenge(c, a.now);
    return verdict::finished;
}

} // namespace corewire::tcp
