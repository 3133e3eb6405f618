#include <corewire/net/tcp/congestion/freebsd.hh>

#include <algorithm>
#include <utility>

namespace corewire::tcp {

namespace {

// Fixed point, 8 bits.
constexpr std::uint64_t beta = 179, fast_convergence = 217; // 0.7; 0.85
constexpr std::int64_t scale = 102;                         // C = 0.4
constexpr std::uint8_t enough_samples = 8;

std::uint32_t share(std::uint64_t bytes, std::uint64_t of_256) noexcept { return static_cast<std::uint32_t>(bytes * of_256 >> 8); }

/// cubic_k(): the cube root of the way to the top, over C, as Apple's report KT-32 approximates it. Segments.
std::int64_t time_to_top(std::uint64_t top, std::uint64_t window) noexcept {
    if (top <= window) return 0;
    std::int64_t s = static_cast<std::int64_t>((top - window) << 16) / scale;
    unsigned doublings = 0;
    for (; s >= 256; s >>= 3) ++doublings;
    return ((s * 275 >> 8) + 98 - (s * s * 120 >> 16)) << doublings;
}

} // namespace

void freebsd_controller::open(const ack_sample& sample) noexcept {
    gathered_ = 0;
    cwnd_ = std::min(cwnd_ + std::min({sample.acked, sample.most, 2 * mss_}), largest_window);
}

std::uint32_t freebsd_controller::opened_slowly(std::uint32_t acked) noexcept {
    gathered_ += acked;
    if (gathered_ < cwnd_) return cwnd_;
    gathered_ -= cwnd_;
    return std::min(cwnd_ + mss_, largest_window);
}

void freebsd_controller::on_idle(time_point, duration, duration) noexcept {
    ssthresh_ = std::max(ssthresh_, cwnd_ - cwnd_ / 4);
    cwnd_ = std::min(initial_window(mss_), cwnd_);
}

void freebsd_controller::on_mark(time_point, std::uint32_t pipe) noexcept {
    on_loss(pipe);
    cwnd_ = ssthresh_;
}

void freebsd_controller::on_recovered() noexcept {
    cwnd_ = ssthresh_;
    gathered_ = 0;
}

void freebsd_newreno::on_ack(const ack_sample& sample) noexcept {
    if (cwnd_ > ssthresh_) cwnd_ = opened_slowly(sample.acked);
    else open(sample);
}

void freebsd_newreno::on_loss(std::uint32_t) noexcept { ssthresh_ = halved_window(); }

void freebsd_newreno::on_timeout(std::uint32_t pipe, bool first_of_this_segment) noexcept {
    if (first_of_this_segment) ssthresh_ = std::max(2u, pipe / 2 / mss_) * mss_;
    cwnd_ = mss_;
    gathered_ = 0;
}

void freebsd_cubic::record(duration srtt) noexcept {
    if (samples_ < enough_samples) return;
    if (least_ == duration{0} || srtt < least_) {
        least_ = srtt;
        mean_ = std::max(mean_, least_);
    }
    sum_ += std::chrono::duration_cast<std::chrono::microseconds>(srtt).count();
    ++acks_;
}

void freebsd_cubic::begin_epoch(time_point now) noexcept {
    fresh_ = false;
    epoch_ = now;
    epoch_window_ = cwnd_;
    k_ = time_to_top(top_ / mss_, cwnd_ / mss_);
    if (!std::exchange(timed_out_, false)) return;
    top_ = cwnd_;
    k_ = 0;
}

std::uint32_t freebsd_cubic::curve_at(std::int64_t microseconds) const noexcept {
    constexpr std::int64_t most = 448'845; // the cube of a larger one does not fit
    const std::int64_t t = (microseconds * 256 - k_ * 1'000'000) / 1'000'000;
    if (t > most) return largest_window;
    if (t < -most) return 0;
    const std::int64_t bytes = (t * t * t * scale >> 32) * mss_ + top_;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(bytes, 0, largest_window));
}

void freebsd_cubic::on_ack(const ack_sample& sample) noexcept {
    record(sample.srtt);
    if (cwnd_ <= ssthresh_ || least_ == duration{0}) {
        fresh_ = true;
        if (cwnd_ <= ssthresh_) gathered_ = 0;
        const std::uint32_t gathered = gathered_ + (cwnd_ > ssthresh_ ? sample.acked : 0);
        open(sample);
        gathered_ = gathered;
        return;
    }
    if (fresh_) begin_epoch(sample.now);
    const auto since = std::chrono::duration_cast<std::chrono::microseconds>(sample.now - epoch_ + mean_).count();
    const std::uint32_t reno = opened_slowly(sample.acked), cubic = curve_at(since);
    if (cubic < reno) {
        cwnd_ = reno;
        friendly_ = true;
        return;
    }
    const std::uint64_t target = std::clamp<std::uint64_t>(cubic, cwnd_, std::uint64_t{cwnd_} * 3 / 2);
    cwnd_ += static_cast<std::uint32_t>(((target - cwnd_) << 8) / cwnd_ * mss_ >> 8);
    cwnd_ = std::min(cwnd_, largest_window);
}

void freebsd_cubic::on_loss(std::uint32_t pipe) noexcept {
    const std::uint32_t reno = halved_window();
    top_ = cwnd_ < top_ ? share(cwnd_, fast_convergence) : cwnd_;
    ssthresh_ = std::max(friendly_ ? reno : share(pipe, beta), 2 * mss_);
    fresh_ = true;
}

void freebsd_cubic::on_timeout(std::uint32_t pipe, bool first_of_this_segment) noexcept {
    if (first_of_this_segment) ssthresh_ = std::max(2u, share(pipe, beta) / mss_) * mss_;
    timed_out_ = true;
    cwnd_ = mss_;
    gathered_ = 0;
}

void freebsd_cubic::on_idle(time_point now, duration idle, duration rto) noexcept {
    top_ = std::max(top_, cwnd_);
    k_ = time_to_top(top_ / mss_, epoch_window_ / mss_);
    freebsd_controller::on_idle(now, idle, rto);
    epoch_ = now;
}

void freebsd_cubic::on_recovered() noexcept {
    freebsd_controller::on_recovered();
    if (acks_ != 0 && sum_ >= acks_) mean_ = std::chrono::microseconds{sum_ / acks_};
    acks_ = 0;
    sum_ = 0;
}

congestion_controller* freebsd_newreno_congestion(std::uint32_t mss) { return new freebsd_newreno(mss); }
congestion_controller* freebsd_cubic_congestion(std::uint32_t mss) { return new freebsd_cubic(mss); }

} // namespace corewire::tcp
