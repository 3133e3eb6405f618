// event: a flag that coroutines wait for. Its limits are those of wait_limits_test.cc.
#include "driven.hh"

#include <corewire/reactor/task/event.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::observed;
using reactor_test::record;

namespace {

task<> notes_its_number(event& e, std::vector<int>& order, int number) {
    co_await e.wait();
    order.push_back(number);
}

} // namespace

BOOST_AUTO_TEST_SUITE(event)

BOOST_AUTO_TEST_CASE(an_event_wakes_all_who_wait_in_the_order_they_came) {
    driven d;
    corewire::event e;
    std::vector<int> order;
    corewire::task_group group{"test"};
    for (int i = 0; i < 5; ++i) group.spawn(notes_its_number(e, order, i));
    e.set();
    d.settle();
    const std::vector<int> expected{0, 1, 2, 3, 4};
    BOOST_CHECK_EQUAL_COLLECTIONS(order.begin(), order.end(), expected.begin(), expected.end());
}

BOOST_AUTO_TEST_CASE(it_stays_set_until_reset) {
    observed o;
    corewire::event e;
    e.set();
    o.group.spawn(record([&] { return e.wait(); }, o.outcome, o.done));
    BOOST_CHECK(o.done); // without a turn of the loop
    o.done = false;
    e.reset();
    BOOST_CHECK(!e.is_set());
    o.group.spawn(record([&] { return e.wait(); }, o.outcome, o.done));
    o.settle();
    BOOST_CHECK(!o.done);
    BOOST_CHECK_EQUAL(e.waiting(), 1u);
    e.set();
    o.settle();
    BOOST_CHECK(o.done);
}

BOOST_AUTO_TEST_CASE(a_reset_before_those_who_were_woken_run_does_not_hold_them) {
    observed o;
    corewire::event e;
    o.group.spawn(record([&] { return e.wait(); }, o.outcome, o.done));
    e.set();
    e.reset();
    o.settle();
    BOOST_CHECK(o.done);
    BOOST_CHECK(o.outcome == std::errc{});
}

BOOST_AUTO_TEST_CASE(who_waits_for_an_event_that_is_destroyed_hears_so) {
    observed o;
    std::optional<corewire::event> e(std::in_place);
    o.group.spawn(record([&] { return e->wait({.deadline = o.loop.now() + 1s}); }, o.outcome, o.done));
    e.reset();
    o.settle();
    BOOST_CHECK(o.done);
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_is_destroyed_has_left_the_line) {
    driven d;
    corewire::event e;
    std::vector<int> order;
    corewire::task_group gone{"gone"}, group{"test"};
    gone.spawn(notes_its_number(e, order, 1));
    group.spawn(notes_its_number(e, order, 2));
    gone.destroy_all();
    BOOST_CHECK_EQUAL(e.waiting(), 1u);
    e.set();
    d.settle();
    BOOST_CHECK((order == std::vector{2}));
}

BOOST_AUTO_TEST_SUITE_END()
