// scheduling_group: work that shares the core with other work in a given proportion.
//
//     auto batch = reactor::current().make_scheduling_group("batch", 100);    // the group "main", where all begins, has 100
//     spawn(run_in(batch, rebuild_index()));                                  // task/run_in.hh
//     co_await switch_to(batch);                                              // or this coroutine itself
//
// When two groups are busy their times on the core are as their shares; what one does not use, the others have. What is
// started from a group (spawn, when_all, a child that is awaited) belongs to it. Pollers, timers and what they start belong to
// "main". A call from another shard belongs to the group of its caller's name, or to "main" if there is none such here.
// A handle, copied like a pointer; valid on its own shard for as long as the reactor. Groups are made, not destroyed: 16 at most.
#pragma once

#include <corewire/reactor/loop/fair_scheduler.hh>
#include <corewire/reactor/loop/run_queue.hh>

#include <string>

namespace corewire {

class scheduling_group {
public:
    explicit scheduling_group(run_queue& queue) noexcept : queue_(&queue) {}
    /// The group of the code that asks.
    static scheduling_group current() noexcept {
        CW_ASSERT(detail::running_queue != nullptr, "no reactor runs on this thread");
        return scheduling_group{*detail::running_queue};
    }

    const std::string& name() const noexcept { return queue_->name; }
    /// 0 is "main"; below fair_scheduler::max_groups.
    unsigned number() const noexcept { return queue_->number; }
    unsigned shares() const noexcept { return queue_->shares; }
    /// 1 to 1000. Throws std::invalid_argument.
    void set_shares(unsigned shares) {
        fair_scheduler::check_shares(shares);
        queue_->shares = shares;
    }
    /// All zero until the reactor's second group is made: with one there is nothing to decide.
    const scheduling_statistics& statistics() const noexcept { return queue_->statistics; }
    run_queue& queue() const noexcept { return *queue_; }

    friend bool operator==(const scheduling_group&, const scheduling_group&) = default;

private:
    run_queue* queue_;
};

} // namespace corewire
