#include <corewire/net/tcp/congestion/reno.hh>

#include <algorithm>

namespace corewire::tcp {

void reno::on_ack(const ack_sample& sample) noexcept {
    if (cwnd_ >= largest_window) return;
    std::uint32_t acked = sample.acked;
    if (in_slow_start()) {
        const std::uint32_t used = grow_quickly(opening(sample));
        if (!opens_fully_ || sample.acked <= used) return;
        acked -= used; // Linux: and the rest counts as beyond it
    }
    if (opens_fully_) return grow_like_linux(acked);
    gathered_ += acked; // RFC 5681 3.1: one segment a window
    if (gathered_ >= cwnd_) {
        gathered_ -= cwnd_;
        cwnd_ += mss_;
        if (gathered_ > cwnd_) gathered_ = cwnd_;
    }
}

/// tcp_cong_avoid_ai(): one ACK may be worth several segments; what was gathered in a larger window is worth one.
void reno::grow_like_linux(std::uint32_t acked) noexcept {
    const std::uint32_t window = cwnd_;
    if (gathered_ >= window) {
        gathered_ = 0;
        cwnd_ += mss_;
    }
    gathered_ += acked;
    cwnd_ += gathered_ / window * mss_;
    gathered_ %= window;
}

void reno::on_loss(std::uint32_t in_flight) noexcept {
    ssthresh_ = halved(std::min(in_flight, cwnd_));
    cwnd_ = ssthresh_;
    gathered_ = 0;
}

void reno::on_timeout(std::uint32_t in_flight, bool first_of_this_segment) noexcept {
    // RFC 5681 3.1: ssthresh is not lowered again when the same segment times out once more.
    if (first_of_this_segment) ssthresh_ = halved(timed_out_flight(in_flight));
    cwnd_ = mss_; // the loss window
    gathered_ = 0;
}

congestion_controller* reno_congestion(std::uint32_t mss) { return new reno(mss); }

} // namespace corewire::tcp
