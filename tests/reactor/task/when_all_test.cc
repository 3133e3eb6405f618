// when_all: all at once, all results, the first failure after the last has ended.
#include "driven.hh"

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/when_all.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using reactor_test::driven;

namespace {

task<int> after(int yields, int value) {
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    co_return value;
}
task<std::string> word(std::string w) { co_return w; }
task<> fails_after(int yields, const char* why) {
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    throw std::runtime_error(why);
}
task<> finishes_after(int yields, bool& finished) {
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    finished = true;
}
task<> waits(event& e) { co_await e.wait(); }

} // namespace

BOOST_AUTO_TEST_SUITE(when_all)

BOOST_AUTO_TEST_CASE(results_come_in_the_order_of_the_arguments) {
    driven d;
    const auto [a, b, c] = run_until_complete(d.loop, corewire::when_all(after(3, 1), word("two"), after(0, 3)));
    BOOST_CHECK_EQUAL(a, 1);
    BOOST_CHECK_EQUAL(b, "two");
    BOOST_CHECK_EQUAL(c, 3);
}

BOOST_AUTO_TEST_CASE(a_vector_of_tasks_gives_a_vector_of_results) {
    driven d;
    std::vector<corewire::task<int>> tasks;
    for (int i = 0; i < 20; ++i) tasks.push_back(after(20 - i, i));
    const std::vector<int> results = run_until_complete(d.loop, corewire::when_all(std::move(tasks)));
    BOOST_REQUIRE_EQUAL(results.size(), 20u);
    for (int i = 0; i < 20; ++i) BOOST_CHECK_EQUAL(results[static_cast<std::size_t>(i)], i);
}

BOOST_AUTO_TEST_CASE(none_at_all_is_ready_at_once) {
    driven d;
    run_until_complete(d.loop, corewire::when_all(std::vector<corewire::task<>>{}));
}

BOOST_AUTO_TEST_CASE(the_first_failing_argument_is_thrown_after_all_have_ended) {
    driven d;
    bool finished = false;
    std::vector<corewire::task<>> tasks;
    tasks.push_back(fails_after(2, "second to fail, first in order"));
    tasks.push_back(fails_after(0, "first to fail"));
    tasks.push_back(finishes_after(5, finished));
    try {
        run_until_complete(d.loop, corewire::when_all(std::move(tasks)));
        BOOST_FAIL("no exception");
    } catch (const std::runtime_error& e) {
        BOOST_CHECK_EQUAL(e.what(), "second to fail, first in order");
    }
    BOOST_CHECK(finished);
}

BOOST_AUTO_TEST_CASE(destroying_the_wait_destroys_the_tasks) {
    driven d;
    event e;
    {
        std::vector<corewire::task<>> tasks;
        tasks.push_back(waits(e));
        tasks.push_back(waits(e));
        corewire::task<> all = corewire::when_all(std::move(tasks));
        all.handle().resume();
    }
    e.set();
    BOOST_CHECK(!d.loop.poll_once());
}

BOOST_AUTO_TEST_SUITE_END()
