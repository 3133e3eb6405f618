// NewReno and CUBIC as FreeBSD counts them (cc_newreno.c, cc_cubic.c), for connections with FreeBSD's habits (personality::freebsd), whose
// windows others compare with a kernel's to the byte. congestion/reno.hh and congestion/cubic.hh are the ones to read and to use; what
// differs is:
//
//     loss            ssthresh alone is set: of cwnd, whole segments (NewReno), or of what is in the pipe (CUBIC); cwnd is the recovery's
//     recovery over   ssthresh, whatever it is
//     slow start      until cwnd is beyond ssthresh, by what is acknowledged, two segments an ACK at most; no HyStart
//     idle            ssthresh remembers three quarters
//     CUBIC's curve   fixed point, 8 bits; slow start until eight round trips were measured; the first window has no top
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>

namespace corewire::tcp {

/// Appropriate byte counting (RFC 3465), and what both have in common.
class freebsd_controller : public congestion_controller {
public:
    explicit freebsd_controller(std::uint32_t mss) noexcept : congestion_controller(mss) { cwnd_ = initial_window(mss); }
    void on_idle(time_point now, duration idle, duration rto) noexcept override;
    void on_mark(time_point now, std::uint32_t pipe) noexcept override;
    void on_recovered() noexcept override;

protected:
    /// So much opens the window: slow start.
    void open(const ack_sample& sample) noexcept;
    /// Congestion avoidance: one segment when a window was acknowledged. The window that follows.
    std::uint32_t opened_slowly(std::uint32_t acked) noexcept;
    /// Half of cwnd, in whole segments, two at least.
    std::uint32_t halved_window() const noexcept { return std::max(cwnd_ / 2 / mss_, 2u) * mss_; }
    std::uint32_t gathered_ = 0; ///< bytes acknowledged towards the next segment
};

class freebsd_newreno final : public freebsd_controller {
public:
    using freebsd_controller::freebsd_controller;
    void on_ack(const ack_sample& sample) noexcept override;
    void on_loss(std::uint32_t pipe) noexcept override;
    void on_timeout(std::uint32_t pipe, bool first_of_this_segment) noexcept override;
    std::string_view name() const noexcept override { return "reno"; }
    congestion_controller* another() const override { return new freebsd_newreno(mss_); }
};

class freebsd_cubic final : public freebsd_controller {
public:
    using freebsd_controller::freebsd_controller;
    void on_ack(const ack_sample& sample) noexcept override;
    void on_loss(std::uint32_t pipe) noexcept override;
    void on_timeout(std::uint32_t pipe, bool first_of_this_segment) noexcept override;
    void on_idle(time_point now, duration idle, duration rto) noexcept override;
    void on_recovered() noexcept override;
    void on_round_trip(duration) noexcept override { samples_ += samples_ != 0xff; }
    std::string_view name() const noexcept override { return "cubic"; }
    congestion_controller* another() const override { return new freebsd_cubic(mss_); }

private:
    void record(duration srtt) noexcept;
    void begin_epoch(time_point now) noexcept;
    std::uint32_t curve_at(std::int64_t microseconds) const noexcept;

    std::uint32_t top_ = std::numeric_limits<std::uint32_t>::max(); ///< W_max, bytes
    std::uint32_t epoch_window_ = 0;
    std::int64_t k_ = 0;               ///< 1/256 s
    time_point epoch_{};
    duration least_{0}, mean_{std::chrono::microseconds{1}}; ///< of SRTT; 0: fewer than eight round trips were measured
    std::int64_t sum_ = 0;             ///< microseconds, in this epoch
    std::uint32_t acks_ = 0;           ///< that are in it
    std::uint8_t samples_ = 0;
    bool fresh_ = false;               ///< the curve begins with the next ACK
    bool timed_out_ = false;           ///< where the window is then
    bool friendly_ = false;            ///< it has been in the Reno-friendly region
};

} // namespace corewire::tcp
