// What is ready to run on one reactor, of one scheduling group. A reactor has one to begin with; each group that is made adds
// one. Owned by the reactor, one shard's; stays where it is for as long as the reactor lives, since suspended coroutines
// point at the queue that they belong to.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/task/waiter.hh>

#include <cstdint>
#include <string>

namespace corewire {

/// Kept once a reactor has more than one group.
struct scheduling_statistics {
    duration runtime{};        ///< on the core
    std::uint64_t resumed = 0; ///< coroutines
    std::uint64_t picked = 0;  ///< times the core was given to this group
    duration waited{};         ///< with something ready, while others had the core
    duration longest_wait{};
};

struct run_queue {
    intrusive_list<waiter> ready;
    intrusive_list<waiter> next_turn; ///< gave way in this turn
    unsigned char known_as = 0;       ///< to other shards (group_names); 0: as "main". Beside the lists: each call to one of them reads it

    // ---- fair_scheduler's -------------------------------------------------------------------------------------------
    std::string name = "main";
    unsigned number = 0;
    unsigned shares = 100;
    std::int64_t virtual_runtime = 0; ///< ns on the core, in terms of a group with `full_shares`
    std::uint64_t last_picked = 0;    ///< number of the pick
    bool contending = false;          ///< had something ready when it was last looked at
    time_point ready_since{};         ///< while contending and not running
    std::int64_t stretch = 0;         ///< ns from one resumption to the next, the long ones of lately
    scheduling_statistics statistics;

    static constexpr unsigned full_shares = 1000;
    bool has_work() const noexcept { return !ready.empty() || !next_turn.empty(); }
};

} // namespace corewire
