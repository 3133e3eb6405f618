// Scheduling groups in a running runtime, over the clock that programs have: beside mail, timers, the phase watch and a stall detector.
// ctest: timeout=180 processors=2 serial=yes
#include "some_shards.hh"

#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/loop/tsc_clock.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/task_group.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

/// Some 50 us a stretch.
task<> computes(const bool& over, duration& had) {
    std::uint64_t x = 1;
    while (!over) {
        const time_point before = real_clock().now();
        for (int i = 0; i < 50'000; ++i) x = x * 6364136223846793005ull + 1442695040888963407ull;
        asm volatile("" : : "r"(x));
        had += real_clock().now() - before;
        co_await corewire::yield();
    }
}
double ratio(duration a, duration b) { return static_cast<double>(a.count()) / static_cast<double>(b.count()); }

/// Two groups of this shard, one of which is also given work by the other shard; for a second, or until their times are as their shares: a
/// task that is interrupted by another process has more than it should, and makes up for it.
task<> share_a_core() {
    const auto small = reactor::current().make_scheduling_group("small", 100);
    const auto large = reactor::current().make_scheduling_group("large", 300);
    duration had_small{}, had_large{};
    bool over = false;
    task_group tasks{"computing"};
    for (int i = 0; i < 3; ++i) tasks.spawn(run_in(small, computes(over, had_small)));
    tasks.spawn(run_in(large, computes(over, had_large)));
    auto from_there = submit_to(1, [&] {
        return [](const bool& stop, duration& had) -> task<> {
            const auto batch = reactor::current().make_scheduling_group("large", 100);
            co_await switch_to(batch);
            auto call = submit_to(0, [&] { return computes(stop, had); });
            co_await call;
        }(over, had_large);
    });
    const time_point begun = real_clock().now();
    const auto passed = [&] { return real_clock().now() - begun; };
    const auto off = [&] { return std::abs(ratio(had_large, had_small) - 3.0) > 0.25; };
    while (passed() < 1s || (passed() < 60s && off())) co_await sleep_for(10ms);
    const duration took = passed();
    const double found = ratio(had_large, had_small);
    over = true;
    co_await tasks.join();
    co_await from_there;
    BOOST_TEST_MESSAGE("small " << had_small.count() / 1000 << " us, large " << had_large.count() / 1000 << " us");
    BOOST_CHECK_CLOSE(found, 3.0, 10.0);
    BOOST_CHECK(had_small + had_large > took / 2); // the rest is the loop's, and others' on this CPU
    BOOST_CHECK(small.statistics().runtime >= had_small);
    BOOST_CHECK(large.statistics().runtime >= had_large); // what came from there is charged, too
}

} // namespace

BOOST_AUTO_TEST_SUITE(runtime_groups)

BOOST_AUTO_TEST_CASE(over_a_second_two_groups_get_one_to_three) {
    runtime_options options = shard_test::shards(2);
    options.stall.limit = 1s;
    shard_test::run_on_first(share_a_core, options);
}

BOOST_AUTO_TEST_SUITE_END()
