// task<T>: laziness, values, exceptions, ownership, and that loops over ready children use no stack.
#include "driven.hh"

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task.hh>

#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
#include <vector>

using namespace corewire;
using reactor_test::driven;

namespace {

task<int> answer(int& started) {
    ++started;
    co_return 42;
}
task<std::unique_ptr<int>> boxed(int value) { co_return std::make_unique<int>(value); }
task<> fails(bool waits_first) {
    if (waits_first) co_await corewire::yield();
    throw std::runtime_error("as agreed");
}
task<int> waits_for(event& e, int value) {
    co_await e.wait();
    co_return value;
}
task<int> adds_one(task<int> inner) {
    const int value = co_await inner;
    co_return value + 1;
}
task<int> nested(event& e, int depth) {
    if (depth == 0) co_return co_await waits_for(e, 0);
    co_return co_await nested(e, depth - 1) + 1;
}
task<long> sum_of_ready(int rounds) {
    long sum = 0;
    int started = 0;
    for (int i = 0; i < rounds; ++i) sum += co_await answer(started);
    co_return sum;
}
task<long> sum_after_waiting(event& e, int rounds) {
    co_await waits_for(e, 0); // from here on this frame runs below another's final suspend
    co_return co_await sum_of_ready(rounds);
}

/// Says in `alive` whether a frame that holds it still exists.
struct resident {
    explicit resident(int& count) : alive(count) { ++alive; }
    resident(const resident&) = delete;
    ~resident() { --alive; }
    int& alive;
};
task<> inhabited(event& e, int& alive) {
    const resident here(alive);
    co_await e.wait();
}
task<> awaits(task<> inner) { co_await inner; }

task<> lives_for(int waits, std::unique_ptr<resident> argument, int& finished) {
    const resident local(argument->alive);
    for (int i = 0; i < waits; ++i) co_await corewire::yield();
    ++finished;
}
/// True if the child's frame was gone as soon as the child was done.
task<bool> outlives(int waits, int& alive, int& finished) {
    corewire::task<> child = lives_for(waits, std::make_unique<resident>(alive), finished);
    co_await child;
    co_return !child && alive == 0;
}

} // namespace

BOOST_AUTO_TEST_SUITE(task)

BOOST_AUTO_TEST_CASE(nothing_runs_before_the_await) {
    driven d;
    int started = 0;
    corewire::task<int> t = answer(started);
    BOOST_CHECK_EQUAL(started, 0);
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, std::move(t)), 42);
    BOOST_CHECK_EQUAL(started, 1);
}

BOOST_AUTO_TEST_CASE(a_task_that_is_never_awaited_never_runs) {
    driven d;
    int started = 0;
    { const corewire::task<int> dropped = answer(started); }
    BOOST_CHECK_EQUAL(started, 0);
}

BOOST_AUTO_TEST_CASE(results_are_moved_out) {
    driven d;
    const std::unique_ptr<int> p = run_until_complete(d.loop, boxed(7));
    BOOST_CHECK_EQUAL(*p, 7);
}

BOOST_AUTO_TEST_CASE(exceptions_reach_the_one_who_awaits) {
    driven d;
    BOOST_CHECK_THROW(run_until_complete(d.loop, awaits(fails(false))), std::runtime_error);
    BOOST_CHECK_THROW(run_until_complete(d.loop, awaits(fails(true))), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(a_child_without_result_that_never_waits_takes_its_frame_with_it) {
    driven d;
    int alive = 0, finished = 0;
    BOOST_CHECK(run_until_complete(d.loop, outlives(0, alive, finished)));
    BOOST_CHECK(!run_until_complete(d.loop, outlives(2, alive, finished))); // its frame goes with the task object
    BOOST_CHECK_EQUAL(alive, 0);
    BOOST_CHECK_EQUAL(finished, 2);
}

BOOST_AUTO_TEST_CASE(a_child_that_fails_at_once_leaves_its_failure_and_its_frame) {
    driven d;
    for (int i = 0; i < 100; ++i) BOOST_CHECK_THROW(run_until_complete(d.loop, awaits(awaits(fails(false)))), std::runtime_error);
    const std::uint64_t before = d.loop.frames().frames_held();
    for (int i = 0; i < 100; ++i) BOOST_CHECK_THROW(run_until_complete(d.loop, awaits(awaits(fails(i % 2 == 0)))), std::runtime_error);
    BOOST_CHECK_EQUAL(d.loop.frames().frames_held(), before); // none is lost
}

BOOST_AUTO_TEST_CASE(a_child_that_waits_resumes_its_parent_when_it_is_done) {
    driven d;
    event e;
    corewire::task<int> t = adds_one(waits_for(e, 1));
    t.handle().resume();
    d.settle();
    BOOST_CHECK(!t.done());
    e.set();
    BOOST_CHECK(!t.done()); // woken, and not yet resumed
    d.settle();
    BOOST_CHECK(t.done());
    BOOST_CHECK_EQUAL(t.handle().promise().take(), 2);
}

BOOST_AUTO_TEST_CASE(a_chain_of_parents_is_resumed_from_the_inside_out) {
    driven d;
    event e;
    corewire::task<int> t = nested(e, 100);
    t.handle().resume();
    e.set();
    d.settle();
    BOOST_REQUIRE(t.done());
    BOOST_CHECK_EQUAL(t.handle().promise().take(), 100);
}

BOOST_AUTO_TEST_CASE(a_million_ready_children_use_no_stack) {
    driven d;
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, sum_of_ready(1'000'000)), 42'000'000);
}

BOOST_AUTO_TEST_CASE(a_million_ready_children_use_no_stack_after_a_wait_either) {
    driven d;
    event e;
    corewire::task<long> t = sum_after_waiting(e, 1'000'000);
    t.handle().resume();
    e.set();
    d.settle();
    BOOST_REQUIRE(t.done());
    BOOST_CHECK_EQUAL(t.handle().promise().take(), 42'000'000);
}

BOOST_AUTO_TEST_CASE(destroying_a_waiting_task_destroys_its_children_and_leaves_the_queue) {
    driven d;
    event e;
    int alive = 0;
    {
        corewire::task<> t = awaits(inhabited(e, alive));
        t.handle().resume();
        BOOST_CHECK_EQUAL(alive, 1);
    }
    BOOST_CHECK_EQUAL(alive, 0);
    e.set(); // nobody is there any more
    d.settle();
}

BOOST_AUTO_TEST_CASE(destroying_a_task_that_was_woken_and_not_resumed_leaves_the_run_queue) {
    driven d;
    event e;
    int alive = 0;
    {
        corewire::task<> t = inhabited(e, alive);
        t.handle().resume();
        e.set();
    }
    BOOST_CHECK_EQUAL(alive, 0);
    BOOST_CHECK(!d.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(a_moved_task_leaves_an_empty_one_behind) {
    driven d;
    int started = 0;
    corewire::task<int> a = answer(started);
    corewire::task<int> b = std::move(a);
    BOOST_CHECK(!a);
    BOOST_CHECK(b);
    b = answer(started); // the first is destroyed unstarted
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, std::move(b)), 42);
    BOOST_CHECK_EQUAL(started, 1);
}

BOOST_AUTO_TEST_SUITE_END()
