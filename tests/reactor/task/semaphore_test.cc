// semaphore: units in turn, held by guards, given back on every way out.
#include "waits.hh"

#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::attempt;
using reactor_test::driven;
using reactor_test::journal;

namespace {

using borrower = attempt<corewire::semaphore::units>;

auto acquiring(corewire::semaphore& s, std::size_t count, duration within = duration::max()) {
    return [&s, count, within](stop_token stop) {
        const time_point now = reactor::current().now();
        return s.acquire(count, {.deadline = within == duration::max() ? never : now + within, .stop = stop});
    };
}

task<> fails_while_holding(corewire::semaphore& s) {
    const auto held = co_await s.acquire(2);
    co_await corewire::yield();
    throw std::runtime_error("as agreed");
}

} // namespace

BOOST_AUTO_TEST_SUITE(semaphore)

BOOST_AUTO_TEST_CASE(free_units_are_taken_without_a_wait_and_given_back_by_the_guard) {
    driven d;
    journal log;
    corewire::semaphore s{3};
    {
        borrower a("a", log, acquiring(s, 2));
        BOOST_CHECK(a.holds());
        BOOST_CHECK_EQUAL(a.held->count(), 2u);
        BOOST_CHECK_EQUAL(s.available(), 1u);
    }
    BOOST_CHECK_EQUAL(s.available(), 3u);
}

BOOST_AUTO_TEST_CASE(those_who_wait_are_served_in_the_order_they_came_and_nobody_overtakes) {
    driven d;
    journal log;
    corewire::semaphore s{4};
    borrower a("a", log, acquiring(s, 4)), b("b", log, acquiring(s, 3)), c("c", log, acquiring(s, 1));
    a.held->release(2); // enough for c, which came after b
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a");
    BOOST_CHECK(!s.try_acquire()); // nor does one who does not wait
    a.held->release(2);
    BOOST_CHECK_EQUAL(log.text, "a"); // woken, and resumed by the loop
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b c");
    BOOST_CHECK_EQUAL(s.available(), 0u);
}

BOOST_AUTO_TEST_CASE(a_stop_ends_the_wait_and_lets_those_behind_pass) {
    driven d;
    journal log;
    corewire::semaphore s{4};
    borrower a("a", log, acquiring(s, 3)), b("b", log, acquiring(s, 2)), c("c", log, acquiring(s, 1));
    BOOST_CHECK_EQUAL(s.waiting(), 2u);
    b.stop.request_stop();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a c b!");
    BOOST_CHECK(b.error == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_the_wait_at_its_nanosecond_and_lets_those_behind_pass) {
    driven d;
    journal log;
    corewire::semaphore s{4};
    borrower a("a", log, acquiring(s, 3)), b("b", log, acquiring(s, 2, 5ms)), c("c", log, acquiring(s, 1));
    d.advance(5ms - 1ns);
    BOOST_CHECK_EQUAL(log.text, "a");
    d.advance(1ns);
    BOOST_CHECK_EQUAL(log.text, "a c b!");
    BOOST_CHECK(b.error == std::errc::timed_out);
    BOOST_CHECK_EQUAL(s.available(), 0u);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_is_destroyed_leaves_the_line_and_lets_those_behind_pass) {
    driven d;
    journal log;
    corewire::semaphore s{4};
    borrower a("a", log, acquiring(s, 3)), b("b", log, acquiring(s, 2)), c("c", log, acquiring(s, 1));
    b.destroy();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a c");
}

BOOST_AUTO_TEST_CASE(a_waiter_that_is_destroyed_after_it_was_served_gives_its_units_to_the_next) {
    driven d;
    journal log;
    corewire::semaphore s{2};
    borrower a("a", log, acquiring(s, 2)), b("b", log, acquiring(s, 2)), c("c", log, acquiring(s, 2));
    a.held->release(); // b is served, and not yet resumed
    b.destroy();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a c");
}

BOOST_AUTO_TEST_CASE(a_stop_after_it_was_served_comes_too_late) {
    driven d;
    journal log;
    corewire::semaphore s{1};
    borrower a("a", log, acquiring(s, 1)), b("b", log, acquiring(s, 1, 1ms));
    a.held->release();
    b.stop.request_stop();
    d.advance(1ms);
    BOOST_CHECK(b.holds());
}

BOOST_AUTO_TEST_CASE(asking_for_more_than_there_will_ever_be_fails_at_once) {
    driven d;
    journal log;
    corewire::semaphore s{4};
    borrower a("a", log, acquiring(s, 5));
    BOOST_CHECK(a.error == std::errc::invalid_argument);
    BOOST_CHECK(!s.try_acquire(5));
    BOOST_CHECK_EQUAL(s.available(), 4u);
}

BOOST_AUTO_TEST_CASE(destroying_it_while_units_are_out_is_a_mistake_that_aborts) {
    driven d;
    BOOST_CHECK(reactor_test::aborts([] {
        std::optional<corewire::semaphore> s(std::in_place, 1);
        const auto held = s->try_acquire();
        s.reset();
    }));
}

BOOST_AUTO_TEST_CASE(growing_serves_those_in_line_and_shrinking_waits_for_what_is_held) {
    driven d;
    journal log;
    corewire::semaphore s{2};
    borrower a("a", log, acquiring(s, 2)), b("b", log, acquiring(s, 2));
    s.resize(4);
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b");
    s.resize(2);
    BOOST_CHECK_EQUAL(s.available(), 0u);
    borrower c("c", log, acquiring(s, 1));
    a.held->release();
    d.settle();
    BOOST_CHECK(!c.holds()); // b holds all there is
    b.held->release(1);
    d.settle();
    BOOST_CHECK(c.holds());
}

BOOST_AUTO_TEST_CASE(those_in_line_for_more_than_is_left_after_shrinking_fail_and_those_behind_pass) {
    driven d;
    journal log;
    corewire::semaphore s{4};
    borrower a("a", log, acquiring(s, 1)), b("b", log, acquiring(s, 4)), c("c", log, acquiring(s, 2));
    s.resize(3);
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b! c");
    BOOST_CHECK(b.error == std::errc::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_guard_can_be_split_moved_and_given_back_in_parts) {
    driven d;
    corewire::semaphore s{5};
    auto all = s.try_acquire(5);
    auto two = all.split(2);
    BOOST_CHECK_EQUAL(all.count(), 3u);
    BOOST_CHECK_EQUAL(two.count(), 2u);
    all = std::move(two); // gives the three back
    BOOST_CHECK_EQUAL(s.available(), 3u);
    BOOST_CHECK(!two);
    all.release(1);
    BOOST_CHECK_EQUAL(s.available(), 4u);
    all.release();
    BOOST_CHECK(!all);
    BOOST_CHECK_EQUAL(s.available(), 5u);
}

BOOST_AUTO_TEST_CASE(an_exception_in_its_holder_gives_the_units_back) {
    driven d;
    corewire::semaphore s{2};
    BOOST_CHECK_THROW(run_until_complete(d.loop, fails_while_holding(s)), std::runtime_error);
    BOOST_CHECK_EQUAL(s.available(), 2u);
}

BOOST_AUTO_TEST_CASE(a_group_that_is_abandoned_at_shutdown_gives_everything_back) {
    driven d;
    journal log;
    corewire::semaphore s{1};
    {
        borrower a("a", log, acquiring(s, 1)), b("b", log, acquiring(s, 1)), c("c", log, acquiring(s, 1));
    }
    BOOST_CHECK_EQUAL(s.available(), 1u);
    BOOST_CHECK_EQUAL(s.waiting(), 0u);
    d.settle();
}

BOOST_AUTO_TEST_SUITE_END()
