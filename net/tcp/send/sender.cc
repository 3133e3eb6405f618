#include <corewire/net/tcp/send/sender.hh>

#include <corewire/net/tcp/send/path_search.hh>

namespace corewire::tcp {

void sender::start(seq_number first, const parameters& p) noexcept {
    una = next = max = this->iss = first;
    small_end = limited_until = last_start = busy_until = first;
    queue.start(first + 1, p.send_buffer, p.send_chunks);
    board.start(first);
    losses.start(first);
    rto.start(p.initial_rto, p.min_rto, p.max_rto, p.like_linux());
    corked = p.cork;
    congestion.make(p.congestion, mss);
}

void sender::set_pace(const parameters& p) noexcept {
    board.sample_rate(congestion->samples_rate());
    if (board.rate() != nullptr) congestion->on_round_trip(rto.srtt());
    std::uint64_t rate = congestion->pacing_rate();
    paced = p.pacing || p.max_pacing_rate != pacer::off || rate != pacer::off;
    if (rate == pacer::off && paced) rate = window_rate(*congestion, in_flight(), rto.srtt());
    pace.set_rate(std::min(rate, p.max_pacing_rate));
}

void sender::agree(std::uint16_t peer_mss, bool timestamps, const parameters& p, time_point now) noexcept {
    set_mss(std::min(peer_mss, p.mss), timestamps);
    begin_path_search(*this, p, timestamps, now);
    congestion.make(p.congestion, mss);
    if (p.like_linux()) congestion->follow_linux();
    set_pace(p);
}

void sender::set_mss(std::uint16_t size, bool timestamps) noexcept {
    // A peer that asks for less than 64 bytes a segment asks for nothing but work: hold the line there.
    mss = std::max<std::uint16_t>(size, 64);
    payload_limit = mss - (timestamps ? 12u : 0u);
}

void sender::validate_window(time_point now, bool limited, bool may_shrink) noexcept {
    burst_open = false;
    const std::uint32_t flight = in_flight();
    const bool growing = congestion->in_slow_start() && congestion->cwnd() < 2 * std::max(busy_flight, flight);
    if (limited || growing) {
        window_used_at = now;
        used_flight = 0;
        return;
    }
    used_flight = std::max(used_flight, flight);
    if (!may_shrink || now - window_used_at < rto.current()) return;
    if (congestion->samples_rate()) return; // its window is what the path holds
    if (repair.phase == recovery_phase::open && queue.room() != 0) congestion->on_unused(used_flight);
    window_used_at = now;
    used_flight = 0;
}

void sender::check_invariants() const {
    CW_ASSERT(una <= next && next <= max, "SND.UNA <= SND.NXT <= SND.MAX does not hold");
    CW_ASSERT(max <= queue.end() + (fin_queued ? 1u : 0u), "more was sent than is queued");
    CW_ASSERT(queue.first() == una || queue.first() == una + 1 || fin_acknowledged(), "the queue does not start at SND.UNA");
    CW_ASSERT(payload_limit > 0, "segments without payload");
    queue.check_invariants();
    board.check_invariants(una, max);
    congestion->check_invariants();
    CW_ASSERT(!probe_out() || (una < path->end && path->end <= max), "a path probe is out that nobody waits for");
    CW_ASSERT(!searching || (path->low <= path->high || path->high < mss), "the path search has no room");
    CW_ASSERT(repair.phase == recovery_phase::open || una < repair.point, "recovery goes on behind its point");
}

} // namespace corewire::tcp
