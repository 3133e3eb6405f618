// Puts a thread on one CPU, and the memory that it touches first on that CPU's NUMA node.
// Undone when the object goes, so that a calling thread that served as shard 0 is free again.
#pragma once

#include <corewire/reactor/topology/machine.hh>

#include <sched.h>

namespace corewire {

class thread_pinning {
public:
    /// Pins the calling thread to the CPU `os_index` of `on`, which must outlive this object, and its memory to `numa_node`
    /// (nothing: the CPU's own node, if there are several). Memory binding is best effort: kernels and containers that
    /// refuse it (ENOSYS, EPERM) leave memory unbound. Throws std::system_error if the thread cannot be pinned (offline
    /// CPU, cpuset changed).
    thread_pinning(const machine& on, unsigned os_index, std::optional<unsigned> numa_node = std::nullopt);
    /// On the same thread: gives back the affinity it had.
    ~thread_pinning();
    thread_pinning(const thread_pinning&) = delete;
    thread_pinning& operator=(const thread_pinning&) = delete;

    /// True if this thread's memory now comes from the NUMA node that was asked for.
    bool memory_bound() const noexcept { return memory_bound_; }

private:
    bool bind_memory(const machine& on, unsigned numa_node) noexcept;
    const machine& machine_;
    cpu_set_t previous_{};
    bool have_previous_ = false;
    bool memory_bound_ = false;
};

/// The CPUs that the calling thread may run on now.
std::vector<unsigned> this_thread_cpus();

} // namespace corewire
