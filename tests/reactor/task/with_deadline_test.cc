// with_deadline: a task of many waits, bounded as one.
#include "driven.hh"

#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/for_each.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/when_all.hh>
#include <corewire/reactor/task/when_any.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <stdexcept>
#include <tuple>
#include <variant>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::record;

namespace {

task<int> three_waits(corewire::mutex& m, int value) {
    const auto turn = co_await m.lock();
    for (int i = 0; i < 3; ++i) co_await sleep_for(1ms);
    co_return value;
}
task<> fails_after(duration d) {
    co_await sleep_for(d);
    throw std::runtime_error("as agreed");
}
task<int> at_once() { co_return 7; }
task<int> keeps(task<int> work, int& result) {
    result = co_await work;
    co_return result;
}

task<> counted_wait(event& e, int& alive) {
    struct resident {
        int& count;
        explicit resident(int& c) : count(c) { ++count; }
        resident(const resident&) = delete;
        ~resident() { --count; }
    } here(alive);
    co_await e.wait();
}

task<int> receives(corewire::channel<int>& c) {
    const auto value = co_await c.receive();
    co_return value.value_or(-1);
}
task<> stores(task<int> work, int& result) { result = co_await work; }
task<int> either_of(corewire::channel<int>& a, corewire::channel<int>& b) {
    const auto first = co_await when_any(receives(a), receives(b));
    co_return first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
}
task<int> sum_of(corewire::channel<int>& a, corewire::channel<int>& b) {
    const auto [x, y] = co_await when_all(receives(a), receives(b));
    co_return x + y;
}

struct observed : driven {
    std::errc outcome{std::errc::io_error};
    bool done = false;
    corewire::mutex m;
    corewire::task_group group{"test"};
};

} // namespace

BOOST_AUTO_TEST_SUITE(with_deadline)

BOOST_AUTO_TEST_CASE(a_task_that_ends_in_time_gives_its_result_and_disarms_the_limits) {
    observed o;
    stop_source stop;
    int result = 0;
    o.group.spawn(record(
        [&] {
            return keeps(corewire::with_deadline(three_waits(o.m, 5), {.deadline = o.loop.now() + 4ms, .stop = stop.token()}),
                         result);
        },
        o.outcome, o.done));
    for (int i = 0; i < 3; ++i) o.advance(1ms);
    BOOST_CHECK(o.done);
    BOOST_CHECK_EQUAL(result, 5);
    BOOST_CHECK(o.loop.timers().next_expiry() == never);
    stop.request_stop();
    BOOST_CHECK(!o.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(the_deadline_counts_for_all_waits_together_and_destroys_the_task) {
    observed o;
    o.group.spawn(record([&] { return corewire::with_deadline(three_waits(o.m, 5), {.deadline = o.loop.now() + 2500us}); },
                         o.outcome, o.done));
    o.advance(1ms);
    o.advance(1ms);
    o.advance(500us - 1ns);
    BOOST_CHECK(!o.done);
    BOOST_CHECK(o.m.locked());
    o.advance(1ns);
    BOOST_CHECK(o.outcome == std::errc::timed_out);
    BOOST_CHECK(!o.m.locked());
    BOOST_CHECK(o.loop.timers().next_expiry() == never);
}

BOOST_AUTO_TEST_CASE(a_stop_destroys_the_task) {
    observed o;
    stop_source stop;
    o.group.spawn(
        record([&] { return corewire::with_deadline(three_waits(o.m, 5), {.stop = stop.token()}); }, o.outcome, o.done));
    o.advance(1ms);
    stop.request_stop();
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
    BOOST_CHECK(!o.m.locked());
}

BOOST_AUTO_TEST_CASE(limits_that_are_exhausted_let_a_task_pass_that_ends_at_once) {
    observed o;
    int result = 0;
    o.group.spawn(record([&] { return keeps(corewire::with_deadline(at_once(), {.deadline = o.loop.now()}), result); },
                         o.outcome, o.done));
    BOOST_CHECK_EQUAL(result, 7);
    o.done = false;
    o.group.spawn(record([&] { return corewire::with_deadline(three_waits(o.m, 5), {.deadline = o.loop.now()}); }, o.outcome,
                         o.done));
    BOOST_CHECK(o.outcome == std::errc::timed_out);
    BOOST_CHECK(!o.m.locked());
}

BOOST_AUTO_TEST_CASE(the_task_ending_and_its_deadline_in_the_same_turn_end_the_wait_once) {
    observed o;
    o.group.spawn(record([&] { return corewire::with_deadline(three_waits(o.m, 5), {.deadline = o.loop.now() + 3ms}); },
                         o.outcome, o.done));
    o.advance(1ms);
    o.advance(1ms);
    o.advance(1ms);
    BOOST_CHECK(o.done);
    BOOST_CHECK(!o.m.locked());
    BOOST_CHECK_EQUAL(o.group.size(), 0u);
}

/// In one turn `make(a, b)`, which receives, has what it waits for and then reaches a limit, or the other way round.
template <typename Make>
void loses_nothing(Make make, int expected) {
    for (const bool limit_first : {false, true}) {
        observed o;
        corewire::channel<int> a(1), b(1);
        stop_source stop;
        int result = 0;
        o.group.spawn(record(
            [&] { return stores(corewire::with_deadline(make(a, b), {.deadline = o.loop.now() + 1ms, .stop = stop.token()}), result); },
            o.outcome, o.done));
        o.settle();
        if (limit_first) stop.request_stop();
        BOOST_CHECK(a.try_send(5) && b.try_send(6));
        o.advance(1ms); // a timer comes after what is ready already
        BOOST_CHECK(o.done);
        BOOST_CHECK(o.outcome == (limit_first ? std::errc::operation_canceled : std::errc{}));
        BOOST_CHECK_EQUAL(result, limit_first ? 0 : expected);
        const int left = a.try_receive().value_or(0) + b.try_receive().value_or(0);
        BOOST_CHECK_EQUAL(result + left, 11);
        BOOST_CHECK(o.loop.timers().next_expiry() == never);
    }
}

BOOST_AUTO_TEST_CASE(what_came_in_the_turn_of_the_limit_is_given_or_left_where_it_was) {
    using values = corewire::channel<int>;
    loses_nothing([](values& a, values&) { return receives(a); }, 5);
    loses_nothing([](values& a, values& b) { return either_of(a, b); }, 5);
    loses_nothing([](values& a, values& b) { return sum_of(a, b); }, 11);
    loses_nothing([](values& a, values&) { return corewire::with_deadline(receives(a), {.deadline = reactor::current().now() + 1ms}); }, 5);
    loses_nothing([](values& a, values&) { return corewire::with_deadline(receives(a), {.deadline = reactor::current().now() + 1s}); }, 5);
}

/// Ends `several(e, alive)`, of three tasks that wait for ever, by a deadline.
template <typename Several>
void bounds(Several several) {
    observed o;
    event e;
    int alive = 0;
    o.group.spawn(record([&] { return corewire::with_deadline(several(e, alive), {.deadline = o.loop.now() + 1ms}); }, o.outcome, o.done));
    BOOST_CHECK_EQUAL(alive, 3);
    o.advance(1ms - 1ns);
    BOOST_CHECK(!o.done);
    o.advance(1ns);
    BOOST_CHECK(o.done && o.outcome == std::errc::timed_out);
    BOOST_CHECK_EQUAL(alive, 0);
    e.set();
    BOOST_CHECK(!o.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(it_bounds_several_at_once) {
    bounds([](event& e, int& alive) { return when_any(counted_wait(e, alive), counted_wait(e, alive), counted_wait(e, alive)); });
    bounds([](event& e, int& alive) { return when_all(counted_wait(e, alive), counted_wait(e, alive), counted_wait(e, alive)); });
    const auto vector_of = [](event& e, int& alive) {
        std::vector<task<>> all;
        for (int i = 0; i < 3; ++i) all.push_back(counted_wait(e, alive));
        return all;
    };
    bounds([&](event& e, int& alive) { return when_any(vector_of(e, alive)); });
    bounds([&](event& e, int& alive) { return when_all(vector_of(e, alive)); });
    bounds([](event& e, int& alive) {
        return parallel_for_each(std::vector<int>(3), [&](int) { return counted_wait(e, alive); });
    });
    bounds([](event& e, int& alive) {
        return max_concurrent_for_each(std::vector<int>(30), 3, [&](int) { return counted_wait(e, alive); });
    });
}

BOOST_AUTO_TEST_CASE(the_exception_of_the_task_is_thrown) {
    driven d;
    auto failing = corewire::with_deadline(fails_after(1ms), {.deadline = d.loop.now() + 1s});
    failing.handle().resume();
    d.advance(1ms);
    BOOST_REQUIRE(failing.done());
    BOOST_CHECK_THROW(failing.handle().promise().take(), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(destroying_the_wait_destroys_the_task) {
    observed o;
    {
        auto limited = corewire::with_deadline(three_waits(o.m, 5), {.deadline = o.loop.now() + 1s});
        limited.handle().resume();
        BOOST_CHECK(o.m.locked());
    }
    BOOST_CHECK(!o.m.locked());
    BOOST_CHECK(o.loop.timers().next_expiry() == never);
}

BOOST_AUTO_TEST_SUITE_END()
