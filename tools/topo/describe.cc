#include "describe.hh"

#include "planner.hh"

#include <algorithm>
#include <fmt/format.h>
#include <hwloc.h>
#include <map>
#include <nlohmann/json.hpp>

namespace corewire::topo {

namespace {

std::string info(hwloc_obj* object, const char* name) {
    const char* value = hwloc_obj_get_info_by_name(object, name);
    return value != nullptr ? value : "";
}

/// The caches of a core from the outside in: "L2 1 MiB, L1d 32 KiB each", and "L2 4 MiB for each 4 cores" of one that several
/// share. `alone`: it is said of one core, so that nothing is each's.
std::string caches_of(hwloc_topology* topology, hwloc_obj* core, bool alone) {
    std::string text;
    bool own = false;
    for (hwloc_obj* above = core; above != nullptr; above = above->parent) {
        if (!hwloc_obj_type_is_cache(above->type) || above->type == HWLOC_OBJ_L3CACHE || above->type == HWLOC_OBJ_L1ICACHE) continue;
        const std::string name = above->type == HWLOC_OBJ_L1CACHE ? "L1d" : hwloc_obj_type_string(above->type);
        const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, above->cpuset, HWLOC_OBJ_CORE);
        own |= cores <= 1;
        text = fmt::format("{} {}{}{}{}", name.substr(0, name.find("Cache")), size_text(above->attr->cache.size),
                           cores > 1 ? fmt::format(" for each {} cores", cores) : "", text.empty() ? "" : ", ", text);
    }
    return text + (own && !alone ? " each" : "");
}

std::string marks(const machine& on, const std::vector<unsigned>& cpus) {
    std::vector<unsigned> forbidden, isolated, tickless;
    for (const unsigned cpu : cpus) {
        const processing_unit* unit = on.find(cpu);
        if (!unit->nameable) forbidden.push_back(cpu);
        if (unit->isolated) isolated.push_back(cpu);
        if (unit->tickless) tickless.push_back(cpu);
    }
    std::string text;
    const auto add = [&](const std::vector<unsigned>& which, const char* what) {
        if (!which.empty()) text += fmt::format("  [{}: {}]", what, which.size() == cpus.size() ? "all" : format_ranges(which));
    };
    add(forbidden, "not for this process");
    add(isolated, "isolated");
    add(tickless, "no tick");
    return text;
}

class description {
public:
    explicit description(const machine& on) : on_(on) {}

    std::string run() && {
        line(0, in_one_line(on_) + (on_.quota() ? fmt::format("; the cgroup may use {:.1f} CPUs' time", *on_.quota()) : ""));
        below(hwloc_get_root_obj(on_.topology()), 0);
        std::string others;
        for (const io_device& d : on_.devices())
            if (d.bus.empty()) others += fmt::format("{}{}", others.empty() ? "" : ", ", d.name);
        if (!others.empty()) line(0, fmt::format("interfaces without a device: {}", others));
        return std::move(text_);
    }

private:
    void line(unsigned depth, const std::string& text) { text_ += std::string(depth * 2, ' ') + text + '\n'; }

    void below(hwloc_obj* object, unsigned depth) {
        for (hwloc_obj* memory = object->memory_first_child; memory != nullptr; memory = memory->next_sibling)
            if (memory->type == HWLOC_OBJ_NUMANODE) {
                line(depth, fmt::format("NUMA node {}: {}, CPUs {}", memory->os_index, size_text(memory->attr->numanode.local_memory),
                                        cpus_of(memory)));
            }
        cores_.clear();
        for (hwloc_obj* child = object->first_child; child != nullptr; child = child->next_sibling) one(child, depth);
        flush_cores(depth);
        for (hwloc_obj* io = object->io_first_child; io != nullptr; io = io->next_sibling) devices(io, depth);
    }

    static std::string cpus_of(hwloc_obj* object) { return format_ranges(numbers_of(object)); }
    static std::vector<unsigned> numbers_of(hwloc_obj* object) {
        std::vector<unsigned> out;
        for (int n = hwloc_bitmap_first(object->cpuset); n >= 0; n = hwloc_bitmap_next(object->cpuset, n))
            out.push_back(static_cast<unsigned>(n));
        return out;
    }

    void one(hwloc_obj* object, unsigned depth) {
        if (object->type == HWLOC_OBJ_PACKAGE) {
            flush_cores(depth);
            line(depth, fmt::format("package {}{}", object->logical_index, model(object)));
            below(object, depth + 1);
        } else if (object->type == HWLOC_OBJ_L3CACHE) {
            flush_cores(depth);
            line(depth, fmt::format("L3 {}", size_text(object->attr->cache.size)));
            below(object, depth + 1);
        } else if (object->type == HWLOC_OBJ_CORE) {
            cores_.push_back(object);
        } else if (object->type == HWLOC_OBJ_PU) {
            line(depth, fmt::format("CPU {}{}", object->os_index, marks(on_, {object->os_index})));
        } else if (object->memory_first_child != nullptr || object->io_first_child != nullptr) {
            flush_cores(depth);
            below(object, depth);
        } else {
            for (hwloc_obj* child = object->first_child; child != nullptr; child = child->next_sibling) one(child, depth);
        }
    }

    static std::string model(hwloc_obj* package) {
        const std::string name = info(package, "CPUModel");
        return name.empty() ? "" : ": " + name;
    }

    /// The cores since the last flush, those that are alike together.
    void flush_cores(unsigned depth) {
        const auto look = [&](hwloc_obj* core, bool alone) {
            const processing_unit* unit = on_.find(static_cast<unsigned>(hwloc_bitmap_first(core->cpuset)));
            const std::string kind = on_.kinds().size() > 1 ? on_.kinds()[unit->kind] : "";
            return std::pair{std::pair{unit->kind, core->arity},
                             kind + (kind.empty() ? "" : ", ") + caches_of(on_.topology(), core, alone)};
        };
        for (std::size_t first = 0; first < cores_.size();) {
            std::size_t last = first;
            while (last + 1 < cores_.size() && look(cores_[last + 1], true) == look(cores_[first], true)) ++last;
            std::vector<unsigned> cpus;
            for (std::size_t i = first; i <= last; ++i)
                for (const unsigned cpu : numbers_of(cores_[i])) cpus.push_back(cpu);
            const std::string caches = look(cores_[first], last == first).second;
            const unsigned threads = static_cast<unsigned>(cpus.size() / (last - first + 1));
            std::string text = last == first ? fmt::format("core {}", cores_[first]->logical_index)
                                             : fmt::format("cores {}-{}", cores_[first]->logical_index, cores_[last]->logical_index);
            text += fmt::format(": CPU{} {}", cpus.size() == 1 ? "" : "s", format_ranges(cpus));
            if (threads > 1) text += fmt::format(", {} threads{}", threads, last == first ? "" : " each");
            if (!caches.empty()) text += ", " + caches;
            line(depth, text + marks(on_, cpus));
            first = last + 1;
        }
        cores_.clear();
    }

    void devices(hwloc_obj* object, unsigned depth) {
        for (hwloc_obj* io = object->io_first_child; io != nullptr; io = io->next_sibling) devices(io, depth);
        if (object->type != HWLOC_OBJ_OS_DEVICE || object->name == nullptr) return;
        const io_device* device = on_.device(object->name);
        if (device == nullptr) return;
        std::string text = fmt::format("{} {}", device->what == io_device::type::rdma ? "RDMA" : "NIC", device->name);
        if (!device->model.empty()) text += ": " + device->model;
        if (!device->bus.empty()) text += fmt::format(", PCI {}", device->bus);
        if (device->queues != 0) text += fmt::format(", {} queue{}", device->queues, device->queues == 1 ? "" : "s");
        text += device->has_place ? fmt::format(", next to CPUs {}", format_ranges(device->near)) : ", as near to every CPU";
        line(depth, text);
    }

    const machine& on_;
    std::string text_;
    std::vector<hwloc_obj*> cores_;
};

} // namespace

std::string size_text(unsigned long long bytes) {
    const char* unit = "KiB";
    double size = static_cast<double>(bytes) / 1024;
    for (const char* next : {"MiB", "GiB", "TiB"})
        if (size >= 1024) {
            size /= 1024;
            unit = next;
        }
    return size == static_cast<double>(static_cast<long>(size)) || size >= 100 ? fmt::format("{:.0f} {}", size, unit)
                                                                              : fmt::format("{:.4g} {}", size, unit);
}

std::string describe(const machine& on) { return description(on).run(); }

std::string describe_json(const machine& on) {
    using nlohmann::ordered_json;
    ordered_json out{{"packages", on.package_count()}, {"numa_nodes", ordered_json::array()}, {"cores", on.core_count()},
                     {"kinds", ordered_json::array()}, {"cpus", ordered_json::array()}, {"devices", ordered_json::array()}};
    if (on.quota()) out["quota_cpus"] = *on.quota();
    hwloc_obj* node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(on.topology(), HWLOC_OBJ_NUMANODE, node)) != nullptr)
        out["numa_nodes"].push_back({{"number", node->os_index}, {"bytes", node->attr->numanode.local_memory}});
    for (const std::string& kind : on.kinds()) out["kinds"].push_back(kind);
    for (const processing_unit& u : on.processing_units()) {
        ordered_json cpu{{"cpu", u.os_index}, {"core", u.core}, {"thread", u.sibling}, {"numa", u.numa_node}, {"package", u.package},
                         {"kind", u.kind}, {"allowed", u.allowed}, {"nameable", u.nameable}, {"isolated", u.isolated},
                         {"tickless", u.tickless}};
        ordered_json caches = ordered_json::object();
        for (hwloc_obj* o = hwloc_get_pu_obj_by_os_index(on.topology(), u.os_index); o != nullptr; o = o->parent)
            if (hwloc_obj_type_is_cache(o->type))
                caches[hwloc_obj_type_string(o->type)] = {{"number", o->logical_index}, {"bytes", o->attr->cache.size}};
        cpu["caches"] = std::move(caches);
        out["cpus"].push_back(std::move(cpu));
    }
    for (const io_device& d : on.devices())
        out["devices"].push_back({{"name", d.name}, {"type", d.what == io_device::type::rdma ? "rdma" : "network"}, {"model", d.model},
                                  {"pci", d.bus}, {"queues", d.queues}, {"has_place", d.has_place}, {"near_cpus", d.near},
                                  {"near_numa_nodes", d.nodes}});
    return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

} // namespace corewire::topo
