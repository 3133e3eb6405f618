// NewReno's congestion window (RFC 5681, 6582): slow start, additive increase, halving. One connection's; a few words.
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>

namespace corewire::tcp {

class reno : public congestion_controller {
public:
    explicit reno(std::uint32_t mss) noexcept : congestion_controller(mss) { cwnd_ = initial_window(mss); }

    void on_ack(const ack_sample& sample) noexcept override;
    void on_loss(std::uint32_t in_flight) noexcept override;
    void on_timeout(std::uint32_t in_flight, bool first_of_this_segment) noexcept override;
    std::string_view name() const noexcept override { return "reno"; }
    congestion_controller* another() const override { return new reno(mss_); }

protected:
    /// RFC 5681 (4): half of what is in flight, at least two segments.
    std::uint32_t halved(std::uint32_t in_flight) const noexcept { return std::max(whole_segments(in_flight / 2), 2 * mss_); }
    void grow_like_linux(std::uint32_t acked) noexcept;
    std::uint32_t gathered_ = 0; ///< bytes acknowledged towards the next increase by one segment
};

} // namespace corewire::tcp
