// What a fuzz target that acts in steps is driven by: a string of bytes, drawn from its front.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fuzz {

using corewire::byte_span;

/// What decides; zeros when it is used up.
class decisions {
public:
    explicit decisions(byte_span bytes) noexcept : left_(bytes) {}
    bool done() const noexcept { return left_.empty(); }
    std::uint8_t byte() noexcept {
        if (left_.empty()) return 0;
        const auto b = std::to_integer<std::uint8_t>(left_.front());
        left_ = left_.subspan(1);
        return b;
    }
    std::uint16_t word() noexcept {
        const std::uint8_t high = byte();
        return static_cast<std::uint16_t>(high << 8 | byte());
    }
    std::uint32_t number() noexcept {
        const std::uint32_t high = word();
        return high << 16 | word();
    }
    byte_span bytes(std::size_t n) noexcept {
        const byte_span out = left_.first(std::min(n, left_.size()));
        left_ = left_.subspan(out.size());
        return out;
    }

private:
    byte_span left_;
};

} // namespace fuzz
