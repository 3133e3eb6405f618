// bounded_queue<T>: first in, first out, with room for a number of elements that is fixed when it is made. Memory is taken
// once, then. One thread's.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace corewire {

template <typename T>
class bounded_queue {
public:
    static_assert(std::is_nothrow_move_constructible_v<T>, "elements move in and out without throwing");

    /// Room for `capacity` elements, at least one.
    explicit bounded_queue(std::size_t capacity) : slots_(new slot[capacity]), capacity_(capacity) {
        CW_ASSERT(capacity > 0, "a queue has room for one element at least");
    }
    bounded_queue(const bounded_queue&) = delete;
    bounded_queue& operator=(const bounded_queue&) = delete;
    ~bounded_queue() {
        while (!empty()) static_cast<void>(pop());
    }

    std::size_t capacity() const noexcept { return capacity_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    bool full() const noexcept { return size_ == capacity_; }
    /// There must be room.
    void push(T&& value) noexcept {
        CW_ASSERT(!full(), "push() to a full queue");
        const std::size_t at = first_ + size_ < capacity_ ? first_ + size_ : first_ + size_ - capacity_;
        ::new (slots_[at].bytes) T(std::move(value));
        ++size_;
    }
    /// The oldest. There must be one.
    T pop() noexcept {
        CW_ASSERT(!empty(), "pop() of an empty queue");
        T& oldest = *std::launder(reinterpret_cast<T*>(slots_[first_].bytes));
        if (++first_ == capacity_) first_ = 0;
        --size_;
        T value(std::move(oldest));
        oldest.~T();
        return value;
    }

private:
    struct slot {
        alignas(T) std::byte bytes[sizeof(T)];
    };
    std::unique_ptr<slot[]> slots_;
    std::size_t capacity_;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

} // namespace corewire
