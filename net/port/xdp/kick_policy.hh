// When is a burst of queued frames worth the system call that sends it? At once, while the traffic is one question and
// one answer; after a few more frames, while they keep coming, and `longest` after the first.
//
// The policy learns how many frames arrive and are answered between two calls, and waits for that many, at most for
// `patience` after the last arrival. It tries one more now and then; when that was in vain, it tries less often. So a
// ping-pong loses `patience` once in a thousand round trips, and 32 requests in flight share calls of 16 frames.
// Belongs to one port; no clock of its own: cycles come in.
#pragma once

#include <algorithm>
#include <cstdint>

namespace corewire {

class kick_policy {
public:
    static constexpr std::uint32_t largest_batch = 16;
    static constexpr std::uint64_t patience = 5'000;    ///< TSC cycles: about 2 us, two frames through a veth pair
    static constexpr std::uint64_t longest = 20 * patience; ///< that a queued frame waits, whatever comes meanwhile
    static constexpr std::uint32_t rarest_trial = 4096; ///< kicks between trials, at most

    /// Frames queued that no system call has sent yet.
    std::uint32_t pending() const noexcept { return pending_; }
    std::uint32_t target() const noexcept { return target_; }

    /// `n` frames were queued. True: send now.
    bool queued(std::uint32_t n, std::uint64_t now) noexcept {
        if (pending_ == 0) first_ = last_arrival_ = now;
        pending_ += n;
        return pending_ >= target_;
    }
    /// `n` frames arrived, while some are queued.
    void arrived(std::uint64_t now) noexcept { last_arrival_ = now; }
    /// Frames are queued. True: no longer worth waiting.
    bool tired(std::uint64_t now) const noexcept { return now - last_arrival_ > patience || now - first_ > longest; }

    /// A system call took `sent` frames; `waited` if it was made because of tired().
    void kicked(bool waited) noexcept {
        if (waited) {
            target_ = std::clamp((pending_ + target_) / 2, 1u, largest_batch);
            trial_every_ = std::min(trial_every_ * 2, rarest_trial);
            until_trial_ = trial_every_;
        } else if (target_ < largest_batch && --until_trial_ == 0) {
            ++target_;
            until_trial_ = 1;   // it worked: go on trying
            succeeded();
        }
        pending_ = 0;
    }

    /// A system call said that nothing can be sent: what is queued waits for the next frame's.
    void refused() noexcept { pending_ = 0; }

private:
    void succeeded() noexcept {
        if (target_ > 2) trial_every_ = std::max(first_trial, trial_every_ / 2);
    }
    static constexpr std::uint32_t first_trial = 64;
    std::uint32_t pending_ = 0;
    std::uint32_t target_ = 1;
    std::uint32_t until_trial_ = first_trial;
    std::uint32_t trial_every_ = first_trial;
    std::uint64_t last_arrival_ = 0;
    std::uint64_t first_ = 0; ///< when the oldest of the pending frames was queued
};

} // namespace corewire
