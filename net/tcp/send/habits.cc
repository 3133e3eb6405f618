// Segments one by one, for those who expect Linux and for connections that are counted: see sender.hh. Off the usual path.
#include <corewire/net/tcp/send/sender.hh>

namespace corewire::tcp {

namespace {

/// How large the segments are that the i-th packet counts as.
std::uint32_t unit_of(const sender& s, std::uint32_t i) noexcept {
    const ring<sent_end>& ends = s.known().ends;
    return i < ends.size() && ends[i].size != 0 ? ends[i].size : s.payload_limit;
}

/// How many segments of that size [left, right) is, which is part of one packet. A FIN rides on what stands before it.
std::uint32_t pieces(const sender& s, seq_number left, seq_number right, std::uint32_t unit) noexcept {
    const seq_number data_end = s.queue.end();
    if (left < data_end && data_end < right) right = data_end;
    return (right - left + unit - 1) / unit;
}

/// The segments that `wanted(fate, copy)`, from `from` on. One that a peer's SACKs have cut up counts once.
template <typename F>
std::uint32_t count_segments(const sender& s, seq_number from, F&& wanted) noexcept {
    const ring<sent_end>& ends = s.known().ends;
    std::uint32_t n = 0, i = 0;
    seq_number counted = from; // the end of the last segment that was
    s.board.each([&](seq_number at, seq_number right, fate what, copy again) {
        if (right <= from || !wanted(what, again)) return;
        at = later(at, from);
        if (at == s.iss && s.una == s.iss) at = at + 1u;
        while (at < right) {
            while (i < ends.size() && ends[i].end <= at) ++i;
            const seq_number to = i < ends.size() ? earlier(ends[i].end, right) : right;
            if (const seq_number uncounted = later(at, counted); uncounted < to) {
                const std::uint32_t unit = unit_of(s, i), more = pieces(s, uncounted, to, unit);
                n += more;
                counted = uncounted + more * unit;
                if (i < ends.size()) counted = earlier(counted, ends[i].end);
            }
            at = to;
        }
    });
    return n;
}

} // namespace

void sender::note_end(seq_number seq, seq_number end, bool push) {
    if (push || end - seq < payload_limit) note_packet(end, push);
}

void sender::note_packet(seq_number end, bool push, std::uint32_t size) {
    ring<sent_end>& ends = need().ends;
    std::uint32_t i = ends.size();
    while (i != 0 && ends[i - 1].end > end) --i;
    if (i != 0 && ends[i - 1].end == end) {
        ends[i - 1].push |= push;
        return;
    }
    if (ends.size() >= seldom_needed::most_ends) {
        ends.drop_front();
        if (i != 0) --i;
    }
    ends.insert(i) = {end, push, static_cast<std::uint16_t>(size)};
}

void sender::keep_sizes() noexcept {
    ring<sent_end>& ends = need().ends;
    for (std::uint32_t i = 0; i < ends.size(); ++i)
        if (ends[i].size == 0) ends[i].size = static_cast<std::uint16_t>(payload_limit);
}

void sender::keep_size(seq_number end, std::uint32_t size) noexcept {
    note_packet(end, false);
    ring<sent_end>& ends = need().ends;
    for (std::uint32_t i = ends.size(); i != 0 && ends[i - 1].end >= end; --i)
        if (ends[i - 1].end == end) ends[i - 1].size = static_cast<std::uint16_t>(size);
}

void sender::forget_size(seq_number end) noexcept {
    ring<sent_end>& ends = need().ends;
    for (std::uint32_t i = 0; i < ends.size(); ++i)
        if (ends[i].end >= end) {
            ends[i].size = 0;
            return;
        }
}

seq_number sender::packet_end(seq_number at) const noexcept {
    const ring<sent_end>& ends = known().ends;
    for (std::uint32_t i = 0; i < ends.size(); ++i)
        if (ends[i].end > at) return ends[i].end;
    return max;
}

sack_block sender::whole_segments(sack_block lost, std::uint32_t limit) const noexcept {
    const ring<seq_number>& records = known().records; // which nothing is joined to, when it is sent again either (tcp_can_collapse_to())
    for (std::uint32_t i = 0; i < records.size() && records[i] < lost.right; ++i)
        if (records[i] > lost.left) lost.right = records[i];
    if (lost.size() < limit) return lost; // all that is lost here
    const ring<sent_end>& ends = known().ends;
    seq_number last = lost.left;
    for (std::uint32_t i = 0; i < ends.size() && ends[i].end <= lost.right; ++i) last = later(last, ends[i].end);
    return {lost.left, last == lost.left ? lost.right : last};
}

sack_block sender::whole_sacked(sack_block told) const noexcept {
    const ring<sent_end>& ends = known().ends;
    sack_block out = told;
    seq_number at = una;
    for (std::uint32_t i = 0; at < told.right && at < max; ++i) {
        const seq_number end = i < ends.size() ? ends[i].end : max;
        if (end <= at) continue;
        const std::uint32_t unit = unit_of(*this, i);
        const bool single = end - at <= unit;
        if (told.left > at && told.left < end) out.left = single ? end : earlier(end, at + (told.left - at + unit - 1) / unit * unit);
        if (told.right > at && told.right < end) out.right = single ? at : at + (told.right - at) / unit * unit;
        at = end;
    }
    return out;
}

bool sender::pushed(seq_number seq, seq_number end) const noexcept {
    const ring<sent_end>& ends = known().ends;
    for (std::uint32_t i = 0; i < ends.size() && ends[i].end <= end; ++i)
        if (ends[i].push && ends[i].end > seq) return true;
    return false;
}

std::uint32_t sender::segments_to(seq_number end, bool part) const noexcept {
    const ring<sent_end>& ends = known().ends;
    seq_number at = una;
    std::uint32_t n = 0, i = 0;
    for (; i < ends.size() && ends[i].end <= end; ++i) {
        if (ends[i].end > at) n += pieces(*this, at, ends[i].end, unit_of(*this, i));
        at = later(at, ends[i].end);
    }
    const std::uint32_t unit = unit_of(*this, i);
    return n + (end - at + (part ? unit - 1 : 0)) / unit;
}

seq_number sender::whole_up_to(seq_number end) const noexcept {
    const ring<sent_end>& ends = known().ends;
    seq_number at = una;
    std::uint32_t i = 0;
    for (; i < ends.size() && ends[i].end <= end; ++i) at = later(at, ends[i].end);
    const std::uint32_t unit = unit_of(*this, i);
    return at + (end - at) / unit * unit;
}

std::uint32_t sender::counted(fate what) const noexcept {
    return count_segments(*this, una, [what](fate f, copy) { return f == what; }) * payload_limit;
}

std::uint32_t sender::counted(copy why) const noexcept {
    return count_segments(*this, una, [why](fate f, copy again) { return f == fate::flying && again == why; }) * payload_limit;
}

std::uint32_t sender::counted_undelivered(seq_number from) const noexcept {
    return count_segments(*this, from, [](fate f, copy) { return f != fate::sacked; }) * payload_limit;
}

std::uint32_t sender::counted_flight() const noexcept {
    const std::uint32_t flying = counted(fate::flying) + counted(copy::forgiven); // the original is there as well
    return flying > repair.left ? flying - repair.left : 0;
}

void sender::join_ends(seq_number seq, seq_number end) noexcept {
    ring<sent_end>& ends = need().ends;
    for (std::uint32_t i = ends.size(); i != 0 && ends[i - 1].end > seq; --i)
        if (ends[i - 1].end < end) ends.erase(i - 1);
}

void sender::forget_ends(seq_number ack) noexcept {
    seldom_needed& known = need();
    while (!known.ends.empty() && known.ends.front().end <= ack) known.ends.drop_front();
    while (!known.records.empty() && known.records.front() <= ack) known.records.drop_front();
}

bool sender::ends_record(seq_number end) const noexcept {
    const ring<seq_number>& records = known().records;
    for (std::uint32_t i = 0; i < records.size(); ++i)
        if (records[i] == end) return true;
    return false;
}

std::uint32_t sender::within_record(std::uint32_t size) noexcept {
    const ring<seq_number>& records = known().records;
    for (std::uint32_t i = 0; i < records.size(); ++i)
        if (records[i] > next) return std::min(size, records[i] - next);
    return size;
}

void sender::account(time_point now, bool window_held, const parameters& p) {
    using work = segment_tally::work;
    segment_tally& t = need().tally;
    const bool unsent = final_end() > next;
    work what = una == max && !unsent ? work::none : work::busy;
    if (what == work::busy && window_held) what = work::window;
    if (what == work::busy && !unsent && t.no_space && in_flight(p) + payload_limit <= congestion->cwnd()) {
        // A window that still opens for being half used is not one that lacks data (tcp_cwnd_validate()).
        const window_use& use = known().use;
        const std::uint32_t flight = std::max(use.round_flight, segments_to(next, true)) * payload_limit;
        const bool grows = use.used_at != time_point{} && congestion->in_slow_start() && congestion->cwnd() < 2 * flight;
        if (!grows) what = work::buffer;
    }
    if (what == work::busy && t.now == work::buffer && t.no_space) what = work::buffer; // until the writer has room
    if (what == t.now) return;
    t.spent[static_cast<unsigned>(t.now)] += now - t.since;
    t.now = what;
    t.since = now;
}

void sender::fit_window(bool timestamps) noexcept {
    constexpr std::uint32_t tiny = 536;
    const std::uint32_t options = wire::tcp_options::usual_size(timestamps);
    const std::uint32_t half = max_window > tiny ? max_window / 2 : max_window;
    std::uint32_t fits = mss - options;
    if (half != 0) fits = std::min(fits, std::max(half, 48 - options));
    if (fits == payload_limit) return;
    keep_sizes();
    payload_limit = fits;
    congestion.own().resize(fits);
}

} // namespace corewire::tcp
