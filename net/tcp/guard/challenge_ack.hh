// The limiter of challenge ACKs (RFC 5961 7): so many in a second for the whole stack, so that a stranger can't make us
// an amplifier. The budget of each second is random, so that counting the answers tells nothing about other connections
// (CVE-2016-5696). One per shard; the tcbs of that shard share it by pointer.
#pragma once

#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <chrono>
#include <cstdint>

namespace corewire::tcp {

class challenge_limiter {
public:
    static constexpr std::uint32_t default_rate = 1000; ///< about so many a second

    explicit challenge_limiter(std::uint64_t seed, std::uint32_t rate = default_rate) noexcept
        : random_(seed), rate_(rate) {}

    /// Takes one from the budget of this second. False: send nothing.
    bool allow(time_point now) noexcept {
        if (now >= refill_at_) {
            refill_at_ = now + std::chrono::seconds{1};
            left_ = rate_ / 2 + static_cast<std::uint32_t>(random_.below(rate_ + 1));
        }
        if (left_ == 0) {
            ++withheld_;
            return false;
        }
        --left_;
        return true;
    }
    std::uint64_t withheld() const noexcept { return withheld_; }

private:
    random_generator random_;
    std::uint32_t rate_;
    std::uint32_t left_ = 0;
    time_point refill_at_ = time_point::min();
    std::uint64_t withheld_ = 0;
};

} // namespace corewire::tcp
