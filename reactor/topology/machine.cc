#include <corewire/reactor/topology/machine.hh>

#include <corewire/reactor/memory/never_freed.hh>
#include <corewire/reactor/topology/trial.hh>
#include <corewire/reactor/topology/xml_check.hh>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <hwloc.h>
#include <iterator>
#include <sched.h>
#include <stdexcept>

namespace corewire {

namespace {

constexpr unsigned most_units = 8192; // what Linux can be built for
constexpr std::size_t most_virtual = 256;
// What hwloc does not know, kept beside what it does, so that it travels in the XML.
constexpr const char* isolated_note = "CorewireIsolated";
constexpr const char* tickless_note = "CorewireNohzFull";
constexpr const char* quota_note = "CorewireCpuQuota";
constexpr const char* rewrite_advice = "write it again with `cw-topo --xml FILE` or `lstopo FILE.xml`";

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

void load(hwloc_topology* topology) {
    const never_freed names; // of PCI devices, which libpciaccess reads from a file and keeps
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

/// hwloc makes what the text says, however much: "pu:4000000000" must not get there.
void check_synthetic(std::string_view text) {
    if (text.size() > 1024) refuse("a synthetic topology has 1024 characters at most, not {}", text.size());
    std::uint64_t product = 1;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] < '0' || text[at] > '9' || (at > 0 && (text[at - 1] == '=' || text[at - 1] == 'L'))) {
            ++at;
            continue;
        }
        const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
        const bool in_parentheses = text.substr(0, at).rfind('(') != text.npos &&
                                    (text.substr(0, at).rfind(')') == text.npos ||
                                     text.substr(0, at).rfind(')') < text.substr(0, at).rfind('('));
        if (!in_parentheses) {
            product *= std::max(1U, parse_unsigned(text.substr(at, end - at), most_units).value_or(most_units + 1));
            if (product > most_units) refuse("a synthetic topology has {} PUs at most", most_units);
        }
        at = end;
    }
}

std::string number_list(std::string_view note, const char* value) {
    const auto numbers = parse_ranges(value);
    if (!numbers) refuse("{} says '{}', which is no list of CPUs like 2-5,8", note, value);
    return value;
}

} // namespace

void machine::topology_deleter::operator()(hwloc_topology* topology) const noexcept {
    hwloc_topology_destroy(topology);
}

machine::topology_handle machine::new_topology(machine_detail detail) {
    hwloc_topology* topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) throw std::runtime_error("hwloc cannot be initialised: out of memory?");
    topology_handle handle{topology};
    // Keep what the cgroup forbids in the picture, so that an error can tell "forbidden" from "does not exist".
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (detail == machine_detail::devices) hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    // Their discovery opens devices and displays, for objects that nobody here looks at.
    for (const char* slow : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"})
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, slow);
    return handle;
}

machine::machine(topology_handle topology) : topology_(std::move(topology)) {
    auto count = [&](hwloc_obj_type_t type) {
        return static_cast<unsigned>(std::max(1, hwloc_get_nbobjs_by_type(topology_.get(), type)));
    };
    if (count(HWLOC_OBJ_PU) > most_units) refuse("a machine has {} PUs at most here", most_units);
    cores_ = count(HWLOC_OBJ_CORE);
    numa_nodes_ = count(HWLOC_OBJ_NUMANODE);
    packages_ = count(HWLOC_OBJ_PACKAGE);
    read_units();
    read_kinds();
    devices_ = read_devices(topology_.get());
}

void machine::read_units() {
    const hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology_.get());
    std::vector<unsigned> siblings(cores_, 0);
    const bool has_cores = hwloc_get_nbobjs_by_type(topology_.get(), HWLOC_OBJ_CORE) > 0;
    hwloc_obj* unit = nullptr;
    while ((unit = hwloc_get_next_obj_by_type(topology_.get(), HWLOC_OBJ_PU, unit)) != nullptr) {
        const unsigned core = ancestor(topology_.get(), unit, HWLOC_OBJ_CORE);
        const bool may = hwloc_bitmap_isset(allowed, unit->os_index) != 0;
        units_.push_back({.os_index = unit->os_index,
                          .core = core,
                          .numa_node = nearest_numa_node(topology_.get(), unit),
                          .package = ancestor(topology_.get(), unit, HWLOC_OBJ_PACKAGE),
                          .allowed = may,
                          .nameable = may,
                          .isolated = false,
                          .tickless = false,
                          .sibling = has_cores ? siblings[core]++ : 0,
                          .kind = 0});
    }
}

/// hwloc counts from the slowest kind. Kinds that it cannot put in order are taken as alike.
void machine::read_kinds() {
    kinds_.assign(1, {});
    const int kinds = hwloc_cpukinds_get_nr(topology_.get(), 0);
    if (kinds < 2) return;
    kinds_.assign(static_cast<std::size_t>(kinds), {});
    const hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    for (unsigned index = 0; index < static_cast<unsigned>(kinds); ++index) {
        int efficiency = -1;
        unsigned infos = 0;
        hwloc_info_s* info = nullptr;
        if (hwloc_cpukinds_get_info(topology_.get(), index, cpus, &efficiency, &infos, &info, 0) != 0 || efficiency < 0 ||
            efficiency >= kinds) {
            kinds_.assign(1, {});
            for (processing_unit& each : units_) each.kind = 0;
            break;
        }
        const auto rank = static_cast<unsigned>(kinds - 1 - efficiency);
        for (unsigned i = 0; i < infos; ++i)
            if (std::string_view{info[i].name} == "CoreType") kinds_[rank] = info[i].value;
        for (processing_unit& each : units_)
            if (hwloc_bitmap_isset(cpus, each.os_index)) each.kind = rank;
    }
    hwloc_bitmap_free(cpus);
}

machine machine::detect(machine_detail detail) {
    topology_handle topology = new_topology(detail);
    load(topology.get());
    if (detail == machine_detail::devices) note_queues(topology.get());
    machine detected{std::move(topology)};
    detected.annotate(read_cpu_facts());
    detected.apply_annotations();
    if (const std::vector<unsigned> mask = affinity_mask(); !mask.empty()) detected.allow_only(mask);
    if (detail == machine_detail::devices) { // those without a PCI device, which hwloc leaves out
        std::size_t left = most_virtual;
        for (std::string& name : interface_names())
            if (name != "lo" && detected.device(name) == nullptr && left-- > 0)
                detected.devices_.push_back({.name = name, .queues = interface_queues(name)});
    }
    return detected;
}

machine machine::synthetic(std::string_view description, std::span<const unsigned> allowed) {
    check_synthetic(description);
    topology_handle topology = new_topology(machine_detail::processors);
    if (hwloc_topology_set_synthetic(topology.get(), std::string{description}.c_str()) != 0)
        refuse("'{}' is not a synthetic topology that hwloc understands", description);
    load(topology.get());
    machine made{std::move(topology)};
    if (!allowed.empty()) {
        made.allow_only(allowed);
        for (processing_unit& unit : made.units_) unit.nameable = unit.allowed;
    }
    return made;
}

machine machine::from_xml(const std::string& text) {
    if (const auto why = refuse_xml(text)) refuse("it {}", *why);
    // hwloc 2.9 crashes on some damaged files: a child meets them first.
    if (!survives([&] { load_xml(text); })) refuse("hwloc cannot make a machine of it: {}", rewrite_advice);
    return load_xml(text);
}

machine machine::load_xml(const std::string& text) {
    topology_handle topology = new_topology(machine_detail::devices);
    if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(), static_cast<int>(text.size()) + 1) != 0 ||
        hwloc_topology_load(topology.get()) != 0)
        refuse("hwloc cannot make a machine of it: {}", rewrite_advice);
    machine made{std::move(topology)};
    made.apply_annotations();
    return made;
}

machine machine::from_xml_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) refuse("{} cannot be opened", path);
    std::string text(xml_limits::most_bytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    try {
        return from_xml(text);
    } catch (const std::invalid_argument& why) {
        refuse("{} is not a machine in XML: {}", path, why.what());
    }
}

std::string machine::to_xml() const {
    char* buffer = nullptr;
    int size = 0;
    if (hwloc_topology_export_xmlbuffer(topology_.get(), &buffer, &size, 0) != 0)
        throw std::runtime_error("hwloc cannot write this machine as XML");
    std::string text(buffer, static_cast<std::size_t>(std::max(0, size - 1)));
    hwloc_free_xmlbuffer(topology_.get(), buffer);
    return text;
}

void machine::annotate(const cpu_facts& facts) {
    hwloc_obj* root = hwloc_get_root_obj(topology_.get());
    const auto note = [&](const char* name, const std::string& value) {
        if (!value.empty()) hwloc_obj_add_info(root, name, value.c_str());
    };
    note(isolated_note, format_ranges(facts.isolated));
    note(tickless_note, format_ranges(facts.tickless));
    note(quota_note, facts.quota ? fmt::format("{:.2f}", *facts.quota) : "");
}

void machine::apply_annotations() {
    hwloc_obj* root = hwloc_get_root_obj(topology_.get());
    const auto each_of = [&](const char* name, bool processing_unit::* mark) {
        const char* value = hwloc_obj_get_info_by_name(root, name);
        if (value == nullptr) return;
        for (const unsigned cpu : parse_ranges(number_list(name, value)).value_or(std::vector<unsigned>{}))
            if (auto unit = std::ranges::find(units_, cpu, &processing_unit::os_index); unit != units_.end())
                (*unit).*mark = true;
    };
    each_of(isolated_note, &processing_unit::isolated);
    each_of(tickless_note, &processing_unit::tickless);
    for (processing_unit& unit : units_) unit.allowed = unit.allowed && !unit.isolated;
    if (const char* quota = hwloc_obj_get_info_by_name(root, quota_note)) {
        char* end = nullptr;
        const double value = std::strtod(quota, &end);
        if (*end != '\0' || !(value > 0 && value <= most_quota)) refuse("{} says '{}', which is no number of CPUs", quota_note, quota);
        quota_ = value;
    }
}

/// A mask without any isolated CPU is the one that the kernel gives to all: it forbids nothing to who asks by name. One
/// that holds some was set by somebody, and holds for all.
void machine::allow_only(std::span<const unsigned> os_indices) {
    const auto listed = [&](const processing_unit& unit) {
        return std::ranges::find(os_indices, unit.os_index) != os_indices.end();
    };
    const bool by_hand = std::ranges::any_of(units_, [&](const processing_unit& u) { return u.isolated && listed(u); });
    for (processing_unit& unit : units_) {
        const bool may = unit.nameable && listed(unit);
        unit.allowed = may;
        unit.nameable = may || (unit.isolated && unit.nameable && !by_hand);
    }
}

const processing_unit* machine::find(unsigned os_index) const noexcept {
    const auto found = std::ranges::find(units_, os_index, &processing_unit::os_index);
    return found != units_.end() ? &*found : nullptr;
}

unsigned machine::allowed_count() const noexcept {
    return static_cast<unsigned>(std::ranges::count_if(units_, &processing_unit::allowed));
}

bool machine::has_numa_node(unsigned os_index) const noexcept {
    return hwloc_get_numanode_obj_by_os_index(topology_.get(), os_index) != nullptr;
}

const io_device* machine::device(std::string_view name) const noexcept {
    const auto found = std::ranges::find(devices_, name, &io_device::name);
    return found != devices_.end() ? &*found : nullptr;
}

} // namespace corewire
