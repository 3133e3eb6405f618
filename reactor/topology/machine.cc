#include <corewire/reactor/topology/machine.hh>

#include <algorithm>
#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <stdexcept>

namespace corewire {

namespace {

void load(hwloc_topology* topology) {
    if (hwloc_topology_load(topology) != 0) throw std::runtime_error("hwloc cannot read this machine's topology");
}

/// The logical number of the ancestor of `type`; 0 when the machine has no such level.
unsigned ancestor(hwloc_topology* topology, hwloc_obj* unit, hwloc_obj_type_t type) {
    const hwloc_obj* found = hwloc_get_ancestor_obj_by_type(topology, type, unit);
    return found != nullptr ? found->logical_index : 0;
}

/// The NUMA node whose PUs include this one: NUMA nodes stand beside hwloc's tree, not in it.
unsigned nearest_numa_node(hwloc_topology* topology, const hwloc_obj* unit) {
    hwloc_obj* node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
        if (hwloc_bitmap_isset(node->cpuset, unit->os_index)) return node->os_index;
    return 0;
}

/// The calling thread's affinity mask as a sorted list; empty if the kernel will not tell.
std::vector<unsigned> affinity_mask() {
    std::vector<unsigned> allowed;
    constexpr int most_cpus = 4096;
    cpu_set_t* set = CPU_ALLOC(most_cpus);
    const std::size_t size = CPU_ALLOC_SIZE(most_cpus);
    if (set != nullptr && sched_getaffinity(0, size, set) == 0)
        for (unsigned cpu = 0; cpu < most_cpus; ++cpu)
            if (CPU_ISSET_S(cpu, size, set)) allowed.push_back(cpu);
    CPU_FREE(set);
    return allowed;
}

} // namespace

void machine::topology_deleter::operator()(hwloc_topology* topology) const noexcept {
    hwloc_topology_destroy(topology);
}

machine::topology_handle machine::new_topology() {
    hwloc_topology* topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) throw std::runtime_error("hwloc cannot be initialised: out of memory?");
    return topology_handle{topology};
}

machine::machine(topology_handle topology) : topology_(std::move(topology)) {
    auto count = [&](hwloc_obj_type_t type) {
        return static_cast<unsigned>(std::max(1, hwloc_get_nbobjs_by_type(topology_.get(), type)));
    };
    cores_ = count(HWLOC_OBJ_CORE);
    numa_nodes_ = count(HWLOC_OBJ_NUMANODE);
    packages_ = count(HWLOC_OBJ_PACKAGE);
    const hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology_.get());
    hwloc_obj* unit = nullptr;
    while ((unit = hwloc_get_next_obj_by_type(topology_.get(), HWLOC_OBJ_PU, unit)) != nullptr)
        units_.push_back({.os_index = unit->os_index,
                          .core = ancestor(topology_.get(), unit, HWLOC_OBJ_CORE),
                          .numa_node = nearest_numa_node(topology_.get(), unit),
                          .package = ancestor(topology_.get(), unit, HWLOC_OBJ_PACKAGE),
                          .allowed = hwloc_bitmap_isset(allowed, unit->os_index) != 0});
}

machine machine::detect() {
    topology_handle topology = new_topology();
    // Keep what the cgroup forbids in the picture, so that an error can tell "forbidden" from "does not exist".
    hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    load(topology.get());
    machine detected{std::move(topology)};
    if (const std::vector<unsigned> mask = affinity_mask(); !mask.empty()) detected.allow_only(mask);
    return detected;
}

machine machine::synthetic(std::string_view description, std::span<const unsigned> allowed) {
    topology_handle topology = new_topology();
    if (hwloc_topology_set_synthetic(topology.get(), std::string{description}.c_str()) != 0)
        throw std::invalid_argument(fmt::format("'{}' is not a synthetic topology that hwloc understands", description));
    load(topology.get());
    machine made{std::move(topology)};
    if (!allowed.empty()) made.allow_only(allowed);
    return made;
}

void machine::allow_only(std::span<const unsigned> os_indices) {
    for (processing_unit& unit : units_)
        unit.allowed = unit.allowed && std::ranges::find(os_indices, unit.os_index) != os_indices.end();
}

const processing_unit* machine::find(unsigned os_index) const noexcept {
    const auto found = std::ranges::find(units_, os_index, &processing_unit::os_index);
    return found != units_.end() ? &*found : nullptr;
}

unsigned machine::allowed_count() const noexcept {
    return static_cast<unsigned>(std::ranges::count_if(units_, &processing_unit::allowed));
}

std::string format_ranges(std::vector<unsigned> numbers) {
    std::ranges::sort(numbers);
    std::string text;
    for (std::size_t first = 0; first < numbers.size();) {
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
        if (last != first) text += fmt::format("-{}", numbers[last]);
        first = last + 1;
    }
    return text;
}

} // namespace corewire
