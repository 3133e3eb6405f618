// task_group: detached work that is counted, joined, stopped, and whose failures are told.
#include "driven.hh"

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::record;

namespace {

task<> waits(event& e) { co_await e.wait(); }
task<> throws(event& e) {
    co_await e.wait();
    throw std::runtime_error("as agreed");
}
task<> sleeps_until_stopped(stop_token stop) { co_await sleep_for(1h, stop); }
task<> spawns_another(task_group& group, event& e) {
    co_await e.wait();
    group.spawn(waits(e));
}
task<> joins(corewire::task_group& group, std::vector<int>& order, int mine) {
    co_await group.join();
    order.push_back(mine);
}
task<> counts(int& runs) {
    ++runs;
    co_return;
}

/// A group with one task, which waits for `e`, and somebody outside who joins it.
struct joined : driven {
    event e;
    corewire::task_group group{"test"}, outside{"outside"};
    std::errc outcome{};
    bool done = false;
    joined() { group.spawn(waits(e)); }
    void join(wait_limits limits = {}) {
        outside.spawn(record([this, limits] { return group.join(limits); }, outcome, done));
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(task_group)

BOOST_AUTO_TEST_CASE(a_task_runs_up_to_its_first_wait_inside_spawn) {
    driven d;
    corewire::task_group group{"test"};
    int runs = 0;
    group.spawn(counts(runs));
    BOOST_CHECK_EQUAL(runs, 1);
    BOOST_CHECK_EQUAL(group.size(), 0u);
}

BOOST_AUTO_TEST_CASE(join_waits_for_the_last_task_and_for_those_it_spawned) {
    driven d;
    corewire::task_group group{"test"};
    event first, second;
    group.spawn(waits(first));
    group.spawn(spawns_another(group, second));
    std::errc outcome{};
    bool done = false;
    corewire::task_group outside{"outside"};
    outside.spawn(record([&] { return group.join(); }, outcome, done));
    first.set();
    d.settle();
    BOOST_CHECK_EQUAL(group.size(), 1u);
    BOOST_CHECK(!done);
    second.set();
    d.settle();
    BOOST_CHECK(done);
    BOOST_CHECK(outcome == std::errc{});
    BOOST_CHECK_EQUAL(group.size(), 0u);
}

BOOST_AUTO_TEST_CASE(join_of_an_empty_group_does_not_wait) {
    driven d;
    corewire::task_group group{"test"}, outside{"outside"};
    std::errc outcome{};
    bool done = false;
    outside.spawn(record([&] { return group.join(); }, outcome, done));
    BOOST_CHECK(done);
}

BOOST_FIXTURE_TEST_CASE(join_gives_up_at_its_deadline_and_the_tasks_live_on, joined) {
    join({.deadline = loop.now() + 1ms});
    advance(999'999ns);
    BOOST_CHECK(!done);
    advance(1ns);
    BOOST_CHECK(done);
    BOOST_CHECK(outcome == std::errc::timed_out);
    BOOST_CHECK_EQUAL(group.size(), 1u);
}

BOOST_FIXTURE_TEST_CASE(join_ends_with_its_token_and_the_group_goes_on, joined) {
    stop_source stop;
    join({.stop = stop.token()});
    stop.request_stop();
    settle();
    BOOST_CHECK(done);
    BOOST_CHECK(outcome == std::errc::operation_canceled);
    BOOST_CHECK_EQUAL(group.size(), 1u);
}

BOOST_AUTO_TEST_CASE(all_who_join_go_on_in_the_order_they_came_and_one_that_was_destroyed_does_not) {
    driven d;
    event e;
    corewire::task_group group{"test"}, outside{"outside"};
    group.spawn(waits(e));
    std::vector<int> order;
    outside.spawn(joins(group, order, 1));
    {
        corewire::task_group gone{"gone"};
        gone.spawn(joins(group, order, 2));
        gone.destroy_all();
    }
    outside.spawn(joins(group, order, 3));
    e.set();
    d.settle();
    BOOST_CHECK((order == std::vector{1, 3}));
}

BOOST_FIXTURE_TEST_CASE(who_joins_goes_on_when_the_tasks_are_destroyed, joined) {
    join();
    group.destroy_all();
    settle();
    BOOST_CHECK(done);
    BOOST_CHECK(outcome == std::errc{});
}

BOOST_AUTO_TEST_CASE(who_joins_a_group_that_is_destroyed_hears_so) {
    driven d;
    event e;
    corewire::task_group outside{"outside"};
    std::errc outcome{};
    bool done = false;
    {
        corewire::task_group group{"a group that a test leaks on purpose"};
        group.spawn(waits(e));
        outside.spawn(record([&] { return group.join({.deadline = d.loop.now() + 1s}); }, outcome, done));
    }
    d.settle();
    BOOST_CHECK(done);
    BOOST_CHECK(outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(who_was_stopped_in_join_does_not_look_at_a_group_that_went_meanwhile) {
    driven d;
    event e;
    stop_source stop;
    corewire::task_group outside{"outside"};
    std::errc outcome{};
    bool done = false;
    auto group = std::make_unique<corewire::task_group>("a group that a test leaks on purpose");
    group->spawn(waits(e));
    outside.spawn(record([&] { return group->join({.stop = stop.token()}); }, outcome, done));
    stop.request_stop();
    group.reset();
    d.settle();
    BOOST_CHECK(done);
    BOOST_CHECK(outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(who_joins_longer_than_its_reactor_lives_is_destroyed_without_waking) {
    event e;
    std::optional<corewire::task_group> group;
    corewire::task_group* outside = nullptr;
    std::errc outcome{};
    bool done = false;
    {
        driven d;
        group.emplace("test");
        outside = &d.loop.root_group();
        group->spawn(waits(e));
        outside->spawn(record([&] { return group->join(); }, outcome, done));
    }
    group.reset();
    BOOST_CHECK(!done);
}

BOOST_AUTO_TEST_CASE(a_failure_is_counted_and_the_others_go_on) {
    driven d;
    event failing, going_on;
    corewire::task_group group{"a test that fails on purpose"};
    group.spawn(throws(failing));
    group.spawn(waits(going_on));
    failing.set();
    d.settle();
    BOOST_CHECK_EQUAL(group.failed(), 1u);
    BOOST_CHECK_EQUAL(group.size(), 1u);
}

BOOST_AUTO_TEST_CASE(a_task_that_a_stop_cancels_has_not_failed) {
    driven d;
    corewire::task_group group{"test"};
    group.spawn(sleeps_until_stopped(group.token()));
    BOOST_CHECK_EQUAL(group.size(), 1u);
    group.request_stop();
    d.settle();
    BOOST_CHECK_EQUAL(group.size(), 0u);
    BOOST_CHECK_EQUAL(group.failed(), 0u);
}

BOOST_AUTO_TEST_CASE(a_group_that_dies_takes_its_tasks_with_it) {
    driven d;
    event e;
    const std::uint64_t held = d.loop.frames().frames_held();
    {
        corewire::task_group group{"test"};
        for (int i = 0; i < 10; ++i) group.spawn(waits(e));
        BOOST_CHECK_EQUAL(group.size(), 10u);
    }
    e.set();
    BOOST_CHECK(!d.loop.poll_once());
    BOOST_CHECK_EQUAL(d.loop.frames().frames_held(), held + 10); // cached
}

/// It is left alone then: AddressSanitizer sees it otherwise.
BOOST_AUTO_TEST_CASE(a_group_may_go_with_what_its_last_task_holds) {
    driven d;
    struct session {
        explicit session(bool& gone) : flag(gone) {}
        session(const session&) = delete;
        ~session() { flag = true; }
        bool& flag;
        corewire::task_group tasks{"session"};
    };
    const auto holds = [](std::shared_ptr<session>, event& e) -> task<> { co_await e.wait(); };
    bool gone = false;
    event e;
    {
        auto mine = std::make_shared<session>(gone);
        mine->tasks.spawn(holds(mine, e));
    }
    e.set();
    d.settle();
    BOOST_CHECK(gone);
}

BOOST_AUTO_TEST_CASE(a_reactor_destroys_what_its_root_group_still_holds) {
    event e;
    {
        driven d;
        spawn(waits(e));
        BOOST_CHECK_EQUAL(d.loop.root_group().size(), 1u);
    }
    e.set();
}

BOOST_AUTO_TEST_CASE(a_reactor_counts_the_tasks_of_all_its_groups_and_their_failures) {
    reactor_test::driven d;
    const auto waits = []() -> corewire::task<> { co_await corewire::sleep_for(std::chrono::hours{1}); };
    const auto fails = []() -> corewire::task<> {
        throw std::runtime_error("as agreed");
        co_return;
    };
    BOOST_CHECK_EQUAL(d.loop.tasks(), 0u);
    corewire::task_group first("first");
    {
        corewire::task_group second("second");
        corewire::spawn(waits());
        for (int i = 0; i < 2; ++i) first.spawn(waits());
        for (int i = 0; i < 3; ++i) second.spawn(waits());
        BOOST_CHECK_EQUAL(d.loop.tasks(), 6u);
        second.spawn(fails());
        BOOST_CHECK_EQUAL(d.loop.tasks(), 6u);
        second.destroy_all();
        BOOST_CHECK_EQUAL(d.loop.tasks(), 3u);
        second.spawn(waits());
        BOOST_CHECK_EQUAL(d.loop.tasks(), 4u);
        second.destroy_all();
    }
    first.spawn(fails());
    BOOST_CHECK_EQUAL(d.loop.tasks(), 3u);
    BOOST_CHECK_EQUAL(d.loop.tasks_failed(), 2u); // that of a group that is gone, too
    first.destroy_all();
    BOOST_CHECK_EQUAL(d.loop.tasks(), 1u);
}

BOOST_AUTO_TEST_CASE(a_group_may_outlive_the_reactor_that_counts_its_tasks) {
    corewire::task_group group("stays");
    for (int i = 0; i < 2; ++i) {
        reactor_test::driven d;
        group.spawn([]() -> corewire::task<> { co_await corewire::yield(); }());
        BOOST_CHECK_EQUAL(d.loop.tasks(), 1u);
        d.settle();
        BOOST_CHECK_EQUAL(d.loop.tasks(), 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
