// CUBIC as Linux counts it, for connections with Linux's habits (personality::like_linux), whose windows others compare with a kernel's to
// the segment. The curve is that of RFC 9438 (congestion/cubic.hh, which is the one to read and to use); what differs is the arithmetic:
//
//     window, target    whole segments: the curve's distance from its top is cut to them
//     growth            one segment for every `each` acknowledged ones, which is reckoned anew 32 times a second at most
//     friendly region   whole segments as well, one for each 15/8 of a window
//     K, t              1/1024 s; t is ahead by the least round trip ever seen
//     W_max unknown     (slow start was left by HyStart, or a time-out came) a segment for every 20 at least
//     first slow start  the first HyStart, not RFC 9406's: a round trip that grew by an eighth, or a train of ACKs as long as half of one
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>

namespace corewire::tcp {

class linux_cubic final : public congestion_controller {
public:
    explicit linux_cubic(std::uint32_t mss) noexcept : congestion_controller(mss) { cwnd_ = initial_window(mss); }

    void on_ack(const ack_sample& sample) noexcept override;
    void on_loss(std::uint32_t cwnd) noexcept override;
    void on_repair_round_trip(time_point now, duration rtt) noexcept override { take_round_trip(now, rtt); }
    void on_timeout(std::uint32_t cwnd, bool first_of_this_segment) noexcept override;
    std::string_view name() const noexcept override { return "cubic"; }
    congestion_controller* another() const override { return new linux_cubic(mss_); }

private:
    struct curve {
        std::uint32_t top = 0;      ///< W_max, segments; 0: unknown
        std::uint32_t origin = 0;   ///< where the curve is flat: the top, or where this stretch began, if that is higher
        std::uint32_t k = 0;        ///< 1/1024 s until the origin is reached
        std::uint32_t friendly = 0; ///< W_est, segments
        std::uint32_t acked = 0;    ///< segments, towards the next one of `friendly`
        std::uint32_t each = 0;     ///< so many acknowledged segments open the window by one
        std::uint32_t window = 0;   ///< that `each` was reckoned for
        std::uint64_t reckoned = 0; ///< when, ms
        std::uint64_t began = 0;    ///< this stretch of congestion avoidance, ms; 0: none
    };
    /// HyStart: the round of packets that is looked at.
    struct round {
        time_point began{}, last_ack{};
        seq_number end;
        duration least = duration::max();
        unsigned samples = 0;
        bool begun = false, found = false;
    };
    bool take_round_trip(time_point now, duration rtt) noexcept;
    void measure(const ack_sample& sample) noexcept;
    bool should_leave(const ack_sample& sample) noexcept;
    void reckon(std::uint64_t now, std::uint32_t acked) noexcept;
    void begin_stretch(std::uint64_t now, std::uint32_t acked) noexcept;
    std::uint32_t target(std::uint64_t now) const noexcept;
    void reduce(std::uint32_t cwnd) noexcept;

    curve curve_;
    round round_;
    duration least_{0};         ///< of all round trips; 0: none measured
    std::uint64_t grew_ = 0;    ///< when it was last told that the window is the limit, ms
    std::uint32_t gathered_ = 0; ///< acknowledged segments towards the next of the window
};

} // namespace corewire::tcp
