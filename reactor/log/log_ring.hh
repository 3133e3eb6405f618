// The records of one shard on their way to the writer's thread: one pushes, one takes, in order.
//
// Made by the log before the shards. Bounded by its capacity: a full ring takes nothing, and the shard counts what it dropped.
// (spsc_ring carries a cache line a message; a log record is four, and no message is ever waited for.)
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/log/log_event.hh>

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

namespace corewire {

class log_ring {
public:
    explicit log_ring(std::size_t capacity) : mask_(capacity - 1), records_(new log_record[capacity]) {
        CW_ASSERT(std::has_single_bit(capacity), "the capacity of a ring is a power of two");
    }

    // --- the shard's side ---
    /// Null when the ring is full. Fill it in, then commit().
    log_record* claim() noexcept {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        if (tail - head_.load(std::memory_order_acquire) > mask_) return nullptr; // acquire: the reader is done with the slot
        return &records_[tail & mask_];
    }
    void commit() noexcept { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

    // --- the writer's side ---
    const log_record* front() const noexcept {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        return head == tail_.load(std::memory_order_acquire) ? nullptr : &records_[head & mask_];
    }
    void pop() noexcept { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

private:
    const std::size_t mask_;
    std::unique_ptr<log_record[]> records_;
    alignas(64) std::atomic<std::size_t> tail_{0};
    alignas(64) std::atomic<std::size_t> head_{0};
};

} // namespace corewire
