// A histogram of durations or sizes with three significant digits over the whole range, after Gil Tene's HdrHistogram:
// linear buckets inside each power of two. Fixed memory, record() is a handful of instructions. One shard writes it;
// merge() brings several together. (Debian 12 has no package of the C library: docs/decisions/001.)
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace corewire {

class histogram {
public:
    static constexpr std::uint64_t max_value = 100'000'000'000; ///< larger values count as this (100 s in ns)

    histogram() : counts_(index_of(max_value) + 1) {}

    void record(std::uint64_t value) noexcept {
        sum_ += value;
        ++count_;
        if (value - least_ > range_) [[unlikely]] value = widen(value, count_ == 1);
        ++counts_[index_of(value)];
    }
    std::uint64_t count() const noexcept { return count_; }
    std::uint64_t min() const noexcept { return count_ == 0 ? 0 : least_; }
    std::uint64_t max() const noexcept { return count_ == 0 ? 0 : std::max(least_ + range_, beyond_); }
    std::uint64_t sum() const noexcept { return sum_; }
    double mean() const noexcept { return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_); }

    /// The value that a share of `fraction` (0 to 1) of the recorded ones do not exceed, to three digits; 0 when empty.
    std::uint64_t quantile(double fraction) const noexcept {
        if (count_ == 0) return 0;
        const double share = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_);
        const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share + 0.5));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen >= wanted) return std::clamp(highest_of(i), min(), max());
        }
        return max();
    }
    /// counts[i] = how many values were at most bounds[i] (ascending), to three digits. Looks at the buckets in use only.
    void cumulative(std::span<const std::uint64_t> bounds, std::span<std::uint64_t> counts) const noexcept {
        std::uint64_t seen = 0;
        std::size_t at = index_of(std::min(min(), max_value));
        for (std::size_t i = 0; i < bounds.size() && i < counts.size(); ++i) {
            const std::size_t end = index_of(std::min({bounds[i], max(), max_value})) + 1;
            for (; at < end; ++at) seen += counts_[at];
            counts[i] = bounds[i] >= max() ? count_ : seen;
        }
    }
    void merge(const histogram& other) noexcept {
        if (other.count_ == 0) return;
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
        widen(other.min(), count_ == 0);
        widen(other.max(), false);
        count_ += other.count_;
        sum_ += other.sum_;
    }
    void reset() noexcept {
        std::fill(counts_.begin(), counts_.end(), 0);
        count_ = sum_ = range_ = beyond_ = 0;
        least_ = max_value;
    }

private:
    // 2,048 values are counted one by one; above, each power of two has 1,024 buckets: at most 0.1 % wide.
    static constexpr unsigned exact_bits = 11;
    static constexpr std::uint64_t half = 1u << (exact_bits - 1);

    static constexpr std::size_t index_of(std::uint64_t value) noexcept {
        // A power of two below 2,048 changes no bucket, and makes the difference one that is never negative.
        const auto highest_bit = 63u ^ static_cast<unsigned>(std::countl_zero(value | half));
        const unsigned shift = highest_bit - (exact_bits - 1);
        return static_cast<std::size_t>(shift * half + (value >> shift));
    }
    static constexpr std::uint64_t highest_of(std::size_t index) noexcept {
        if (index < 2 * half) return index;
        const unsigned shift = static_cast<unsigned>(index / half) - 1;
        const std::uint64_t base = index - shift * half;
        return ((base + 1) << shift) - 1;
    }

    /// A value that is not between the smallest and the largest so far. Returns what it counts as.
    [[gnu::noinline, gnu::cold]] std::uint64_t widen(std::uint64_t value, bool first) noexcept {
        if (value > max_value) beyond_ = std::max(beyond_, std::exchange(value, max_value));
        const std::uint64_t most = first ? value : std::max(least_ + range_, value);
        least_ = first ? value : std::min(least_, value);
        range_ = most - least_;
        return value;
    }

    std::vector<std::uint64_t> counts_;
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t least_ = max_value; ///< as they count
    std::uint64_t range_ = 0;         ///< from there to the largest
    std::uint64_t beyond_ = 0;        ///< the largest of those above max_value
};

} // namespace corewire
