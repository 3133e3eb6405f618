#include <corewire/net/tcp/send/validation.hh>

namespace corewire::tcp {

namespace {

constexpr duration longest = std::chrono::minutes{5}; // NVP (4.4)

/// 4.2: the pipeACK Sampling Period.
duration sampling_period(const sender& s) noexcept { return std::max<duration>(3 * s.rto.srtt(), std::chrono::seconds{1}); }

/// Something was measured since the beginning, or the last congestion.
bool defined(const validated_window& v) noexcept { return v.samples[0].at != time_point{}; }

/// pipeACK: the most that was acknowledged in a round trip of the last sampling period.
std::uint32_t pipe_ack(const validated_window& v, time_point now, duration period) noexcept {
    std::uint32_t most = 0;
    for (const validated_window::sample& s : v.samples)
        if (s.at != time_point{} && now - s.at <= period) most = std::max(most, s.bytes);
    return most;
}

/// A sample, into the stretch of the period that goes on or a new one.
void add_sample(validated_window& v, time_point now, std::uint32_t bytes, duration period) noexcept {
    validated_window::sample& newest = v.samples[0];
    if (defined(v) && now - newest.at < period / static_cast<int>(v.samples.size() - 1)) {
        newest.bytes = std::max(newest.bytes, bytes);
        return;
    }
    std::move_backward(v.samples.begin(), v.samples.end() - 1, v.samples.end());
    newest = {now, bytes};
}

/// 4.3: which phase it is. True: the window is validated, or nothing is known.
bool look(control_block& c, time_point now) noexcept {
    sender& s = c.sending;
    validated_window& v = s.need().validation;
    const duration period = sampling_period(s);
    const bool validated = !defined(v) || pipe_ack(v, now, period) >= s.congestion->cwnd() / 2;
    if (!validated && v.since == time_point{}) v.since = std::min(now, v.samples[0].at + period);
    if (v.since != time_point{} && now - v.since > longest) { // 4.4.3
        s.congestion.own().on_period_over();
        v.since = now;
    }
    if (validated) v.since = time_point{};
    return validated;
}

} // namespace

bool validate_round(control_block& c, time_point now, std::uint32_t acked) noexcept {
    sender& s = c.sending;
    validated_window& v = s.need().validation;
    if (s.repair.phase != recovery_phase::open) return false; // 4.2: pipeACK is not updated then
    v.acked += acked;
    if (!v.begun) {
        v.begun = true;
        v.round_end = s.next;
    }
    if (s.una >= v.round_end) {
        add_sample(v, now, v.acked, sampling_period(s));
        v.acked = 0;
        v.begun = s.una != s.next; // else with the first ACK of what comes: a pause is no part of a round
        v.round_end = s.next;
    }
    return look(c, now) && defined(v);
}

bool resume_window(control_block& c, time_point now) noexcept {
    validated_window& v = c.sending.need().validation;
    v.acked = 0;
    v.begun = false; // with the first ACK
    look(c, now);
    return defined(v);
}

std::uint32_t congested_flight(control_block& c, time_point now, std::uint32_t flight) noexcept {
    sender& s = c.sending;
    validated_window& v = s.need().validation;
    v.at_loss = 0;
    if (look(c, now)) return flight;
    v.at_loss = std::max({pipe_ack(v, now, sampling_period(s)), flight, 1u});
    return v.at_loss;
}

void settle_window(control_block& c) noexcept {
    sender& s = c.sending;
    const std::uint64_t used = s.need().validation.at_loss;
    const std::uint64_t again = std::min<std::uint64_t>(used, s.known().undo.resent);
    if (used != 0 && s.repair.phase == recovery_phase::fast)
        s.congestion.own().settle(static_cast<std::uint32_t>(s.congestion->ssthresh() * (used - again) / used));
    forget_validation(c);
}

void forget_validation(control_block& c) noexcept { c.sending.need().validation = {}; }

} // namespace corewire::tcp
