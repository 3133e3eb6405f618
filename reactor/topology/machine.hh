// The machine as hwloc sees it: processing units (PUs, what Linux calls CPUs), cores, NUMA nodes, packages, and which
// PUs this process may use (its cgroup's cpuset, and its affinity mask). Made once at start; immutable afterwards,
// so that every shard may read it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct hwloc_topology;

namespace corewire {

struct processing_unit {
    unsigned os_index;  ///< the kernel's CPU number
    unsigned core;      ///< hwloc's logical number of its core
    unsigned numa_node; ///< the kernel's number of the NUMA node that is nearest
    unsigned package;   ///< hwloc's logical number of its socket
    bool allowed;       ///< this process may run there
};

class machine {
public:
    /// This host. PUs outside of the cgroup's cpuset or of the calling thread's affinity mask are listed, as not allowed.
    /// Throws std::runtime_error if hwloc cannot read the machine.
    static machine detect();
    /// A machine that does not exist, in hwloc's synthetic syntax ("package:2 numa:1 core:4 pu:2"), for tests and planning.
    /// `allowed`: OS indices; empty means all.
    static machine synthetic(std::string_view description, std::span<const unsigned> allowed = {});

    /// In hwloc's logical order: neighbours in the list are neighbours in the machine.
    std::span<const processing_unit> processing_units() const noexcept { return units_; }
    /// Null if there is no such PU.
    const processing_unit* find(unsigned os_index) const noexcept;
    unsigned allowed_count() const noexcept;
    unsigned core_count() const noexcept { return cores_; }
    unsigned numa_node_count() const noexcept { return numa_nodes_; }
    unsigned package_count() const noexcept { return packages_; }

    /// hwloc's own handle, for what this class does not say.
    hwloc_topology* topology() const noexcept { return topology_.get(); }

private:
    struct topology_deleter {
        void operator()(hwloc_topology* topology) const noexcept;
    };
    using topology_handle = std::unique_ptr<hwloc_topology, topology_deleter>;
    explicit machine(topology_handle topology);
    static topology_handle new_topology();
    void allow_only(std::span<const unsigned> os_indices);

    topology_handle topology_;
    std::vector<processing_unit> units_;
    unsigned cores_ = 0;
    unsigned numa_nodes_ = 0;
    unsigned packages_ = 0;
};

/// "0-3,6": numbers as people and taskset(1) write them. `numbers` need not be sorted.
std::string format_ranges(std::vector<unsigned> numbers);

} // namespace corewire
