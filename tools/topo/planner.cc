#include "planner.hh"

#include <algorithm>
#include <fmt/format.h>
#include <hwloc.h>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace corewire::topo {

namespace {

constexpr unsigned enough_cores = 4;   ///< from so many on, one is the kernel's unless it is asked for
constexpr double helpers_share = 0.5; ///< of a CPU's time: with less of it left, helper threads stop shards

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

std::string count_of(std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

bool holds(const std::vector<unsigned>& list, unsigned value) { return std::ranges::find(list, value) != list.end(); }

/// How far a CPU is from the NIC.
enum class distance : unsigned { beside, same_package, other_package };

struct candidate {
    const processing_unit* unit;
    distance from_nic;
    unsigned sibling;  ///< among those of its core that may be used
    unsigned position; ///< in the machine: neighbours have neighbouring ones
    unsigned turn;     ///< among its equals behind the same L2: its turn comes after theirs of every other L2
    unsigned round;    ///< among those of the same turn behind the same L3: the L3s of a package take turns, too
};

class planner {
public:
    planner(const machine& on, const plan_request& request) : on_(on), request_(request) {}

    plan run() && {
        find_nic();
        collect();
        leave_cores();
        const std::size_t count = shard_count();
        order_.resize(count);
        // Neighbours in the machine are neighbours in the list; the nearest to the NIC still come first.
        std::ranges::sort(order_, {}, [this](const candidate& c) {
            return std::tuple(c.unit->kind, c.from_nic, c.sibling, !c.unit->tickless, c.unit->core == spare_, c.position);
        });
        assign();
        describe();
        return std::move(out_);
    }

private:
    void find_nic() {
        std::string wanted = request_.nic;
        if (wanted == "none") {
            out_.heading.push_back("No NIC is meant: none is nearer to one core than to another.");
            return;
        }
        if (wanted.empty()) {
            std::vector<const io_device*> real;
            for (const io_device& d : on_.devices())
                if (d.what == io_device::type::network && !d.bus.empty()) real.push_back(&d);
            if (real.empty()) out_.heading.push_back("No NIC is known here: none is nearer to one core than to another.");
            if (real.size() == 1) nic_ = real.front();
            if (real.size() > 1) {
                std::string names;
                for (const io_device* d : real)
                    names += (names.empty() ? "" : ", ") + d->name;
                out_.warnings.push_back(
                    fmt::format("There are several NICs ({}) and none was named: this plan is for none of them. Name "
                                "yours with --nic.",
                                names));
            }
            return;
        }
        nic_ = on_.device(wanted);
        if (nic_ != nullptr) return;
        std::string names;
        for (const io_device& d : on_.devices())
            names += (names.empty() ? "" : ", ") + d.name;
        refuse("--nic: there is no {} here: {}", wanted,
               names.empty() ? "this machine has no network device; leave --nic out"
                             : fmt::format("choose one of {}", names));
    }

    distance from_nic(const processing_unit& unit) const {
        if (nic_ == nullptr || !nic_->has_place || holds(nic_->near, unit.os_index)) return distance::beside;
        for (const processing_unit& other : on_.processing_units())
            if (other.package == unit.package && holds(nic_->near, other.os_index)) return distance::same_package;
        return distance::other_package;
    }

    /// Everything that may be used, best first.
    void collect() {
        const auto units = on_.processing_units();
        isolated_ = std::ranges::any_of(units, [](const processing_unit& u) { return u.nameable && u.isolated; });
        std::vector<unsigned> seen(on_.core_count(), 0);
        for (const processing_unit& unit : units) {
            if (!unit.nameable || (isolated_ && !unit.isolated)) continue;
            const unsigned sibling = seen[unit.core]++;
            if (sibling == 0) ++usable_cores_;
            if (sibling > 0 && !request_.every_thread) continue;
            order_.push_back({&unit, from_nic(unit), sibling, static_cast<unsigned>(order_.size()), 0, 0});
        }
        if (order_.empty()) refuse("this process may use no CPU of this machine");
        std::map<std::tuple<const hwloc_obj*, unsigned, bool>, unsigned> turns;
        std::map<std::tuple<const hwloc_obj*, unsigned, unsigned, bool, unsigned>, unsigned> rounds;
        for (candidate& c : order_) {
            c.turn = turns[{second_level_of(*c.unit), c.sibling, c.unit->tickless}]++;
            c.round = rounds[{third_level_of(*c.unit), c.unit->kind, c.sibling, c.unit->tickless, c.turn}]++;
        }
        // The way to the NIC costs something with every packet, a tick some microseconds a few hundred times a second.
        // Shards talk to each other: one package is filled before the next is begun.
        std::ranges::stable_sort(order_, {}, [](const candidate& c) {
            return std::tuple(c.unit->kind, c.from_nic, !c.unit->tickless, c.sibling, c.turn, c.unit->package, c.round);
        });
    }

    hwloc_obj* thread_of(const processing_unit& unit) const { return hwloc_get_pu_obj_by_os_index(on_.topology(), unit.os_index); }

    /// The L2 cache of a CPU, or the nearest thing to it.
    const hwloc_obj* second_level_of(const processing_unit& unit) const {
        hwloc_obj* const thread = thread_of(unit);
        const hwloc_obj* const cache = hwloc_get_ancestor_obj_by_type(on_.topology(), HWLOC_OBJ_L2CACHE, thread);
        return cache != nullptr ? cache : thread->parent;
    }

    /// Null where there is none.
    const hwloc_obj* third_level_of(const processing_unit& unit) const {
        return hwloc_get_ancestor_obj_by_type(on_.topology(), HWLOC_OBJ_L3CACHE, thread_of(unit));
    }

    /// The kernel's cores: first that of the lowest CPU, which has the kernel's own work; then the worst.
    void leave_cores() {
        unsigned lowest = order_.front().unit->os_index;
        for (const candidate& c : order_)
            lowest = std::min(lowest, c.unit->os_index);
        const unsigned kernels = on_.find(lowest)->core;
        kernel_elsewhere_ = isolated_ || std::ranges::any_of(on_.processing_units(), [&](const processing_unit& u) {
                                return u.os_index < lowest && !u.nameable;
                            });
        if (!request_.leave) {
            if (kernel_elsewhere_) return;
            spare_ = kernels;
            if (usable_cores_ < enough_cores) { // too dear to be kept, but the last among its equals
                std::ranges::stable_sort(order_, {}, [&](const candidate& c) {
                    return std::tuple(c.unit->kind, c.from_nic, !c.unit->tickless, c.sibling, c.unit->core == kernels);
                });
                return;
            }
            // Behind its own kind, so that it is taken when nothing else of that kind is left.
            std::ranges::stable_partition(order_, [&](const candidate& c) { return c.unit->core != kernels; });
            std::ranges::stable_sort(order_, {}, [](const candidate& c) { return c.unit->kind; });
            return;
        }
        if (*request_.leave == 0) return;
        if (*request_.leave >= usable_cores_)
            refuse("--leave {}: this process may use {}, which leaves none for a shard", *request_.leave,
                   count_of(usable_cores_, "core"));
        left_.insert(kernels);
        for (auto worst = order_.rbegin(); worst != order_.rend() && left_.size() < *request_.leave; ++worst)
            left_.insert(worst->unit->core);
        std::erase_if(order_, [&](const candidate& c) { return left_.contains(c.unit->core); });
    }

    std::size_t default_count() const {
        const candidate& best = order_.front();
        const auto as_good = [&](const candidate& c) {
            return c.unit->kind == best.unit->kind && c.from_nic == best.from_nic &&
                   c.unit->tickless == best.unit->tickless && (usable_cores_ < enough_cores || c.unit->core != spare_);
        };
        return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, std::ranges::count_if(order_, as_good)));
    }

    std::size_t shard_count() {
        if (request_.shards) {
            if (*request_.shards == 0) refuse("--shards 0: at least one shard is needed");
            if (*request_.shards > placement_limits::most_shards)
                refuse("--shards {}: a placement has {} at most", *request_.shards, placement_limits::most_shards);
            if (*request_.shards > order_.size())
                refuse("--shards {}: {} can be used{}{}: ask for {} at most{}", *request_.shards,
                       count_of(order_.size(), request_.every_thread ? "CPU" : "core"),
                       isolated_ ? " of those isolated" : "",
                       left_.empty() ? "" : fmt::format(" beside the {} left to the kernel", left_.size()),
                       order_.size(), request_.every_thread ? "" : ", or add --smt all");
            return *request_.shards;
        }
        std::size_t count = std::min(default_count(), placement_limits::most_shards);
        if (on_.quota()) {
            const auto whole = static_cast<std::size_t>(std::max(1.0, *on_.quota() - helpers_share));
            if (count > whole && *on_.quota() - static_cast<double>(whole) >= helpers_share) // else describe_quota() says so
                out_.warnings.push_back(
                    fmt::format("The cgroup may use {:.1f} CPUs' time: more than {} would leave too little of it for helper "
                                "threads, and be stopped for part of every period.",
                                *on_.quota(), count_of(whole, "shard")));
            count = std::min(count, whole);
        }
        if (queues() != 0 && count > queues()) {
            out_.warnings.push_back(fmt::format("{} has {}, so there are no more shards; {} could serve it: "
                                                "`ethtool -L {} combined {}` first, if it can.",
                                                interface()->name, count_of(queues(), "queue"),
                                                count_of(count, request_.every_thread ? "CPU" : "core"), interface()->name,
                                                count));
            count = queues();
        }
        return count;
    }

    /// The interface whose queues are meant: the NIC itself, or the one of the same PCI function.
    const io_device* interface() const {
        if (nic_ == nullptr || nic_->what == io_device::type::network) return nic_;
        const io_device* sibling = nullptr;
        for (const io_device& d : on_.devices())
            if (d.what == io_device::type::network && !d.bus.empty() && d.bus == nic_->bus) sibling = &d;
        return sibling;
    }
    std::size_t queues() const { return interface() != nullptr ? interface()->queues : 0; }

    void assign() {
        if (interface() != nullptr) out_.place.interface = interface()->name;
        for (unsigned shard = 0; shard < order_.size(); ++shard) {
            const processing_unit& unit = *order_[shard].unit;
            shard_place place{.cpu = unit.os_index, .numa_node = unit.numa_node};
            if (interface() != nullptr && (queues() == 0 || shard < queues())) place.queues.push_back(shard);
            place.why = why(order_[shard]);
            out_.place.shards.push_back(std::move(place));
        }
        if (queues() != 0 && order_.size() > queues())
            out_.warnings.push_back(fmt::format(
                "{} has {} for {}: --net=xdp needs one each. `ethtool -L {} combined {}` and plan again, or "
                "ask for --shards {}.",
                interface()->name, count_of(queues(), "queue"), count_of(order_.size(), "shard"), interface()->name,
                order_.size(), queues()));
        if (interface() != nullptr && queues() == 0 && !interface()->bus.empty())
            out_.warnings.push_back(
                fmt::format("How many queues {} has is not known here: `ethtool -l {}` must say {} at least.",
                            interface()->name, interface()->name, order_.size()));
    }

    std::string why(const candidate& c) const {
        const processing_unit& unit = *c.unit;
        std::string text = fmt::format("{}core {}", kind_name(unit.kind), unit.core);
        if (on_.package_count() > 1) text += fmt::format(" of package {}", unit.package);
        const bool one_thread = threads_of(unit.core) == 1;
        if (one_thread) text += ", its only thread";
        if (nic_ != nullptr && !nic_->has_place) text += fmt::format("; {} is as near to all", nic_->name);
        if (nic_ != nullptr && nic_->has_place) {
            if (c.from_nic == distance::beside)
                text += fmt::format(", next to {} (node {})", nic_->name, unit.numa_node);
            if (c.from_nic == distance::same_package)
                text += fmt::format(", node {}: in the package of {}", unit.numa_node, nic_->name);
            if (c.from_nic == distance::other_package)
                text += fmt::format(", node {}: across the packages from {}", unit.numa_node, nic_->name);
        } else if (on_.numa_node_count() > 1) {
            text += fmt::format(", node {}", unit.numa_node);
        }
        if (unit.isolated)
            text += unit.tickless ? ", isolated, no tick" : ", isolated";
        else if (unit.tickless)
            text += ", no tick";
        text += siblings_of(c);
        text += cluster_of(c, second_level_of(unit), "L2");
        if (caches_of_package(unit) > 1) text += cluster_of(c, third_level_of(unit), "L3");
        if (unit.core == spare_) text += "; the kernel works here too";
        return text;
    }

    std::string kind_name(unsigned kind) const {
        if (on_.kinds().size() < 2) return "";
        return kind == 0 ? "fast " : kind + 1 == on_.kinds().size() ? "slow " : "middle ";
    }

    unsigned threads_of(unsigned core) const {
        return static_cast<unsigned>(std::ranges::count(on_.processing_units(), core, &processing_unit::core));
    }

    /// How many L3 caches the package of a CPU has, if this CPU has one.
    int caches_of_package(const processing_unit& unit) const {
        const hwloc_obj* const cache = third_level_of(unit);
        if (cache == nullptr) return 0;
        const hwloc_obj* const package = hwloc_get_ancestor_obj_by_type(on_.topology(), HWLOC_OBJ_PACKAGE, thread_of(unit));
        const hwloc_obj* const whole = package != nullptr ? package : hwloc_get_root_obj(on_.topology());
        return hwloc_get_nbobjs_inside_cpuset_by_type(on_.topology(), whole->cpuset, HWLOC_OBJ_L3CACHE);
    }

    /// With whom it shares a cache, where several cores have one.
    std::string cluster_of(const candidate& c, const hwloc_obj* own, const char* name) const {
        std::vector<unsigned> all;
        std::vector<unsigned> busy;
        bool other_cores = false;
        for (const processing_unit& other : on_.processing_units()) {
            if (hwloc_bitmap_isset(own->cpuset, other.os_index) == 0) continue;
            all.push_back(other.os_index);
            if (other.core == c.unit->core) continue;
            other_cores = true;
            if (std::ranges::any_of(order_, [&](const candidate& t) { return t.unit == &other; }))
                busy.push_back(other.os_index);
        }
        if (!other_cores) return "";
        if (busy.empty()) return fmt::format("; alone behind the {} of CPUs {}", name, format_ranges(all));
        return fmt::format("; shares the {} of CPUs {} with {}", name, format_ranges(all), cpus_text(busy));
    }

    static std::string cpus_text(const std::vector<unsigned>& cpus) {
        return fmt::format("CPU{} {}", cpus.size() == 1 ? "" : "s", format_ranges(cpus));
    }

    /// What becomes of the other threads of its core.
    std::string siblings_of(const candidate& c) const {
        std::vector<unsigned> idle;
        std::vector<unsigned> busy;
        std::vector<unsigned> foreign;
        for (const processing_unit& other : on_.processing_units()) {
            if (other.core != c.unit->core || &other == c.unit) continue;
            const bool taken = std::ranges::any_of(order_, [&](const candidate& t) { return t.unit == &other; });
            (taken ? busy : other.nameable ? idle : foreign).push_back(other.os_index);
        }
        std::string text;
        if (!busy.empty()) text += fmt::format("; shares the core with CPU {}", format_ranges(busy));
        if (!idle.empty()) text += fmt::format("; CPU {} beside it stays idle", format_ranges(idle));
        if (!foreign.empty()) text += fmt::format("; CPU {} beside it is not ours, and others may use it", format_ranges(foreign));
        return text;
    }

    void describe() {
        out_.heading.insert(out_.heading.begin(), fmt::format("{} on {}.", count_of(order_.size(), "shard"), in_one_line(on_)));
        if (nic_ != nullptr) {
            std::string line = nic_->name;
            if (!nic_->model.empty()) line += fmt::format(" ({})", nic_->model);
            line += nic_->has_place ? fmt::format(" is next to NUMA node {}, CPUs {}.", format_ranges(nic_->nodes),
                                                  format_ranges(nic_->near))
                                    : " is as near to every CPU.";
            out_.heading.push_back(std::move(line));
            if (nic_ != interface())
                out_.heading.push_back(
                    interface() != nullptr
                        ? fmt::format("Its interface is {}; verbs need no queue of it.", interface()->name)
                        : "It has no interface of its own here: verbs need no queue.");
        }
        std::vector<unsigned> free_cpus;
        std::set<unsigned> used;
        for (const candidate& c : order_)
            used.insert(c.unit->core);
        bool own_threads_have_one = false; // of those that this process may use: whoever is not pinned goes there
        for (const processing_unit& unit : on_.processing_units()) {
            if (!unit.allowed) continue;
            if (!used.contains(unit.core)) free_cpus.push_back(unit.os_index);
            own_threads_have_one |= std::ranges::none_of(order_, [&](const candidate& c) { return c.unit == &unit; });
        }
        if (isolated_)
            out_.heading.push_back(
                "CPUs were isolated for such work (isolcpus): shards use those, and the kernel the others.");
        else if (!free_cpus.empty())
            out_.heading.push_back(fmt::format(
                "{} {} left to the kernel and to other programs{}.", cpus_text(free_cpus), free_cpus.size() == 1 ? "is" : "are",
                spare_ && !used.contains(*spare_) ? "; it keeps timers and old interrupts on the lowest" : ""));
        else if (kernel_elsewhere_)
            out_.heading.push_back("No core is left free: the kernel has CPUs outside of what this process may use.");
        else
            out_.warnings.push_back(
                "No core is left for the kernel and other programs: they will interrupt the shards now and then.");
        if (!own_threads_have_one && !isolated_)
            out_.warnings.push_back(fmt::format("No CPU is left for the program's own other threads (the log, helpers of files): "
                                                "they will interrupt the shards{}.",
                                                order_.size() == 1 ? ""
                                                                   : fmt::format("; --shards {} leaves one", order_.size() - 1)));
        describe_ticks();
        describe_quota();
        std::set<unsigned> kinds;
        for (const candidate& c : order_)
            kinds.insert(c.unit->kind);
        if (kinds.size() > 1)
            out_.warnings.push_back(
                "Some shards are on slower cores, and connections are spread evenly: the slow ones set the pace.");
    }

    /// What nohz_full had to do with it, where it does not hold for all.
    void describe_ticks() {
        std::vector<unsigned> without; // CPUs without a tick that have no shard, first threads only
        std::size_t tickless = 0;
        bool farther = false;
        for (const candidate& c : order_)
            tickless += c.unit->tickless ? 1 : 0;
        for (const processing_unit& unit : on_.processing_units()) {
            if (!unit.tickless || unit.sibling != 0 || !unit.nameable || (isolated_ && !unit.isolated)) continue;
            if (std::ranges::any_of(order_, [&](const candidate& c) { return c.unit == &unit; })) continue;
            without.push_back(unit.os_index);
            farther |= from_nic(unit) > order_.front().from_nic;
        }
        if (tickless == order_.size() && !isolated_ && !request_.shards && usable_cores_ > order_.size() + 1)
            out_.heading.push_back(fmt::format("Only CPUs without a tick (nohz_full) are taken: --shards N takes others too."));
        if (tickless != 0 && tickless < order_.size())
            out_.warnings.push_back(fmt::format("{} of {} have a timer tick (no nohz_full), which the others do not: it interrupts "
                                                "them some hundred times a second.",
                                                order_.size() - tickless, count_of(order_.size(), "shard")));
        if (tickless == 0 && farther)
            out_.warnings.push_back(fmt::format("{} {} no tick (nohz_full), but {} farther from {}, which costs more: no shard is there.",
                                                cpus_text(without), without.size() == 1 ? "has" : "have",
                                                without.size() == 1 ? "is" : "are", nic_->name));
    }

    /// Shards poll: each takes a whole CPU's time, and whatever else runs takes it from them.
    void describe_quota() {
        if (!on_.quota()) return;
        const double left = *on_.quota() - static_cast<double>(order_.size());
        if (left < 0 && request_.shards)
            out_.warnings.push_back(fmt::format("The cgroup may use {:.1f} CPUs' time: {} will be stopped for part of every period.",
                                                *on_.quota(), count_of(order_.size(), "shard")));
        else if (left < helpers_share)
            out_.warnings.push_back(
                fmt::format("{} {} all of the {:.1f} CPUs' time that the cgroup may use, and no time is left for helper threads: {}.",
                            count_of(order_.size(), "shard"), order_.size() == 1 ? "polls" : "poll", *on_.quota(),
                            order_.size() == 1 ? "raise the quota" : fmt::format("--shards {} would leave some", order_.size() - 1)));
    }

    const machine& on_;
    const plan_request& request_;
    const io_device* nic_ = nullptr;
    bool isolated_ = false;         ///< there are isolated CPUs for us: no others are used
    bool kernel_elsewhere_ = false; ///< the kernel has CPUs that we may not use
    unsigned usable_cores_ = 0;
    std::optional<unsigned> spare_; ///< the kernel's: left to it unless every core of its kind is asked for, or cores are few
    std::set<unsigned> left_;       ///< by --leave
    std::vector<candidate> order_;  ///< best first; then: one a shard
    plan out_;
};

} // namespace

std::string in_one_line(const machine& on) {
    return fmt::format("{}, {}, {}, {}", count_of(on.package_count(), "package"),
                       count_of(on.numa_node_count(), "NUMA node"), count_of(on.core_count(), "core"),
                       count_of(on.processing_units().size(), "CPU"));
}

plan make_plan(const machine& on, const plan_request& request) { return planner(on, request).run(); }

std::string to_text(const plan& plan) {
    std::vector<std::string> heading = plan.heading;
    for (const std::string& warning : plan.warnings)
        heading.push_back("Note: " + warning);
    return corewire::to_text(plan.place, heading);
}

} // namespace corewire::topo
