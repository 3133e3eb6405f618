#include <corewire/reactor/topology/cpu_selection.hh>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <stdexcept>
#include <utility>

namespace corewire {

namespace {

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

enum class object { pu, core, numa, package };

struct object_name {
    std::string_view prefix;
    object kind;
    const char* singular;
    const char* plural;
};
constexpr object_name object_names[] = {
    {"pu:", object::pu, "CPU", "CPUs"},
    {"core:", object::core, "core", "cores"},
    {"numa:", object::numa, "NUMA node", "NUMA nodes"},
    {"package:", object::package, "package", "packages"},
};

unsigned number_of(const processing_unit& unit, object kind) {
    switch (kind) {
    case object::pu: return unit.os_index;
    case object::core: return unit.core;
    case object::numa: return unit.numa_node;
    case object::package: return unit.package;
    }
    return 0;
}

unsigned parse_number(std::string_view text, std::string_view whole) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        refuse("'{}' is not a choice of cores: '{}' is not a number (write a count like 2, a list like 0-3,6, "
               "or core:2-5, numa:0, package:1, pu:7, all)",
               whole, text);
    return value;
}

std::string allowed_list(const machine& on) {
    std::vector<unsigned> allowed;
    for (const processing_unit& unit : on.processing_units())
        if (unit.allowed) allowed.push_back(unit.os_index);
    return format_ranges(std::move(allowed));
}

class selector {
public:
    selector(const machine& on, std::string_view whole) : on_(on), whole_(whole) {}

    void add_item(std::string_view item) {
        for (const object_name& name : object_names)
            if (item.starts_with(name.prefix)) {
                kind_ = &name;
                item.remove_prefix(name.prefix.size());
            }
        const std::size_t dash = item.find('-');
        const unsigned first = parse_number(item.substr(0, dash), whole_);
        const unsigned last = dash == item.npos ? first : parse_number(item.substr(dash + 1), whole_);
        if (last < first) refuse("'{}' is not a choice of cores: {}-{} runs backwards", whole_, first, last);
        require_exist(first, last);
        for (unsigned number = first; number <= last; ++number) add_object(number);
    }

    std::vector<unsigned> chosen() && { return std::move(chosen_); }

private:
    static constexpr std::size_t most_named = 64;

    /// Every number of the range, which is the user's and may end at four thousand million.
    void require_exist(unsigned first, unsigned last) const {
        std::vector<unsigned> there;
        for (const processing_unit& unit : on_.processing_units()) there.push_back(number_of(unit, kind_->kind));
        std::ranges::sort(there);
        there.erase(std::ranges::unique(there).begin(), there.end());
        std::vector<unsigned> missing;
        for (std::uint64_t number = first; number <= last && missing.size() < most_named; ++number)
            if (!std::ranges::binary_search(there, static_cast<unsigned>(number)))
                missing.push_back(static_cast<unsigned>(number));
        if (missing.empty()) return;
        const bool one = missing.size() == 1;
        refuse("{} {} {} not exist; this machine has {} {}", one ? kind_->singular : kind_->plural,
               format_ranges(missing), one ? "does" : "do", there.size() == 1 ? kind_->singular : kind_->plural,
               format_ranges(there));
    }

    /// One PU for each core below the object: its first allowed one. For a PU, itself.
    void add_object(unsigned number) {
        std::vector<unsigned> cores_taken;
        bool any = false;
        for (const processing_unit& unit : on_.processing_units()) {
            const bool may = kind_->kind == object::pu ? unit.nameable : unit.allowed; // an isolated CPU wants to be named
            if (number_of(unit, kind_->kind) != number || !may) continue;
            any = true;
            if (std::ranges::find(cores_taken, unit.core) != cores_taken.end()) continue;
            cores_taken.push_back(unit.core);
            if (std::ranges::find(chosen_, unit.os_index) != chosen_.end())
                refuse("'{}' names CPU {} twice; a shard needs a CPU of its own", whole_, unit.os_index);
            chosen_.push_back(unit.os_index);
        }
        if (!any)
            refuse("{} {} is not allowed to this process: its cgroup or affinity mask allows CPUs {}", kind_->singular,
                   number, allowed_list(on_));
    }

    const machine& on_;
    std::string_view whole_;
    const object_name* kind_ = &object_names[0];
    std::vector<unsigned> chosen_;
};

/// The first PU of every core, then the second of every core, and so on: siblings share a core's caches and units.
std::vector<unsigned> cores_first(const machine& on) {
    struct candidate {
        unsigned sibling, position, os_index;
    };
    std::vector<candidate> candidates;
    std::vector<unsigned> seen_of_core(on.core_count(), 0);
    for (const processing_unit& unit : on.processing_units()) {
        if (!unit.allowed) continue;
        const unsigned sibling = unit.core < seen_of_core.size() ? seen_of_core[unit.core]++ : 0;
        candidates.push_back({sibling, static_cast<unsigned>(candidates.size()), unit.os_index});
    }
    std::ranges::sort(candidates, {}, [](const candidate& c) { return std::pair{c.sibling, c.position}; });
    std::vector<unsigned> order;
    for (const candidate& c : candidates) order.push_back(c.os_index);
    return order;
}

std::vector<unsigned> select_count(const machine& on, unsigned count) {
    if (count == 0) refuse("0 cores are too few: at least one shard is needed");
    std::vector<unsigned> order = cores_first(on);
    if (count > order.size())
        refuse("{} cores are asked for, but this process may use {}: CPU{} {} (this machine has {})", count, order.size(),
               order.size() == 1 ? "" : "s", allowed_list(on), on.processing_units().size());
    order.resize(count);
    return order;
}

std::vector<unsigned> select_all(const machine& on) {
    std::vector<unsigned> cores;
    for (const processing_unit& unit : on.processing_units())
        if (unit.allowed && std::ranges::find(cores, unit.core) == cores.end()) cores.push_back(unit.core);
    return select_count(on, static_cast<unsigned>(cores.size()));
}

} // namespace

std::vector<unsigned> select_cpus(const machine& on, std::string_view selection) {
    if (selection == "all") return select_all(on);
    if (!selection.empty() && selection.find_first_not_of("0123456789") == selection.npos)
        return select_count(on, parse_number(selection, selection));
    selector chosen{on, selection};
    for (std::string_view rest = selection;;) {
        const std::size_t comma = rest.find(',');
        chosen.add_item(rest.substr(0, comma));
        if (comma == rest.npos) break;
        rest.remove_prefix(comma + 1);
    }
    return std::move(chosen).chosen();
}

} // namespace corewire
