// HyStart++ (RFC 9406): leaving slow start before the queue overflows, when round trips become longer. Part of one
// connection's controller; only for its first slow start.
//
//     slow start --a round trip 1/8 longer--> careful slow start --5 rounds--> done (congestion avoidance)
//         ^--------it was only jitter--------------'
#pragma once

#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace corewire::tcp {

class hystart {
public:
    /// An ACK during slow start. `rtt`: 0 if it measured none. True: slow start is over. What it measured counts in the round that
    /// it may end: it is looked at in the order of 4.2, first as an arriving ACK, then as the end of the round.
    bool on_ack(seq_number una, seq_number next, duration rtt) noexcept {
        if (!begun_) {
            begun_ = true;
            round_end_ = next;
        }
        if (rtt > duration{0}) sample(rtt);
        // Behind 2 GiB without slow start the mark is so old that it seems to lie ahead, of SND.NXT even.
        const bool within = (round_end_ - una) - 1 < next - una;
        return !within && end_round(next);
    }
    /// How much the window grows for `acked` bytes: all of it if what it lets go is paced, else at most 8 segments an ACK (4.3, L); a
    /// quarter of that when careful.
    std::uint32_t growth(std::uint32_t acked, std::uint32_t mss, bool paced) const noexcept {
        const std::uint32_t most = paced ? acked : std::min(acked, 8 * mss);
        return careful_ ? most / 4 : most;
    }
    bool careful() const noexcept { return careful_; }

private:
    void sample(duration rtt) noexcept {
        least_ = std::min(least_, rtt);
        if (samples_ < enough_samples && ++samples_ < enough_samples) return;
        if (careful_) {
            if (least_ < baseline_) careful_ = false; // it was not the queue
        } else if (last_least_ != unknown) {
            const duration longer = std::clamp(last_least_ / 8, least_threshold, most_threshold);
            if (least_ >= last_least_ + longer) {
                careful_ = true;
                careful_rounds_ = 0;
                baseline_ = least_;
            }
        }
    }
    /// windowEnd is acknowledged. A round that was careful in part counts among CSS_ROUNDS.
    bool end_round(seq_number next) noexcept {
        round_end_ = next;
        last_least_ = least_;
        least_ = unknown;
        samples_ = 0;
        return careful_ && ++careful_rounds_ >= careful_rounds;
    }

    static constexpr duration unknown = duration::max();
    static constexpr duration least_threshold = std::chrono::milliseconds{4};
    static constexpr duration most_threshold = std::chrono::milliseconds{16};
    static constexpr std::uint8_t enough_samples = 8; ///< N_RTT_SAMPLE
    static constexpr std::uint8_t careful_rounds = 5; ///< CSS_ROUNDS

    duration least_ = unknown;      ///< currentRoundMinRTT
    duration last_least_ = unknown; ///< lastRoundMinRTT
    duration baseline_ = unknown;   ///< cssBaselineMinRtt
    seq_number round_end_;          ///< windowEnd
    std::uint8_t samples_ = 0;
    std::uint8_t careful_rounds_ = 0;
    bool begun_ = false;
    bool careful_ = false;
};

} // namespace corewire::tcp
