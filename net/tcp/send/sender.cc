#include <corewire/net/tcp/send/sender.hh>

#include <corewire/net/tcp/send/path_search.hh>

#include <algorithm>
#include <utility>

namespace corewire::tcp {

const seldom_needed sender::nothing_seldom{};

[[gnu::noinline, gnu::cold]] seldom_needed& sender::need() {
    if (seldom == nullptr) {
        seldom = std::make_unique<seldom_needed>();
        seldom->losses.start(una);
        seldom->use.round_end = una;
        seldom->leaving.pushed = una;
        seldom->freebsd.timed_to = seldom->freebsd.farthest = una;
    }
    return *seldom;
}

void sender::start(seq_number first, const parameters& p) noexcept {
    una = next = max = this->iss = first;
    small_end = limited_until = last_start = first;
    queue.start(first + 1, p.send_buffer, p.send_chunks);
    board.start(first);
    rto.start(p);
    corked = p.cork;
    repair.by_numbers = p.like_freebsd();
    congestion.make(p, mss);
}

void sender::set_pace(const parameters& p) noexcept {
    board.sample_rate(congestion->samples_rate() || p.counts());
    if (congestion->samples_rate()) congestion.own().on_round_trip(rto.srtt());
    std::uint64_t rate = congestion->pacing_rate();
    paced = p.pacing || (p.window_validation && p.habits == personality::standard) || p.max_pacing_rate != pacer::off || rate != pacer::off;
    if (rate == pacer::off && paced) rate = window_rate(*congestion, in_flight(), rto.srtt());
    if (paced || seldom != nullptr) need().pace.set_rate(std::min(rate, p.max_pacing_rate));
}

void sender::agree(std::uint16_t peer_mss, bool timestamps, bool passive, const parameters& p, time_point now) noexcept {
    // RFC 9293 3.7.1 (MUST-16): what the peer takes and the path carries; what we take is nothing to it. Others say what they send.
    constexpr std::uint16_t not_known = parameters{}.path_mss;
    const bool path_known = p.habits == personality::standard && p.path_mss != not_known;
    std::uint16_t most = std::min(peer_mss, path_known ? p.path_mss : std::min(p.mss, p.path_mss));
    if (search() != nullptr && search()->report != 0) most = std::min(most, std::exchange(search()->report, std::uint16_t{0}));
    set_mss(std::max(most, p.least_segment), timestamps);
    if (p.like_freebsd()) { // tcp_mss(): the buffer holds whole segments, and no part of one
        if (queue.limit() < mss) set_mss(static_cast<std::uint16_t>(std::max(queue.limit(), 64u)), timestamps);
        queue.set_limit((queue.limit() + mss - 1) / mss * mss);
        queue.tell_of_any_room();
    }
    if (search() != nullptr) search()->low = search()->high = search()->ceiling = mss;
    begin_path_search(*this, p, timestamps, passive, now);
    // Linux's and FreeBSD's windows count segments, whose options are no part of them.
    congestion.make(p, p.habits != personality::standard ? payload_limit : mss);
    if (p.like_linux()) {
        congestion.own().follow_linux();
        need().peer_mss = peer_mss;
    }
    set_pace(p);
}

void sender::set_mss(std::uint16_t size, bool timestamps) noexcept {
    mss = std::max<std::uint16_t>(size, 48); // options always leave room for something
    payload_limit = mss - wire::tcp_options::usual_size(timestamps);
}

void sender::end_time_outs(time_point now) noexcept {
    if (seldom == nullptr || seldom->tally.row_since == time_point{}) return; // window probes are attempts, too
    segment_tally& tally = seldom->tally;
    tally.in_rows += now - tally.row_since;
    tally.row_since = {};
}

void sender::validate_window(time_point now, bool limited, const parameters& p) {
    burst_open = false;
    const std::uint32_t flight = segments_to(next, true);
    window_use& use = need().use;
    if (una >= use.round_end || limited || (!use.limited && flight > use.round_flight)) {
        use.round_end = next;
        use.round_flight = flight;
        use.limited = limited;
    }
    if (window_was_used()) return begin_window_use(now);
    use.flight = std::max(use.flight, flight);
    if (!p.restart_after_idle || now - use.used_at < rto.current(p)) return;
    if (congestion->samples_rate()) return; // its window is what the path holds
    if (repair.phase == recovery_phase::open && queue.room() != 0) congestion.own().on_unused(use.flight * payload_limit);
    begin_window_use(now);
}

void sender::check_invariants(bool linux_habits) const {
    CW_ASSERT(una <= next && next <= max, "SND.UNA <= SND.NXT <= SND.MAX does not hold");
    CW_ASSERT(max <= queue.end() + (fin_queued ? 1u : 0u), "more was sent than is queued");
    CW_ASSERT(queue.first() == una || queue.first() == una + 1 || fin_acknowledged(), "the queue does not start at SND.UNA");
    CW_ASSERT(payload_limit > 0, "segments without payload");
    queue.check_invariants();
    board.check_invariants(una, max);
    congestion->check_invariants();
    CW_ASSERT(!path_probe_out() || (una < search()->end && search()->end <= max), "a path probe is out that nobody waits for");
    CW_ASSERT(!searching || (search()->low <= search()->high || search()->high < mss), "the path search has no room");
    const bool held = linux_habits && !sack && una == repair.point;
    CW_ASSERT(repair.phase == recovery_phase::open || una < repair.point || held, "recovery goes on behind its point");
}

} // namespace corewire::tcp
