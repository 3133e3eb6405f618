// A connection's deadlines, as plain times. There is no wheel in here: the stack keeps one wheel timer a connection and
// asks next().
//
// next() is kept lazily. Arming may bring it forward; disarming and re-arming later do not push it back, so a deadline
// that moves with every ACK costs a store, and on_timer() now and then runs for nothing and puts next() right.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <array>
#include <cstdint>

namespace corewire::tcp {

enum class timer_slot : std::uint8_t {
    retransmit,   ///< what it means is sender::waiting_for
    delayed_ack,
    keepalive,
    pacing,       ///< the next burst may leave
    life,         ///< 2 MSL in TIME-WAIT; the end of an orphan's FIN-WAIT-2
};
inline constexpr std::size_t timer_slots = 5;

class timer_set {
public:
    time_point next() const noexcept { return next_; }
    time_point at(timer_slot s) const noexcept { return at_[index(s)]; }
    bool armed(timer_slot s) const noexcept { return at(s) != never; }

    void arm(timer_slot s, time_point when) noexcept {
        at_[index(s)] = when;
        if (when < next_) next_ = when;
    }
    void disarm(timer_slot s) noexcept { at_[index(s)] = never; }
    void disarm_all() noexcept {
        at_.fill(never);
        next_ = never;
    }
    /// True once when the deadline has passed: it is disarmed.
    bool take(timer_slot s, time_point now) noexcept {
        if (at(s) > now) return false;
        disarm(s);
        return true;
    }
    /// Puts next() right.
    void settle() noexcept { next_ = *std::min_element(at_.begin(), at_.end()); }

private:
    static constexpr std::size_t index(timer_slot s) noexcept { return static_cast<std::size_t>(s); }
    std::array<time_point, timer_slots> at_{never, never, never, never, never};
    time_point next_ = never;
};

} // namespace corewire::tcp
