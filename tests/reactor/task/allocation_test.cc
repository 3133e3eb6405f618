// Waiting allocates nothing: neither from the heap nor, once the frames are warm, from the frame allocator's malloc.
#include "driven.hh"
#include "tests/support/counting_new.hh"

#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/condition.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/for_each.hh>
#include <corewire/reactor/task/generator.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/retry.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/shared_mutex.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/when_all.hh>
#include <corewire/reactor/task/when_any.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;

namespace {

/// Everything that can be waited for, and two coroutines that keep each other waiting.
struct everything {
    corewire::event asked, answered;
    corewire::mutex m;
    corewire::shared_mutex shared;
    corewire::semaphore units{1};
    corewire::condition changed;
    corewire::channel<int> there{1}, back{1};
    stop_source stop;
    scheduling_group elsewhere = reactor::current().make_scheduling_group("elsewhere", 100);
    corewire::event never;
    corewire::task_group group{"spawned"};
    int rounds = 0;
    bool finished = false;

    wait_limits limits() { return {.deadline = reactor::current().now() + 1s, .stop = stop.token()}; }
};

corewire::generator<int> numbers(everything& all) {
    for (int i = 0;; ++i) {
        { const auto held = co_await all.units.acquire(1, all.limits()); }
        co_yield i;
    }
}
task<int> receives(everything& all) {
    auto value = co_await all.back.receive(all.limits());
    co_return value.value_or(-1);
}
task<> nothing_to_do(everything& all) {
    auto turn = co_await all.shared.lock_shared(all.limits());
    co_await corewire::yield();
}

task<int> receives_nothing(everything& all) {
    co_await nothing_to_do(all);
    co_return 7;
}

task<> keeps(promise<int>& p) {
    co_await corewire::yield();
    p.set_value(1);
}

task<> one_side(everything& all) {
    auto endless = numbers(all);
    constexpr std::array<int, 3> three{1, 2, 3};
    for (;;) {
        all.asked.set();
        co_await all.answered.wait(all.limits());
        all.answered.reset();
        {
            auto turn = co_await all.m.lock(all.limits());
            auto writing = co_await all.shared.lock(all.limits());
            co_await corewire::yield();
        }
        all.changed.notify_all();
        static_cast<void>(co_await endless.next());
        co_await all.there.send(1, all.limits());
        co_await all.there.send(2, all.limits());
        co_await with_deadline(receives(all), all.limits());
        static_cast<void>(co_await when_any(receives(all), nothing_to_do(all)));
        co_await parallel_for_each(three, [&all](int) { return nothing_to_do(all); });
        co_await max_concurrent_for_each(three, 2, [&all](int) { return nothing_to_do(all); });
        co_await when_all(nothing_to_do(all), nothing_to_do(all));
        co_await retry({.attempts = 2, .seed = 1}, [&all] { return nothing_to_do(all); });
        all.group.spawn(nothing_to_do(all));
        co_await all.group.join(all.limits());
        {
            promise<int> kept;
            future<int> coming = kept.get_future();
            all.group.spawn(keeps(kept));
            static_cast<void>(co_await coming.get(all.limits()));
            co_await all.group.join();
        }
        {
            const auto in_vain = co_await as_result(all.never.wait({.deadline = reactor::current().now() + 1us}));
            if (in_vain) co_return; // and the rounds end here
            const auto done = co_await as_result(receives_nothing(all));
            if (!done) co_return;
        }
        co_await run_in(all.elsewhere, nothing_to_do(all));
        co_await maybe_yield();
        co_await sleep_for(1us);
        ++all.rounds;
    }
}
task<> other_side(everything& all) {
    for (;;) {
        co_await all.asked.wait(all.limits());
        all.asked.reset();
        all.answered.set();
        {
            auto turn = co_await all.m.lock(all.limits());
            auto reading = co_await all.shared.lock_shared(all.limits());
            co_await corewire::yield();
        }
        co_await all.changed.wait({.deadline = reactor::current().now() + 1us, .stop = all.stop.token()});
        static_cast<void>(co_await all.there.receive(all.limits()));
        static_cast<void>(co_await all.there.receive(all.limits()));
        co_await all.back.send(3, all.limits());
        co_await all.back.send(4, all.limits());
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(allocation)

BOOST_AUTO_TEST_CASE(waits_of_every_kind_allocate_nothing_in_their_stride) {
    driven d;
    everything all;
    task<> one = one_side(all), other = other_side(all);
    one.handle().resume();
    other.handle().resume();
    const auto play = [&](int rounds) {
        for (int turns = 0; all.rounds < rounds && turns < 100 * rounds; ++turns) {
            d.clock.time += 100ns;
            d.loop.poll_once();
        }
        BOOST_REQUIRE_EQUAL(all.rounds, rounds);
    };
    play(10);
    const std::uint64_t before = testing::heap_allocations;
    const std::uint64_t frames_before = d.loop.frames().heap_allocations();
    play(1000);
    BOOST_CHECK_EQUAL(testing::heap_allocations - before, 0u);
    BOOST_CHECK_EQUAL(d.loop.frames().heap_allocations() - frames_before, 0u);
}

BOOST_AUTO_TEST_SUITE_END()
