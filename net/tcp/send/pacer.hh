// Pacing: data leaves at a rate, in small bursts, and not as fast as window and wire would take it. One connection's; a few words
// in its sender. Off unless the controller names a rate (BBR), somebody has set a cap (SO_MAX_PACING_RATE), or parameters::pacing.
//
//     burst   burst   burst          each is about a millisecond's worth, two segments at least (as Linux's TSO bursts are)
//     ||||    ||||    ||||  -> time
//         '-- due() --'              until then hold::pacing, and timer_slot::pacing wakes us
//
// A paced connection takes the general paths, not the predicted ones: they know nothing of it.
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstdint>

namespace corewire::tcp {

class pacer {
public:
    static constexpr std::uint64_t off = congestion_controller::not_paced;
    static constexpr std::uint8_t unpaced_segments = 10; ///< the first ones leave as a burst: nothing is known of the path yet

    bool on() const noexcept { return rate_ != off; }
    std::uint64_t rate() const noexcept { return rate_; } ///< bytes a second, at least 1
    /// Bytes a second from now on; `off`: as fast as can be.
    void set_rate(std::uint64_t rate) noexcept { rate_ = std::max<std::uint64_t>(rate, 1); }
    /// The same, by somebody's wish: what waits for a slower pace waits for this one instead.
    void hasten(time_point now, std::uint64_t was) noexcept {
        if (rate_ <= was || due_ <= now) return;
        const double wait = static_cast<double>((due_ - now).count()) * static_cast<double>(was) / static_cast<double>(rate_);
        due_ = rate_ == off ? now : now + duration{static_cast<std::int64_t>(wait)};
    }

    /// Whether the next segment has to wait until due().
    bool holds(time_point now) const noexcept { return left_ == 0 && free_ == 0 && now < due_; }
    time_point due() const noexcept { return due_; }

    /// `bytes` of payload leave now, in segments of at most `segment`. on().
    void sent(time_point now, std::uint32_t bytes, std::uint32_t segment) noexcept {
        if (free_ != 0) {
            --free_;
            return;
        }
        if (left_ == 0) { // a burst begins; one that comes late is forgiven half of that
            left_ = burst(segment);
            due_ = std::max(due_, now - time_for(left_) / 2);
        }
        left_ -= std::min(left_, bytes);
        due_ += time_for(bytes);
    }

    /// How much leaves at once: a millisecond's worth, from two segments to 64 KiB.
    static std::uint32_t burst(std::uint64_t rate, std::uint32_t segment) noexcept {
        return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rate >> 10, 2 * segment, std::max(65'536u, 2 * segment)));
    }
    std::uint32_t burst(std::uint32_t segment) const noexcept { return burst(rate_, segment); }

private:
    duration time_for(std::uint32_t bytes) const noexcept {
        return duration{static_cast<std::int64_t>(std::uint64_t{bytes} * 1'000'000'000u / rate_)};
    }

    std::uint64_t rate_ = off;
    time_point due_{};       ///< when the next burst may begin
    std::uint32_t left_ = 0; ///< bytes of this one
    std::uint8_t free_ = unpaced_segments;
};

/// What a window-based controller's pace is: the window a round trip, and more, so that the window remains the limit. Twice as much
/// while it may still double (Linux: tcp_pacing_ss_ratio 200, tcp_pacing_ca_ratio 120). `off` before the first round trip is measured.
inline std::uint64_t window_rate(const congestion_controller& c, std::uint32_t in_flight, duration srtt) noexcept {
    if (srtt <= duration{0}) return pacer::off;
    const std::uint64_t percent = c.cwnd() < c.ssthresh() / 2 ? 200 : 120;
    const std::uint64_t window = std::max(c.cwnd(), in_flight) * percent / 100;
    return window * 1'000'000'000u / static_cast<std::uint64_t>(srtt.count());
}

} // namespace corewire::tcp
