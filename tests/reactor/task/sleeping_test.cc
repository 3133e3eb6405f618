// sleep, yield, maybe_yield: the core is given away for a time, for a turn, or when the turn has been long.
#include "driven.hh"

#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <stdexcept>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::observed;
using reactor_test::record;

namespace {

task<> counts(int& count, reactor_test::manual_clock& clock, duration each) {
    for (;;) {
        ++count;
        clock.time += each;
        co_await maybe_yield();
    }
}
task<> notes_turns(std::vector<int>& order, int mine) {
    for (int i = 0; i < 3; ++i) {
        order.push_back(mine);
        co_await corewire::yield();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(sleeping)

BOOST_AUTO_TEST_CASE(sleep_lasts_exactly_as_long_as_asked) {
    observed o;
    o.group.spawn(record([&] { return sleep_for(3ms); }, o.outcome, o.done));
    o.advance(3ms - 1ns);
    BOOST_CHECK(!o.done);
    o.advance(1ns);
    BOOST_CHECK(o.done);
    BOOST_CHECK(o.outcome == std::errc{});
}

BOOST_AUTO_TEST_CASE(a_stop_ends_a_sleep_early) {
    observed o;
    stop_source stop;
    o.group.spawn(record([&] { return sleep_for(1h, stop.token()); }, o.outcome, o.done));
    o.advance(1ms);
    stop.request_stop();
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(sleeping_for_no_time_or_less_does_not_wait) {
    observed o;
    o.group.spawn(record([&] { return sleep_for(0ns); }, o.outcome, o.done));
    BOOST_CHECK(o.done);
    o.done = false;
    o.group.spawn(record([&] { return sleep_for(-1s); }, o.outcome, o.done));
    BOOST_CHECK(o.done);
}

BOOST_AUTO_TEST_CASE(sleeping_for_ever_is_possible_and_can_be_stopped) {
    observed o;
    stop_source stop;
    o.group.spawn(record([&] { return sleep_for(duration::max(), stop.token()); }, o.outcome, o.done));
    o.advance(24h * 365);
    BOOST_CHECK(!o.done);
    stop.request_stop();
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(a_sleep_that_is_destroyed_wakes_nobody) {
    observed o;
    o.group.spawn(record([&] { return sleep_for(1ms); }, o.outcome, o.done));
    o.group.destroy_all();
    BOOST_CHECK(o.loop.timers().next_expiry() == never);
    o.advance(2ms);
    BOOST_CHECK(!o.done);
}

BOOST_AUTO_TEST_CASE(those_who_yield_take_turns) {
    driven d;
    std::vector<int> order;
    corewire::task_group group{"test"};
    group.spawn(notes_turns(order, 1));
    group.spawn(notes_turns(order, 2));
    d.settle();
    BOOST_CHECK((order == std::vector{1, 2, 1, 2, 1, 2}));
}

BOOST_AUTO_TEST_CASE(maybe_yield_gives_way_once_the_turn_has_lasted_as_long_as_the_loop_allows) {
    driven d(reactor_options{.resume_time = 100us});
    int count = 0;
    task<> t = counts(count, d.clock, 1us);
    d.loop.poll_once();
    t.handle().resume();
    BOOST_CHECK_GE(count, 100);
    BOOST_CHECK_LE(count, 100 + 16);
    const int first = count;
    d.loop.poll_once();
    BOOST_CHECK_GE(count - first, 100);
    BOOST_CHECK_LE(count - first, 100 + 16);
}

BOOST_AUTO_TEST_CASE(sleep_until_complete_gives_what_the_task_gives_and_leaves_the_reactor_as_it_was) {
    const auto soon = [](int n) -> task<int> {
        co_await sleep_for(1ms);
        if (n < 0) throw std::out_of_range("negative");
        co_return n;
    };
    const auto at_once = [](int n) -> task<int> { co_return n; };
    const auto nothing = []() -> task<> { co_await sleep_for(1us); };
    reactor r;
    BOOST_TEST(sleep_until_complete(r, soon(1)) == 1);
    BOOST_TEST(sleep_until_complete(r, at_once(2)) == 2);
    BOOST_CHECK_THROW(sleep_until_complete(r, soon(-1)), std::out_of_range);
    sleep_until_complete(r, nothing());
    BOOST_TEST(sleep_until_complete(r, soon(3)) == 3);
}

BOOST_AUTO_TEST_SUITE_END()
