// The machine as hwloc sees it: processing units (PUs, what Linux calls CPUs), cores, NUMA nodes, packages, network and RDMA devices,
// and which PUs this process may use (its cgroup's cpuset, and its affinity mask). Made once at start; immutable
// afterwards, so that every shard may read it. Bounds: 8192 PUs, 1024 devices; a file is checked first (xml_check.hh).
#pragma once

#include <corewire/reactor/topology/devices.hh>
#include <corewire/reactor/topology/host_files.hh>
#include <corewire/reactor/topology/ranges.hh>

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
    bool allowed;       ///< the scheduler may run this process there
    bool nameable;      ///< allowed, or isolated and within the cgroup's cpuset: a thread that asks for it gets it
    bool isolated;      ///< isolcpus=: nothing runs there that does not ask for it
    bool tickless;      ///< nohz_full=: no timer tick while one thread runs there
    unsigned sibling;   ///< 0: the first PU of its core, 1: the second, ...
    unsigned kind;      ///< 0: of the fastest kind of core here, 1: of the next, ...
};

/// What a machine is read with: PCI devices take some milliseconds more, and starting a program does not need them.
enum class machine_detail { processors, devices };

class machine {
public:
    /// This host. PUs outside of the cgroup's cpuset or of the calling thread's affinity mask are listed, as not allowed.
    /// Throws std::runtime_error if hwloc cannot read the machine.
    static machine detect(machine_detail detail = machine_detail::processors);
    /// A machine that does not exist, in hwloc's synthetic syntax ("package:2 numa:1 core:4 pu:2"), for tests and planning.
    /// `allowed`: OS indices; empty means all. Throws std::invalid_argument; 8192 PUs at most.
    static machine synthetic(std::string_view description, std::span<const unsigned> allowed = {});
    /// Another machine, as `lstopo FILE.xml` or to_xml() has written it. Throws std::invalid_argument with a sentence.
    /// Reads it in a forked child first (trial.hh): for tools and start-up.
    static machine from_xml(const std::string& text);
    static machine from_xml_file(const std::string& path);

    /// For from_xml() elsewhere: with devices, their queues, isolated CPUs and the quota, which lstopo leaves out.
    std::string to_xml() const;

    /// In hwloc's logical order: neighbours in the list are neighbours in the machine.
    std::span<const processing_unit> processing_units() const noexcept { return units_; }
    /// Null if there is no such PU.
    const processing_unit* find(unsigned os_index) const noexcept;
    unsigned allowed_count() const noexcept;
    unsigned core_count() const noexcept { return cores_; }
    unsigned numa_node_count() const noexcept { return numa_nodes_; }
    unsigned package_count() const noexcept { return packages_; }
    bool has_numa_node(unsigned os_index) const noexcept;
    /// The kinds of cores, fastest first: "IntelCore", "IntelAtom"; one empty name where all are alike.
    std::span<const std::string> kinds() const noexcept { return kinds_; }
    /// CPUs' worth of time that the cgroup may use; nothing: no limit.
    std::optional<double> quota() const noexcept { return quota_; }

    /// NICs and RDMA devices, in hwloc's order. Empty unless read with machine_detail::devices, or from XML.
    std::span<const io_device> devices() const noexcept { return devices_; }
    /// By its name ("eth1", "mlx5_0"); null if there is none.
    const io_device* device(std::string_view name) const noexcept;

    /// hwloc's own handle, for what this class does not say.
    hwloc_topology* topology() const noexcept { return topology_.get(); }

private:
    struct topology_deleter {
        void operator()(hwloc_topology* topology) const noexcept;
    };
    using topology_handle = std::unique_ptr<hwloc_topology, topology_deleter>;
    explicit machine(topology_handle topology);
    static machine load_xml(const std::string& text);
    static topology_handle new_topology(machine_detail detail);
    void read_units();
    void read_kinds();
    void annotate(const cpu_facts& facts);
    void apply_annotations();
    void allow_only(std::span<const unsigned> os_indices);

    topology_handle topology_;
    std::vector<processing_unit> units_;
    std::vector<std::string> kinds_;
    std::vector<io_device> devices_;
    std::optional<double> quota_;
    unsigned cores_ = 0;
    unsigned numa_nodes_ = 0;
    unsigned packages_ = 0;
};

} // namespace corewire
