// Which scheduling group has the core: the one with the least virtual runtime, which is its time on the core over its shares.
// Made with a reactor's second group; a reactor with one group has none.
//
//     turn:  pick the group with least virtual runtime --> run its queue --> one look at the clock: charge it --> pick again
//            until nothing is ready, the turn's time or budget is used up, or the one to run has given way (yield)
//
// A group that had nothing to do resumes with the least virtual runtime of those that had: it waits for nobody's past, and
// saves nothing up. Ties go to the one that has not run for longer. So one with a short task now and then runs before one
// that is always busy, at the end of the stretch that runs at the time.
//
// Owned by the reactor, one shard's. Bounds: `max_groups`; a turn as without groups (reactor_options::resume_budget,
// resume_time), looked at after every 16 resumptions, sooner where stretches are long.
#pragma once

#include <corewire/reactor/loop/group_names.hh>
#include <corewire/reactor/loop/run_queue.hh>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace corewire {

class clock_source;

class fair_scheduler {
public:
    static constexpr unsigned max_groups = 16; ///< the first one, "main", included
    static constexpr unsigned max_shares = run_queue::full_shares;

    explicit fair_scheduler(run_queue& first) : queues_{&first} {}

    /// `names`: what other shards call it by; null where there are none. Throws std::invalid_argument (no name, one that exists, shares
    /// out of 1..1000) or std::length_error (too many groups, or names).
    run_queue& make(std::string name, unsigned shares, group_names* names);
    /// For what another shard's group of that number wants done here: our group of the same name, else "main".
    run_queue& queue_known_as(unsigned number) const noexcept { return *(known_[number] != nullptr ? known_[number] : queues_.front()); }

    /// One turn's coroutines, of all groups. True if any ran.
    bool run(clock_source& clock, unsigned budget, duration time);
    bool has_work() const noexcept;
    const std::vector<run_queue*>& queues() const noexcept { return queues_; }

    static void check_shares(unsigned shares);

private:
    run_queue* pick(time_point now) noexcept;
    void rebase() noexcept;
    bool run_slice(run_queue& queue, clock_source& clock, unsigned& budget, time_point end);

    std::vector<run_queue*> queues_; ///< by number
    std::array<run_queue*, group_names::most> known_{}; ///< by the number of their names
    std::vector<std::unique_ptr<run_queue>> made_;
    std::int64_t least_ = 0; ///< virtual runtime of those that contend; never falls
    std::uint64_t picks_ = 0;
    time_point now_{};       ///< the last look at the clock
};

} // namespace corewire
