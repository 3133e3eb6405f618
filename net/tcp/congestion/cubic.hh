// CUBIC (RFC 9438) with HyStart++ (RFC 9406): the default. After a loss the window goes back quickly to a little below where
// it was, lingers there, and then looks for more: a cubic function of the time since, whatever the round trip.
//
//     cwnd        W_max ....____----'''/      C * (t - K)^3 + W_max
//                   __--'             /       never below what NewReno would have (W_est)
//                  /                 /
//
// One connection's; a few words. Sizes inside are in segments, as in the RFC.
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>
#include <corewire/net/tcp/congestion/hystart.hh>

namespace corewire::tcp {

class cubic final : public congestion_controller {
public:
    explicit cubic(std::uint32_t mss) noexcept : congestion_controller(mss) { cwnd_ = initial_window(mss); }

    void on_ack(const ack_sample& sample) noexcept override;
    void on_loss(std::uint32_t in_flight) noexcept override;
    void on_timeout(std::uint32_t in_flight, bool first_of_this_segment) noexcept override;
    void on_idle(time_point now, duration idle, duration rto) noexcept override;
    void on_period_over() noexcept override;
    void remember() noexcept override;
    void undo(time_point now) noexcept override;
    void set_mss(std::uint32_t mss) noexcept override;
    std::string_view name() const noexcept override { return "cubic"; }
    congestion_controller* another() const override { return new cubic(mss_); }

private:
    /// The curve: where it came from and where it is.
    struct curve {
        float top = 0;         ///< W_max, segments; 0: no loss yet
        float before = 0;      ///< cwnd_prior, segments
        float k = 0;           ///< K, seconds until `top` is reached again
        bool anew = false;     ///< a time-out came before it: `top` is where it begins, whatever was before (4.8)
        double reno = 0;       ///< W_est, segments: of a large window an ACK adds less than a float would tell
        time_point epoch{};    ///< the start of this stretch of congestion avoidance; {}: it has not begun
    };
    void grow_slowly(const ack_sample& sample) noexcept;
    void shrink(std::uint32_t flight) noexcept;
    void stop_clock(const ack_sample& sample) noexcept;
    void begin_epoch(time_point now) noexcept;
    float segments() const noexcept { return static_cast<float>(cwnd_) / static_cast<float>(mss_); }

    curve now_;
    curve prior_; ///< for undo()
    hystart start_;
    time_point grew_{};  ///< when it was last told that the window is the limit
    float fraction_ = 0; ///< growth below one byte
};

} // namespace corewire::tcp
