// A rate limit: `rate` tokens a second flow into a bucket of `burst`; each take() needs one.
// A plain value of its owner's; time is a parameter.
//
// A bucket that strangers fill with what they make us say tells them, by being empty, what we have said to others: whether 50 datagrams
// "from" a name server met a closed port or one of ours (CVE-2020-25705). take_about_one() blurs that.
#pragma once

#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <cstdint>

namespace corewire {

class token_bucket {
public:
    /// rate > 0 tokens a second. The bucket starts full.
    constexpr token_bucket(std::uint32_t rate, std::uint32_t burst) noexcept
        : interval_(1'000'000'000 / std::max<std::uint32_t>(rate, 1)), depth_(interval_ * burst), level_(depth_) {}

    bool take(time_point now) noexcept {
        if (!refill(now)) return false;
        level_ -= interval_;
        return true;
    }
    /// No token, one, or two: one on average, so that the rate is what it was.
    bool take_about_one(time_point now, random_generator& random) noexcept {
        if (!refill(now)) return false;
        level_ -= interval_ * static_cast<std::int64_t>(random.below(3)); // a token below nothing at most
        return true;
    }
    std::uint64_t refused() const noexcept { return refused_; }

private:
    bool refill(time_point now) noexcept {
        if (now > last_) {
            // Clipped first: the first call may come any time after the zero of the clock.
            level_ = std::min(depth_, level_ + std::min((now - last_).count(), depth_));
            last_ = now;
        }
        if (level_ >= interval_) return true;
        ++refused_;
        return false;
    }

    std::int64_t interval_; ///< ns a token
    std::int64_t depth_;    ///< ns
    std::int64_t level_;    ///< ns
    time_point last_{};
    std::uint64_t refused_ = 0;
};

} // namespace corewire
