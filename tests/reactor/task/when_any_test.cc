// when_any: the first to end decides; the others are gone when it returns.
#include "driven.hh"

#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/when_any.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;

namespace {

task<int> after(int yields, int value) {
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    co_return value;
}
task<std::string> word_after(int yields, std::string word) {
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    co_return word;
}
task<> locks_and_waits(corewire::mutex& m, event& e) {
    const auto turn = co_await m.lock();
    co_await e.wait();
}
task<> notes_its_start(int& started) {
    ++started;
    co_return;
}
task<> fails_after(int yields) {
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    throw std::runtime_error("as agreed");
}
task<int> receives(corewire::channel<int>& c) {
    const auto value = co_await c.receive();
    co_return value.value_or(-1);
}
task<int> either_of(corewire::channel<int>& a, corewire::channel<int>& b) {
    const auto first = co_await corewire::when_any(receives(a), receives(b));
    co_return first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
}
task<int> either_of_vector(corewire::channel<int>& a, corewire::channel<int>& b) {
    std::vector<corewire::task<int>> tasks;
    tasks.push_back(receives(a));
    tasks.push_back(receives(b));
    const auto [index, value] = co_await corewire::when_any(std::move(tasks));
    co_return value;
}
task<int> either_of_nested(corewire::channel<int>& a, corewire::channel<int>& b) {
    const auto first = co_await corewire::when_any(either_of(a, a), receives(b));
    co_return first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
}
task<std::unique_ptr<int>> box(int value) { co_return std::make_unique<int>(value); }
task<bool> others_are_gone(corewire::mutex& m, event& e) {
    const auto first = co_await corewire::when_any(locks_and_waits(m, e), after(2, 0));
    co_return first.index() == 1 && !m.locked();
}

} // namespace

BOOST_AUTO_TEST_SUITE(when_any)

BOOST_AUTO_TEST_CASE(the_first_to_end_gives_its_place_and_its_result) {
    driven d;
    const auto first = run_until_complete(d.loop, corewire::when_any(after(3, 1), word_after(1, "two"), after(2, 3)));
    BOOST_REQUIRE_EQUAL(first.index(), 1u);
    BOOST_CHECK_EQUAL(std::get<1>(first), "two");
}

BOOST_AUTO_TEST_CASE(a_vector_of_tasks_gives_index_and_value) {
    driven d;
    std::vector<corewire::task<int>> tasks;
    for (int i = 0; i < 5; ++i) tasks.push_back(after(5 - i, i * 10));
    const auto [index, value] = run_until_complete(d.loop, corewire::when_any(std::move(tasks)));
    BOOST_CHECK_EQUAL(index, 4u);
    BOOST_CHECK_EQUAL(value, 40);
}

BOOST_AUTO_TEST_CASE(one_that_ends_at_once_leaves_those_behind_it_unstarted) {
    driven d;
    int started = 0;
    const auto first =
        run_until_complete(d.loop, corewire::when_any(after(1, 1), after(0, 2), notes_its_start(started)));
    BOOST_CHECK_EQUAL(first.index(), 1u);
    BOOST_CHECK_EQUAL(started, 0);
}

BOOST_AUTO_TEST_CASE(of_two_that_end_in_the_same_turn_the_first_to_end_counts) {
    driven d;
    const auto first = run_until_complete(d.loop, corewire::when_any(after(2, 1), after(2, 2)));
    BOOST_CHECK_EQUAL(first.index(), 0u);
}

BOOST_AUTO_TEST_CASE(the_others_have_let_go_of_everything_when_it_returns) {
    driven d;
    corewire::mutex m;
    event e;
    BOOST_CHECK(run_until_complete(d.loop, others_are_gone(m, e)));
    e.set();
    BOOST_CHECK(!d.loop.poll_once());
}

BOOST_AUTO_TEST_CASE(if_the_first_to_end_fails_its_exception_is_thrown) {
    driven d;
    BOOST_CHECK_THROW(run_until_complete(d.loop, corewire::when_any(after(3, 1), fails_after(1))), std::runtime_error);
    const auto first = run_until_complete(d.loop, corewire::when_any(after(1, 1), fails_after(3)));
    BOOST_CHECK_EQUAL(first.index(), 0u);
}

BOOST_AUTO_TEST_CASE(results_are_moved_out) {
    driven d;
    auto first = run_until_complete(d.loop, corewire::when_any(box(3), box(4)));
    BOOST_CHECK_EQUAL(*std::get<0>(first), 3);
}

BOOST_AUTO_TEST_CASE(of_two_that_have_a_value_to_take_in_the_same_turn_one_takes_it) {
    for (const auto first : {either_of, either_of_vector, either_of_nested}) {
        driven d;
        corewire::channel<int> a(1), b(1);
        auto work = first(a, b);
        work.handle().resume();
        BOOST_CHECK(a.try_send(1) && b.try_send(2));
        d.settle();
        BOOST_REQUIRE(work.done());
        BOOST_CHECK_EQUAL(work.handle().promise().take(), 1);
        BOOST_CHECK_EQUAL(b.try_receive().value_or(0), 2);
        BOOST_CHECK_EQUAL(b.receivers_waiting(), 0u);
    }
}

BOOST_AUTO_TEST_CASE(destroying_the_wait_destroys_the_tasks) {
    driven d;
    corewire::mutex m;
    event e;
    {
        auto any = corewire::when_any(locks_and_waits(m, e), locks_and_waits(m, e));
        any.handle().resume();
        BOOST_CHECK(m.locked());
        BOOST_CHECK_EQUAL(m.waiting(), 1u);
    }
    BOOST_CHECK(!m.locked());
    e.set();
    BOOST_CHECK(!d.loop.poll_once());
}

BOOST_AUTO_TEST_SUITE_END()
