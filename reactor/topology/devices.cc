#include <corewire/reactor/topology/devices.hh>

#include <corewire/reactor/topology/host_files.hh>
#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <fmt/format.h>
#include <hwloc.h>

namespace corewire {

namespace {

constexpr std::size_t most_devices = 1024;
constexpr unsigned most_queues = 4096;
constexpr const char* queues_note = "CorewireQueues";

std::vector<unsigned> numbers(hwloc_const_bitmap_t set) {
    std::vector<unsigned> out;
    for (int n = hwloc_bitmap_first(set); n >= 0; n = hwloc_bitmap_next(set, n)) out.push_back(static_cast<unsigned>(n));
    return out;
}

std::string info(hwloc_obj* object, const char* name) {
    const char* value = hwloc_obj_get_info_by_name(object, name);
    return value != nullptr ? value : "";
}

io_device read_device(hwloc_topology* topology, hwloc_obj* object) {
    io_device device{.name = object->name != nullptr ? object->name : "",
                     .what = object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ? io_device::type::network
                                                                                  : io_device::type::rdma};
    for (hwloc_obj* above = object->parent; above != nullptr; above = above->parent)
        if (above->type == HWLOC_OBJ_PCI_DEVICE) {
            const auto& pci = above->attr->pcidev;
            device.bus = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
            device.model = info(above, "PCIVendor");
            const std::string model = info(above, "PCIDevice");
            if (!device.model.empty() && !model.empty()) device.model += ' ';
            device.model += model;
            break;
        }
    const hwloc_obj* place = hwloc_get_non_io_ancestor_obj(topology, object);
    if (place != nullptr && place->cpuset != nullptr) {
        device.near = numbers(place->cpuset);
        device.nodes = numbers(place->nodeset);
        device.has_place = hwloc_bitmap_isequal(place->cpuset, hwloc_get_root_obj(topology)->cpuset) == 0;
    }
    device.queues = parse_unsigned(info(object, queues_note), most_queues).value_or(0);
    return device;
}

} // namespace

std::vector<io_device> read_devices(hwloc_topology* topology) {
    std::vector<io_device> devices;
    hwloc_obj* object = nullptr;
    while (devices.size() < most_devices && (object = hwloc_get_next_osdev(topology, object)) != nullptr)
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK || object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            devices.push_back(read_device(topology, object));
    return devices;
}

void note_queues(hwloc_topology* topology, const std::string& root) {
    hwloc_obj* object = nullptr;
    while ((object = hwloc_get_next_osdev(topology, object)) != nullptr)
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && object->name != nullptr)
            if (const unsigned queues = interface_queues(object->name, root); queues != 0)
                hwloc_obj_add_info(object, queues_note, std::to_string(queues).c_str());
}

const io_device* same_function(const std::vector<io_device>& devices, const io_device& device) noexcept {
    const auto found = std::ranges::find_if(
        devices, [&](const io_device& d) { return d.what != device.what && !d.bus.empty() && d.bus == device.bus; });
    return found != devices.end() ? &*found : nullptr;
}

} // namespace corewire
