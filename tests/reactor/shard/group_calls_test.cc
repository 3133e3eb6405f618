// A call to another shard runs there in the scheduling group of its caller's name, and is charged to it: two shards by hand, on one clock
// that the calls move; and once in a running runtime.
#include "some_shards.hh"
#include "two_shards.hh"

#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::hand_driven_shard;
using shard_test::manual_clock;
using shard_test::submit;
using shard_test::two_shards;

namespace {

std::string group_here() { return scheduling_group::current().name(); }
task<std::string> group_before_and_after_a_wait() {
    std::string all = group_here();
    co_await corewire::yield();
    co_return all + " " + group_here();
}

/// Where a function and a task run that are called from the group in which this does.
task<> asks(hand_driven_shard& from, std::string& function, std::string& whole_task) {
    auto first = submit(from, 1, [] { return group_here(); });
    function = co_await first;
    auto second = submit(from, 1, [] { return group_before_and_after_a_wait(); });
    whole_task = co_await second;
}

/// Calls that use the other shard's core, one after the other for ever.
task<> keeps_calling(hand_driven_shard& from, manual_clock& clock, duration each, duration& had) {
    for (;;) {
        auto call = submit(from, 1, [&clock, each, &had] {
            clock.time += each;
            had += each;
        });
        co_await call;
    }
}
task<> works(manual_clock& clock, duration each, duration& had) {
    for (int part = 0; part < 3; ++part) {
        clock.time += each;
        had += each;
        co_await corewire::yield();
    }
}
task<> keeps_calling_tasks(hand_driven_shard& from, manual_clock& clock, duration each, duration& had) {
    for (;;) {
        auto call = submit(from, 1, [&clock, each, &had] { return works(clock, each, had); });
        co_await call;
    }
}
/// Wakes every millisecond and notes how late it was.
task<> responds(hand_driven_shard& at, manual_clock& clock, duration& latest) {
    for (;;) {
        const time_point due = at.loop.now() + 1ms;
        co_await sleep_until(due);
        latest = std::max(latest, clock.time - due);
        clock.time += 5us;
    }
}
task<> notes_how_it_ends(hand_driven_shard& from, int& ran, std::string& end) {
    auto call = submit(from, 1, [&ran] { ++ran; });
    try {
        co_await call;
        end = "ran";
    } catch (const std::system_error& e) {
        end = e.code() == std::errc::operation_canceled ? "canceled" : e.what();
    }
}

struct grouped : two_shards {
    grouped() : two_shards({.ring_slots = 256}) {}
    ~grouped() {
        for (hand_driven_shard* each : {&a, &b}) each->as_here([&] { each->loop.root_group().destroy_all(); });
    }
    void spawn_in(hand_driven_shard& at, corewire::scheduling_group g, task<> t) {
        at.as_here([&] { at.loop.root_group().spawn(run_in(g, std::move(t))); });
    }
    void turn_for(duration length) {
        const time_point end = clock.time + length;
        while (clock.time < end) {
            a.turn();
            b.turn();
            clock.time += 100ns; // so that it ends, whatever the calls do
        }
    }
};

double ratio(duration x, duration y) { return static_cast<double>(x.count()) / static_cast<double>(y.count()); }

} // namespace

BOOST_AUTO_TEST_SUITE(group_calls)

BOOST_AUTO_TEST_CASE(functions_and_tasks_run_in_the_group_of_their_callers_name) {
    grouped s;
    const auto x = s.a.loop.make_scheduling_group("x", 100);
    const auto ours = s.a.loop.make_scheduling_group("ours alone", 100);
    s.b.loop.make_scheduling_group("theirs alone", 100);
    const auto other_x = s.b.loop.make_scheduling_group("x", 300);
    BOOST_TEST(x.number() != other_x.number());
    std::string function[3], whole_task[3];
    s.spawn_in(s.a, x, asks(s.a, function[0], whole_task[0]));
    s.spawn_in(s.a, ours, asks(s.a, function[1], whole_task[1]));
    s.a.as_here([&] { s.a.loop.root_group().spawn(asks(s.a, function[2], whole_task[2])); });
    s.settle();
    BOOST_TEST(function[0] == "x");
    BOOST_TEST(whole_task[0] == "x x");
    BOOST_TEST(function[1] == "main");
    BOOST_TEST(whole_task[1] == "main main");
    BOOST_TEST(function[2] == "main");
    BOOST_TEST(whole_task[2] == "main main");
}

BOOST_AUTO_TEST_CASE(a_shard_with_one_group_runs_functions_as_they_come) {
    grouped s;
    const auto x = s.a.loop.make_scheduling_group("x", 100);
    int ran = 0;
    std::string end;
    s.spawn_in(s.a, x, notes_how_it_ends(s.a, ran, end));
    s.a.turn();
    s.b.as_here([&] { static_cast<poller&>(s.b.mail).poll(s.clock.time); });
    BOOST_TEST(ran == 1);
    s.settle();
    BOOST_TEST(end == "ran");
}

BOOST_AUTO_TEST_CASE(work_for_other_shards_shares_their_core_as_the_shares_there) {
    for (const bool tasks : {false, true}) {
        grouped s;
        const auto small = s.a.loop.make_scheduling_group("small", 100);
        const auto large = s.a.loop.make_scheduling_group("large", 100);
        const auto large_there = s.b.loop.make_scheduling_group("large", 300);
        const auto small_there = s.b.loop.make_scheduling_group("small", 100);
        duration had_small{}, had_large{};
        for (int i = 0; i < 40; ++i) {
            const auto caller = tasks ? &keeps_calling_tasks : &keeps_calling;
            s.spawn_in(s.a, small, caller(s.a, s.clock, 10us, had_small));
            s.spawn_in(s.a, large, caller(s.a, s.clock, 10us, had_large));
        }
        s.turn_for(1s);
        BOOST_TEST(ratio(had_large, had_small) == 3.0, boost::test_tools::tolerance(0.1));
        BOOST_CHECK(small_there.statistics().runtime == had_small); // it is charged
        BOOST_CHECK(large_there.statistics().runtime == had_large);
    }
}

BOOST_AUTO_TEST_CASE(a_latency_task_is_not_starved_by_calls_of_another_shards_batch) {
    for (const bool from_main : {false, true}) {
        grouped s;
        const auto batch = from_main ? s.a.loop.scheduling_groups().front() : s.a.loop.make_scheduling_group("batch", 100);
        if (!from_main) s.b.loop.make_scheduling_group("batch", 1000);
        const auto quick = s.b.loop.make_scheduling_group("quick", 100);
        duration had{}, latest{};
        for (int i = 0; i < 100; ++i) {
            s.spawn_in(s.a, batch, keeps_calling(s.a, s.clock, 50us, had));
            s.spawn_in(s.a, batch, keeps_calling_tasks(s.a, s.clock, 50us, had));
        }
        s.spawn_in(s.b, quick, responds(s.b, s.clock, latest));
        s.turn_for(1s);
        BOOST_CHECK(had > 900ms);
        BOOST_CHECK(latest <= 150us);
    }
}

BOOST_AUTO_TEST_CASE(calls_of_one_group_begin_in_the_order_in_which_they_were_submitted) {
    grouped s;
    const auto x = s.a.loop.make_scheduling_group("x", 100);
    s.b.loop.make_scheduling_group("x", 100);
    std::vector<int> order;
    const auto calls = [](hand_driven_shard& from, std::vector<int>& seen) -> task<> {
        auto note = [&seen](int n) { return [&seen, n] { seen.push_back(n); }; };
        auto note_later = [&seen](int n) {
            return [&seen, n] {
                return [](std::vector<int>& into, int number) -> task<> {
                    into.push_back(number);
                    co_return;
                }(seen, n);
            };
        };
        auto first = submit(from, 1, note(1));
        auto second = submit(from, 1, note_later(2));
        auto third = submit(from, 1, note(3));
        co_await third;
    };
    s.spawn_in(s.a, x, calls(s.a, order));
    s.settle();
    const std::vector<int> expected{1, 2, 3};
    BOOST_TEST(order == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_stands_in_line_when_the_tasks_there_are_destroyed_is_answered) {
    grouped s;
    const auto x = s.a.loop.make_scheduling_group("x", 100);
    s.b.loop.make_scheduling_group("x", 100);
    int ran = 0;
    std::string end;
    s.spawn_in(s.a, x, notes_how_it_ends(s.a, ran, end));
    s.a.turn();
    s.b.as_here([&] {
        static_cast<poller&>(s.b.mail).poll(s.clock.time);
        s.b.loop.root_group().destroy_all();
    });
    s.settle();
    BOOST_TEST(ran == 0);
    BOOST_TEST(end == "canceled");
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(the_shards_of_a_runtime_have_a_limited_number_of_names) {
    group_names names;
    BOOST_TEST(names.number_of("main") == 0u);
    for (unsigned n = 1; n < group_names::most; ++n) BOOST_TEST(names.number_of("group " + std::to_string(n)) == n);
    BOOST_TEST(names.number_of("group 7") == 7u);
    BOOST_CHECK_THROW(names.number_of("one more"), std::length_error);
    corewire::reactor r({.groups = &names});
    BOOST_CHECK_THROW(r.make_scheduling_group("one more", 100), std::length_error);
    BOOST_TEST(r.make_scheduling_group("group 63", 100).number() == 1u);
    BOOST_TEST(r.scheduling_groups().size() == 2u);
}

namespace {

std::string seen[2], seen_of_tasks[2];
task<> asks_from_a_group() {
    auto prepare = submit_to(1, [] { reactor::current().make_scheduling_group("batch", 50); });
    co_await prepare;
    reactor::current().make_scheduling_group("other", 100);
    const auto batch = reactor::current().make_scheduling_group("batch", 100);
    co_await switch_to(batch);
    for (unsigned shard : {1u, 0u}) {
        seen[shard] = co_await submit_to(shard, group_here);
        seen_of_tasks[shard] = co_await submit_to(shard, group_before_and_after_a_wait);
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(in_a_runtime_groups_are_known_by_their_names) {
    shard_test::run_on_first(asks_from_a_group);
    for (unsigned shard : {0u, 1u}) {
        BOOST_TEST(seen[shard] == "batch");
        BOOST_TEST(seen_of_tasks[shard] == "batch batch");
    }
}

BOOST_AUTO_TEST_SUITE_END()
