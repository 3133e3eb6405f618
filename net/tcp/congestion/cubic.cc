#include <corewire/net/tcp/congestion/cubic.hh>

#include <algorithm>
#include <cmath>
#include <utility>

namespace corewire::tcp {

namespace {

constexpr float scale = 0.4F;                              // C, segments a second cubed (5.1)
constexpr float beta = 0.7F;                               // beta_cubic (4.6)
constexpr float friendly = 3.0F * (1 - beta) / (1 + beta); // alpha_cubic (4.3)

float seconds(duration d) noexcept { return std::chrono::duration<float>(d).count(); }

} // namespace

void cubic::on_ack(const ack_sample& sample) noexcept {
    if (cwnd_ >= largest_window) return;
    if (!in_slow_start()) return grow_slowly(sample);
    std::uint32_t growth = opening(sample);
    bool over = false;
    // HyStart++ is for the first slow start; after a time-out, be it of a controller before this one, ssthresh is known.
    if (now_.top == 0 && !knows_threshold()) {
        growth = start_.growth(sample.acked, mss_, sample.paced); // RFC 9406 4.2: the window grows first, then the delay is looked at
        over = start_.on_ack(sample.una, sample.next, sample.rtt);
    }
    grow_quickly(growth);
    if (over) ssthresh_ = cwnd_;
}

/// 4.2: the curve begins at the window of this moment.
void cubic::begin_epoch(time_point now) noexcept {
    now_.epoch = now;
    const float size = segments();
    now_.reno = size;
    if (size < now_.top && !now_.anew) {
        now_.k = std::cbrt((now_.top - size) / scale);
    } else { // after a time-out, or slow start left by HyStart++ (4.8)
        now_.k = 0;
        now_.top = size;
    }
    now_.anew = false;
}

/// 5.8: t does not count how long cwnd was not the limit. Then nobody tells of acknowledgements, which else come every round trip.
void cubic::stop_clock(const ack_sample& sample) noexcept {
    const duration silence = sample.now - std::exchange(grew_, sample.now);
    if (silence > 2 * sample.srtt && now_.epoch != time_point{}) [[unlikely]] now_.epoch += silence - sample.srtt;
}

/// 4.2 to 4.5: the concave, the convex and the Reno-friendly region.
void cubic::grow_slowly(const ack_sample& sample) noexcept {
    stop_clock(sample);
    if (now_.epoch == time_point{}) begin_epoch(sample.now);
    const float size = segments();
    const float acked = static_cast<float>(sample.acked) / static_cast<float>(mss_);
    const float t = seconds(sample.now - now_.epoch);
    const auto curve_at = [&](float when) { return scale * (when - now_.k) * (when - now_.k) * (when - now_.k) + now_.top; };

    now_.reno += (static_cast<float>(now_.reno) >= now_.before ? 1.0F : friendly) * acked / size;
    float growth;
    if (curve_at(t) < static_cast<float>(now_.reno)) {
        growth = static_cast<float>(std::max(now_.reno - static_cast<double>(cwnd_) / mss_, 0.0));
    } else {
        const float target = std::clamp(curve_at(t + seconds(sample.srtt)), size, 1.5F * size);
        growth = (target - size) / size * acked;
    }
    fraction_ += growth * static_cast<float>(mss_);
    const auto whole = static_cast<std::uint32_t>(std::clamp(fraction_, 0.0F, static_cast<float>(cwnd_) / 2));
    fraction_ = std::min(fraction_ - static_cast<float>(whole), 1.0F);
    cwnd_ = std::min(cwnd_ + whole, largest_window);
}

/// 4.6, 4.7: multiplicative decrease, and making room for newcomers (fast convergence).
void cubic::shrink(std::uint32_t flight) noexcept {
    const float size = segments();
    now_.before = size;
    now_.top = size < now_.top ? size * (1 + beta) / 2 : size;
    now_.epoch = {};
    now_.anew = false;
    fraction_ = 0;
    ssthresh_ = std::max(whole_segments(static_cast<std::uint32_t>(static_cast<float>(flight) * beta + 0.5F)), 2 * mss_);
}

void cubic::on_loss(std::uint32_t in_flight) noexcept {
    shrink(std::min(in_flight, cwnd_));
    cwnd_ = ssthresh_;
}

void cubic::on_timeout(std::uint32_t in_flight, bool first_of_this_segment) noexcept {
    // RFC 5681 3.1: ssthresh is not lowered again when the same segment times out once more.
    if (first_of_this_segment) shrink(timed_out_flight(in_flight));
    cwnd_ = mss_; // the loss window
    now_.epoch = {};
    now_.anew = true;
}

/// The clock of the curve must not run while nothing is sent (5.8).
void cubic::on_idle(time_point now, duration idle, duration rto) noexcept {
    congestion_controller::on_idle(now, idle, rto);
    now_.epoch = {};
}

void cubic::on_period_over() noexcept { // the curve begins where the window is now (4.2)
    congestion_controller::on_period_over();
    now_.epoch = {};
}

/// With the window, and not when it shrinks: a recovery may see several time-outs.
void cubic::remember() noexcept {
    congestion_controller::remember();
    prior_ = now_;
}

void cubic::undo(time_point now) noexcept { // 4.9
    congestion_controller::undo(now);
    now_ = prior_;
}

/// Other segments, and the same window in bytes: no sign of more room (RFC 4821 7.6.1). The curve begins anew where the window is.
void cubic::set_mss(std::uint32_t mss) noexcept {
    const float share = static_cast<float>(mss_) / static_cast<float>(mss);
    for (curve* c : {&now_, &prior_}) {
        c->top *= share;
        c->before *= share;
        c->epoch = {};
    }
    congestion_controller::set_mss(mss);
}

congestion_controller* cubic_congestion(std::uint32_t mss) { return new cubic(mss); }

} // namespace corewire::tcp
