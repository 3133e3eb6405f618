// The two halves of "publish work, then look whether the other side sleeps" / "say that I sleep, then look for work".
// Each side must see the other's store; ordinarily both need a full fence. Producers are many and hot, sleepers rare and
// cold, so the sleeper pays for both with membarrier(2) where the kernel has it, and the producer's half is a compiler
// barrier. Without membarrier both use a full fence.
#pragma once

#include <atomic>

namespace corewire::sleep_fence {

namespace detail {
/// Registers this process for private expedited membarriers. Run once, at load time.
bool register_membarrier() noexcept;
inline const bool asymmetric = register_membarrier();
void heavy_fence() noexcept;
} // namespace detail

/// Between publishing work and reading the peer's sleeping flag.
inline void producer() noexcept {
    if (detail::asymmetric) [[likely]] {
        std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
}
/// Between setting one's sleeping flag and the last look for work.
inline void sleeper() noexcept {
    if (detail::asymmetric) {
        detail::heavy_fence();
    } else {
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
}

} // namespace corewire::sleep_fence
