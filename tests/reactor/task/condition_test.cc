// condition: notified one by one in turn, or all at once; a notification is never lost on one who is gone.
#include "waits.hh"

#include <corewire/reactor/task/condition.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::attempt;
using reactor_test::driven;
using reactor_test::journal;

namespace {

struct told {};
using listener = attempt<told>;

task<told> wait_once(corewire::condition& c, wait_limits limits) {
    co_await c.wait(limits);
    co_return told{};
}
task<told> wait_for_three(corewire::condition& c, const int& value, wait_limits limits) {
    co_await c.wait_until([&value] { return value >= 3; }, limits);
    co_return told{};
}
auto waiting(corewire::condition& c, duration within = duration::max()) {
    return [&c, within](stop_token stop) {
        return wait_once(c, {.deadline = within == duration::max() ? never : reactor::current().now() + within, .stop = stop});
    };
}

} // namespace

BOOST_AUTO_TEST_SUITE(condition)

BOOST_AUTO_TEST_CASE(notify_one_wakes_the_one_who_has_waited_longest) {
    driven d;
    journal log;
    corewire::condition c;
    listener a("a", log, waiting(c)), b("b", log, waiting(c)), e("e", log, waiting(c));
    c.notify_one();
    BOOST_CHECK_EQUAL(log.text, ""); // woken, and resumed by the loop
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a");
    c.notify_all();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b e");
}

BOOST_AUTO_TEST_CASE(a_notification_that_nobody_waits_for_is_gone) {
    driven d;
    journal log;
    corewire::condition c;
    c.notify_one();
    c.notify_all();
    listener a("a", log, waiting(c));
    d.settle();
    BOOST_CHECK(!a.holds());
}

BOOST_AUTO_TEST_CASE(wait_until_looks_first_and_after_each_notification) {
    driven d;
    journal log;
    corewire::condition c;
    int value = 0;
    listener a("a", log, [&](stop_token stop) { return wait_for_three(c, value, {.stop = stop}); });
    value = 2;
    c.notify_all();
    d.settle();
    BOOST_CHECK(!a.holds());
    value = 3;
    d.settle();
    BOOST_CHECK(!a.holds()); // nobody told it
    c.notify_all();
    d.settle();
    BOOST_CHECK(a.holds());
    listener b("b", log, [&](stop_token stop) { return wait_for_three(c, value, {.stop = stop}); });
    BOOST_CHECK(b.holds()); // true already
}

BOOST_AUTO_TEST_CASE(a_stop_a_deadline_and_destruction_leave_the_line) {
    driven d;
    journal log;
    corewire::condition c;
    listener a("a", log, waiting(c)), b("b", log, waiting(c, 1ms)), e("e", log, waiting(c)), f("f", log, waiting(c));
    a.stop.request_stop();
    e.destroy();
    d.advance(1ms - 1ns);
    BOOST_CHECK_EQUAL(log.text, "a!");
    d.advance(1ns);
    BOOST_CHECK_EQUAL(log.text, "a! b!");
    BOOST_CHECK(a.error == std::errc::operation_canceled);
    BOOST_CHECK(b.error == std::errc::timed_out);
    c.notify_one();
    d.settle();
    BOOST_CHECK(f.holds());
}

BOOST_AUTO_TEST_CASE(the_deadline_of_wait_until_counts_for_all_its_looks_together) {
    driven d;
    journal log;
    corewire::condition c;
    int value = 0;
    const time_point end = d.loop.now() + 3ms;
    listener a("a", log, [&](stop_token stop) { return wait_for_three(c, value, {.deadline = end, .stop = stop}); });
    for (int i = 0; i < 2; ++i) {
        d.advance(1ms);
        c.notify_all();
        d.settle();
    }
    BOOST_CHECK(a.error == std::errc{});
    d.advance(1ms);
    BOOST_CHECK(a.error == std::errc::timed_out);
}

BOOST_AUTO_TEST_CASE(the_notification_of_one_that_is_destroyed_before_it_runs_goes_to_the_next) {
    driven d;
    journal log;
    corewire::condition c;
    listener a("a", log, waiting(c)), b("b", log, waiting(c));
    c.notify_one();
    a.destroy();
    d.settle();
    BOOST_CHECK(b.holds());
}

BOOST_AUTO_TEST_CASE(a_condition_may_go_as_soon_as_it_has_notified) {
    driven d;
    journal log;
    auto c = std::make_unique<corewire::condition>();
    listener a("a", log, waiting(*c)), b("b", log, waiting(*c));
    c->notify_one();
    c->notify_one();
    c.reset();
    b.destroy();
    d.settle();
    BOOST_CHECK(a.holds());
}

BOOST_AUTO_TEST_CASE(destroying_it_cancels_those_in_line) {
    driven d;
    journal log;
    auto c = std::make_unique<corewire::condition>();
    listener a("a", log, waiting(*c)), b("b", log, waiting(*c, 1ms));
    c.reset();
    d.advance(2ms);
    BOOST_CHECK_EQUAL(log.text, "a! b!");
    BOOST_CHECK(a.error == std::errc::operation_canceled);
    BOOST_CHECK(b.error == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_SUITE_END()
