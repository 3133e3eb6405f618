// A list in place, of up to N elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace corewire {

template <typename T, std::size_t N>
struct bounded_list {
    std::array<T, N> items{};
    std::size_t count = 0;
    /// False: it is full.
    bool push(const T& item) noexcept {
        if (count == N) return false;
        items[count++] = item;
        return true;
    }
    /// In front of the element at `index`, or behind all. There is room.
    void insert(std::size_t index, const T& item) noexcept {
        std::copy_backward(items.data() + index, items.data() + count, items.data() + count + 1);
        items[index] = item;
        ++count;
    }
    void erase(std::size_t index) noexcept {
        std::copy(items.data() + index + 1, items.data() + count, items.data() + index);
        --count;
    }
    std::span<const T> all() const noexcept { return {items.data(), count}; }
    std::span<T> all() noexcept { return {items.data(), count}; }
    bool empty() const noexcept { return count == 0; }
    friend bool operator==(const bounded_list& a, const bounded_list& b) noexcept { return std::ranges::equal(a.all(), b.all()); }
};

} // namespace corewire
