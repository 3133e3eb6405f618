// The packets that this turn of the loop has decided to send, on their way into the port in bursts.
//
// One shard's, one port's. Bounded: `capacity` packets wait here when the port is full; full() tells those who produce
// packets on demand (TCP) to stop, and those who can't wait (ICMP, UDP) that the packet would be dropped.
#pragma once

#include <corewire/net/port/port.hh>

#include <array>
#include <cstdint>

namespace corewire {

class egress {
public:
    static constexpr std::size_t capacity = 256;
    static constexpr std::size_t burst = 32; ///< handed to the port as soon as this many have gathered

    explicit egress(port& out) noexcept : port_(out) {}

    bool full() const noexcept { return count_ == capacity; }
    std::size_t waiting() const noexcept { return count_ - first_; }
    /// Packets that can be added now.
    std::size_t room() const noexcept { return capacity - count_; }

    /// Keeps so many slots, of those that are free, from everybody: for packets that must go together, and wait until there is room for
    /// all. room() and full() leave them out. Who keeps them takes them back with keep(0), after which all free slots are room().
    void keep(std::size_t slots) noexcept {
        CW_DEBUG_ASSERT(slots + waiting() <= capacity, "only free slots can be kept");
        kept_ = slots;
        move_to(slots);
    }
    std::size_t kept() const noexcept { return kept_; }

    /// The slot for the next packet: empty, to be filled and then commit()ed. The caller has asked full().
    packet& slot() noexcept {
        CW_DEBUG_ASSERT(count_ < capacity, "egress is full: ask full() first");
        return packets_[count_];
    }
    void commit() noexcept {
        ++count_;
        if (count_ - first_ >= burst) flush();
    }
    /// Drops the packet: for those who have nowhere to keep it. Counted.
    bool push(packet&& p) noexcept {
        if (full()) {
            ++dropped_;
            return false;
        }
        slot() = std::move(p);
        commit();
        return true;
    }
    /// Gives the port what it will take. True if anything went out.
    bool flush() noexcept {
        const std::size_t waiting = count_ - first_;
        if (waiting == 0) return false;
        const std::size_t taken = port_.transmit({packets_.data() + first_, waiting});
        if (taken == waiting) [[likely]] {
            first_ = count_ = kept_;
            return true;
        }
        first_ += taken;
        if (count_ == capacity && first_ != kept_) move_to(kept_);
        return taken != 0;
    }
    // ---- what the stack's flush() has to do beside sending ----
    /// Dead connections are to be deleted, writers to be tried again, a timer to be moved: rare, so there is one mark for all, and a
    /// flush asks once. Who is not through when the chores are done leaves the mark again.
    void leave_chores() noexcept { chores_ = true; }
    bool chores() const noexcept { return chores_; }
    void begin_chores() noexcept { chores_ = false; }

    /// Packets that found no room.
    std::uint64_t dropped() const noexcept { return dropped_; }

private:
    /// The first of those that wait stands there, and the others behind it.
    [[gnu::noinline]] void move_to(std::size_t at) noexcept {
        const std::size_t n = waiting();
        if (at < first_) {
            for (std::size_t i = 0; i < n; ++i) packets_[at + i] = std::move(packets_[first_ + i]);
        } else if (at > first_) {
            for (std::size_t i = n; i-- > 0;) packets_[at + i] = std::move(packets_[first_ + i]);
        }
        first_ = at;
        count_ = at + n;
    }

    port& port_;
    std::size_t kept_ = 0; ///< slots at the front that stay empty
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    bool chores_ = false;
    std::uint64_t dropped_ = 0;
    std::array<packet, capacity> packets_;
};

} // namespace corewire
