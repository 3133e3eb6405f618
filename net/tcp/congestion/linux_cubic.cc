#include <corewire/net/tcp/congestion/linux_cubic.hh>

#include <algorithm>
#include <cmath>
#include <utility>

namespace corewire::tcp {

namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t beta_1024 = 717;           // beta_cubic, of 1024
constexpr std::uint32_t c_1024 = 410;              // C, of 1024
constexpr std::uint32_t least_window = 16;         // segments: HyStart leaves smaller ones alone

std::uint64_t ms(time_point t) noexcept { return static_cast<std::uint64_t>(t.time_since_epoch() / milliseconds{1}); }
std::uint64_t ms_up(duration d) noexcept { return static_cast<std::uint64_t>((d + milliseconds{1} - duration{1}) / milliseconds{1}); }

} // namespace

void linux_cubic::on_ack(const ack_sample& sample) noexcept {
    if (cwnd_ >= largest_window) return;
    measure(sample); // before the window grows: ssthresh may become what it is now
    std::uint32_t acked = sample.acked;
    if (in_slow_start()) {
        const std::uint32_t used = grow_quickly(opening(sample));
        if (acked <= used) return;
        acked -= used;
    }
    const std::uint32_t segments = (acked + mss_ - 1) / mss_;
    const std::uint64_t now = ms(sample.now);
    const std::uint64_t silence = now - std::exchange(grew_, now); // what an idle sender does not send does not make time pass
    if (curve_.began != 0 && silence > 2 * ms_up(sample.srtt)) curve_.began = std::min(now, curve_.began + silence - ms_up(sample.srtt));
    reckon(now, segments);
    if (gathered_ >= curve_.each) {
        gathered_ = 0;
        cwnd_ += mss_;
    }
    gathered_ += segments;
    cwnd_ += gathered_ / curve_.each * mss_;
    gathered_ %= curve_.each;
}

/// Not in the first second of a stretch, when the queue that made the loss may stand yet.
bool linux_cubic::take_round_trip(time_point now, duration rtt) noexcept {
    if (rtt <= duration{0} || (curve_.began != 0 && ms(now) - curve_.began < 1000)) return false;
    least_ = least_ == duration{0} ? rtt : std::min(least_, rtt);
    return true;
}

void linux_cubic::measure(const ack_sample& sample) noexcept {
    if (take_round_trip(sample.now, sample.rtt) && !round_.found && in_slow_start() && should_leave(sample)) {
        round_.found = true;
        ssthresh_ = cwnd_;
    }
}

bool linux_cubic::should_leave(const ack_sample& sample) noexcept {
    if (!round_.begun || sample.una > round_.end) {
        round_ = {.began = sample.now, .last_ack = sample.now, .end = sample.next};
        round_.begun = true;
    }
    if (cwnd_ < least_window * mss_) return false;
    if (sample.now - round_.last_ack <= milliseconds{2}) { // one train
        round_.last_ack = sample.now;
        const duration train = least_ + milliseconds{1}; // that for what a large packet may take
        if (sample.now - round_.began > (sample.paced ? train : train / 2)) return true;
    }
    round_.least = std::min(round_.least, sample.rtt);
    if (round_.samples < 8) {
        ++round_.samples;
        return false;
    }
    return round_.least > least_ + std::clamp<duration>(least_ / 8, milliseconds{4}, milliseconds{16});
}

void linux_cubic::begin_stretch(std::uint64_t now, std::uint32_t acked) noexcept {
    const std::uint32_t size = cwnd_ / mss_;
    curve_.began = now;
    curve_.acked = acked;
    curve_.friendly = size;
    curve_.origin = std::max(size, curve_.top);
    // C * K^3 is the distance: in 1/1024 s, K^3 = distance * 2^40 / 410.
    const double distance = curve_.top > size ? curve_.top - size : 0;
    curve_.k = static_cast<std::uint32_t>(std::cbrt(distance * static_cast<double>(std::uint64_t{1} << 40) / c_1024));
}

/// What the curve says for a round trip from now, segments.
std::uint32_t linux_cubic::target(std::uint64_t now) const noexcept {
    const std::uint64_t t = ((now - curve_.began + ms_up(least_)) << 10) / 1000;
    const std::uint64_t from_top = std::min<std::uint64_t>(t < curve_.k ? curve_.k - t : t - curve_.k, 1u << 17); // its cube fits
    const std::uint64_t distance = (c_1024 * from_top * from_top * from_top) >> 40;
    if (t >= curve_.k) return static_cast<std::uint32_t>(std::min<std::uint64_t>(curve_.origin + distance, largest_window));
    return distance < curve_.origin ? curve_.origin - static_cast<std::uint32_t>(distance) : 0;
}

/// RFC 9438 4.2 to 4.5: how many acknowledged segments open the window by one.
void linux_cubic::reckon(std::uint64_t now, std::uint32_t acked) noexcept {
    const std::uint32_t size = cwnd_ / mss_;
    curve_.acked += acked;
    if (curve_.window == size && now - curve_.reckoned <= 1000 / 32) return;
    const bool same_moment = curve_.began != 0 && now == curve_.reckoned;
    curve_.window = size;
    curve_.reckoned = now;
    if (curve_.began == 0) begin_stretch(now, acked);
    if (!same_moment) {
        const std::uint32_t aim = target(now);
        curve_.each = aim > size ? size / (aim - size) : 100 * size;
        if (curve_.top == 0) curve_.each = std::min(curve_.each, 20u);
    }
    const std::uint32_t a_segment = std::max(size * 15 / 8, 1u);
    if (curve_.acked > a_segment) {
        const std::uint32_t steps = (curve_.acked - 1) / a_segment;
        curve_.acked -= steps * a_segment;
        curve_.friendly += steps;
    }
    if (curve_.friendly > size) curve_.each = std::min(curve_.each, size / (curve_.friendly - size));
    curve_.each = std::max(curve_.each, 2u);
}

/// 4.6, 4.7.
void linux_cubic::reduce(std::uint32_t cwnd) noexcept {
    const std::uint64_t size = cwnd / mss_;
    curve_.began = 0;
    curve_.top = static_cast<std::uint32_t>(size < curve_.top ? size * (1024 + beta_1024) / 2048 : size);
    gathered_ = 0;
    ssthresh_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(size * beta_1024 / 1024, 2)) * mss_;
}

void linux_cubic::on_loss(std::uint32_t cwnd) noexcept {
    reduce(cwnd);
    cwnd_ = ssthresh_;
}

void linux_cubic::on_timeout(std::uint32_t cwnd, bool first_of_this_segment) noexcept {
    if (first_of_this_segment) reduce(std::min(cwnd, std::max(cwnd_, ssthresh_)));
    cwnd_ = mss_; // the loss window
    curve_ = {};  // nothing of it counts any more, nor of what was measured
    round_ = {};
    least_ = duration{0};
}

congestion_controller* linux_cubic_congestion(std::uint32_t mss) { return new linux_cubic(mss); }

} // namespace corewire::tcp
