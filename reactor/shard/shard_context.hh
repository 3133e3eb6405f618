// What the runtime keeps on each shard, on that shard's own thread (and stack): its reactor, its mailbox, its stop source.
// Internal to reactor/shard.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/outlives_mail.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/shard_local_table.hh>
#include <corewire/reactor/task/stop.hh>
#include <corewire/reactor/task/task_group.hh>

#include <optional>

namespace corewire {

struct shard_context {
    shard_context(runtime& owner, unsigned shard, reactor_options loop, const mailbox_options& mail);
    static shard_context& current() noexcept;

    /// A watcher of the loop: looks whether the runtime has moved on to another phase, and whether another thread has
    /// handed work in.
    class phase_watch final : public poller {
    public:
        explicit phase_watch(shard_context& here) noexcept;
        bool poll(time_point now) override;
        bool prepare_sleep() override { return latest() == seen_ && !inbox_.any(); }

    private:
        bool enter(runtime::phase now);
        runtime::phase latest() const noexcept { return here_.owner.phase_.load(std::memory_order_acquire); }
        shard_context& here_;
        external_inbox& inbox_;
        runtime::phase seen_ = runtime::phase::running;
    };

    /// The drain deadline, from the moment a stop is asked for.
    struct drain_timer final : timer {
        explicit drain_timer(shard_context& h) noexcept;
        shard_context& here;
    };

    void begin_stop() noexcept;

    runtime& owner;
    unsigned shard;
    reactor loop;
    std::optional<reactor::scope> current_here{std::in_place, loop}; ///< a driver of many reactors ends it at once
    detail::kept_until_no_mail kept;
    mailbox mail;
    stop_source stop;    ///< the user's
    std::optional<stop_source> give_up{std::in_place}; ///< the drain deadline has passed; one a round
    drain_timer drain{*this};
    phase_watch watch{*this};
    shard_local_table locals;
    task_group lead{"runtime"}; ///< holds the one task that waits for all others
};

} // namespace corewire
