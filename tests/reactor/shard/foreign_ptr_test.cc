// foreign_ptr: the object is used and destroyed at home, wherever its owner is, also when the ring is full or the loops have ended.
#include "some_shards.hh"

#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/shard/foreign_ptr.hh>
#include <corewire/reactor/shard/shard_local.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>
#include <corewire/reactor/task/task_group.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace corewire;
using shard_test::run_on_first;

namespace {

std::atomic<int> alive{0};
std::atomic<int> died_abroad{0};

struct homebody {
    explicit homebody(int v) : value(v), home(std::this_thread::get_id()) { ++alive; }
    homebody(const homebody&) = delete;
    ~homebody() {
        --alive;
        if (std::this_thread::get_id() != home) ++died_abroad;
    }
    int value;
    std::thread::id home;
};

task<> all_gone() {
    while (alive != 0) co_await yield();
}
task<> used_at_home() {
    foreign_ptr<homebody> there = co_await submit_to(1, [] { return make_foreign<homebody>(41); });
    BOOST_CHECK_EQUAL(there.home(), 1u);
    const int value = co_await there.invoke([](homebody& h) { return ++h.value; });
    BOOST_CHECK_EQUAL(value, 42);
    foreign_ptr<homebody> moved = std::move(there);
    BOOST_CHECK(!there);
    moved.reset();
    BOOST_CHECK(!moved);
    co_await all_gone();
}
task<> freed_where_it_was_made() {
    foreign_ptr<homebody> here = make_foreign<homebody>(7);
    BOOST_CHECK_EQUAL(here->value, 7);
    here.reset();
    BOOST_CHECK_EQUAL(alive.load(), 0);
    co_return;
}
task<> a_thousand_at_once() {
    std::vector<foreign_ptr<homebody>> all;
    for (int i = 0; i < 1000; ++i) all.push_back(co_await submit_to(1, [i] { return make_foreign<homebody>(i); }));
    BOOST_CHECK_EQUAL(alive.load(), 1000);
    all.clear(); // many more than the ring has slots, in one stretch
    BOOST_CHECK_GT(this_shard::mail().statistics().waited, 0u);
    co_await all_gone();
}
task<int> reads_when(homebody& h, event& may, int& ended) {
    co_await may.wait();
    ++ended;
    co_return h.value;
}
task<> stops_soon(stop_source& stop) {
    co_await yield();
    stop.request_stop();
}
/// The call goes on at home, and the object stays owned until it has ended; who asked does not wait for it.
task<> waits_no_longer_than_it_may() {
    foreign_ptr<homebody> here = make_foreign<homebody>(7);
    event may;
    int finished = 0;
    const auto reads = [&may, &finished](homebody& h) { return reads_when(h, may, finished); };
    auto late = here.invoke(reads, {.deadline = reactor::current().now() + std::chrono::milliseconds{1}});
    const auto timed = co_await as_result(late);
    BOOST_CHECK(!timed && timed.error() == std::errc::timed_out);
    stop_source stop;
    task_group group("stops");
    group.spawn(stops_soon(stop));
    auto stopped = here.invoke(reads, {.stop = stop.token()});
    const auto ended = co_await as_result(stopped);
    BOOST_CHECK(!ended && ended.error() == std::errc::operation_canceled);
    co_await group.join();
    may.set();
    auto in_time = here.invoke(reads);
    const auto value = co_await as_result(in_time);
    BOOST_CHECK(value && *value == 7);
    while (finished != 3) co_await yield();
}
task<> sleeps_with(foreign_ptr<homebody>) {
    event never_set;
    co_await never_set.wait();
}
task<> abandoned_at_shutdown() {
    for (int i = 0; i < 100; ++i) {
        foreign_ptr<homebody> there = co_await submit_to(1, [i] { return make_foreign<homebody>(i); });
        corewire::spawn(sleeps_with(std::move(there)));
    }
    runtime::current().request_stop();
}

/// At home there are two scheduling groups, so that calls stand in line, and what is no call comes before them.
task<> given_up_while_a_call_stands_in_line() {
    auto two_groups = submit_to(1, [] {
        static_cast<void>(reactor::current().make_scheduling_group("batch", 100));
        return make_foreign<homebody>(0);
    });
    const foreign_ptr<homebody> stays = co_await two_groups;
    for (int round = 0; round < 100; ++round) {
        foreign_ptr<homebody> there = co_await submit_to(1, [] { return make_foreign<homebody>(41); });
        int alive_in_task = 0;
        auto function = there.invoke([](homebody& h) { return h.value + alive.load(); });
        auto suspending = there.invoke([&alive_in_task](homebody& h) -> task<int> {
            co_await yield();
            alive_in_task = alive;
            co_return h.value;
        });
        there.reset();
        const int of_function = co_await function;
        const int of_task = co_await suspending;
        BOOST_REQUIRE_EQUAL(of_function, 43); // this one, and the one that made the group
        BOOST_REQUIRE_EQUAL(of_task, 41);
        BOOST_REQUIRE_EQUAL(alive_in_task, 2);
        while (alive != 1) co_await yield();
    }
}

/// Home stands still while shard 2 calls the object and gives the call up, and then sends the pointer to shard 1, whose ring home looks
/// at first. `ring_is_full`: the call never gets into a ring, and is forgotten after the pointer has gone.
struct goes_by_another_way {
    bool ring_is_full;
    std::atomic<bool> made{false}, over{false};
    std::atomic<int> alive_in_call{-1};
    std::uint64_t waited = 0;
    corewire::foreign_ptr<homebody> from_home{};

    task<> home() {
        from_home = make_foreign<homebody>(7);
        made = true;
        while (!over) std::this_thread::yield();
        co_return;
    }
    task<> looks(const corewire::foreign_ptr<homebody>& at) {
        co_await at.invoke([this](homebody&) { alive_in_call = alive.load(); });
    }
    task<> caller() {
        while (!made) co_await yield();
        corewire::foreign_ptr<homebody> mine = std::move(from_home);
        for (int i = 0; ring_is_full && i < 4; ++i) static_cast<void>(this_shard::mail().try_post(0, [] {}));
        task_group call("call");
        call.spawn(looks(mine));
        waited = this_shard::mail().statistics().waited;
        if (!ring_is_full) call.destroy_all();
        auto away = submit_to(1, [p = std::move(mine)]() mutable { p.reset(); });
        co_await away;
        call.destroy_all();
        over = true;
    }
    task<> run_here() {
        switch (this_shard::id()) {
        case 0: return home();
        case 2: return caller();
        default: return all_gone();
        }
    }
};
void run_by_another_way(bool ring_is_full) {
    goes_by_another_way way{ring_is_full};
    corewire::runtime_options options = shard_test::shards(3);
    options.mail.ring_slots = 4;
    corewire::runtime all(options);
    all.run([&] { return way.run_here(); });
    BOOST_CHECK_EQUAL(way.waited, ring_is_full ? 1u : 0u);
    BOOST_CHECK_EQUAL(way.alive_in_call.load(), ring_is_full ? -1 : 1);
    BOOST_CHECK_EQUAL(alive.load(), 0);
    BOOST_CHECK_EQUAL(died_abroad.load(), 0);
}

task<> kept_abroad(corewire::shard_local<corewire::foreign_ptr<homebody>>& owners) {
    corewire::foreign_ptr<homebody> mine = make_foreign<homebody>(3);
    auto away = submit_to(1, [&owners, p = std::move(mine)]() mutable { *owners = std::move(p); });
    co_await away;
}

} // namespace

BOOST_AUTO_TEST_SUITE(foreign_ptr)

BOOST_AUTO_TEST_CASE(the_object_is_used_and_destroyed_at_home) {
    run_on_first(used_at_home);
    run_on_first(freed_where_it_was_made);
    BOOST_CHECK_EQUAL(alive.load(), 0);
    BOOST_CHECK_EQUAL(died_abroad.load(), 0);
}

BOOST_AUTO_TEST_CASE(a_deadline_and_a_token_end_the_wait_for_a_call) { run_on_first(waits_no_longer_than_it_may); }

BOOST_AUTO_TEST_CASE(the_object_outlives_calls_whose_pointer_has_gone) {
    run_on_first(given_up_while_a_call_stands_in_line);
    BOOST_CHECK_EQUAL(alive.load(), 0);
}

BOOST_AUTO_TEST_CASE(the_object_outlives_a_call_in_a_ring_though_the_pointer_takes_a_shorter_way) { run_by_another_way(false); }

BOOST_AUTO_TEST_CASE(a_call_that_is_forgotten_unsent_lets_go_of_the_object) { run_by_another_way(true); }

BOOST_AUTO_TEST_CASE(a_full_ring_delays_the_freeing_and_loses_nothing) {
    run_on_first(a_thousand_at_once, 2, {.ring_slots = 4});
    BOOST_CHECK_EQUAL(alive.load(), 0);
    BOOST_CHECK_EQUAL(died_abroad.load(), 0);
}

BOOST_AUTO_TEST_CASE(what_comes_home_behind_the_loops_is_destroyed_before_its_shard_is_torn_down) { // it may be a socket
    corewire::shard_local<corewire::foreign_ptr<homebody>> owners;
    std::atomic<int> alive_then{-1};
    corewire::runtime all(shard_test::shards(2));
    all.run(
        [&] {
            const auto nothing = []() -> task<> { co_return; };
            return this_shard::id() == 0 ? kept_abroad(owners) : nothing();
        },
        {.tear_down = [&](unsigned shard) {
            if (shard == 0) alive_then = alive.load();
        }});
    BOOST_CHECK_EQUAL(alive_then.load(), 0);
    BOOST_CHECK_EQUAL(died_abroad.load(), 0);
}

BOOST_AUTO_TEST_CASE(owners_that_are_abandoned_at_shutdown_send_home_what_they_own) {
    corewire::runtime_options options = shard_test::shards(2);
    options.drain = std::chrono::milliseconds{1};
    options.mail.ring_slots = 4; // when the loops have ended nobody empties it in the usual way
    run_on_first(abandoned_at_shutdown, options);
    BOOST_CHECK_EQUAL(alive.load(), 0);
    BOOST_CHECK_EQUAL(died_abroad.load(), 0);
}

BOOST_AUTO_TEST_SUITE_END()
