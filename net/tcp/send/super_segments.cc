#include <corewire/net/tcp/send/super_segments.hh>

#include <corewire/net/tcp/send/header.hh>
#include <corewire/net/tcp/send/sampling.hh>

namespace corewire::tcp {

namespace {

constexpr std::uint32_t largest_packet = 65'215; // bytes of payload: 64 KiB less what Linux keeps for headers
constexpr duration recent = std::chrono::milliseconds{1};

/// How much of what is written a buffer takes: half the largest window, in whole segments (tcp_xmit_size_goal()).
std::uint32_t buffer_size(const control_block& c, std::uint32_t limit) noexcept {
    if (!c.options->super_segments.on) return limit;
    constexpr std::uint32_t tiny = 536;
    const std::uint32_t window = c.sending.max_window;
    const std::uint32_t half = window > tiny ? window / 2 : window;
    const std::uint32_t most = half != 0 ? std::min(half, largest_packet) : largest_packet;
    return std::max(most / limit, 1u) * limit;
}

/// The first end of a record behind `at` (MSG_EOR), or `otherwise`.
seq_number record_end(const sender& s, seq_number at, seq_number otherwise) noexcept {
    const ring<seq_number>& records = s.known().records;
    for (std::uint32_t i = 0; i < records.size(); ++i)
        if (records[i] > at) return earlier(records[i], otherwise);
    return otherwise;
}

/// Puts what was written into buffers: `all` of it, or, while it is being written and leaves as it comes, what the first one takes.
void fill_buffers(control_block& c, bool all) noexcept {
    sender& s = c.sending;
    super_segment& b = s.need().leaving;
    while (!b.waiting.empty() && b.waiting.front().end <= s.next) b.waiting.drop_front();
    if (b.waiting.size() > 1) all = true; // only the first of the queue leaves
    const std::uint32_t size = buffer_size(c, payload_limit(c));
    const seq_number end = s.queue.end();
    seq_number start = b.waiting.size() > 1 ? b.waiting[b.waiting.size() - 2].end : s.next;
    seq_number at = b.waiting.empty() ? s.next : b.waiting.back().end;
    while (at < end && (all || at < s.next + size)) {
        const bool many = b.waiting.size() >= seldom_needed::most_ends;
        if (b.waiting.empty() || (!many && (at - start >= size || s.ends_record(at)))) {
            start = at;
            b.waiting.push_back() = {at};
        }
        at = record_end(s, at, many ? end : earlier(end, start + size));
        waiting_buffer& last = b.waiting.back();
        last.end = at;
        if (b.fresh) last.push = false; // a new write takes it from the buffer that it goes on with
        b.fresh = false;
        // PSH where a write ends, and on a buffer that is full and reaches far beyond the last that had it (forced_push()).
        const bool far = static_cast<std::int32_t>(at - b.pushed) > static_cast<std::int32_t>(s.max_window / 2);
        if (s.ends_record(at) || (at == end ? far || !b.more : far && at - start >= size)) {
            last.push = true;
            b.pushed = at;
        }
    }
}

/// How many segments a packet is to have at most (tcp_tso_autosize()): a millisecond's worth, and more where the path is short.
std::uint32_t packet_segments(const control_block& c, std::uint32_t limit) noexcept {
    const super_segment_habits& h = c.options->super_segments;
    const sender& s = c.sending;
    const std::uint64_t rate = s.congestion->samples_rate() ? s.congestion->pacing_rate() : s.known().leaving.rate;
    std::uint64_t bytes = std::min<std::uint64_t>(rate >> 10, largest_packet);
    if (const duration least = s.least_rtt.get(); least != duration::max()) {
        const auto shift = static_cast<std::uint64_t>(least / std::chrono::microseconds{1}) >> h.rtt_log;
        if (shift < 32) bytes += largest_packet >> shift;
    }
    constexpr std::uint64_t bbr_slow = 150'000; // bytes a second: there a packet of two would be a burst (bbr_min_tso_segs())
    const std::uint32_t least = !s.congestion->samples_rate() ? h.least : rate < bbr_slow ? 1 : 2;
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, largest_packet) / limit);
    return std::max(std::min(std::max(most, least), largest_packet / limit), 1u);
}

/// How many segments cwnd lets go, of those that may.
std::uint32_t room_in_window(const control_block& c) noexcept {
    const sender& s = c.sending;
    const std::uint32_t cwnd = s.congestion->cwnd(), flight = s.counted_flight();
    return std::max(cwnd > flight ? (cwnd - flight) / s.payload_limit : 0, 1u);
}

/// Whether a packet that could go waits for the next ACK, as it would be small (tcp_tso_should_defer()). `size`: of the first buffer.
hold wait_for_more(const control_block& c, time_point now, std::uint32_t size, std::uint32_t most) noexcept {
    const sender& s = c.sending;
    const super_segment& b = s.known().leaving;
    if (s.repair.phase != recovery_phase::open || b.at == time_point{} || now - b.at >= recent) return hold::no;
    const auto window = static_cast<std::uint32_t>(s.usable_window()); // some, or the first segment would be held
    const std::uint32_t cwnd = s.congestion->cwnd(), flight = s.counted_flight();
    const std::uint32_t free = cwnd > flight ? cwnd - flight : 0;
    const std::uint32_t room = std::min(window, free);
    if (room >= most) return hold::no;
    const bool last = b.waiting.size() == 1;
    if (!last && room >= size) return hold::no;
    const std::uint32_t divisor = c.options->super_segments.window_divisor;
    if (divisor != 0 ? room >= std::min(s.window, cwnd) / divisor : room > 3 * s.payload_limit) return hold::no;
    if (!s.anything_outstanding()) return hold::no;
    const duration until_ack = s.board.oldest() + s.rto.srtt() - now;
    if (until_ack > std::min(s.rto.srtt() / 2, recent)) return hold::no;
    if (free < window && free <= size) return hold::congestion;
    if (free >= window && window <= size) return hold::window;
    return s.ends_record(b.waiting.front().end) || (last && s.fin_queued) ? hold::no : hold::nagle;
}

/// How many bytes a packet may have at the moment: what the pace asks for, and half of cwnd at most (tcp_cwnd_test()).
std::uint32_t packet_quota(const control_block& c, std::uint32_t limit) noexcept {
    const sender& s = c.sending;
    const std::uint32_t half = std::max(s.congestion->cwnd() / s.payload_limit / 2, 1u);
    return std::min({room_in_window(c), half, packet_segments(c, limit)}) * limit;
}

/// What a packet lacks is taken from the second buffer into the first, though the peer's window may not let it go yet (tcp_grow_skb()).
/// False: it lacks nothing, or there is none.
bool grow_first(control_block& c, std::uint32_t limit) noexcept {
    sender& s = c.sending;
    super_segment& b = s.need().leaving;
    if (b.waiting.size() < 2 || s.congestion->cwnd() < s.counted_flight() + s.payload_limit) return false;
    waiting_buffer& first = b.waiting.front();
    const seq_number wanted = s.next + packet_quota(c, limit);
    if (first.end >= wanted || s.ends_record(first.end)) return false;
    if (b.waiting[1].end <= wanted) {
        b.waiting[1].push |= first.push;
        b.waiting.drop_front();
    } else {
        first.end = wanted;
    }
    return true;
}

/// Less than a segment waits in the first buffer, which was filled when segments were smaller, and more behind it: it goes as it is.
bool ends_early(const control_block& c, std::uint32_t limit) noexcept {
    const sender& s = c.sending;
    const super_segment& b = s.known().leaving;
    return c.options->super_segments.on && b.waiting.size() > 1 && b.waiting.front().end < s.next + limit;
}

/// The packet that begins with a whole segment of `limit` bytes, which may go (tcp_write_xmit()). No: `leaving.left` is its size.
hold plan_packet(control_block& c, time_point now, std::uint32_t limit, bool no_delay) noexcept {
    sender& s = c.sending;
    super_segment& b = s.need().leaving;
    const bool written = b.waiting.back().end == s.queue.end(); // else the writer is at it
    const std::uint32_t most = packet_segments(c, limit);
    const std::uint32_t quota = packet_quota(c, limit);
    const std::uint32_t size = b.waiting.front().end - s.next;
    if (size <= limit) return hold::no;
    if (written) {
        if (const hold why = wait_for_more(c, now, size, most * limit); why != hold::no) return why;
    }
    const auto window = static_cast<std::uint32_t>(s.usable_window());
    const bool last = b.waiting.size() == 1;
    std::uint32_t goes = std::min(size, quota);
    if (quota > window || last) { // tcp_mss_split_point()
        goes = std::min({size, window, quota});
        if (goes < quota && written && (s.corked || (!no_delay && s.small_in_flight() && !s.fin_queued))) goes -= goes % limit;
    }
    if (goes > limit) {
        b.left = goes;
        b.size = limit;
        b.again = false;
    }
    return hold::no;
}

} // namespace

void note_packet_pace(control_block& c) noexcept {
    const super_segment_habits& h = c.options->super_segments;
    sender& s = c.sending;
    const std::uint32_t unit = s.payload_limit, cwnd = s.congestion->cwnd();
    const std::uint64_t percent = cwnd / unit < s.congestion->ssthresh() / unit / 2 ? h.slow_start_percent : h.percent;
    const std::uint64_t window = std::max(cwnd, s.next - s.una) * percent / 100;
    constexpr duration unmeasured{125}; // what Linux divides by then: nothing, where there would be eighths of a microsecond
    const duration round_trip = s.rto.srtt() > duration{0} ? s.rto.srtt() : unmeasured;
    const std::uint64_t rate = window * 1'000'000'000u / static_cast<std::uint64_t>(round_trip.count());
    s.need().leaving.rate = std::min(rate, c.options->max_pacing_rate);
}

void begin_buffers(control_block& c, bool more) noexcept {
    fill_buffers(c, true);
    sender& s = c.sending;
    if (s.board.rate() != nullptr && s.queue.end() < s.next + s.payload_limit) note_lack_of_data(c);
    super_segment& b = s.need().leaving;
    b.more = more;
    b.fresh = true;
}

portion next_of_packet(control_block& c, time_point now, std::uint32_t limit, bool no_delay) noexcept {
    sender& s = c.sending;
    super_segment& b = s.need().leaving;
    if (within_packet(s) && !b.again && b.at == now && b.size <= limit && b.left <= s.queue.end() - s.next) {
        const std::uint32_t size = std::min(b.left, b.size);
        const bool fin = s.fin_queued && s.next + size == s.queue.end() && s.usable_window() > static_cast<std::int32_t>(size);
        return {hold::no, fin, size};
    }
    b.left = 0;
    b.begun = false;
    fill_buffers(c, false);
    const bool urgent = c.urgent.sending && s.una < c.urgent.send_end; // then each segment points to the mark, and nothing waits
    if (c.options->super_segments.on) grow_first(c, limit);
    const bool early = ends_early(c, limit);
    if (early) limit = b.waiting.front().end - s.next;
    const bool corked = s.corked;
    if (urgent || early) s.corked = false;
    portion p = next_portion<true>(s, limit, no_delay || urgent || early);
    s.corked = corked;
    if (p.why == hold::no && p.size == limit && c.options->super_segments.on && !urgent) {
        p.why = plan_packet(c, now, limit, no_delay);
        if (b.left != 0) p.fin = false;
    }
    if (p.why != hold::no) fill_buffers(c, true);
    // Each of those that the writer goes on to fill tries again to let the first one go.
    while (p.why == hold::window && c.options->super_segments.on && grow_first(c, limit)) {}
    return p;
}

std::uint32_t room_to_resend(const sender& s, seq_number at) noexcept {
    const seq_number edge = s.una + s.window;
    return at < edge ? edge - at : at == s.una ? ~std::uint32_t{0} : 0;
}

sack_block next_lost_of_packet(control_block& c, time_point now, std::uint32_t limit) noexcept {
    sender& s = c.sending;
    super_segment& b = s.need().leaving;
    if (within_packet(s) && b.again && b.at == now && b.size <= limit) {
        const sack_block lost = s.board.next_lost(std::min(b.left, b.size));
        if (lost.left == b.next) return lost; // else the rest of it has been SACKed meanwhile
    }
    b.left = 0;
    b.begun = false;
    sack_block lost = s.whole_segments(s.board.next_lost(limit), limit);
    const std::uint32_t room = room_to_resend(s, lost.left);
    if (lost.size() > room) lost.right = lost.left + room;
    if (lost.size() < limit || !c.options->super_segments.on) return lost;
    const bool timed_out = s.repair.phase == recovery_phase::timeout && s.repair.resend_at_once; // the first one alone
    const std::uint32_t quota = timed_out ? 1 : std::min(room_in_window(c), packet_segments(c, limit));
    const sack_block run = s.board.next_lost(quota * limit);
    const std::uint32_t goes = std::min({run.size(), s.packet_end(run.left) - run.left, room / limit * limit});
    if (goes <= limit) return lost;
    b.left = goes;
    b.size = limit;
    b.again = true;
    return lost;
}

sack_block with_followers(control_block& c, sack_block lost, std::uint32_t limit) {
    sender& s = c.sending;
    if (lost.size() >= limit || within_packet(s) || s.packet_end(lost.left) - lost.left > limit) return lost;
    const ring<sent_end>& ends = s.known().ends;
    const seq_number sent = lost.right;
    for (std::uint32_t i = 0; i < ends.size() && !s.ends_record(lost.right); ++i) {
        const seq_number end = ends[i].end;
        if (end <= lost.right) continue;
        if (end - lost.left > limit || end > s.una + s.window || s.board.sacks_any(lost.right, end)) break;
        if (s.repair.left != 0) s.repair.left -= std::min(s.repair.left, s.payload_limit);
        lost.right = end;
    }
    s.board.lose_between(sent, lost.right);
    return lost;
}

void follow_packet(control_block& c, time_point now, seq_number seq, seq_number end, bool again, outgoing_segment& out) noexcept {
    sender& s = c.sending;
    super_segment& b = s.need().leaving;
    const seq_number data_end = seq + out.payload_size;
    bool push = again && s.pushed(seq, end), whole = true, several = false;
    if (b.left != 0 && b.again == again) {
        const bool joins = b.begun;
        if (joins) out.special |= outgoing_segment::joined;
        b.left -= std::min(b.left, out.payload_size);
        b.next = data_end;
        whole = b.left == 0;
        b.begun = !whole;
        several = whole && joins;
    }
    if (!again) {
        for (std::uint32_t i = 0; i < b.waiting.size() && b.waiting[i].end <= data_end; ++i)
            if (b.waiting[i].end == data_end && b.waiting[i].push) push = true;
        const bool unseen = b.waiting.empty() || b.waiting.back().end < data_end;
        if ((unseen && data_end == s.queue.end() && !b.more) || s.ends_record(end)) push = true;
    }
    out.flags = out.flags & ~tcp_flags::psh;
    if (push || several) out.flags |= tcp_flags::psh; // for being several it has none when it is sent again one by one
    if (again && seq > s.una) s.note_packet(seq, false); // it was cut there, if it did not begin there
    if (again) s.join_ends(seq, end);
    if (again) s.forget_size(end);
    if (whole) s.note_packet(end, push, several && !again && b.size != s.payload_limit ? b.size : 0);
    b.at = now;
}

} // namespace corewire::tcp
