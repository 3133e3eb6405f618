// parallel_for_each, max_concurrent_for_each: how many at a time, in which order, and what a failure does to the rest.
#include "driven.hh"

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/for_each.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using reactor_test::driven;

namespace {

struct gauge {
    int now = 0;
    int most = 0;
    std::vector<int> started;
    std::vector<int> ended;
};
task<> works(gauge& g, int number, int yields) {
    g.started.push_back(number);
    g.most = std::max(g.most, ++g.now);
    for (int i = 0; i < yields; ++i) co_await corewire::yield();
    --g.now;
    g.ended.push_back(number);
}
task<> fails_at(gauge& g, int number, int failing) {
    co_await works(g, number, 2);
    if (number == failing) throw std::runtime_error("as agreed");
}
task<> waits(event& e, int& alive) {
    ++alive;
    struct leaving {
        int& count;
        ~leaving() { --count; }
    } const here{alive};
    co_await e.wait();
}
std::vector<int> numbers(int count) {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(for_each)

BOOST_AUTO_TEST_CASE(all_run_at_once_without_a_limit) {
    driven d;
    gauge g;
    const auto all = numbers(50);
    run_until_complete(d.loop, parallel_for_each(all, [&g](int n) { return works(g, n, 1 + n % 3); }));
    BOOST_CHECK_EQUAL(g.most, 50);
    BOOST_CHECK_EQUAL(g.now, 0);
    BOOST_CHECK(g.started == all);
}

BOOST_AUTO_TEST_CASE(no_more_than_the_limit_run_at_a_time_and_they_start_in_order) {
    driven d;
    for (const int most : {1, 3, 50, 1000}) {
        gauge g;
        const auto all = numbers(50);
        run_until_complete(
            d.loop, max_concurrent_for_each(all, static_cast<std::size_t>(most), [&g](int n) { return works(g, n, 1 + n % 4); }));
        BOOST_CHECK_EQUAL(g.most, std::min(most, 50));
        BOOST_CHECK_EQUAL(g.ended.size(), 50u);
        BOOST_CHECK(g.started == all);
    }
}

BOOST_AUTO_TEST_CASE(ready_tasks_and_empty_ranges_do_not_wait) {
    driven d;
    gauge g;
    auto done = max_concurrent_for_each(numbers(100'000), 2, [&g](int n) { return works(g, n, 0); });
    done.handle().resume();
    BOOST_CHECK(done.done());
    BOOST_CHECK_EQUAL(g.ended.size(), 100'000u);
    auto none = parallel_for_each(std::vector<int>{}, [&g](int n) { return works(g, n, 1); });
    none.handle().resume();
    BOOST_CHECK(none.done());
}

BOOST_AUTO_TEST_CASE(elements_of_an_lvalue_are_used_where_they_stand_and_those_of_a_temporary_are_kept) {
    driven d;
    std::vector<std::string> words{"one", "two"};
    const auto doubles = [](std::string& word) -> task<> {
        co_await corewire::yield();
        word += word;
    };
    run_until_complete(d.loop, parallel_for_each(words, doubles));
    BOOST_CHECK_EQUAL(words[0] + words[1], "oneonetwotwo");
    std::string seen;
    const auto appends = [](std::string& into, const std::string& word) -> task<> {
        co_await corewire::yield();
        into += word;
    };
    run_until_complete(d.loop, parallel_for_each(std::vector<std::string>{"a temporary that is kept ", "until the end"},
                                                 [&](const std::string& word) { return appends(seen, word); }));
    BOOST_CHECK_EQUAL(seen, "a temporary that is kept until the end");
}

BOOST_AUTO_TEST_CASE(after_a_failure_no_more_start_and_it_is_thrown_when_the_rest_has_ended) {
    driven d;
    gauge g;
    BOOST_CHECK_THROW(
        run_until_complete(d.loop, max_concurrent_for_each(numbers(50), 4, [&g](int n) { return fails_at(g, n, 5); })),
        std::runtime_error);
    BOOST_CHECK_EQUAL(g.now, 0);
    BOOST_CHECK_GE(g.ended.size(), 6u);
    BOOST_CHECK_LE(g.started.size(), 10u);
    BOOST_CHECK_EQUAL(g.started.size(), g.ended.size());
}

BOOST_AUTO_TEST_CASE(a_function_that_throws_before_there_is_a_task_counts_as_a_failure) {
    driven d;
    gauge g;
    const auto refuses = [&g](int n) -> task<> {
        if (n == 3) throw std::runtime_error("as agreed");
        return works(g, n, 2);
    };
    BOOST_CHECK_THROW(run_until_complete(d.loop, parallel_for_each(numbers(10), refuses)), std::runtime_error);
    BOOST_CHECK_EQUAL(g.ended.size(), 3u);
}

BOOST_AUTO_TEST_CASE(destroying_the_wait_destroys_the_tasks) {
    driven d;
    event e;
    int alive = 0;
    {
        auto all = parallel_for_each(numbers(5), [&](int) { return waits(e, alive); });
        all.handle().resume();
        BOOST_CHECK_EQUAL(alive, 5);
    }
    BOOST_CHECK_EQUAL(alive, 0);
    e.set();
    BOOST_CHECK(!d.loop.poll_once());
}

BOOST_AUTO_TEST_SUITE_END()
