#include <corewire/reactor/loop/fair_scheduler.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace corewire {

namespace {

constexpr std::int64_t rebase_at = std::int64_t{1} << 62; ///< one share, busy for 50 days
constexpr unsigned looks_every = 16; ///< resumptions, at most, between two looks at the clock

std::int64_t virtual_time(duration on_core, unsigned shares) noexcept {
    return on_core.count() * std::int64_t{run_queue::full_shares} / std::int64_t{shares};
}

/// For its scope, what is suspended belongs to this queue.
class running_scope {
public:
    explicit running_scope(run_queue& queue) noexcept : previous_(std::exchange(detail::running_queue, &queue)) {}
    ~running_scope() { detail::running_queue = previous_; }
    running_scope(const running_scope&) = delete;

private:
    run_queue* previous_;
};

} // namespace

void fair_scheduler::check_shares(unsigned shares) {
    if (shares < 1 || shares > max_shares)
        throw std::invalid_argument(fmt::format("a scheduling group has 1 to {} shares, not {}", max_shares, shares));
}

run_queue& fair_scheduler::make(std::string name, unsigned shares, group_names* names) {
    check_shares(shares);
    if (name.empty()) throw std::invalid_argument("a scheduling group needs a name");
    for (const run_queue* each : queues_)
        if (each->name == name) throw std::invalid_argument(fmt::format("there is a scheduling group '{}' already", name));
    if (queues_.size() == max_groups)
        throw std::length_error(fmt::format("scheduling group '{}': a reactor has {} groups at most", name, max_groups));
    const unsigned known_as = names != nullptr ? names->number_of(name) : 0;
    run_queue& made = *made_.emplace_back(std::make_unique<run_queue>());
    made.name = std::move(name);
    made.number = static_cast<unsigned>(queues_.size());
    made.shares = shares;
    made.known_as = static_cast<unsigned char>(known_as);
    queues_.push_back(&made);
    if (known_as != 0) known_[known_as] = &made;
    return made;
}

bool fair_scheduler::has_work() const noexcept {
    return std::any_of(queues_.begin(), queues_.end(), [](const run_queue* each) { return each->has_work(); });
}

/// Null: nothing is ready in any group.
run_queue* fair_scheduler::pick(time_point now) noexcept {
    run_queue* best = nullptr;
    for (run_queue* each : queues_) {
        if (!each->has_work()) {
            each->contending = false;
            continue;
        }
        if (!each->contending) {
            each->contending = true;
            each->ready_since = now;
            each->virtual_runtime = std::max(each->virtual_runtime, least_);
        }
        if (best == nullptr || each->virtual_runtime < best->virtual_runtime ||
            (each->virtual_runtime == best->virtual_runtime && each->last_picked < best->last_picked))
            best = each;
    }
    if (best != nullptr) least_ = std::max(least_, best->virtual_runtime);
    if (least_ > rebase_at) [[unlikely]]
        rebase();
    return best;
}

/// Only differences count.
void fair_scheduler::rebase() noexcept {
    for (run_queue* each : queues_) each->virtual_runtime -= least_;
    least_ = 0;
}

[[gnu::noinline]] bool fair_scheduler::run(clock_source& clock, unsigned budget, duration time) {
    // Who gave way in the last turn may go on. Where nothing is ready the clock is not looked at.
    bool any = false;
    for (run_queue* each : queues_) {
        each->ready.splice_back(each->next_turn);
        any |= !each->ready.empty();
        each->contending &= !each->ready.empty(); // what was ready may have been destroyed; from here on nobody may ask for long
    }
    if (!any) return false;
    now_ = clock.now();
    const time_point end = now_ + time;
    while (run_queue* next = pick(now_)) {
        // It gave way, and is still the first in line: the turn is over, so that it can go on.
        if (next->ready.empty()) break;
        if (!run_slice(*next, clock, budget, end)) break;
    }
    return true;
}

/// Runs one group until it has nothing ready, and charges it. False: the turn has used up its time or its budget.
bool fair_scheduler::run_slice(run_queue& queue, clock_source& clock, unsigned& budget, time_point end) {
    const running_scope here(queue);
    const duration waited = now_ - queue.ready_since;
    queue.statistics.waited += waited;
    queue.statistics.longest_wait = std::max(queue.statistics.longest_wait, waited);
    ++queue.statistics.picked;
    queue.last_picked = ++picks_;
    for (bool more = true; more;) {
        const std::int64_t affordable = (end - now_).count() / std::max<std::int64_t>(queue.stretch, 1);
        const auto wanted = static_cast<unsigned>(std::clamp<std::int64_t>(affordable, 1, looks_every));
        unsigned resumed = 0;
        do {
            queue.ready.pop_front().handle.resume();
            ++resumed;
        } while (resumed < wanted && resumed < budget && !queue.ready.empty());
        budget -= resumed;

        const time_point after = clock.now();
        const duration on_core = after - now_;
        now_ = after;
        queue.stretch = std::max(on_core.count() / resumed, queue.stretch - queue.stretch / 4); // a short one does not make the next short
        queue.virtual_runtime += virtual_time(on_core, queue.shares);
        queue.statistics.runtime += on_core;
        queue.statistics.resumed += resumed;
        more = !queue.ready.empty() && budget != 0 && now_ < end;
    }
    queue.ready_since = now_;
    queue.contending = queue.has_work(); // the next pick may be far off
    return budget != 0 && now_ < end;
}

} // namespace corewire
