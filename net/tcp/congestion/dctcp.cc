#include <corewire/net/tcp/congestion/dctcp.hh>

#include <algorithm>

namespace corewire::tcp {

void dctcp::on_ack(const ack_sample& sample) noexcept {
    constexpr float gain = 1.0F / 16; // 4.2
    acked_ += sample.acked;
    marked_ += sample.marked;
    if (!begun_ || sample.una > window_end_) { // 3.3 steps 4 to 8: once a window
        if (acked_ != 0) { // the first ends with the first ACK: DCTCP.WindowEnd begins as SND.UNA
            const float share = static_cast<float>(marked_) / static_cast<float>(acked_);
            alpha_ = std::clamp(alpha_ * (1 - gain) + gain * share, 0.0F, 1.0F);
        }
        begun_ = true;
        window_end_ = sample.next;
        acked_ = marked_ = 0;
    }
    if (sample.limited) reno::on_ack(sample);
}

/// 3.3 step 9, 3.4.
void dctcp::on_mark(time_point, std::uint32_t) noexcept {
    const auto cut = static_cast<std::uint32_t>(static_cast<float>(cwnd_) * alpha_ / 2);
    cwnd_ = std::min(cwnd_, std::max(cwnd_ - whole_segments(cut), 2 * mss_)); // an echo opens no window of one segment
    ssthresh_ = std::max(cwnd_, 2 * mss_);
    gathered_ = 0;
}

path_belief dctcp::belief() const noexcept {
    path_belief b;
    b.marked_share = alpha_;
    b.acked = acked_;
    b.marked = marked_;
    return b;
}

congestion_controller* dctcp_congestion(std::uint32_t mss) { return new dctcp(mss); }

} // namespace corewire::tcp
