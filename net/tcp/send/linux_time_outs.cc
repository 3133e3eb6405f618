#include <corewire/net/tcp/send/linux_time_outs.hh>

namespace corewire::tcp {

namespace {

/// What so many retransmissions would take if the first time-out had been `first`: the least one, or a SYN's.
duration time_for(duration first, unsigned retries) noexcept {
    constexpr duration longest = std::chrono::seconds{120};
    unsigned doublings = 0;
    while (first * (std::int64_t{2} << doublings) <= longest) ++doublings;
    if (retries <= doublings) return first * ((std::int64_t{2} << retries) - 1);
    return first * ((std::int64_t{2} << doublings) - 1) + longest * (retries - doublings);
}

/// The window was taken back from what is in flight, and the peer is heard (tcp_rtx_probe0_timed_out()).
bool taken_back(const control_block& c, time_point now) noexcept {
    return c.sending.window == 0 && !c.orphaned && now - c.heard <= 2 * c.options->max_rto;
}

} // namespace

time_out_kind linux_kind_of_time_out(const control_block& c) noexcept {
    const sender& s = c.sending;
    const recovery& r = s.repair;
    const bool reduced = r.phase == recovery_phase::fast && s.una < r.point; // that and this are undone both or not at all
    const bool first = r.phase != recovery_phase::timeout || r.blameless || s.attempts == 1;
    return {.undoable = first && !reduced, .reduced = reduced, .doubted = r.phase == recovery_phase::open || s.attempts > 1};
}

bool linux_retries_exhausted(const control_block& c, time_point now, unsigned limit) noexcept {
    const sender& s = c.sending;
    const parameters& p = *c.options;
    const duration stalled = now - s.known().stalled_at;
    if (c.state == tcp_state::syn_sent) return s.attempts > limit + p.syn_linear_timeouts || stalled >= time_for(p.initial_rto, limit);
    if (!is_synchronized(c.state) || s.waiting_for == awaited::window_probe) return s.attempts > limit;
    return !taken_back(c, now) && s.attempts > 1 && stalled >= time_for(p.min_rto, limit);
}

bool linux_is_thin(const control_block& c) noexcept {
    constexpr unsigned most_attempts = 6, few = 4; // TCP_THIN_LINEAR_RETRIES, tcp_stream_is_thin()
    const sender& s = c.sending;
    return c.options->thin_linear_timeouts && c.state == tcp_state::established && s.attempts <= most_attempts &&
           s.max - s.una <= (few - 1) * s.payload_limit;
}

void linux_count_delivered(control_block& c) noexcept {
    sender& s = c.sending;
    std::uint32_t& delivered = s.need().tally.delivered;
    if (!s.sack) delivered += s.repair.left / s.payload_limit;
    if (s.board.reneged()) delivered += s.counted(fate::sacked) / s.payload_limit;
}

void linux_leave_room(control_block& c) noexcept {
    sender& s = c.sending;
    if (!s.congestion->repairs_itself()) s.congestion.own().limit(s.counted_flight() + s.payload_limit);
}

} // namespace corewire::tcp
