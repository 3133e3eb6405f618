#include "advice.hh"

#include <corewire/reactor/topology/host_files.hh>
#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <stdexcept>

namespace corewire::topo {

namespace {

constexpr unsigned most_interrupts = 1u << 20;

std::string affinity_path(unsigned number) { return fmt::format("/proc/irq/{}/smp_affinity_list", number); }

bool irqbalance_runs(const host& on) {
    for (const std::string& name : on.list("/proc"))
        if (parse_unsigned(name, 1u << 30) && trimmed(on.read("/proc/" + name + "/comm").value_or("")) == "irqbalance") return true;
    return false;
}

/// Number and name of each of the interface's interrupts. Its device lists them, or (virtio) the device's parent.
std::map<unsigned, std::string> interrupts_of(const host& on, const std::string& interface) {
    std::map<unsigned, std::string> found;
    const std::string device = "/sys/class/net/" + interface + "/device";
    for (const std::string& folder : {device + "/msi_irqs", device + "/../msi_irqs"}) {
        for (const std::string& name : on.list(folder))
            if (const auto number = parse_unsigned(name, most_interrupts)) found[*number];
        if (!found.empty()) break;
    }
    const auto names = interrupt_names(on);
    for (auto& [number, name] : found)
        if (const auto known = names.find(number); known != names.end()) name = known->second;
    return found;
}

/// CPUs that no shard's core has, and that this process (and so the kernel) may use.
std::string others(const machine& cpus, const placement& placed) {
    std::set<unsigned> cores;
    for (const shard_place& shard : placed.shards)
        if (const processing_unit* unit = cpus.find(shard.cpu)) cores.insert(unit->core);
    std::vector<unsigned> free_cpus;
    for (const processing_unit& unit : cpus.processing_units())
        if (unit.allowed && !cores.contains(unit.core)) free_cpus.push_back(unit.os_index);
    return format_ranges(free_cpus);
}

void advise_hash(advice& out, const std::string& interface, const std::map<unsigned, unsigned>& shard_of_queue, unsigned queues) {
    std::vector<unsigned> used;
    for (const auto& [queue, shard] : shard_of_queue) used.push_back(queue);
    if (used.empty() || used.size() >= queues) return;
    out.steps.push_back({.what = step::kind::hash, .interface = interface, .queues = used,
                         .why = fmt::format("the NIC spreads connections over the shards' queues, not over all {}", queues)});
}

void advise_interrupts(advice& out, const host& on, const machine& cpus, const placement& placed,
                       const std::map<unsigned, unsigned>& shard_of_queue) {
    const auto interrupts = interrupts_of(on, placed.interface);
    if (interrupts.empty())
        out.notes.push_back(fmt::format("{} has no interrupts of its own (it is no PCI device, or /sys does not show them).",
                                        placed.interface));
    const std::string rest = others(cpus, placed);
    for (const auto& [number, name] : interrupts) {
        const auto queue = queue_of(name, placed.interface);
        const auto owner = queue ? shard_of_queue.find(*queue) : shard_of_queue.end();
        const bool owned = owner != shard_of_queue.end();
        const std::string wanted = owned ? std::to_string(placed.shards[owner->second].cpu) : rest;
        const auto now = on.read(affinity_path(number));
        if (!now || trimmed(*now).empty() || wanted.empty() || trimmed(*now) == wanted) continue;
        out.steps.push_back({.what = step::kind::interrupt, .number = number, .cpus = wanted,
                             .name = is_interrupt_name(name) ? name : "", .before = std::string(trimmed(*now)),
                             .why = owned ? fmt::format("{}: queue {} is shard {}'s", name, *queue, owner->second)
                                          : fmt::format("{}: no shard's", name.empty() ? "without a name" : name)});
    }
}

/// The number behind `label` in what `ethtool -l` shows; 0 for "n/a", and if there is none.
unsigned count_behind(std::string_view shown, std::string_view label) {
    const std::size_t at = shown.find(label);
    if (at == shown.npos) return 0;
    const std::string_view line = shown.substr(at + label.size());
    return parse_unsigned(trimmed(line.substr(0, line.find('\n'))), placement_limits::most_queue_number).value_or(0);
}

/// Whether receiving and sending queues are apart, and how many there are of the latter. `ethtool -l`: the maximum of combined queues is
/// the first line that says so, "n/a" or 0 where they are apart; what there is now stands below the maxima.
void count_apart(const host& on, step& channels) {
    const command_result shown = on.run({"ethtool", "-l", channels.interface});
    const std::string_view text = shown.output;
    if (shown.status != 0 || text.find("Combined:") == text.npos || count_behind(text, "Combined:") != 0) return;
    channels.separate = true;
    if (const std::size_t now = text.find("Current hardware settings:"); now != text.npos)
        channels.sending = count_behind(text.substr(now), "TX:");
}

std::string channels_text(const step& s, std::string_view queues, unsigned sending) {
    if (!s.separate) return fmt::format("ethtool -L {} combined {}", s.interface, queues);
    return fmt::format("ethtool -L {} rx {} tx {}", s.interface, queues, sending == 0 ? queues : std::to_string(sending));
}

} // namespace

bool is_interface_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= 15 && name.front() != '-' && name != "." && name != ".." &&
           std::ranges::all_of(name, [](unsigned char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
           });
}

std::map<unsigned, std::string> interrupt_names(const host& on) {
    const std::string table = on.read_table("/proc/interrupts").value_or("");
    std::map<unsigned, std::string> names;
    for (std::string_view rest = table; !rest.empty();) {
        const std::string_view line = trimmed(rest.substr(0, rest.find('\n')));
        rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
        if (const auto number = parse_unsigned(line.substr(0, line.find(':')), most_interrupts))
            names[*number] = line.substr(line.find_last_of(" \t") + 1);
    }
    return names;
}

bool is_interrupt_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= 128 && std::ranges::all_of(name, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

std::optional<unsigned> queue_of(std::string_view name, std::string_view interface) {
    name = name.substr(0, name.find('@')); // mlx5_comp3@pci:0000:98:00.0
    if (name == interface) return std::nullopt;
    for (const std::string_view control : {"async", "mgmnt", "misc", "ctrl", "config", "fdir", "pages", "cmd"})
        if (name.find(control) != name.npos) return std::nullopt;
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    return parse_unsigned(name.substr(digits), placement_limits::most_queue_number);
}

advice make_advice(const host& on, const machine& cpus, const placement& placed) {
    const std::string& interface = placed.interface;
    if (interface.empty()) throw std::invalid_argument("the placement names no interface: plan with `cw-topo plan --nic IFNAME`");
    if (!is_interface_name(interface)) throw std::invalid_argument(fmt::format("'{}' is not the name of an interface", interface));
    const unsigned queues = interface_queues(interface, on.root);
    if (queues == 0) throw std::invalid_argument(fmt::format("there is no interface {} here, or it has no queues", interface));
    std::map<unsigned, unsigned> shard_of_queue;
    for (unsigned shard = 0; shard < placed.shards.size(); ++shard)
        for (const unsigned queue : placed.shards[shard].queues) shard_of_queue.try_emplace(queue, shard);
    advice out;
    if (irqbalance_runs(on)) out.steps.push_back({.what = step::kind::irqbalance, .why = "irqbalance would move the interrupts again"});
    const unsigned needed = shard_of_queue.empty() ? 0 : shard_of_queue.rbegin()->first + 1;
    if (needed > queues) {
        out.steps.push_back({.what = step::kind::channels, .interface = interface, .number = needed, .before = std::to_string(queues),
                             .why = fmt::format("the placement uses queues up to {}, and there are {}", needed - 1, queues)});
        count_apart(on, out.steps.back());
        out.notes.push_back("New queues have new interrupts: ask for advice again when they are there (--apply does).");
        out.again = true;
        return out;
    }
    advise_hash(out, interface, shard_of_queue, queues);
    advise_interrupts(out, on, cpus, placed, shard_of_queue);
    return out;
}

std::string do_text(const step& s) {
    switch (s.what) {
    case step::kind::irqbalance: return "systemctl stop irqbalance";
    case step::kind::channels: return channels_text(s, std::to_string(s.number), std::max(s.number, s.sending));
    case step::kind::hash: {
        if (s.queues.back() + 1 == s.queues.size()) return fmt::format("ethtool -X {} equal {}", s.interface, s.queues.size());
        std::string text = fmt::format("ethtool -X {} weight", s.interface);
        for (unsigned queue = 0; queue <= s.queues.back(); ++queue)
            text += std::ranges::binary_search(s.queues, queue) ? " 1" : " 0";
        return text;
    }
    case step::kind::interrupt: return fmt::format("echo {} >{}", s.cpus, affinity_path(s.number));
    }
    return {};
}

std::string undo_text(const step& s) {
    switch (s.what) {
    case step::kind::irqbalance: return "systemctl start irqbalance";
    case step::kind::channels: return channels_text(s, s.before, s.sending);
    case step::kind::hash: return fmt::format("ethtool -X {} default", s.interface);
    case step::kind::interrupt: return fmt::format("echo {} >{}", s.before, affinity_path(s.number));
    }
    return {};
}

} // namespace corewire::topo
