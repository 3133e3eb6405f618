// The timers of one reactor: a hierarchical wheel on exact nanoseconds.
//
// Eleven levels of 64 slots; level n's slots are 64^n ns wide. A timer stands on the level of the highest 6-bit group in
// which its expiry differs from the wheel's time, so arming is O(1) for any distance, and a timer moves down a level
// each time the wheel reaches its slot. Exact on a virtual clock: never early, and next_expiry() is never late.
// Arming and cancelling never allocate: the nodes live in their owners.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/loop/timer.hh>

#include <array>
#include <cstdint>

namespace corewire {

class timer_wheel {
public:
    timer_wheel() = default;
    timer_wheel(const timer_wheel&) = delete;
    timer_wheel& operator=(const timer_wheel&) = delete;

    /// (Re)arms `t`. An expiry that has passed fires at the next expire(). `at` must not be `never`.
    void arm(timer& t, time_point at) noexcept;

    /// Fires every timer whose expiry is at or before `now`, earliest first. Callbacks may arm and cancel timers.
    bool expire(time_point now) noexcept { return to_ns(now) >= bound_ && expire_slowly(to_ns(now)); }

    /// A time at or before the first expiry; `never` when no timer is armed. Exact enough to sleep by: sleeping until it
    /// and calling expire() makes progress.
    time_point next_expiry() noexcept;

private:
    static constexpr unsigned levels = 11;
    static constexpr unsigned slot_bits = 6;
    static constexpr unsigned slots = 1u << slot_bits;
    using slot_list = intrusive_list<timer>;

    void place(timer& t) noexcept;
    bool expire_slowly(std::int64_t now) noexcept;
    std::int64_t first_bound() noexcept;

    std::int64_t time_ = 0;              ///< what the wheel has advanced to
    std::int64_t bound_ = INT64_MAX;     ///< no timer expires before this
    std::int64_t expiring_until_ = INT64_MIN; ///< set while expire() runs callbacks
    slot_list late_;                          ///< armed by callbacks for a time that has come: the next expire() fires them
    std::array<std::uint64_t, levels> occupied_{};
    std::array<std::array<slot_list, slots>, levels> slots_;
};

} // namespace corewire
