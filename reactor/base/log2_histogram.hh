// How many values lay in each power of two: coarse, and so cheap that a loop may record every one of its turns (five
// instructions, no branch). One thread writes and reads it. For more digits: reactor/metrics/histogram.hh.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace corewire {

class log2_histogram {
public:
    static constexpr unsigned first_bits = 7, last_bits = 33; ///< 127 ns to 8.6 s
    static constexpr std::size_t bound_count = last_bits - first_bits + 1;

    void record(std::uint64_t value) noexcept {
        ++counts_[(63u ^ static_cast<unsigned>(std::countl_zero(value | 1))) + 1]; // bit_width(), 0 being counted as 1
        sum_ += value;
    }
    /// The largest values of the powers that are told apart: 2^7 - 1, 2^8 - 1, ..., 2^33 - 1.
    static constexpr std::array<std::uint64_t, bound_count> bounds() noexcept {
        std::array<std::uint64_t, bound_count> all{};
        for (unsigned i = 0; i < bound_count; ++i) all[i] = (std::uint64_t{1} << (first_bits + i)) - 1;
        return all;
    }
    /// counts[i] = how many values were at most bounds()[i]. Exact.
    void cumulative(std::span<std::uint64_t, bound_count> counts) const noexcept {
        std::uint64_t seen = 0;
        for (unsigned bits = 0; bits <= last_bits; ++bits) {
            seen += counts_[bits];
            if (bits >= first_bits) counts[bits - first_bits] = seen;
        }
    }
    std::uint64_t count() const noexcept {
        std::uint64_t all = 0;
        for (const std::uint64_t each : counts_) all += each;
        return all;
    }
    std::uint64_t sum() const noexcept { return sum_; }

private:
    std::array<std::uint64_t, 65> counts_{}; ///< by the number of bits that a value needs
    std::uint64_t sum_ = 0;
};

} // namespace corewire
