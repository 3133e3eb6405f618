// The public face: each call is handed to the part that knows.
#include <corewire/net/tcp/tcb.hh>

#include <corewire/net/tcp/arrives/steps.hh>
#include <corewire/net/tcp/expiry.hh>
#include <corewire/net/tcp/fast_path.hh>
#include <corewire/net/tcp/receive/linux_window.hh>
#include <corewire/net/tcp/send/loss.hh>
#include <corewire/net/tcp/send/output.hh>
#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/send/super_segments.hh>

namespace corewire::tcp {

namespace {

/// Linux takes what is acceptable, and acknowledges something that is not long acknowledged, for a sign of life: check_acknowledgment().
/// FreeBSD takes anything for one.
bool hears_by_acks(const control_block& c) noexcept {
    return c.options->like_linux() && c.state != tcp_state::syn_sent && c.state != tcp_state::time_wait;
}

[[gnu::noinline]] event take_by_the_steps(control_block& c, time_point now, const segment& seg, buffer& head, buffer& body) noexcept {
    arrival a(now, seg, head, body);
    const bool believes = c.options->habits != personality::standard || c.state == tcp_state::syn_sent || shows_life(c, now, seg);
    if (believes && !hears_by_acks(c)) note_life(c, now);
    if (c.options->counts()) [[unlikely]] {
        segment_tally& tally = c.sending.need().tally;
        ++tally.in;
        if (seg.payload_size != 0) ++tally.data_in;
    }
    if (c.state == tcp_state::syn_sent) {
        on_syn_sent(c, a);
    } else if (c.state != tcp_state::closed) {
        on_synchronized(c, a);
    }
    predict(c);
    return a.events;
}

/// Linux's DCTCP: whatever leaves is ECN-capable, the SYN that asks for it included (tcp_ca_needs_ecn()).
bool marks_all(const control_block& c, const outgoing_segment& out) noexcept {
    if (!c.sending.congestion->wants_exact_marks()) return false;
    if (wire::has(out.flags, tcp_flags::syn)) return c.ecn.on || c.ecn.offered || c.ecn.offered_accurate;
    return c.ecn.on && c.ecn.accurate == nullptr;
}

[[gnu::cold, gnu::noinline]] void note_departure(control_block& c, outgoing_segment& out) noexcept {
    const bool to_stranger = wire::has(out.flags, tcp_flags::rst) && (!wire::has(out.flags, tcp_flags::ack) || out.seq != c.sending.next);
    if (c.options->like_linux()) {
        if (!wire::has(out.flags, tcp_flags::syn) && !to_stranger) tell_linux_window(c, out);
        if (marks_all(c, out)) out.special |= outgoing_segment::ect;
    }
    // Nor what is sent for no socket: a SYN-ACK, a reset to a stranger.
    if (c.state == tcp_state::syn_received && (wire::has(out.flags, tcp_flags::syn) || !c.fast_open.get().serving)) return;
    if (to_stranger && c.options->like_linux()) return;
    segment_tally& tally = c.sending.need().tally;
    ++tally.out;
    if (out.payload_size != 0) ++tally.data_out;
}

/// RFC 9293 3.8.5: on every segment that begins before the mark. A mark too far away is told as far as the field goes.
void mark_urgent(control_block& c, outgoing_segment& out) noexcept {
    if (c.sending.una >= c.urgent.send_end) c.urgent.sending = false;
    if (!c.urgent.sending || out.seq >= c.urgent.send_end || wire::has(out.flags, tcp_flags::syn | tcp_flags::rst)) return;
    out.flags |= tcp_flags::urg;
    out.urgent = static_cast<std::uint16_t>(std::min<std::uint32_t>(c.urgent.send_end - out.seq, 0xffff));
}

} // namespace

void tcb::acknowledge_read(time_point now) noexcept {
    if (c_.options->like_linux()) heed_reader(c_, now);
    hurry_ack_of_read();
}

void tcb::hurry_ack_of_read() noexcept {
    if (!c_.options->like_linux() || !acknowledges_read(c_)) return;
    c_.receiving.acks.acknowledge_now();
    c_.output_wanted = true;
}

void tcb::begin_write(bool more) noexcept {
    if (c_.options->like_linux()) begin_buffers(c_, more);
}

void tcb::ask_for_window() noexcept {
    c_.sending.wl1 = c_.receiving.next - 1; // whatever is told next is news
    c_.keepalive_wanted = c_.output_wanted = true;
    c_.predictable = prediction::none;
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

std::uint32_t tcb::leave_frames(small_blocks& blocks) noexcept {
    return c_.sending.queue.leave_frames(blocks) + c_.receiving.queue.leave_frames(blocks) + c_.receiving.ahead.leave_frames(blocks);
}

event tcb::on_segment(time_point now, const segment& arrived, buffer& head, buffer& body) noexcept {
    if (arrived.congestion_seen()) [[unlikely]] ++c_.count->congestion_marks;
    if (is_plain(c_, arrived)) [[likely]] {
        const plain_arrival seg{arrived.seq, arrived.ack, arrived.options.timestamp_value, arrived.payload_size, arrived.window,
                                c_.timestamps};
        if (expects(now, seg) && may_queue()) [[likely]] return on_expected(now, seg, head, body);
    }
    return take_by_the_steps(c_, now, arrived, head, body);
}

event tcb::on_timer(time_point now) noexcept {
    if (c_.ecn.accurate != nullptr) [[unlikely]] c_.ecn.accurate->habit.clock = now;
    return on_expiry(c_, now);
}

bool tcb::next_segment(time_point now, outgoing_segment& out) noexcept {
    if (!next_output(c_, now, out)) return false;
    out.urgent = 0;
    if (c_.urgent.sending) [[unlikely]] mark_urgent(c_, out);
    if (c_.ecn.accurate != nullptr) [[unlikely]] finish_accurate(c_, out);
    if (c_.options->counts()) [[unlikely]] note_departure(c_, out);
    return true;
}

void tcb::copy_payload(std::uint32_t offset, std::uint32_t size, std::byte* destination) const noexcept {
    c_.sending.queue.copy(c_.sending.queue.first() + offset, size, destination);
}

bool tcb::payload_contiguous(std::uint32_t offset, std::uint32_t size, const buffer*& chunk,
                             std::uint32_t& chunk_offset) const noexcept {
    const send_queue::place at = c_.sending.queue.find(c_.sending.queue.first() + offset);
    if (at.offset + size > at.chunk->size()) return false;
    chunk = at.chunk;
    chunk_offset = at.offset;
    return true;
}

namespace {

/// Of what is outstanding. What the scoreboard has not (SYN, FIN) is one more.
scoreboard::tally count_segments(const sender& s, bool like_linux) noexcept {
    scoreboard::tally t = s.board.segments(std::max(s.payload_limit, 1u));
    if (!s.known().ends.empty()) t.all = s.segments_to(s.max, true);
    if (t.all == 0 && s.max != s.una) t.all = 1;
    if (like_linux) {
        t.sacked = s.counted(fate::sacked) / s.payload_limit;
        t.lost = s.counted(fate::lost) / s.payload_limit;
        t.resent = (s.counted(copy::repair) + s.counted(copy::forgiven)) / s.payload_limit; // a tail loss probe is none
        t.lost += s.counted(copy::repair) / s.payload_limit;      // until they are acknowledged
    }
    if (like_linux && !s.sack) t.sacked += s.repair.left / std::max(s.payload_limit, 1u); // as duplicate ACKs say
    return t;
}

/// Linux's habit: the first segment in flight was sent again, and a duplicate ACK was heard since (tcp_any_retrans_done()).
bool heard_behind_a_copy(const control_block& c) noexcept {
    const sender& s = c.sending;
    if (!c.options->like_linux() || s.board.ranges() == 0 || !s.board.front_again()) return false;
    return c.heard > s.board.front_sent() && c.heard != s.progress;
}

mark_tally marks_of(const control_block& c) noexcept {
    const accurate_ecn* const e = c.ecn.accurate.get();
    if (e == nullptr) {
        mark_tally marks = c.sending.known().tally.marks;
        marks.delivered = c.sending.known().tally.delivered_marked;
        return marks;
    }
    const ecn_counters first, &in = e->received, &out = e->reported;
    mark_tally marks{.received = in.cep - first.cep, .delivered = out.cep - first.cep,
                     .received_ect_1 = in.e1b - first.e1b, .received_ect_0 = in.e0b - first.e0b, .received_ce = in.ceb,
                     .delivered_ect_1 = out.e1b - first.e1b, .delivered_ect_0 = out.e0b - first.e0b, .delivered_ce = out.ceb,
                     .option_seen = e->habit.seen, .failures = e->habit.failures};
    if (c.options->like_linux()) return marks;
    marks.option_seen = !e->options_in ? 3 : e->option_seen ? 2 : 0;
    marks.failures = static_cast<std::uint8_t>((e->silent ? 2 : 0) | (e->options_out ? 0 : 4) | (e->options_in ? 0 : 8));
    return marks;
}

fast_open_failure failure_of(const fast_open_state& f, const control_block& c) noexcept {
    if (c.passive || f.waits_for_data || (!f.asked && !f.without_cookie)) return fast_open_failure::none;
    if (f.syn_data == 0) return f.cookie.empty() || f.answered ? fast_open_failure::no_cookie : fast_open_failure::none;
    if (c.sending.una == c.sending.iss || f.data_acked) return fast_open_failure::none; // no SYN-ACK has said
    return f.syn_lost ? fast_open_failure::syn_repeated : fast_open_failure::not_taken;
}

/// Bytes a second, followed or not. Linux's is as the last ACK has made it.
std::uint64_t pace_of(const control_block& c) noexcept {
    const sender& s = c.sending;
    if (c.options->like_linux() && !s.congestion->samples_rate()) return s.known().leaving.rate;
    return s.pacing() ? s.known().pace.rate() : window_rate(*s.congestion, s.in_flight(), s.rto.srtt());
}

/// The number that ends in these 32 bits, next to what was counted.
std::uint64_t widened(std::uint32_t low, const connection_info& i) noexcept {
    const auto further = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(i.tally.acked));
    return i.counted ? i.tally.acked + static_cast<std::uint64_t>(further) : low;
}

} // namespace

connection_info tcb::info() const noexcept {
    const sender& s = c_.sending;
    const bool probes_window = c_.options->like_linux() && s.waiting_for == awaited::window_probe; // the time-out does not grow by that
    const bool unmeasured = c_.options->like_linux() && s.rto.srtt() == duration{0};
    const receiver& r = c_.receiving;
    scoreboard::tally segments = count_segments(s, c_.options->like_linux());
    if (c_.options->like_linux() && serving_early() && segments.all != 0) --segments.all; // the SYN-ACK, which has a queue of its own
    const bool open = s.repair.phase == recovery_phase::open;
    const delivery_rate* const rate = s.board.rate();
    const bool reduced = open && c_.ecn.on && s.una < c_.ecn.reduced_until && c_.ecn.reduced_until <= s.max;
    connection_info i{
        .state = c_.state,
        .srtt = s.rto.srtt(),
        .rttvar = unmeasured ? s.rto.without_back_off() / 4 : s.rto.rttvar(),
        .rto = probes_window ? s.rto.without_back_off() : s.rto.current(*c_.options),
        .backoff = s.rto.backoff(),
        .attempts = s.waiting_for == awaited::window_probe ? 0u : s.attempts,
        .cwnd = s.congestion->cwnd(),
        .ssthresh = s.congestion->ssthresh(),
        .in_flight = s.in_flight(),
        .send_window = s.window,
        .largest_send_window = s.max_window,
        .receive_window = r.room(),
        .promised_window = r.room() + (r.next - r.acks.last_sent()),
        .receive_threshold = linux_threshold(c_),
        .receive_buffer = r.window.buffer(),
        .send_buffer = s.queue.limit(),
        .segment_payload = s.payload_limit,
        .unsent = s.fin_sent() ? 0 : s.queue.end() - s.next,
        .unacknowledged = s.max - s.una,
        .unread = r.queue.size(),
        .out_of_order = r.ahead.size(),
        .bytes_received = r.bytes,
        .send_scale = s.shift,
        .receive_scale = r.window.scale(),
        .timestamps = c_.timestamps,
        .sack = s.sack,
        .ecn = c_.ecn.on,
        .accurate_ecn = c_.ecn.accurate != nullptr,
        .scaling = c_.scaling,
        .data_in_syn = c_.fast_open.get().data_acked,
        .opened_early = c_.fast_open.get().early,
        .fast_open = failure_of(c_.fast_open.get(), c_),
        .recovering = !open,
        .timed_out = s.repair.phase == recovery_phase::timeout,
        .reduced = c_.options->like_linux() ? s.repair.reducing : reduced,
        .ecn_seen = c_.ecn.seen,
        .disordered = s.board.sacked() != 0 || s.repair.duplicates != 0 || heard_behind_a_copy(c_),
        .probes = s.waiting_for == awaited::window_probe ? s.attempts : c_.options->like_linux() ? c_.keepalives_out : 0u,
        .sacked = s.board.sacked(),
        .lost = s.board.lost(),
        .resent = s.board.resent_in_flight(),
        .unacknowledged_segments = segments.all,
        .sacked_segments = segments.sacked,
        .lost_segments = segments.lost,
        .resent_segments = segments.resent,
        .reordering = reordering_of(c_),
        .packet_size = packet_size(),
        .peer_segment = s.known().peer_mss,
        .last_sent = s.last_sent,
        .last_payload = s.known().use.payload_at,
        .received_segment = r.acks.largest_segment(),
        .passive = c_.passive,
        .ack_time_out = s.known().acks.time_out,
        .counted = c_.options->counts(),
        .receive_rtt = std::chrono::microseconds{s.known().receive_rtt.eighths / 8},
        .established_at = s.known().use.established_at,
        .delivery_rate = rate != nullptr ? rate->last() : 0,
        .delivery_rate_limited = rate != nullptr && rate->last_was_limited(),
        .tally = s.known().tally,
        .receive_space = c_.options->like_linux() ? linux_round_space(c_) : r.sizing.space(),
        .pacing_rate = pace_of(c_),
        .max_pacing_rate = c_.options->max_pacing_rate,
        .paced = s.pacing(),
        .min_rtt = s.least_rtt.get() == duration::max() ? duration{0} : s.least_rtt.get(),
        .snd_una = s.una,
        .snd_nxt = s.next,
        .snd_max = s.max,
        .rcv_nxt = r.next,
    };
    i.marks = marks_of(c_);
    i.bytes_sent = widened(s.bytes_sent(), i) + c_.count.get().retransmitted_bytes;
    const bool syn_counts = !c_.passive || (!c_.options->like_linux() && c_.fast_open.get().data_acked);
    i.numbers_acked = s.una == s.iss ? 0 : widened(s.una - s.iss - (syn_counts ? 0u : 1u), i);
    i.bytes_acked = widened(s.bytes_acked(), i);
    return i;
}

std::uint16_t tcb::asked_segment() const noexcept { return asked_size(c_); }

std::uint32_t tcb::window_clamp() const noexcept { return linux_clamp(c_); }
std::uint32_t tcb::held_memory() const noexcept { return linux_held_memory(c_); }

void tcb::check_invariants() const { c_.check_invariants(); }

} // namespace corewire::tcp
