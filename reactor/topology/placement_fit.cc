#include <corewire/reactor/topology/placement_fit.hh>

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <utility>

namespace corewire {

namespace {

constexpr double helpers_share = 0.5; ///< of a CPU's time, beside the shards, which poll

class fit_check {
public:
    fit_check(const machine& on, const placement& wanted) : on_(on), wanted_(wanted) {}

    std::vector<fit_finding> run() && {
        if (wanted_.shards.empty()) impossible("there is no shard: plan with `cw-topo plan`");
        for (unsigned shard = 0; shard < wanted_.shards.size(); ++shard) {
            const shard_place& place = wanted_.shards[shard];
            check_cpu(shard, place);
            check_memory(shard, place);
            check_queues(shard, place);
        }
        check_interface();
        check_cores();
        check_quota();
        std::ranges::stable_sort(findings_, std::ranges::greater{}, &fit_finding::impossible);
        return std::move(findings_);
    }

private:
    template <typename... Args>
    void impossible(fmt::format_string<Args...> text, Args&&... args) {
        findings_.push_back({true, fmt::format(text, std::forward<Args>(args)...)});
    }
    template <typename... Args>
    void unwise(fmt::format_string<Args...> text, Args&&... args) {
        findings_.push_back({false, fmt::format(text, std::forward<Args>(args)...)});
    }

    std::string cpus(bool processing_unit::* which) const {
        std::vector<unsigned> list;
        for (const processing_unit& unit : on_.processing_units())
            if (which == nullptr || unit.*which) list.push_back(unit.os_index);
        return format_ranges(std::move(list));
    }

    void check_cpu(unsigned shard, const shard_place& place) {
        const processing_unit* unit = on_.find(place.cpu);
        if (unit == nullptr)
            impossible("shard {}: CPU {} does not exist, this machine has {}: plan again with `cw-topo plan`", shard, place.cpu,
                       cpus(nullptr));
        else if (!unit->nameable)
            impossible("shard {}: CPU {} is not allowed to this process, its cgroup or affinity mask allows {}: plan again there, "
                       "or widen the cpuset",
                       shard, place.cpu, cpus(&processing_unit::nameable));
        const auto [before, is_new] = shard_of_cpu_.try_emplace(place.cpu, shard);
        if (!is_new)
            impossible("shards {} and {} are both on CPU {}: each needs one of its own", before->second, shard, place.cpu);
    }

    void check_memory(unsigned shard, const shard_place& place) {
        if (!place.numa_node) return;
        const processing_unit* unit = on_.find(place.cpu);
        if (!on_.has_numa_node(*place.numa_node))
            impossible("shard {}: NUMA node {} does not exist: plan again with `cw-topo plan`", shard, *place.numa_node);
        else if (unit != nullptr && unit->numa_node != *place.numa_node)
            unwise("shard {}: CPU {} is next to NUMA node {}, and its memory would come from node {}: numa:{} is faster", shard,
                   place.cpu, unit->numa_node, *place.numa_node, unit->numa_node);
    }

    void check_queues(unsigned shard, const shard_place& place) {
        if (!place.queues.empty() && wanted_.interface.empty())
            impossible("shard {}: queue {} of no interface: add a line interface = \"IFNAME\"", shard, place.queues.front());
        for (const unsigned queue : place.queues) {
            const auto [before, is_new] = shard_of_queue_.try_emplace(queue, shard);
            if (!is_new)
                impossible("shards {} and {} both have queue {}: a queue has one owner", before->second, shard, queue);
        }
    }

    void check_interface() {
        if (wanted_.interface.empty() || on_.devices().empty()) return;
        const io_device* device = on_.device(wanted_.interface);
        if (device == nullptr) {
            impossible("there is no interface {} here: plan again with `cw-topo plan --nic IFNAME` (cw-topo lists them)",
                       wanted_.interface);
            return;
        }
        for (const auto& [queue, shard] : shard_of_queue_)
            if (device->queues != 0 && queue >= device->queues)
                impossible("shard {}: {} has queues 0-{}, not {}: `ethtool -L {} combined {}` gives it more, if it can", shard,
                           device->name, device->queues - 1, queue, device->name, shard_of_queue_.rbegin()->first + 1);
        if (!device->has_place) return;
        std::vector<unsigned> far;
        for (unsigned shard = 0; shard < wanted_.shards.size(); ++shard)
            if (std::ranges::find(device->near, wanted_.shards[shard].cpu) == device->near.end()) far.push_back(shard);
        if (!far.empty())
            unwise("shard{} {} {} not next to {}, which is on NUMA node {}: CPUs {} are", far.size() == 1 ? "" : "s",
                   format_ranges(far), far.size() == 1 ? "is" : "are", device->name, format_ranges(device->nodes),
                   format_ranges(device->near));
    }

    /// Two shards on one core, cores of different speed, nothing left for the kernel.
    void check_cores() {
        std::map<unsigned, unsigned> shard_of_core;
        std::vector<unsigned> slow;
        for (const auto& [cpu, shard] : shard_of_cpu_) {
            const processing_unit* unit = on_.find(cpu);
            if (unit == nullptr) continue;
            const auto [before, is_new] = shard_of_core.try_emplace(unit->core, shard);
            if (!is_new)
                unwise("shards {} and {} share core {}: one thread a core is faster unless both are idle half of the time",
                       before->second, shard, unit->core);
            if (unit->kind > 0) slow.push_back(shard);
        }
        if (!slow.empty() && slow.size() < wanted_.shards.size())
            unwise("shard{} {} on slower cores than the others: connections are spread evenly, so the slow ones set the pace",
                   slow.size() == 1 ? "" : "s", format_ranges(slow) + (slow.size() == 1 ? " is" : " are"));
        if (on_.core_count() > 3 && shard_of_core.size() == on_.core_count())
            unwise("every core has a shard: the kernel and other programs will interrupt them; leave one free");
    }

    void check_quota() {
        if (on_.quota() && static_cast<double>(wanted_.shards.size()) > *on_.quota())
            unwise("{} shards, but the cgroup may use {:.1f} CPUs' time: they will be stopped for part of every period; lift the "
                   "quota or use fewer",
                   wanted_.shards.size(), *on_.quota());
        else if (on_.quota() && static_cast<double>(wanted_.shards.size()) + helpers_share > *on_.quota())
            unwise("{} shard{} all of the {:.1f} CPUs' time that the cgroup may use: none is left for helper threads; lift the quota or "
                   "use fewer",
                   wanted_.shards.size(), wanted_.shards.size() == 1 ? " polls" : "s poll", *on_.quota());
    }

    const machine& on_;
    const placement& wanted_;
    std::map<unsigned, unsigned> shard_of_cpu_;
    std::map<unsigned, unsigned> shard_of_queue_;
    std::vector<fit_finding> findings_;
};

} // namespace

std::vector<fit_finding> check_fit(const machine& on, const placement& placement) { return fit_check(on, placement).run(); }

void require_fit(const machine& on, const placement& placement) {
    const std::vector<fit_finding> findings = check_fit(on, placement);
    if (!findings.empty() && findings.front().impossible) throw std::invalid_argument(findings.front().text);
}

} // namespace corewire
