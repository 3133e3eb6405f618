// Scheduling groups: shares of the core, on a clock that the tasks themselves move; and once on the real core.
// ctest: timeout=120 processors=2 serial=yes
#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>
#include <corewire/reactor/task/when_all.hh>
#include <tests/reactor/task/driven.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;

namespace {

/// Uses the core for `stretch` at a time, for ever, and adds up what it had.
task<> toils(driven& d, duration stretch, duration& had) {
    for (;;) {
        d.clock.time += stretch;
        had += stretch;
        co_await corewire::yield();
    }
}

void turn_until(driven& d, duration length) {
    const time_point end = d.clock.time + length;
    while (d.clock.time < end) d.loop.poll_once();
}

double ratio(duration a, duration b) { return static_cast<double>(a.count()) / static_cast<double>(b.count()); }

task<> says_group(std::vector<std::string>& log) {
    log.push_back(scheduling_group::current().name());
    co_return;
}
task<> says_group_after_waits(std::vector<std::string>& log, event& e) {
    log.push_back(scheduling_group::current().name());
    co_await corewire::yield();
    log.push_back(scheduling_group::current().name());
    co_await sleep_for(1ms);
    log.push_back(scheduling_group::current().name());
    co_await e.wait();
    log.push_back(scheduling_group::current().name());
    co_await when_all(says_group(log), says_group(log));
    spawn(says_group(log));
    log.push_back(scheduling_group::current().name());
}
task<int> fails_or_gives(bool fails, std::string& where) {
    co_await corewire::yield();
    where = scheduling_group::current().name();
    if (fails) throw std::runtime_error("as asked");
    co_return 7;
}
task<> calls_elsewhere(scheduling_group g, std::vector<std::string>& log) {
    std::string where;
    const int got = co_await run_in(g, fails_or_gives(false, where));
    log.push_back(where + " " + std::to_string(got) + " " + scheduling_group::current().name());
    bool thrown = false;
    try {
        co_await run_in(g, fails_or_gives(true, where));
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    log.push_back(where + (thrown ? " threw " : " did not throw ") + scheduling_group::current().name());
    co_await switch_to(g);
    log.push_back(scheduling_group::current().name());
}
/// Wakes every millisecond, works a little, and notes how late it was.
task<> responds(driven& d, duration work, int times, duration& latest) {
    for (int i = 0; i < times; ++i) {
        const time_point due = d.loop.now() + 1ms;
        co_await sleep_until(due);
        latest = std::max(latest, d.clock.time - due);
        d.clock.time += work;
    }
}
task<> waits_once(event& e) { co_await e.wait(); }
/// Uses the core for `stretch`, and destroys what stands in line behind it. Ends there, so that nothing is ready afterwards.
task<> works_and_destroys(scheduling_group g, driven& d, event& e, duration stretch, task<>& other) {
    co_await switch_to(g);
    co_await e.wait();
    d.clock.time += stretch;
    other = {};
}
task<> volleys(event& mine, event& theirs, int& resumptions) {
    for (;;) {
        co_await mine.wait();
        mine.reset();
        ++resumptions;
        theirs.set();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(scheduling_group)

BOOST_AUTO_TEST_CASE(two_busy_groups_share_the_core_as_their_shares) {
    driven d;
    const auto small = d.loop.make_scheduling_group("small", 100);
    const auto large = d.loop.make_scheduling_group("large", 300);
    duration had_small{}, had_large{};
    spawn(run_in(small, toils(d, 10us, had_small)));
    spawn(run_in(large, toils(d, 10us, had_large)));
    turn_until(d, 1s);
    BOOST_TEST(ratio(had_large, had_small) == 3.0, boost::test_tools::tolerance(0.01));
    BOOST_CHECK(small.statistics().runtime == had_small);
    BOOST_CHECK(large.statistics().runtime == had_large);
}

BOOST_AUTO_TEST_CASE(it_is_time_that_is_shared_not_turns) {
    driven d;
    const auto coarse = d.loop.make_scheduling_group("coarse", 100);
    const auto fine = d.loop.make_scheduling_group("fine", 300);
    duration had_coarse{}, had_fine{};
    spawn(run_in(coarse, toils(d, 700us, had_coarse)));
    for (int i = 0; i < 40; ++i) spawn(run_in(fine, toils(d, 3us, had_fine)));
    turn_until(d, 2s);
    BOOST_TEST(ratio(had_fine, had_coarse) == 3.0, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(one_that_gives_way_and_is_still_first_in_line_ends_the_turn) {
    // Groups of one task each: did a turn go on without the one that gave way, both would run once in each turn, 1:1.
    driven d;
    const auto a = d.loop.make_scheduling_group("a", 200);
    const auto b = d.loop.make_scheduling_group("b", 100);
    duration had_a{}, had_b{};
    spawn(run_in(a, toils(d, 1us, had_a)));
    spawn(run_in(b, toils(d, 1us, had_b)));
    d.loop.poll_once();
    had_a = had_b = {};
    for (int turn = 1; turn <= 3000; ++turn) {
        d.loop.poll_once();
        BOOST_REQUIRE(had_a == turn * 1us); // the larger group's task is never passed over, and never runs twice
    }
    BOOST_TEST(ratio(had_a, had_b) == 2.0, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(groups_that_never_give_way_share_as_well) {
    // Two pairs that wake each other for ever: only the turn's time ends their stretch.
    struct ticking final : clock_source {
        time_point now() noexcept override { return time += 1us; }
        time_point time = from_ns(1'000'000'000);
    } clock;
    corewire::reactor r{{.clock = &clock}};
    const corewire::reactor::scope here(r);
    const auto a = r.make_scheduling_group("a", 50);
    const auto b = r.make_scheduling_group("b", 200);
    event e[4];
    int resumed_a = 0, resumed_b = 0;
    r.root_group().spawn(run_in(a, volleys(e[0], e[1], resumed_a)));
    r.root_group().spawn(run_in(a, volleys(e[1], e[0], resumed_a)));
    r.root_group().spawn(run_in(b, volleys(e[2], e[3], resumed_b)));
    r.root_group().spawn(run_in(b, volleys(e[3], e[2], resumed_b)));
    e[0].set();
    e[2].set();
    for (int turn = 0; turn < 5000; ++turn) r.poll_once();
    BOOST_TEST(ratio(b.statistics().runtime, a.statistics().runtime) == 4.0, boost::test_tools::tolerance(0.02));
    r.root_group().destroy_all();
}

BOOST_AUTO_TEST_CASE(what_one_does_not_use_the_others_have) {
    driven d;
    const auto rarely = d.loop.make_scheduling_group("rarely", 1000);
    const auto always = d.loop.make_scheduling_group("always", 1);
    duration latest{}, had{};
    spawn(run_in(rarely, responds(d, 100us, 1000, latest)));
    spawn(run_in(always, toils(d, 10us, had)));
    const time_point begun = d.clock.time;
    turn_until(d, 1s);
    BOOST_CHECK(had + rarely.statistics().runtime == d.clock.time - begun);
    BOOST_CHECK(had > 880ms);
}

BOOST_AUTO_TEST_CASE(a_latency_task_is_not_starved_by_a_batch_group) {
    driven d;
    const auto batch = d.loop.make_scheduling_group("batch", 1000);
    const auto quick = d.loop.make_scheduling_group("quick", 100); // even with a tenth of the other's shares
    duration had{}, latest{};
    for (int i = 0; i < 200; ++i) spawn(run_in(batch, toils(d, 50us, had)));
    spawn(run_in(quick, responds(d, 5us, 500, latest)));
    turn_until(d, 1s);
    BOOST_CHECK(latest <= 150us); // a stretch and the turn's 20 us; without groups it waits for all 200, 10 ms
    BOOST_CHECK_GE(quick.statistics().resumed, 500u);
}

BOOST_AUTO_TEST_CASE(a_group_that_was_idle_has_saved_nothing_up) {
    driven d;
    const auto busy = d.loop.make_scheduling_group("busy", 100);
    const auto late = d.loop.make_scheduling_group("late", 100);
    duration had_busy{}, had_late{};
    spawn(run_in(busy, toils(d, 10us, had_busy)));
    turn_until(d, 1s);
    spawn(run_in(late, toils(d, 10us, had_late)));
    const duration before = had_busy;
    turn_until(d, 10ms);
    BOOST_TEST(ratio(had_late, had_busy - before) == 1.0, boost::test_tools::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(shares_can_change_while_running) {
    driven d;
    auto a = d.loop.make_scheduling_group("a", 100);
    const auto b = d.loop.make_scheduling_group("b", 100);
    duration had_a{}, had_b{};
    spawn(run_in(a, toils(d, 10us, had_a)));
    spawn(run_in(b, toils(d, 10us, had_b)));
    turn_until(d, 100ms);
    BOOST_TEST(ratio(had_a, had_b) == 1.0, boost::test_tools::tolerance(0.01));
    a.set_shares(500);
    had_a = had_b = {};
    turn_until(d, 1s);
    BOOST_TEST(ratio(had_a, had_b) == 5.0, boost::test_tools::tolerance(0.02));
    BOOST_CHECK_THROW(a.set_shares(0), std::invalid_argument);
    BOOST_CHECK_THROW(a.set_shares(1001), std::invalid_argument);
    BOOST_TEST(a.shares() == 500u);
}

BOOST_AUTO_TEST_CASE(on_a_clock_that_stands_still_groups_take_turns) {
    driven d;
    const auto g = d.loop.make_scheduling_group("g", 1);
    event e[2];
    int resumed = 0;
    duration had{};
    d.loop.root_group().spawn(volleys(e[0], e[1], resumed));
    d.loop.root_group().spawn(volleys(e[1], e[0], resumed));
    d.loop.root_group().spawn(run_in(g, toils(d, 0us, had)));
    e[0].set();
    for (int turn = 0; turn < 10; ++turn) d.loop.poll_once();
    BOOST_CHECK_GE(g.statistics().resumed, 4u);
    BOOST_CHECK_GE(resumed, 1000);
}

BOOST_AUTO_TEST_CASE(a_task_and_all_it_starts_stay_in_their_group) {
    driven d;
    const auto g = d.loop.make_scheduling_group("g", 100);
    std::vector<std::string> log;
    event e;
    spawn(run_in(g, says_group_after_waits(log, e)));
    d.settle();
    d.advance(1ms);
    e.set(); // from "main"
    d.settle();
    BOOST_TEST(log == std::vector<std::string>(8, "g"), boost::test_tools::per_element());
    BOOST_TEST(corewire::scheduling_group::current().name() == "main");
}

BOOST_AUTO_TEST_CASE(run_in_comes_home_with_result_or_exception_and_switch_to_stays) {
    driven d;
    const auto g = d.loop.make_scheduling_group("g", 100);
    std::vector<std::string> log;
    spawn(calls_elsewhere(g, log));
    d.settle();
    const std::vector<std::string> expected{"g 7 main", "g threw main", "g"};
    BOOST_TEST(log == expected, boost::test_tools::per_element());
    BOOST_TEST(d.loop.root_group().failed() == 0u);
}

BOOST_AUTO_TEST_CASE(statistics_tell_how_long_a_group_waited) {
    driven d;
    const auto a = d.loop.make_scheduling_group("a", 100);
    const auto b = d.loop.make_scheduling_group("b", 100);
    duration had_a{}, had_b{};
    spawn(run_in(a, toils(d, 40us, had_a)));
    spawn(run_in(b, toils(d, 40us, had_b)));
    turn_until(d, 8ms);
    BOOST_TEST(a.statistics().resumed >= 99u);
    BOOST_TEST(a.statistics().resumed <= a.statistics().picked);
    BOOST_CHECK(a.statistics().waited >= 3900us && a.statistics().waited <= 4100us);
    BOOST_CHECK(a.statistics().longest_wait == 40us);
}

BOOST_AUTO_TEST_CASE(time_in_which_nothing_was_ready_is_no_wait) {
    driven d;
    const auto g = d.loop.make_scheduling_group("g", 100);
    duration latest{};
    spawn(run_in(g, responds(d, 30us, 3, latest))); // longer than a turn's time: nobody is picked behind it
    d.settle();
    for (int i = 0; i < 3; ++i) d.advance(10s);
    BOOST_TEST(g.statistics().resumed >= 3u);
    BOOST_CHECK(g.statistics().runtime == 90us);
    BOOST_CHECK(g.statistics().waited == 0us);
    BOOST_CHECK(g.statistics().longest_wait == 0us);
}

BOOST_AUTO_TEST_CASE(nor_is_time_after_what_was_ready_has_been_destroyed) {
    driven d;
    const auto first = d.loop.make_scheduling_group("first", 100);
    const auto second = d.loop.make_scheduling_group("second", 100);
    event e;
    task<> victim = run_in(second, waits_once(e));
    spawn(works_and_destroys(first, d, e, 30us, victim));
    victim.handle().resume();
    d.settle();
    e.set();
    d.settle();
    BOOST_CHECK(!victim);
    d.advance(10s);
    spawn(run_in(second, waits_once(e))); // the flag is up
    d.settle();
    BOOST_CHECK(second.statistics().waited == 0us);
    BOOST_CHECK(second.statistics().longest_wait == 0us);
}

BOOST_AUTO_TEST_CASE(a_reactor_with_one_group_counts_nothing_and_has_main) {
    driven d;
    duration had{};
    spawn(toils(d, 1us, had));
    turn_until(d, 100us);
    const auto all = d.loop.scheduling_groups();
    BOOST_REQUIRE_EQUAL(all.size(), 1u);
    BOOST_TEST(all[0].name() == "main");
    BOOST_TEST(all[0].statistics().resumed == 0u);
}

BOOST_AUTO_TEST_CASE(names_shares_and_number_of_groups_are_limited) {
    driven d;
    BOOST_CHECK_THROW(d.loop.make_scheduling_group("", 100), std::invalid_argument);
    BOOST_CHECK_THROW(d.loop.make_scheduling_group("main", 100), std::invalid_argument);
    BOOST_CHECK_THROW(d.loop.make_scheduling_group("x", 0), std::invalid_argument);
    BOOST_CHECK_THROW(d.loop.make_scheduling_group("x", 1001), std::invalid_argument);
    BOOST_TEST(d.loop.scheduling_groups().size() == 1u);
    for (unsigned n = 1; n < fair_scheduler::max_groups; ++n)
        BOOST_TEST(d.loop.make_scheduling_group("group " + std::to_string(n), 1).number() == n);
    BOOST_CHECK_THROW(d.loop.make_scheduling_group("one more", 100), std::length_error);
    BOOST_CHECK_THROW(d.loop.make_scheduling_group("group 3", 100), std::invalid_argument);
    BOOST_TEST(d.loop.scheduling_groups().size() == fair_scheduler::max_groups);
}

BOOST_AUTO_TEST_CASE(shares_hold_after_the_virtual_times_were_rebased) {
    driven d;
    const auto a = d.loop.make_scheduling_group("a", 100);
    const auto b = d.loop.make_scheduling_group("b", 300);
    a.queue().virtual_runtime = b.queue().virtual_runtime = (std::int64_t{1} << 62) - 1000;
    duration had_a{}, had_b{};
    spawn(run_in(a, toils(d, 10us, had_a)));
    spawn(run_in(b, toils(d, 10us, had_b)));
    turn_until(d, 1s);
    BOOST_TEST(ratio(had_b, had_a) == 3.0, boost::test_tools::tolerance(0.01));
    BOOST_TEST(a.queue().virtual_runtime < (std::int64_t{1} << 61));
}

BOOST_AUTO_TEST_CASE(a_reactor_does_not_sleep_while_another_group_has_work) {
    corewire::reactor r{{.spin = 0us}};
    const auto other = r.make_scheduling_group("other", 1);
    int turns = 0;
    struct counter {
        static task<> count(corewire::reactor& loop, int& n) {
            while (++n < 1000) co_await corewire::yield();
            loop.request_exit();
        }
    };
    {
        const corewire::reactor::scope here(r);
        r.root_group().spawn(run_in(other, counter::count(r, turns)));
    }
    r.run();
    BOOST_TEST(turns == 1000);
    BOOST_TEST(r.sleeps() <= 1u);
}

/// Time on the CPU: what other processes take meanwhile does not pass on it. A system call, and a slow one where others wear out the
/// caches: who computes does so for much longer than it takes.
struct cpu_clock final : clock_source {
    time_point now() noexcept override {
        timespec t;
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return from_ns(std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
    }
};

task<> computes(clock_source& clock, const bool& over, duration& had) {
    std::uint64_t x = 1;
    for (time_point before = clock.now(); !over;) {
        for (int i = 0; i < 100'000; ++i) x = x * 6364136223846793005ull + 1442695040888963407ull;
        asm volatile("" : : "r"(x));
        const time_point after = clock.now();
        had += after - before;
        co_await corewire::yield();
        before = clock.now();
    }
}

BOOST_AUTO_TEST_CASE(over_a_second_of_the_real_core_two_groups_get_one_to_three) {
    cpu_clock clock;
    corewire::reactor r{{.clock = &clock}};
    const corewire::reactor::scope here(r);
    const auto small = r.make_scheduling_group("small", 100);
    const auto large = r.make_scheduling_group("large", 300);
    duration had_small{}, had_large{};
    const time_point begun = clock.now();
    bool over = false;
    task_group tasks{"computing"};
    for (int i = 0; i < 3; ++i) tasks.spawn(run_in(small, computes(clock, over, had_small)));
    for (int i = 0; i < 2; ++i) tasks.spawn(run_in(large, computes(clock, over, had_large)));
    const auto passed = [&] { return clock.now() - begun; };
    while (passed() < 1s) r.poll_once();
    // What a hypervisor takes away is charged to whoever computes then, and makes up for itself in time; a wrong share does not.
    while (passed() < 10s && std::abs(ratio(had_large, had_small) - 3.0) > 0.25) r.poll_once();
    const duration took = passed();
    over = true;
    BOOST_TEST_MESSAGE("small " << had_small.count() / 1000 << " us, large " << had_large.count() / 1000 << " us");
    BOOST_TEST(ratio(had_large, had_small) == 3.0, boost::test_tools::tolerance(0.1));
    BOOST_CHECK(had_large + had_small > took * 8 / 10); // the rest is the loop's
    while (tasks.size() != 0) r.poll_once();
}

BOOST_AUTO_TEST_SUITE_END()
