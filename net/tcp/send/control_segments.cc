#include <corewire/net/tcp/send/control_segments.hh>

#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/path_search.hh>

namespace corewire::tcp {

bool emit_reset(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (!c.reset.wanted) return false;
    c.reset.wanted = false;
    out.make_bare(c.reset.seq, c.reset.with_ack ? tcp_flags::rst | tcp_flags::ack : tcp_flags::rst);
    out.ack = c.reset.ack;
    out.window = 0;
    out.option_size = 0;
    const bool refuses = c.state == tcp_state::syn_received && !c.passive && c.options->like_freebsd(); // there it lives on
    // RFC 7323 3.2: they SHOULD be in a reset of a connection that uses them.
    if (c.timestamps && (c.reset.with_ack || refuses)) begin_with_timestamps(c, now, out);
    if (c.options->like_linux() && c.reset.with_ack) { // a segment like any other (tcp_send_active_reset())
        if (c.ecn.accurate != nullptr) append_accurate(c, out, false);
        append_sack(c, out);
        c.receiving.ahead.clear();
    }
    return true;
}

namespace {

/// The data that a SYN with a cookie takes along.
void take_along(control_block& c, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    if (c.state != tcp_state::syn_sent || c.syn_resent) return;
    if (c.urgent.sending && !c.options->like_linux()) return; // no SYN tells where the mark is, and behind it nothing might
    const std::uint32_t size = std::min(s.queue.size(), c.syn_room());
    if (size == 0) return;
    const send_queue::place at = s.queue.find(s.queue.first());
    out.payload_size = size;
    out.chunk = at.offset + size <= at.chunk->size() ? at.chunk : nullptr;
    out.chunk_offset = at.offset;
    c.fast_open->syn_data = size;
}

} // namespace

bool emit_syn(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (!c.syn_wanted) return false;
    sender& s = c.sending;
    if (c.fast_open.get().waits_for_data) {
        if (s.queue.size() == 0 && !s.fin_queued) return false;
        c.fast_open->waits_for_data = false;
    }
    c.syn_wanted = false;
    if (c.syn_resent && c.options->like_linux()) [[unlikely]] ask_for_less(c);
    fill_syn(c, now, out);
    out.no_payload();
    if (s.max == s.una) take_along(c, out);
    out.retransmission = c.syn_resent;
    if (c.syn_resent && s.max != s.una) ++c.count->retransmitted_segments;
    out.special = 0; // RFC 3168 6.1.1
    if (s.max == s.una) {
        s.timing = true;
        s.progress = now;
    } else {
        s.timing = false; // Karn
    }
    if (c.syn_resent && (c.fast_open.get().asked || c.fast_open.get().without_cookie) && !c.passive) c.fast_open->syn_lost = true;
    const seq_number end = s.una + 1 + c.fast_open.get().syn_data;
    if (s.max < end) {
        s.next = s.max = end;
        s.board.sent(s.max, now);
        s.limited_until = s.last_start = s.next;
        s.small_end = s.una; // a SYN is no small segment that others wait for
    }
    if (s.waiting_for == awaited::nothing) {
        s.waiting_for = awaited::timeout;
        c.timers.arm(timer_slot::retransmit, now + s.rto.current(*c.options));
    }
    return true;
}

bool emit_early_fin(control_block& c, time_point now, outgoing_segment& out) noexcept {
    if (!c.ack_first || !c.fin_goes_ahead()) return false;
    c.ack_first = false;
    fill_syn(c, now, out);
    out.make_bare(c.sending.una + 1, tcp_flags::fin);
    out.option_size = 0;
    return true;
}

} // namespace corewire::tcp
