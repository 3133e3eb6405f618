// A bounded ring between two threads: one pushes, one takes. The only place, with the reactor's sleeping flag, where
// Corewire uses atomics.
//
//     slot = one 64-byte cache line: | sequence (8) | value (up to 56) |
//
// A message costs one line transfer: its sequence number travels in the same line as its value, so the consumer polls
// the very line that the message will arrive in, and an idle poll reads a line that stays in its own cache. The
// consumer writes no slot. It publishes how far it has read once a batch, and the producer reads that only when the
// ring looks full to it: once a lap at most.
//
// Bounded by its capacity: try_claim() returns null when full, and the caller waits or drops (and counts).
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace corewire {

/// Bytes that move between cores together.
inline constexpr std::size_t cache_line = 64;

/// T is constructed in place by the producer, used in place and destroyed by the consumer.
template <typename T>
class spsc_ring {
public:
    static_assert(sizeof(T) <= cache_line - sizeof(std::uint64_t), "a message must fit into one cache line");
    static_assert(alignof(T) <= alignof(std::uint64_t));

    /// `capacity`: number of slots, a power of two. 64 bytes each, allocated and first touched here.
    explicit spsc_ring(std::size_t capacity)
        : slots_(new slot[capacity]), producer_{0, capacity, slots_.get(), capacity - 1},
          consumer_{0, slots_.get(), capacity - 1} {
        CW_ASSERT(std::has_single_bit(capacity), "the capacity of a ring is a power of two");
    }
    spsc_ring(const spsc_ring&) = delete;
    spsc_ring& operator=(const spsc_ring&) = delete;
    /// Values that were never consumed are not destroyed: consume() them first if that matters.
    ~spsc_ring() = default;

    std::size_t capacity() const noexcept { return consumer_.mask + 1; }

    // --- the producer's side -------------------------------------------------------------------------------------

    /// Memory for the next value, or null when the ring is full. Construct a T there, then commit().
    void* try_claim() noexcept {
        if (producer_.tail == producer_.limit && !refresh_limit()) [[unlikely]]
            return nullptr;
        return producer_.slots[producer_.tail & producer_.mask].value;
    }
    /// Hands the claimed value to the consumer.
    void commit() noexcept {
        slot& s = producer_.slots[producer_.tail & producer_.mask];
        ++producer_.tail;
        // Release: the consumer that reads this number (acquire, in front()) reads the value written before it.
        s.sequence.store(producer_.tail, std::memory_order_release);
    }
    bool try_push(T value) noexcept {
        void* place = try_claim();
        if (place == nullptr) return false;
        ::new (place) T(std::move(value));
        commit();
        return true;
    }
    /// Pushes from the front of `values` and returns how many fitted.
    std::size_t push_batch(std::span<const T> values) noexcept {
        std::size_t n = 0;
        while (n < values.size() && try_push(values[n])) ++n;
        return n;
    }

    // --- the consumer's side -------------------------------------------------------------------------------------

    /// The oldest value, or null when there is none. Touches one line.
    T* front() noexcept {
        slot& s = consumer_.slots[consumer_.head & consumer_.mask];
        // Acquire: pairs with commit(). Any other number is an older lap's: the slot has not been written yet.
        if (s.sequence.load(std::memory_order_acquire) != consumer_.head + 1) return nullptr;
        return std::launder(reinterpret_cast<T*>(s.value));
    }
    /// Destroys the value that front() returned and moves on. The producer learns of the room at publish().
    void pop() noexcept {
        slot& s = consumer_.slots[consumer_.head & consumer_.mask];
        if constexpr (!std::is_trivially_destructible_v<T>) std::launder(reinterpret_cast<T*>(s.value))->~T();
        ++consumer_.head;
    }
    /// Gives everything popped so far back to the producer.
    void publish() noexcept {
        // Release: our reads of the slots are done before the producer (acquire, in refresh_limit) overwrites them.
        consumed_.store(consumer_.head, std::memory_order_release);
    }
    /// Calls use(T&) for up to `max` values, oldest first. Returns how many.
    template <typename Use>
    std::size_t consume(std::size_t max, Use&& use) {
        std::size_t n = 0;
        for (T* value; n < max && (value = front()) != nullptr; ++n) {
            use(*value);
            pop();
        }
        if (n != 0) publish();
        return n;
    }
    bool empty() noexcept { return front() == nullptr; }

private:
    struct alignas(cache_line) slot {
        std::atomic<std::uint64_t> sequence{0}; ///< position + 1 of the value it holds
        alignas(std::uint64_t) std::byte value[cache_line - sizeof(std::uint64_t)];
    };
    static_assert(sizeof(slot) == cache_line);

    [[gnu::noinline]] bool refresh_limit() noexcept {
        producer_.limit = consumed_.load(std::memory_order_acquire) + producer_.mask + 1;
        return producer_.tail != producer_.limit;
    }

    std::unique_ptr<slot[]> slots_;
    struct alignas(cache_line) { // touched by the producer only
        std::uint64_t tail;
        std::uint64_t limit; ///< first position known to be still occupied: the remote index, cached
        slot* slots;
        std::uint64_t mask;
    } producer_;
    struct alignas(cache_line) { // touched by the consumer only
        std::uint64_t head;
        slot* slots;
        std::uint64_t mask;
    } consumer_;
    alignas(cache_line) std::atomic<std::uint64_t> consumed_{0};
};

} // namespace corewire
