#include <corewire/reactor/topology/pinning.hh>

#include <cerrno>
#include <fmt/format.h>
#include <hwloc.h>
#include <system_error>

namespace corewire {

thread_pinning::thread_pinning(const machine& on, unsigned os_index, std::optional<unsigned> numa_node) : machine_(on) {
    have_previous_ = sched_getaffinity(0, sizeof previous_, &previous_) == 0;
    const hwloc_bitmap_t cpu = hwloc_bitmap_alloc();
    hwloc_bitmap_only(cpu, os_index);
    const int failed = hwloc_set_cpubind(on.topology(), cpu, HWLOC_CPUBIND_THREAD);
    const int why = errno;
    hwloc_bitmap_free(cpu);
    if (failed != 0)
        throw std::system_error(why, std::generic_category(), fmt::format("cannot pin a shard's thread to CPU {}", os_index));
    const processing_unit* unit = on.find(os_index);
    if (!numa_node && unit != nullptr && on.numa_node_count() > 1) numa_node = unit->numa_node; // else nothing to choose
    memory_bound_ = numa_node && bind_memory(on, *numa_node);
}

thread_pinning::~thread_pinning() {
    if (memory_bound_)
        hwloc_set_membind(machine_.topology(), hwloc_topology_get_topology_nodeset(machine_.topology()),
                          HWLOC_MEMBIND_DEFAULT, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
    if (have_previous_) sched_setaffinity(0, sizeof previous_, &previous_);
}

bool thread_pinning::bind_memory(const machine& on, unsigned numa_node) noexcept {
    const hwloc_bitmap_t node = hwloc_bitmap_alloc();
    hwloc_bitmap_only(node, numa_node);
    // Without the strict flag hwloc asks for "preferred": a full node spills over rather than ending the process.
    const int failed =
        hwloc_set_membind(on.topology(), node, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
    hwloc_bitmap_free(node);
    return failed == 0;
}

std::vector<unsigned> this_thread_cpus() {
    std::vector<unsigned> cpus;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

} // namespace corewire
