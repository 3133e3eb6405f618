// Two shards driven by hand from one thread: every interleaving is the test's own, and nothing waits for real time.
#pragma once

#include <corewire/reactor/loop/group_names.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/shard/mailbox.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/task/task_group.hh>

#include <type_traits>

namespace shard_test {

struct manual_clock final : corewire::clock_source {
    corewire::time_point now() noexcept override { return time; }
    corewire::time_point time = corewire::from_ns(1'000'000'000);
};

struct hand_driven_shard {
    hand_driven_shard(manual_clock& clock, unsigned number, const corewire::mailbox_options& options,
                      corewire::group_names* groups = nullptr)
        : loop({.clock = &clock, .shard = number, .groups = groups}), mail(loop, number, 2, options) {}
    /// Runs `f` as if this were its thread.
    template <typename F>
    void as_here(F&& f) {
        const corewire::reactor::scope scope(loop);
        f();
    }
    void turn() {
        as_here([&] { loop.poll_once(); });
    }
    corewire::reactor loop;
    corewire::mailbox mail;
};

struct two_shards {
    explicit two_shards(corewire::mailbox_options options = {.ring_slots = 4})
        : a(clock, 0, options, &groups), b(clock, 1, options, &groups) {
        corewire::mailbox::connect(a.mail, b.mail);
    }
    ~two_shards() { settle(); }
    /// Turns of both until neither has anything to do.
    void settle() {
        for (int turns = 0; turns < 1000; ++turns) {
            a.turn();
            b.turn();
        }
    }
    manual_clock clock;
    corewire::group_names groups;
    hand_driven_shard a, b;
};

/// submit_to() from a shard that belongs to no runtime.
template <typename F>
corewire::remote_call<std::decay_t<F>> submit(hand_driven_shard& from, unsigned to, F&& f, corewire::wait_limits limits = {}) {
    return {from.mail, to, std::forward<F>(f), limits};
}

} // namespace shard_test
