// Round-trip time and the retransmission time-out (RFC 6298). Owned by the sender of one tcb, whose parameters have the bounds.
#pragma once

#include <corewire/net/tcp/parameters.hh>
#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstdint>

namespace corewire::tcp {

/// Linux's habit: how far round trips stray from SRTT (tcp_rtt_estimator()).
struct round_trip_spread {
    duration deviation{0}; ///< smoothed, times four; a round trip that is much shorter than SRTT counts an eighth
    duration largest{0};   ///< of this round, at least min_rto
    duration held{0};      ///< what the time-out adds to SRTT: grows at once, and falls by a quarter of the way each round
    seq_number round_end;
};

class rto_estimator {
public:
    void start(const parameters& p) noexcept { base_ = p.initial_rto; }

    /// RFC 6298 2.2, 2.3. Never from a retransmitted segment (Karn, 3), unless by timestamps (RFC 7323 4.1).
    [[gnu::always_inline]] void sample(duration rtt, const parameters& p) noexcept {
        sample_plainly(rtt, p);
        base_ = std::min(base_ + p.rto_slop, p.max_rto);
        backoff_ = 0;
    }
    /// The same with Linux's habits, for data in flight from `una` to `max`.
    void sample_like_linux(duration rtt, round_trip_spread& spread, seq_number una, seq_number max, const parameters& p) noexcept;
    /// The same where the timer has not backed off and Linux's habits are not followed.
    [[gnu::always_inline]] void sample_plainly(duration rtt, const parameters& p) noexcept {
        if (rtt < duration{1}) rtt = duration{1};
        if (srtt_ == duration{0}) [[unlikely]] {
            srtt_ = rtt;
            rttvar_ = rtt / 2;
        } else {
            // beta is 1/4 and alpha is 1/8, by shifts: they round down, so SRTT never passes below a sample.
            const std::int64_t error = rtt.count() - srtt_.count();
            const std::int64_t deviation = error < 0 ? -error : error;
            rttvar_ += duration{(deviation - rttvar_.count()) >> 2};
            srtt_ += duration{error >> 3};
        }
        const duration wanted = srtt_ + 4 * rttvar_; // clamped by value: std::clamp()'s references go through memory
        base_ = wanted < p.min_rto ? p.min_rto : wanted > p.max_rto ? p.max_rto : wanted;
    }
    /// The time-out now, back-off included, at most the maximum (RFC 6298 2.5).
    duration current(const parameters& p) const noexcept {
        if (backoff_ == 0) [[likely]] return base_;
        const duration measured = srtt_ == duration{0} ? base_ : base_ - p.rto_slop; // the first of all has no slop
        return std::min(p.max_rto, measured * (std::int64_t{1} << std::min<unsigned>(backoff_, 16)) + p.rto_slop);
    }
    duration without_back_off() const noexcept { return base_; }
    void back_off() noexcept {
        if (backoff_ != 0xff) ++backoff_;
    }
    void take_back_off() noexcept {
        if (backoff_ != 0) --backoff_;
    }
    void reset_back_off() noexcept { backoff_ = 0; }
    /// RFC 6298 5.7: the SYN was retransmitted, so data starts with a cautious time-out of 3 s.
    void restart_after_syn_loss(duration cautious) noexcept {
        if (srtt_ == duration{0}) base_ = std::max(base_, cautious);
        backoff_ = 0;
    }

    unsigned backoff() const noexcept { return backoff_; }
    duration srtt() const noexcept { return srtt_; } ///< 0: no sample yet
    duration rttvar() const noexcept { return rttvar_; }

private:
    duration srtt_{0};
    duration rttvar_{0};
    duration base_{0};
    std::uint8_t backoff_ = 0;
};

} // namespace corewire::tcp
