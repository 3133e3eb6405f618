// ring<T, Inline>: a double-ended row of T in one block, power-of-two sized, that starts inside its owner and moves to the
// heap when it outgrows that. It never shrinks, so a connection in steady state does not allocate. What lies inside is what a connection
// that says a word now and then needs: there may be a million of those.
// Belongs to whatever queue it is in; that queue bounds it.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace corewire::tcp {

template <typename T, std::uint32_t Inline>
class ring {
    static_assert((Inline & (Inline - 1)) == 0, "a ring's size is a power of two");

public:
    ring() noexcept = default;
    ring(ring&& other) noexcept { take(other); }
    ring& operator=(ring&&) = delete;

    std::uint32_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    T& operator[](std::uint32_t i) noexcept { return slots_[(head_ + i) & mask_]; }
    const T& operator[](std::uint32_t i) const noexcept { return slots_[(head_ + i) & mask_]; }
    T& front() noexcept { return slots_[head_]; }
    const T& front() const noexcept { return slots_[head_]; }
    T& back() noexcept { return (*this)[count_ - 1]; }
    const T& back() const noexcept { return (*this)[count_ - 1]; }

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
    /// Makes room before element i by moving what follows back by one: O(size() - i).
    T& insert(std::uint32_t i) {
        push_back();
        for (std::uint32_t k = count_ - 1; k > i; --k) (*this)[k] = std::move((*this)[k - 1]);
        (*this)[i] = T{};
        return (*this)[i];
    }
    /// Removes the elements [i, i + n): O(size() - i).
    void erase(std::uint32_t i, std::uint32_t n = 1) noexcept {
        for (std::uint32_t k = i; k + n < count_; ++k) (*this)[k] = std::move((*this)[k + n]);
        for (std::uint32_t k = count_ - n; k < count_; ++k) (*this)[k] = T{};
        count_ -= n;
    }
    void clear() noexcept {
        while (count_ != 0) pop_front();
        head_ = 0;
    }

private:
    [[gnu::noinline, gnu::cold]] void grow() {
        const std::uint32_t size = (mask_ + 1) * 2;
        auto larger = std::make_unique<T[]>(size);
        for (std::uint32_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
        heap_ = std::move(larger);
        slots_ = heap_.get();
        head_ = 0;
        mask_ = size - 1;
    }
    void take(ring& other) noexcept {
        if (other.heap_ != nullptr) {
            heap_ = std::move(other.heap_);
            slots_ = heap_.get();
            mask_ = std::exchange(other.mask_, Inline - 1);
            head_ = other.head_;
        } else {
            for (std::uint32_t i = 0; i < other.count_; ++i) inline_[i] = std::move(other[i]);
        }
        count_ = std::exchange(other.count_, 0);
        other.slots_ = other.inline_;
        other.head_ = 0;
    }

    T* slots_ = inline_;
    std::uint32_t mask_ = Inline - 1;
    std::uint32_t head_ = 0;
    std::uint32_t count_ = 0;
    T inline_[Inline]{};
    std::unique_ptr<T[]> heap_;
};

} // namespace corewire::tcp
