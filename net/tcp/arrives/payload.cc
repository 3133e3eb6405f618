// The sixth to eighth steps of RFC 9293 3.10.7.4: the URG bit, the segment text and the FIN bit.
#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/receive/linux_delayed_acks.hh>
#include <corewire/net/tcp/receive/deliver.hh>
#include <corewire/net/tcp/receive/linux_window.hh>

namespace corewire::tcp {

namespace {

/// Beyond a gap: keep it, and tell the sender at once what is missing (RFC 5681 4.2).
void keep_for_later(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    ++c.count->out_of_order;
    const std::uint32_t head = a.head.size();
    const std::uint64_t refused = r.ahead.dropped();
    const bool follows_linux = c.options->like_linux();
    sack_block twice{a.seq, a.seq};
    if (follows_linux) {
        remember_late(c);
        note_beyond_gap(c, a);
        r.tell_of_fin_no_more();
    }
    const bool parts_count = c.options->habits != personality::standard; // RFC 2883 4
    if (parts_count) twice = r.ahead.first_held(a.seq, a.seq + a.size);
    std::uint32_t stored = r.ahead.insert(a.seq, std::move(a.head));
    stored += r.ahead.insert(a.seq + head, std::move(a.body));
    if (r.ahead.dropped() != refused) ++c.count->beyond_gap_dropped;
    // One that found no room did not come twice: a D-SACK without what it lies in would say that we have it (RFC 2883 4).
    if (stored == 0 && r.ahead.dropped() == refused) {
        ++c.count->duplicates;
        twice = {a.seq, a.seq + a.size};
    }
    if (twice.size() != 0) {
        r.note_duplicate(twice.left, twice.right);
        if (!r.has_duplicate) r.ahead.touch(twice.left); // RFC 2018 4: the first block holds what has come
    }
    if (follows_linux && stored + twice.size() != 0 && r.ahead.dropped() == refused) {
        const sack_block told{a.seq, a.seq + a.size + (a.fin ? 1u : 0u)};
        if (stored != 0) note_cost(c, a, false);
        if (tell_of_others_first(c, told)) return;
        r.ahead.remember(told.left, told.right);
    }
    if (follows_linux && r.ahead.dropped() == refused) acknowledge_gap(c, a.now);
    else r.acks.acknowledge_now();
}

/// Linux's and FreeBSD's habit: in order, over what has come out of order. The first part that came before (RFC 2883 4); what was cut off
/// in front comes first.
void note_overlap(receiver& r, const arrival& a) noexcept {
    const bool front_noted = r.has_duplicate && r.duplicate.right == a.seq;
    const sack_block twice = r.ahead.first_held(a.seq, a.seq + a.size);
    if (twice.size() != 0 && !front_noted) r.note_duplicate(twice.left, twice.right);
}

/// Linux's habit: a FIN beyond a gap is SACKed like text; one that came before, with the text before it.
void tell_of_fin(receiver& r, bool again) noexcept {
    r.ahead.remember(r.fin_at, r.fin_at + 1);
    if (r.ahead.empty()) return r.tell_of_fin_alone();
    if (again) r.note_duplicate(r.has_duplicate && r.duplicate.right == r.fin_at ? r.duplicate.left : r.fin_at, r.fin_at + 1);
}

/// RFC 3168 6.1.3: congestion is echoed until the sender says that it has reduced its window. Exactly: each segment's mark
/// is echoed, and where it changes, what came before is acknowledged with the old one (RFC 8257 3.2).
void take_mark(control_block& c, const segment& seg) noexcept {
    ecn_state& e = c.ecn;
    receiver& r = c.receiving;
    if (seg.ecn != wire::ecn_codepoint::not_ect) e.seen = true;
    if (e.exact) {
        if (seg.congestion_seen() == e.echo) return;
        if (r.acks.pending() && !r.acks.now()) {
            e.old_ack_wanted = true;
            e.old_ack = r.next;
            e.old_echo = e.echo;
        }
        e.echo = seg.congestion_seen();
        r.acks.acknowledge_now();
        return;
    }
    if (seg.has(tcp_flags::cwr)) {
        e.echo = false;
        if (c.options->like_linux()) r.acks.acknowledge_now(); // its window may be down to one segment
    }
    if (!seg.congestion_seen()) return;
    if (c.options->like_linux() && !e.echo) hurry_acks(c, 2);
    e.echo = true;
    if (!c.options->like_freebsd()) r.acks.acknowledge_now();
}

void take_classic_mark(control_block& c, const segment& seg) noexcept {
    if (c.ecn.on && c.ecn.accurate == nullptr) take_mark(c, seg);
}

/// Both directions were shut, which is a close, and text comes that nobody will read (RFC 9293 3.6.1, SHLD-3).
bool refuses_text(const control_block& c, const arrival& a) noexcept {
    const bool closed = c.state == tcp_state::fin_wait_1 || c.state == tcp_state::fin_wait_2;
    return closed && c.reading_shut && a.seq + a.size > c.receiving.next;
}

/// Linux's habit: an orphan's text as well, and a FIN beyond a gap tells of some; behind the peer's FIN only what began before it.
bool linux_refuses(const control_block& c, const arrival& a) noexcept {
    const bool closing = c.state == tcp_state::fin_wait_1 || c.state == tcp_state::fin_wait_2;
    const bool ends = closing ? c.orphaned || c.reading_shut : c.state != tcp_state::established && a.seg.seq < c.receiving.next;
    return ends && a.length() != 0 && a.seq + a.size > c.receiving.next;
}

/// The connection is over, and the peer hears of it.
verdict refuse(control_block& c, arrival& a, std::errc why) noexcept {
    c.reset = pending_reset::at(a.seg.ack);
    a.events |= die(c, why, event::reset);
    return verdict::finished;
}

/// In order: deliver it, and whatever it joins up with.
void deliver(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    const bool fills_gap = !r.ahead.empty();
    if (c.options->counts()) [[unlikely]] {
        note_arrival(c, a);
        if (c.options->like_linux()) take_classic_mark(c, a.seg);
    }
    if (fills_gap && c.options->habits != personality::standard) note_overlap(r, a);
    if (c.options->like_freebsd() && r.room() == 0) r.acks.acknowledge_now(); // there was place, of which the peer has not heard
    if (a.fin && c.options->like_linux() && c.state == tcp_state::established) r.acks.set_interactive(true); // nothing is quick any more
    if (c.options->like_linux()) {
        r.queue.push(std::move(a.head));
        r.queue.push(std::move(a.body));
        r.next += a.size;
        r.bytes += a.size;
        acknowledge_or_delay(c, a.now);
    } else {
        deliver_in_order(c, a.now, a.head, a.body, a.size);
    }
    if (fills_gap) {
        const seq_number before = r.next;
        sack_block told{before, before}; // Linux's FIN of FIN-WAIT-1 and 2: check_fin()
        const bool ends = r.fin_ahead && c.options->like_linux() && c.state != tcp_state::established;
        if (c.options->like_linux()) remember_late(c);
        if (ends && !r.has_duplicate) r.ahead.report(&told, 1);
        r.next = r.ahead.drain(r.next, r.queue);
        if (ends && r.next == r.fin_at && told.size() != 0) r.note_duplicate(told.left, told.right);
        r.bytes += r.next - before;
        // RFC 5681 4.2: at once when a gap closes, wholly or in part. Behind a FIN Linux knows of no gap.
        if (!c.options->like_linux() || (!a.fin && r.ahead.empty())) r.acks.acknowledge_now();
        else if (!a.fin) acknowledge_gap(c, a.now);
    }
    if (c.options->habits != personality::standard) r.window.reach(r.next);
    if ((c.reading_shut || c.orphaned) && c.options->like_freebsd()) r.queue.clear(); // taken, and nobody will read it
    if (r.acks.now() && r.sizing.due(a.now) && !c.options->like_linux()) right_size(c, a.now);
    a.events |= event::readable;
}

} // namespace

verdict check_urgent(control_block& c, arrival& a) noexcept {
    if (!a.seg.has(tcp_flags::urg) || a.seg.urgent == 0 || !may_receive(c.state) || c.orphaned) return verdict::go_on;
    // RFC 6093 4: the pointer is that of the byte behind the last urgent one. A mark that was told before, or read past, is no news.
    const seq_number mark = a.seg.seq + a.seg.urgent;
    const seq_number reader = c.receiving.next - c.receiving.queue.size();
    if (mark <= reader || (c.urgent.known && mark <= c.urgent.receive_end)) return verdict::go_on;
    c.urgent.known = true;
    c.urgent.receive_end = mark;
    a.events |= event::urgent;
    return verdict::go_on;
}

verdict take_payload(control_block& c, arrival& a) noexcept {
    if (c.options->like_linux() && linux_refuses(c, a)) {
        if (c.orphaned) ++c.count->data_after_orphan;
        const std::errc why = c.state == tcp_state::close_wait ? std::errc::broken_pipe : std::errc::connection_reset;
        return refuse(c, a, c.orphaned ? std::errc::connection_aborted : why);
    }
    if (a.size == 0) { // CWR comes with any segment (RFC 3168 6.1.3)
        if (a.seg.has(tcp_flags::cwr) && c.ecn.on && c.ecn.accurate == nullptr && !c.ecn.exact) c.ecn.echo = false;
        return verdict::go_on;
    }
    receiver& r = c.receiving;
    c.output_wanted = true;
    if (c.ecn.on && !c.options->like_linux()) take_classic_mark(c, a.seg); // there after what else it tells the ACKs
    // RFC 9293 3.6.1 (SHLD-3), RFC 2525 2.17: nobody will read this, say so. Behind the peer's FIN there is nothing to read.
    if (c.orphaned && c.options->habits == personality::standard && may_receive(c.state)) {
        ++c.count->data_after_orphan;
        c.reset = pending_reset::acking(r.next, c.sending.next);
        a.events |= die(c, std::errc::connection_aborted, event::reset);
        return verdict::finished;
    }
    if (!c.options->like_freebsd() && refuses_text(c, a)) return refuse(c, a, std::errc::connection_reset);
    if (!may_receive(c.state)) return verdict::finished; // behind the peer's FIN: ignored (3.10.7.4, seventh)
    if (!r.queue.has_room()) {
        ++c.count->receive_queue_full;
        r.window.withhold();
        r.acks.acknowledge_now(); // it was promised a place: the sender must not take the silence for a way that is broken
        a.fin = false;
        return verdict::finished;
    }
    if (a.seq == r.next) {
        deliver(c, a);
    } else {
        if (c.options->like_linux()) take_classic_mark(c, a.seg);
        keep_for_later(c, a);
    }
    return verdict::go_on;
}

verdict check_fin(control_block& c, arrival& a) noexcept {
    receiver& r = c.receiving;
    if (a.fin && !r.fin_received) {
        const bool again = r.fin_ahead && r.fin_at == a.seq + a.size;
        r.fin_ahead = true;
        r.fin_at = a.seq + a.size;
        if (!c.options->like_linux()) {
            r.acks.acknowledge_now();
        } else if (r.fin_at != r.next) {
            if (a.size == 0) {
                ++c.count->out_of_order;
                acknowledge_gap(c, a.now);
            }
            tell_of_fin(r, again);
        }
        c.output_wanted = true;
    }
    if (!r.fin_ahead || r.fin_at != r.next) return verdict::finished; // none, or beyond a gap: kept in mind
    r.next += 1;
    if (c.options->like_linux()) {
        r.bytes += 1; // tcpi_bytes_received counts numbers
        if (c.state == tcp_state::established) r.has_duplicate = false; // tcp_fin() forgets it; in other states its ACK goes before
    }
    if (c.options->habits != personality::standard) r.window.reach(r.next);
    r.fin_received = true;
    r.fin_ahead = false;
    r.ahead.clear(); // behind the end of the stream there is nothing, whatever the peer has sent
    if (c.options->like_linux() && c.state == tcp_state::established && a.fin) { // else it came earlier, and closes a gap
        r.acks.set_interactive(true);
        delay_ack(c, a.now, r.acks.on_data(r.next, 0)); // an answer may follow at once, or our FIN
    } else {
        r.acks.acknowledge_now();
    }
    c.output_wanted = true;
    a.events |= event::end_of_stream;
    c.move(transition::fin_received);
    if (c.state == tcp_state::closing && c.options->like_linux()) c.ack_first = true; // tcp_fin(): before what is sent yet
    if (c.state == tcp_state::time_wait) wait_two_lifetimes(c, a.now);
    return verdict::finished;
}

} // namespace corewire::tcp
