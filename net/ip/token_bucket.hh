// A rate limit: `rate` tokens a second flow into a bucket of `burst`; each take() needs one.
// A plain value of its owner's; time is a parameter.
#pragma once

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
        if (now > last_) {
            // Clipped first: the first call may come any time after the zero of the clock.
            level_ = std::min(depth_, level_ + std::min((now - last_).count(), depth_));
            last_ = now;
        }
        if (level_ < interval_) {
            ++refused_;
            return false;
        }
        level_ -= interval_;
        return true;
    }
    std::uint64_t refused() const noexcept { return refused_; }

private:
    std::int64_t interval_; ///< ns a token
    std::int64_t depth_;    ///< ns
    std::int64_t level_;    ///< ns
    time_point last_{};
    std::uint64_t refused_ = 0;
};

} // namespace corewire
