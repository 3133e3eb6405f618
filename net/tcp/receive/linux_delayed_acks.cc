#include <corewire/net/tcp/receive/linux_delayed_acks.hh>

#include <corewire/net/tcp/receive/linux_window.hh>

namespace corewire::tcp {

namespace {

constexpr std::uint8_t most_quick = 16; ///< TCP_MAX_QUICKACKS
constexpr std::uint32_t least_to_grow = 128; ///< bytes: for smaller segments no larger window is worth while

/// As many as half the window has segments. tcp_incr_quickack().
void more_quick(control_block& c, std::uint8_t most) noexcept {
    const receiver& r = c.receiving;
    const std::uint32_t useful = (r.window.edge() - r.acks.last_sent()) / (2 * r.acks.largest_segment());
    c.receiving.acks.add_quick(static_cast<std::uint8_t>(std::min<std::uint32_t>(useful != 0 ? useful : 2, most)));
}

/// A shorter one counts at once. The one by timestamps is smoothed, while the reader keeps up; those by windows may be of more than one.
void take_round_trip(receive_round_trip& r, std::int64_t ns, bool of_a_window, bool all_read) noexcept {
    constexpr std::int64_t longest = 500'000'000; // us: eight times as much has 32 bits
    const auto us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(ns / 1000, 1, longest));
    if (r.eighths == 0 || 8 * us < r.eighths) r.eighths = 8 * us;
    else if (!of_a_window && all_read) r.eighths += us - r.eighths / 8;
}

void measure_by_stamps(control_block& c, const arrival& a, receive_round_trip& r) noexcept {
    const std::uint32_t echo = a.seg.options.timestamp_echo;
    if (c.timestamps && a.seg.options.has_timestamps() && echo != r.echo) {
        r.echo = echo;
        const std::uint32_t ms = timestamp_echo::clock(a.now, c.timestamp_offset) - echo;
        const bool full = a.size >= c.receiving.acks.largest_segment();
        if (full && ms < 0x8000'0000) take_round_trip(r, std::max<std::int64_t>(ms, 1) * 1'000'000, false, c.receiving.queue.size() == 0);
    }
}

void measure_round_trip(control_block& c, const arrival& a, receive_round_trip& r) noexcept {
    measure_by_stamps(c, a, r);
    const seq_number next = c.receiving.next + a.size;
    if (r.since != never) {
        if (next < r.end) return;
        take_round_trip(r, to_ns(a.now) - to_ns(r.since), true, true);
    }
    r.since = a.now;
    r.end = next + c.receiving.room();
}

} // namespace

void note_arrival(control_block& c, const arrival& a) noexcept {
    seldom_needed& known = c.sending.need();
    if (c.options->like_linux()) heed_reader(c, a.now);
    measure_round_trip(c, a, known.receive_rtt);
    if (!c.options->like_linux()) {
        known.use.payload_at = a.now;
        return;
    }
    note_cost(c, a, true);
    duration& time_out = known.acks.time_out;
    if (time_out == duration{0}) {
        more_quick(c, most_quick);
        time_out = ack_habits::least;
    } else {
        const duration gap = a.now - known.use.payload_at;
        const duration rto = c.sending.rto.current(*c.options);
        if (gap <= ack_habits::least / 2) time_out = time_out / 2 + ack_habits::least / 2;
        else if (gap < time_out) time_out = std::min(time_out / 2 + gap, rto);
        else if (gap > rto) more_quick(c, most_quick); // the peer begins anew
    }
    known.use.payload_at = a.now;
    if (a.seg.payload_size >= least_to_grow) grow_linux_window(c, a);
}

void note_beyond_gap(control_block& c, const arrival& a) noexcept { measure_by_stamps(c, a, c.sending.need().receive_rtt); }

void acknowledge_gap(control_block& c, time_point now) noexcept {
    ack_policy& acks = c.receiving.acks;
    const sack_compression& p = c.options->sparse_sacks;
    if (acks.now()) return;
    if (acknowledges_now(c) || !c.receiving.sack || acks.left_out() >= p.most) return acks.acknowledge_now();
    seldom_needed& known = c.sending.need();
    ack_habits& h = known.acks;
    constexpr std::uint8_t told_at_once = 3; // so that the sender sees what three duplicate ACKs tell (RFC 5681)
    if (h.gap != c.receiving.next) h.gap_told = 0;
    h.gap = c.receiving.next;
    if (h.gap_told < told_at_once) {
        ++h.gap_told;
        return acks.acknowledge_now();
    }
    const bool waited = acks.pending();
    if (!acks.leave_out()) return;
    duration round_trip = std::chrono::microseconds{known.receive_rtt.eighths / 8};
    if (const duration sent = c.sending.rto.srtt(); sent != duration{0}) round_trip = std::min(round_trip, sent);
    const time_point due = now + std::min(p.wait, round_trip / 20) + p.slack;
    c.timers.arm(timer_slot::delayed_ack, waited ? std::min(due, c.timers.at(timer_slot::delayed_ack)) : due);
}

bool tell_of_others_first(control_block& c, const sack_block& b) noexcept {
    receiver& r = c.receiving;
    if (r.acks.left_out() == 0 || r.acks.now() || !r.ahead.displaces_two(b)) return false;
    c.sending.need().acks.late = b;
    c.ecn.old_ack_wanted = true;
    r.acks.acknowledge_now();
    return true;
}

bool remember_late(control_block& c) noexcept {
    sack_block& late = c.sending.need().acks.late;
    if (late.size() == 0) return false;
    c.receiving.ahead.remember(late.left, late.right);
    late = {};
    c.ecn.old_ack_wanted = false;
    return true;
}

void acknowledge_or_delay(control_block& c, time_point now) noexcept {
    ack_policy& acks = c.receiving.acks;
    if (acknowledges_now(c)) return acks.acknowledge_now();
    delay_ack(c, now, acks.wait());
}

void delay_ack(control_block& c, time_point now, bool first) noexcept {
    const ack_policy& acks = c.receiving.acks;
    if (acks.now()) return;
    constexpr duration tick = std::chrono::milliseconds{1}; // of Linux's timers: a FIN before any data waits for the next one
    duration wait = std::max(c.sending.known().acks.time_out, tick);
    if (wait > ack_habits::least) {
        duration most = acks.interactive() || acks.waits_for_reader() ? std::chrono::milliseconds{200} : std::chrono::milliseconds{500};
        if (c.sending.rto.srtt() != duration{0}) most = std::min(most, std::max(c.sending.rto.srtt(), ack_habits::least));
        wait = std::min(wait, most);
    }
    wait = std::min({wait, c.options->delayed_ack, std::max(c.options->min_rto, 2 * tick) - tick}); // tcp_delack_max()
    const time_point armed = c.timers.at(timer_slot::delayed_ack);
    if (first) return c.timers.arm(timer_slot::delayed_ack, now + wait); // it begins to wait
    if (armed <= now + wait / 4) { // it would go soon in any case
        c.receiving.acks.acknowledge_now();
        c.output_wanted = true;
    }
}

void note_answer(control_block& c, time_point now) noexcept {
    seldom_needed& known = c.sending.need();
    if (now - known.use.payload_at >= known.acks.time_out || c.receiving.acks.interactive()) return;
    if (known.acks.answers < c.options->interactive_after) ++known.acks.answers;
    if (known.acks.answers >= c.options->interactive_after) c.receiving.acks.set_interactive(true);
}

void note_missed_ride(control_block& c) noexcept {
    duration& time_out = c.sending.need().acks.time_out;
    if (c.receiving.acks.interactive()) {
        c.receiving.acks.set_interactive(false);
        c.sending.need().acks.answers = 0;
        time_out = ack_habits::least;
    } else {
        time_out = std::min(2 * time_out, c.sending.rto.current(*c.options));
    }
}

void hurry_acks(control_block& c, std::uint8_t count) noexcept {
    more_quick(c, count);
    c.receiving.acks.set_interactive(false);
    c.sending.need().acks.answers = 0;
    c.sending.need().acks.time_out = ack_habits::least;
}

} // namespace corewire::tcp
