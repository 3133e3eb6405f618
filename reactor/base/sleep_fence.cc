#include <corewire/reactor/base/sleep_fence.hh>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace corewire::sleep_fence::detail {

bool register_membarrier() noexcept {
    return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void heavy_fence() noexcept {
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
}

} // namespace corewire::sleep_fence::detail
