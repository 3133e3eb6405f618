// Which messages are in flight, where messages may get lost: a fixed number of places, one message in each at most.
// A message's number is `round * places + place`, so that an answer names its place and a stale one is told apart.
// Owned by one client (udp_client, raw_client).
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <vector>

namespace corewire::pingpong {

class flights {
public:
    static constexpr std::uint64_t idle = ~std::uint64_t{0};

    explicit flights(std::uint32_t places) : slots_(places) {}

    std::uint32_t places() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
    std::uint32_t count() const noexcept { return count_; }

    /// A message leaves from an idle place; returns its number.
    std::uint64_t depart(std::uint32_t place, time_point now) noexcept {
        slot& s = slots_[place];
        CW_DEBUG_ASSERT(s.number == idle, "a place holds one message");
        s = {round_++ * slots_.size() + place, now};
        ++count_;
        return s.number;
    }
    bool in_flight(std::uint64_t number) const noexcept { return slots_[place_of(number)].number == number; }
    std::uint32_t place_of(std::uint64_t number) const noexcept {
        return static_cast<std::uint32_t>(number % slots_.size());
    }
    /// The message, which is in flight, has arrived (or is given up). Returns when it left.
    time_point land(std::uint64_t number) noexcept {
        slot& s = slots_[place_of(number)];
        s.number = idle;
        --count_;
        return s.sent;
    }
    /// Calls `lost(place)` for every message that left before `since`, after giving it up.
    template <typename Lost>
    void give_up_before(time_point since, Lost&& lost) {
        for (std::uint32_t place = 0; place < slots_.size(); ++place) {
            if (slots_[place].number == idle || slots_[place].sent >= since) continue;
            land(slots_[place].number);
            lost(place);
        }
    }

private:
    struct slot {
        std::uint64_t number = idle;
        time_point sent{};
    };
    std::vector<slot> slots_;
    std::uint64_t round_ = 0;
    std::uint32_t count_ = 0;
};

} // namespace corewire::pingpong
