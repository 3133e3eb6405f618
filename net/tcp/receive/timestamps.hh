// Timestamps (RFC 7323 3 to 5): what we echo, and PAWS, which tells an old duplicate by its clock.
// Owned by the receiver of one tcb. Our clock ticks once a millisecond.
#pragma once

#include <corewire/net/tcp/seq.hh>
#include <corewire/reactor/base/time.hh>

#include <chrono>
#include <cstdint>

namespace corewire::tcp {

class timestamp_echo {
public:
    /// RFC 7323 5.5: after so long without an update TS.Recent says nothing.
    static constexpr duration too_old = std::chrono::hours{24 * 24};

    void enable(std::uint32_t first, time_point now) noexcept {
        on_ = true;
        recent_ = first;
        updated_ = now;
    }
    bool on() const noexcept { return on_; }
    std::uint32_t recent() const noexcept { return recent_; } ///< TS.Recent

    /// RFC 7323 5.3 R1: the segment is older than what we have seen.
    bool too_early(std::uint32_t value, time_point now) const noexcept {
        return static_cast<std::int32_t>(value - recent_) < 0 && now - updated_ <= too_old;
    }
    /// RFC 7323 4.3 (2): the segment that covers Last.ACK.sent sets TS.Recent. Not for one
    /// that too_early() or its numbers condemn, nor for a reset: whoever guesses a 4-tuple could set a clock that the peer never reaches.
    void update(std::uint32_t value, seq_number seq, seq_number last_ack_sent, time_point now) noexcept {
        if (seq <= last_ack_sent) {
            recent_ = value;
            updated_ = now;
        }
    }

    static std::uint32_t clock(time_point now, std::uint32_t offset) noexcept {
        return static_cast<std::uint32_t>(static_cast<std::uint64_t>(to_ns(now)) / 1'000'000u) + offset;
    }

private:
    bool on_ = false;
    std::uint32_t recent_ = 0;
    time_point updated_{};
};

} // namespace corewire::tcp
