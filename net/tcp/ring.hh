// ring<T>: a double-ended row of T in one block, power-of-two sized, that starts with one element inside its owner and moves to the
// heap when it outgrows that. It never shrinks, so a connection in steady state does not allocate. The one inside is what a connection
// needs that says a word now and then: there may be a million of those.
// Belongs to whatever queue it is in; that queue bounds it, to `most` elements at most.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace corewire::tcp {

template <typename T>
class ring {
public:
    static constexpr std::uint32_t most = 1u << 15; ///< elements

    ring() noexcept = default;
    ring(ring&& other) noexcept { take(other); }
    ring& operator=(ring&&) = delete;
    ~ring() { free_block(); }

    std::uint32_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    T& operator[](std::uint32_t i) noexcept { return slots_[(head_ + i) & mask_]; }
    const T& operator[](std::uint32_t i) const noexcept { return slots_[(head_ + i) & mask_]; }
    T& front() noexcept { return slots_[head_]; }
    const T& front() const noexcept { return slots_[head_]; }
    T& back() noexcept { return (*this)[size() - 1]; }
    const T& back() const noexcept { return (*this)[size() - 1]; }

    /// A default-constructed (or moved-from) element at the end.
    [[gnu::always_inline]] T& push_back() {
        if (count_ > mask_) [[unlikely]] grow();
        return (*this)[count_++];
    }
    /// The same of an empty ring, in fewer steps.
    T& push_first() noexcept {
        CW_DEBUG_ASSERT(count_ == 0, "push_first() is for an empty ring");
        head_ = 0;
        count_ = 1;
        return slots_[0];
    }
    /// Forgets the first element, which has been moved from or needs no destruction.
    void drop_front() noexcept {
        head_ = (head_ + 1) & mask_;
        --count_;
    }
    /// The same of all elements.
    void drop_all() noexcept { count_ = 0; }
    void pop_front() noexcept {
        slots_[head_] = T{};
        drop_front();
    }
    /// Makes room before element i by moving those before it, or those behind it, by one: O(min(i, size() - i)).
    T& insert(std::uint32_t i) {
        if (i >= size() - i) {
            push_back();
            for (std::uint32_t k = size() - 1; k > i; --k) (*this)[k] = std::move((*this)[k - 1]);
        } else {
            if (count_ > mask_) [[unlikely]] grow();
            head_ = (head_ - 1) & mask_;
            ++count_;
            for (std::uint32_t k = 0; k < i; ++k) (*this)[k] = std::move((*this)[k + 1]);
        }
        (*this)[i] = T{};
        return (*this)[i];
    }
    /// Removes the elements [i, i + n): O(n + min(i, size() - i - n)).
    void erase(std::uint32_t i, std::uint32_t n = 1) noexcept {
        if (i >= size() - i - n) {
            for (std::uint32_t k = i; k + n < size(); ++k) (*this)[k] = std::move((*this)[k + n]);
            for (std::uint32_t k = size() - n; k < size(); ++k) (*this)[k] = T{};
        } else {
            for (std::uint32_t k = i; k != 0; --k) (*this)[k - 1 + n] = std::move((*this)[k - 1]);
            for (std::uint32_t k = 0; k < n; ++k) (*this)[k] = T{};
            head_ = (head_ + n) & mask_;
        }
        count_ -= n;
    }
    void clear() noexcept {
        while (count_ != 0) pop_front();
        head_ = 0;
    }

private:
    static constexpr std::uint32_t first_block = 4;
    [[gnu::noinline, gnu::cold]] void grow() {
        const std::uint32_t room = mask_ == 0 ? first_block : (mask_ + 1) * 2;
        CW_ASSERT(room <= most, "whoever owns a ring bounds it");
        T* const larger = new T[room]{};
        for (std::uint32_t i = 0; i < size(); ++i) larger[i] = std::move((*this)[i]);
        free_block();
        slots_ = larger;
        head_ = 0;
        mask_ = room - 1;
    }
    void free_block() noexcept {
        if (slots_ != &inside_) delete[] slots_;
    }
    void take(ring& other) noexcept {
        if (other.slots_ != &other.inside_) {
            slots_ = std::exchange(other.slots_, &other.inside_);
        } else if (other.count_ != 0) {
            inside_ = std::move(other.inside_);
        }
        mask_ = std::exchange(other.mask_, 0);
        head_ = std::exchange(other.head_, 0);
        count_ = std::exchange(other.count_, 0);
    }

    T* slots_ = &inside_;
    std::uint32_t mask_ = 0;
    std::uint32_t head_ = 0;
    std::uint32_t count_ = 0;
    T inside_{};
};

} // namespace corewire::tcp
