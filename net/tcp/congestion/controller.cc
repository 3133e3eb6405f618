#include <corewire/net/tcp/congestion/controller.hh>

#include <corewire/reactor/base/assert.hh>

namespace corewire::tcp {

congestion_controller* congestion_controller::part() {
    congestion_controller* const own = another();
    leave();
    return own;
}

void congestion_controller::undo(time_point) noexcept {
    cwnd_ = std::max(cwnd_, prior_cwnd_);
    ssthresh_ = std::max(prior_ssthresh_, 2 * mss_); // segments may have grown since
}

void congestion_controller::on_idle(time_point, duration idle, duration rto) noexcept {
    const std::uint32_t least = std::min(initial_window(mss_), cwnd_);
    if (!opens_fully_) {
        cwnd_ = least;
        return;
    }
    remember_window();
    for (idle -= rto; idle > duration{0} && cwnd_ > least; idle -= rto) cwnd_ = whole_segments(cwnd_ / 2);
    cwnd_ = std::max(cwnd_, least);
}

void congestion_controller::on_unused(std::uint32_t used) noexcept {
    used = std::max(used, initial_window(mss_));
    if (used >= cwnd_) return;
    remember_window();
    cwnd_ = whole_segments((cwnd_ + used) / 2);
}

void congestion_controller::on_period_over() noexcept {
    ssthresh_ = std::max(ssthresh_, cwnd_ / 4 * 3);
    cwnd_ = std::min(cwnd_, std::max(cwnd_ / 2, initial_window(mss_)));
}

void congestion_controller::on_mark(time_point, std::uint32_t in_flight) noexcept {
    const std::uint32_t before = cwnd_;
    on_loss(in_flight);
    on_recovered();
    if (!opens_fully_) cwnd_ = std::min(cwnd_, before); // two segments are the least, but no more than there were
}

void congestion_controller::on_recovered() noexcept { cwnd_ = std::max(ssthresh_, 2 * mss_); }

void congestion_controller::check_invariants() const {
    CW_ASSERT(cwnd_ >= mss_, "cwnd is below one segment");
    CW_ASSERT(ssthresh_ >= 2 * mss_, "ssthresh is below two segments");
}

} // namespace corewire::tcp
