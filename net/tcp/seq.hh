// Sequence numbers: 32 bits that wrap round (RFC 9293 3.4). A plain value, usable anywhere.
//
// a < b means "a lies before b" and is meaningful while the two are less than 2^31 apart, which TCP guarantees: a window
// is at most 2^30 (RFC 7323 2.3). The order is not transitive over the whole circle, so never sort by it across windows.
#pragma once

#include <cstdint>

namespace corewire::tcp {

struct seq_number {
    std::uint32_t value = 0;

    constexpr seq_number() noexcept = default;
    constexpr explicit seq_number(std::uint32_t v) noexcept : value(v) {}

    constexpr seq_number& operator+=(std::uint32_t n) noexcept {
        value += n;
        return *this;
    }
    constexpr seq_number& operator-=(std::uint32_t n) noexcept {
        value -= n;
        return *this;
    }
    friend constexpr bool operator==(seq_number, seq_number) noexcept = default;
    friend constexpr seq_number operator+(seq_number s, std::uint32_t n) noexcept { return seq_number(s.value + n); }
    friend constexpr seq_number operator-(seq_number s, std::uint32_t n) noexcept { return seq_number(s.value - n); }
    /// How far `a` lies behind `b` (forward distance from b to a); a >= b unless the caller wants the wrapped value.
    friend constexpr std::uint32_t operator-(seq_number a, seq_number b) noexcept { return a.value - b.value; }
    friend constexpr bool operator<(seq_number a, seq_number b) noexcept {
        return static_cast<std::int32_t>(a.value - b.value) < 0;
    }
    friend constexpr bool operator>(seq_number a, seq_number b) noexcept { return b < a; }
    friend constexpr bool operator<=(seq_number a, seq_number b) noexcept { return !(b < a); }
    friend constexpr bool operator>=(seq_number a, seq_number b) noexcept { return !(a < b); }
};

constexpr seq_number later(seq_number a, seq_number b) noexcept { return a < b ? b : a; }
constexpr seq_number earlier(seq_number a, seq_number b) noexcept { return a < b ? a : b; }

} // namespace corewire::tcp
