// The model of BBR: what samples make of it. Each function is one of the draft's (draft-ietf-ccwg-bbr-06), whose name stands in bbr.hh.
#include <corewire/net/tcp/congestion/bbr.hh>

#include <algorithm>

namespace corewire::tcp {

namespace {

constexpr double growing = 1.25;           // of the rate: less is a plateau (5.3.1.2)
constexpr std::uint8_t enough_rounds = 3;

} // namespace

std::uint32_t bbr_model::product(std::uint64_t rate, double gain) const noexcept {
    const double volume = gain * static_cast<double>(rate) * std::chrono::duration<double>(min_rtt).count();
    return static_cast<std::uint32_t>(std::min(volume, static_cast<double>(largest_window)));
}

std::uint32_t bbr_model::extra_acked() const noexcept {
    // In Startup just this round counts (5.5.9).
    return full_bw_reached ? *std::max_element(extra.begin(), extra.end()) : extra[round_count % rounds_of_aggregation];
}

/// 5.5.6. A cycle without samples leaves what is known.
void bbr_model::next_cycle() noexcept {
    if (best[1] == 0) return;
    best = {best[1], 0};
}

/// 5.5.10.3, near the start of an ACK.
void bbr_model::take_latest(const rate_sample& s) noexcept {
    loss_round_start = false;
    bw_latest = std::max(bw_latest, s.rate);
    inflight_latest = std::max(inflight_latest, s.delivered);
    if (!s.known || s.prior_total < loss_round) return;
    loss_round = s.total;
    loss_round_start = true;
}

/// Near its end.
void bbr_model::advance_latest(const rate_sample& s) noexcept {
    if (!loss_round_start) return;
    bw_latest = s.rate;
    inflight_latest = s.delivered;
}

/// 5.5.1, 5.5.5.
void bbr_model::take_rate(const rate_sample& s) noexcept {
    round_start = s.known && s.prior_total >= next_round;
    if (round_start) {
        start_round(s.total);
        ++round_count;
        extra[round_count % rounds_of_aggregation] = 0;
    }
    if (s.rate != 0 && (s.rate >= max_bw() || !s.app_limited)) best[1] = std::max(best[1], s.rate);
}

/// 5.5.10.3: once in a round with losses.
void bbr_model::lower_bounds(std::uint32_t cwnd) noexcept {
    if (bw_shortterm == any_rate) bw_shortterm = max_bw();
    if (inflight_shortterm == any_volume) inflight_shortterm = cwnd;
    bw_shortterm = std::max(bw_latest, static_cast<std::uint64_t>(beta * static_cast<double>(bw_shortterm)));
    const auto lower = static_cast<std::uint32_t>(beta * inflight_shortterm);
    inflight_shortterm = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(inflight_latest, lower, any_volume - 1));
}

/// 5.5.9: what was acknowledged beyond what the rate explains.
void bbr_model::take_aggregation(const rate_sample& s, std::uint32_t cwnd) noexcept {
    const double interval = std::chrono::duration<double>(s.now - aggregation_start).count();
    auto expected = static_cast<std::uint64_t>(std::min(static_cast<double>(bw) * interval, 1e18));
    if (aggregated <= expected) {
        aggregated = 0;
        aggregation_start = s.now;
        expected = 0;
    }
    aggregated += s.newly_acked;
    const std::uint64_t more = std::min<std::uint64_t>(aggregated - expected, cwnd);
    std::uint32_t& most = extra[round_count % rounds_of_aggregation];
    most = std::max(most, static_cast<std::uint32_t>(more));
}

/// 5.3.1.2.
void bbr_model::look_for_plateau(const rate_sample& s) noexcept {
    if (full_bw_now || !round_start || s.app_limited) return;
    if (static_cast<double>(s.rate) >= static_cast<double>(full_bw) * growing) {
        reset_full();
        full_bw = s.rate;
        return;
    }
    if (++full_bw_count < enough_rounds) return;
    full_bw_now = full_bw_reached = true;
}

} // namespace corewire::tcp
