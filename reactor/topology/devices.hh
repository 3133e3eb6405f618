// Network interfaces and RDMA devices, and which CPUs and memory they are next to. Values, made with the machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct hwloc_topology;

namespace corewire {

struct io_device {
    enum class type { network, rdma };
    std::string name;                  ///< "eth1", "mlx5_0"
    type what = type::network;
    std::string model{};               ///< vendor and model of the PCI device; may be empty
    std::string bus{};                 ///< "0000:81:00.0"; empty: not a PCI device (veth, tap, bridge)
    std::vector<unsigned> near{};      ///< the kernel's numbers of the CPUs that it is next to: all, if nobody knows better
    std::vector<unsigned> nodes{};     ///< the NUMA nodes that it is next to
    bool has_place = false;            ///< next to some CPUs, not to all alike
    unsigned queues = 0;               ///< receive queues; 0: not known, or none (RDMA devices make queue pairs as needed)
};

/// The devices of a loaded topology, 1024 at most. Queues are those that note_queues() has noted.
std::vector<io_device> read_devices(hwloc_topology* topology);

/// Notes in the topology how many queues each of its interfaces has now, by /sys below `root`.
void note_queues(hwloc_topology* topology, const std::string& root = {});

/// The interface of the same PCI function, for an RDMA device (or the reverse); null if there is none.
const io_device* same_function(const std::vector<io_device>& devices, const io_device& device) noexcept;

} // namespace corewire
