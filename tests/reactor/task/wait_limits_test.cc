// Every wait ends at its deadline, at its stop token, or with what it waited for: whichever comes first, once.
#include "driven.hh"

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::observed;
using reactor_test::record;

namespace {

/// Waits for something that keeps its waiter elsewhere than on a list, and so must be told when it leaves.
struct registered_wait final : bounded_waiter {
    registered_wait(bounded_waiter*& r, const wait_limits& limits) : bounded_waiter(limits), registry(r) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        if (!arm_limits()) return false;
        registry = this;
        return true;
    }
    void await_resume() const {
        if (failure() != std::errc{}) throw std::system_error(std::make_error_code(failure()));
    }
    void abandon() noexcept override { registry = nullptr; }
    bounded_waiter*& registry;
};

} // namespace

BOOST_AUTO_TEST_SUITE(wait_limits)

BOOST_AUTO_TEST_CASE(a_stop_before_the_wait_ends_it_without_suspending) {
    observed o;
    event e;
    stop_source stop;
    stop.request_stop();
    o.group.spawn(record([&] { return e.wait({.stop = stop.token()}); }, o.outcome, o.done));
    BOOST_CHECK(o.done);
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(a_stop_during_the_wait_ends_it) {
    observed o;
    event e;
    stop_source stop;
    o.group.spawn(record([&] { return e.wait({.stop = stop.token()}); }, o.outcome, o.done));
    o.settle();
    BOOST_CHECK(!o.done);
    stop.request_stop();
    BOOST_CHECK(!o.done); // resumed by the loop, not from inside request_stop()
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
    e.set(); // it has left the event's queue
    BOOST_CHECK(!o.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(a_deadline_in_the_past_ends_the_wait_without_suspending) {
    observed o;
    event e;
    o.group.spawn(record([&] { return e.wait({.deadline = o.loop.now()}); }, o.outcome, o.done));
    BOOST_CHECK(o.done);
    BOOST_CHECK(o.outcome == std::errc::timed_out);
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_the_wait_at_its_nanosecond) {
    observed o;
    event e;
    o.group.spawn(record([&] { return e.wait({.deadline = o.loop.now() + 5ms}); }, o.outcome, o.done));
    o.advance(5ms - 1ns);
    BOOST_CHECK(!o.done);
    o.advance(1ns);
    BOOST_CHECK(o.outcome == std::errc::timed_out);
}

BOOST_AUTO_TEST_CASE(what_was_waited_for_disarms_deadline_and_stop) {
    observed o;
    event e;
    stop_source stop;
    o.group.spawn(record([&] { return e.wait({.deadline = o.loop.now() + 5ms, .stop = stop.token()}); }, o.outcome, o.done));
    e.set();
    o.settle();
    BOOST_CHECK(o.done);
    BOOST_CHECK(o.outcome == std::errc{});
    BOOST_CHECK(o.loop.timers().next_expiry() == never);
    stop.request_stop();
    BOOST_CHECK(!o.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(an_event_and_a_stop_in_the_same_turn_end_the_wait_once) {
    observed o;
    event e;
    stop_source stop;
    o.group.spawn(record([&] { return e.wait({.stop = stop.token()}); }, o.outcome, o.done));
    e.set();
    stop.request_stop();
    o.settle();
    BOOST_CHECK(o.outcome == std::errc{}); // the first counts
    BOOST_CHECK_EQUAL(o.group.size(), 0u);
}

BOOST_AUTO_TEST_CASE(destroying_a_bounded_wait_disarms_everything) {
    driven d;
    event e;
    stop_source stop;
    std::errc outcome{};
    bool done = false;
    {
        corewire::task_group group{"test"};
        group.spawn(record([&] { return e.wait({.deadline = d.loop.now() + 5ms, .stop = stop.token()}); }, outcome, done));
    }
    BOOST_CHECK(d.loop.timers().next_expiry() == never);
    stop.request_stop();
    e.set();
    d.advance(10ms);
    BOOST_CHECK(!done);
}

BOOST_AUTO_TEST_CASE(a_primitive_is_told_when_a_waiter_leaves_early) {
    observed o;
    bounded_waiter* registry = nullptr;
    stop_source stop;
    o.group.spawn(record([&] { return registered_wait(registry, {.stop = stop.token()}); }, o.outcome, o.done));
    BOOST_CHECK(registry != nullptr);
    stop.request_stop();
    BOOST_CHECK(registry == nullptr); // at once, before the coroutine is resumed
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(a_token_without_a_source_never_stops) {
    observed o;
    event e;
    o.group.spawn(record([&] { return e.wait({.stop = stop_token{}}); }, o.outcome, o.done));
    o.settle();
    BOOST_CHECK(!o.done);
}

BOOST_AUTO_TEST_SUITE_END()
