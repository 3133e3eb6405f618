// Dynamic right-sizing of the receive buffer (Fisk and Feng 2001; the formula is Linux's): a reader who takes more in a round trip
// than ever before is about to be held back by the window, so the window grows before that happens.
//
//     round trip n: reader took 100 KB | n + 1: 200 KB  ->  buffer: 2 * 200 KB, and as much more as the rate itself grew
//
// A few words in the receiver of one tcb. Looked at when an ACK goes at once, which a stream of data causes with every second
// segment and an exchange of small messages hardly ever. Bounded by parameters::receive_growth_limit and the shard's buffer_budget.
#pragma once

#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstdint>

namespace corewire::tcp {

class right_sizing {
public:
    /// Whether a round is over. Never while it is off: one comparison.
    bool due(time_point now) const noexcept { return now >= due_; }
    bool on() const noexcept { return due_ != never; }
    void start() noexcept { due_ = time_point::min(); }
    std::uint32_t space() const noexcept { return space_; } ///< the most that was read in a round, bytes
    void stop() noexcept { due_ = never; }

    /// There was no memory for what take() has asked for: it is asked for again. `space`: as it was before.
    void refused(std::uint32_t space) noexcept { space_ = space; }

    /// The reader has everything before `read`; segments carry up to `mss`; a round trip takes `rtt`; the buffer has `buffer` bytes.
    /// Returns how many the connection could use; 0: what it has is enough.
    std::uint32_t take(time_point now, seq_number read, std::uint32_t mss, duration rtt, std::uint32_t buffer) noexcept {
        const bool first = due_ == time_point::min();
        // Who is hardly ever looked at (its ACKs ride on answers) has not read all that in one round.
        const bool late = !first && now - due_ > std::max(4 * rtt, longest_round);
        const std::uint32_t copied = first || late ? 0 : read - read_;
        due_ = now + std::max(rtt, least_round);
        read_ = read;
        if (first) space_ = std::clamp(10 * mss, 1u, std::max(buffer / 2, 1u)); // what the first flight brings
        if (copied <= space_) return 0;
        std::uint64_t wanted = std::uint64_t{2} * copied + 16u * mss;
        wanted += 2 * (wanted * (copied - space_) / space_); // it will have grown as much again when the window is felt
        space_ = copied;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, 1u << 30)); // RFC 7323 2.3
    }

private:
    static constexpr duration least_round = std::chrono::microseconds{10}, longest_round = std::chrono::milliseconds{100};
    time_point due_ = never;
    seq_number read_;
    std::uint32_t space_ = 0; ///< the most that was read in a round
};

} // namespace corewire::tcp
