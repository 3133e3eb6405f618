#include <corewire/reactor/loop/timer_wheel.hh>

#include <algorithm>
#include <bit>

namespace corewire {

void timer_wheel::arm(timer& t, time_point at) noexcept {
    t.unlink();
    t.expiry_ = at;
    if (to_ns(at) <= expiring_until_) {
        late_.push_back(t);
        return;
    }
    place(t);
}

void timer_wheel::place(timer& t) noexcept {
    const std::int64_t at = std::max(to_ns(t.expiry_), time_);
    const auto difference = static_cast<std::uint64_t>(at ^ time_);
    const unsigned level = difference == 0 ? 0 : static_cast<unsigned>(63 - std::countl_zero(difference)) / slot_bits;
    const auto slot = static_cast<unsigned>(static_cast<std::uint64_t>(at) >> (level * slot_bits)) & (slots - 1);
    slots_[level][slot].push_back(t);
    occupied_[level] |= std::uint64_t{1} << slot;
    bound_ = std::min(bound_, at);
}

/// The start of the first occupied slot: no timer expires before it. Clears marks of slots whose timers were cancelled.
std::int64_t timer_wheel::first_bound() noexcept {
    for (unsigned level = 0; level < levels; ++level) {
        // Occupied slots of a level all lie ahead of the wheel's own position in it.
        while (occupied_[level] != 0) {
            const auto slot = static_cast<unsigned>(std::countr_zero(occupied_[level]));
            if (slots_[level][slot].empty()) {
                occupied_[level] &= occupied_[level] - 1;
                continue;
            }
            const unsigned shift = level * slot_bits;
            const std::uint64_t above = shift + slot_bits >= 64 ? 0 : ~std::uint64_t{0} << (shift + slot_bits);
            return static_cast<std::int64_t>((static_cast<std::uint64_t>(time_) & above) | std::uint64_t{slot} << shift);
        }
    }
    return INT64_MAX;
}

time_point timer_wheel::next_expiry() noexcept {
    if (!late_.empty()) return from_ns(time_);
    bound_ = std::max(first_bound(), time_);
    if (bound_ == INT64_MAX) return never;
    return from_ns(bound_);
}

[[gnu::noinline]] bool timer_wheel::expire_slowly(std::int64_t now) noexcept {
    bool fired = false;
    // What callbacks arm for now or earlier waits for the next call: a timer that re-arms itself can't hold the loop.
    expiring_until_ = now;
    slot_list overdue;
    overdue.splice_back(late_);
    while (!overdue.empty()) {
        timer& t = overdue.pop_front();
        fired = true;
        t.on_expiry_(t);
    }
    for (;;) {
        const std::int64_t at = std::max(first_bound(), time_);
        if (at > now) {
            bound_ = at;
            break;
        }
        // The first occupied slot begins at or before now. Advance to it and deal its timers out again: those that are
        // due fire, the others move to a finer level. One that is alone there is the first of all: it need not move.
        unsigned level = 0;
        while (occupied_[level] == 0) ++level;
        const auto slot = static_cast<unsigned>(std::countr_zero(occupied_[level]));
        slot_list batch;
        batch.splice_back(slots_[level][slot]);
        occupied_[level] &= occupied_[level] - 1;
        time_ = at;
        timer& first = batch.front();
        const bool alone_and_due = &first == &batch.back() && to_ns(first.expiry_) <= now;
        while (!batch.empty()) {
            timer& t = batch.pop_front();
            if (level == 0 || alone_and_due) {
                fired = true;
                t.on_expiry_(t);
            } else {
                place(t);
            }
        }
    }
    // Every occupied slot begins after now, so standing at now changes no timer's level or slot.
    time_ = std::max(time_, now);
    expiring_until_ = INT64_MIN;
    if (!late_.empty()) bound_ = time_;
    return fired;
}

} // namespace corewire
