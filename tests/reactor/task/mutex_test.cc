// mutex: one at a time, in turn.
#include "waits.hh"

#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/when_all.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::attempt;
using reactor_test::driven;
using reactor_test::journal;

namespace {

using locker = attempt<corewire::mutex::guard>;

auto locking(corewire::mutex& m, duration within = duration::max()) {
    return [&m, within](stop_token stop) {
        const time_point now = reactor::current().now();
        return m.lock({.deadline = within == duration::max() ? never : now + within, .stop = stop});
    };
}

/// Reads, gives way, writes: loses updates unless it is alone.
task<> adds_one(corewire::mutex& m, int& value) {
    const auto turn = co_await m.lock();
    const int seen = value;
    co_await corewire::yield();
    value = seen + 1;
}
task<> fails_while_locked(corewire::mutex& m) {
    const auto turn = co_await m.lock();
    co_await corewire::yield();
    throw std::runtime_error("as agreed");
}

} // namespace

BOOST_AUTO_TEST_SUITE(mutex)

BOOST_AUTO_TEST_CASE(a_stretch_with_waits_inside_is_alone) {
    driven d;
    corewire::mutex m;
    int value = 0;
    std::vector<corewire::task<>> tasks;
    for (int i = 0; i < 20; ++i) tasks.push_back(adds_one(m, value));
    run_until_complete(d.loop, corewire::when_all(std::move(tasks)));
    BOOST_CHECK_EQUAL(value, 20);
    BOOST_CHECK(!m.locked());
}

BOOST_AUTO_TEST_CASE(unlocking_hands_it_to_the_one_who_has_waited_longest) {
    driven d;
    journal log;
    corewire::mutex m;
    locker a("a", log, locking(m)), b("b", log, locking(m)), c("c", log, locking(m));
    a.held->unlock();
    BOOST_CHECK(m.locked());     // already b's
    BOOST_CHECK(!m.try_lock());
    BOOST_CHECK_EQUAL(log.text, "a"); // woken, and resumed by the loop
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b");
    b.held->unlock();
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b c");
    c.held->unlock();
    BOOST_CHECK(!m.locked());
    BOOST_CHECK(m.try_lock());
    BOOST_CHECK(!m.locked());
}

BOOST_AUTO_TEST_CASE(a_stop_a_deadline_and_destruction_leave_the_line) {
    driven d;
    journal log;
    corewire::mutex m;
    locker a("a", log, locking(m)), b("b", log, locking(m)), c("c", log, locking(m, 2ms)), e("e", log, locking(m)),
        f("f", log, locking(m));
    b.stop.request_stop();
    e.destroy();
    d.advance(2ms - 1ns);
    BOOST_CHECK_EQUAL(log.text, "a b!");
    d.advance(1ns);
    BOOST_CHECK_EQUAL(log.text, "a b! c!");
    BOOST_CHECK(b.error == std::errc::operation_canceled);
    BOOST_CHECK(c.error == std::errc::timed_out);
    BOOST_CHECK_EQUAL(m.waiting(), 1u);
    a.held.reset();
    d.settle();
    BOOST_CHECK(f.holds());
}

BOOST_AUTO_TEST_CASE(one_that_is_destroyed_after_it_was_handed_the_lock_passes_it_on) {
    driven d;
    journal log;
    corewire::mutex m;
    locker a("a", log, locking(m)), b("b", log, locking(m)), c("c", log, locking(m));
    a.held->unlock();
    b.destroy();
    d.settle();
    BOOST_CHECK(c.holds());
    c.destroy();
    c.held.reset();
    BOOST_CHECK(!m.locked());
}

BOOST_AUTO_TEST_CASE(an_exception_in_its_holder_unlocks) {
    driven d;
    corewire::mutex m;
    BOOST_CHECK_THROW(run_until_complete(d.loop, fails_while_locked(m)), std::runtime_error);
    BOOST_CHECK(!m.locked());
}

BOOST_AUTO_TEST_CASE(destroying_it_while_it_is_locked_is_a_mistake_that_aborts) {
    driven d;
    BOOST_CHECK(reactor_test::aborts([] {
        std::optional<corewire::mutex> m(std::in_place);
        const auto turn = m->try_lock();
        m.reset();
    }));
}

BOOST_AUTO_TEST_SUITE_END()
