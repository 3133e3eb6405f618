// generator<T>: lazy, in step with who asks, waiting in between, and gone without a trace when dropped.
#include "waits.hh"

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/generator.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::record;

namespace {

corewire::generator<int> counts_to(int last, int& made) {
    for (int i = 1; i <= last; ++i) {
        ++made;
        co_yield int{i};
    }
}
corewire::generator<std::string> words(bool waits) {
    std::string word = "a word that is too long to be stored in place";
    co_yield word; // a copy: what the consumer does with it is its own affair
    if (waits) co_await corewire::yield();
    word += ", still whole";
    co_yield word;
    if (waits) co_await corewire::yield();
    co_yield std::move(word);
}
corewire::generator<std::unique_ptr<int>> boxes() {
    co_yield std::make_unique<int>(1);
    co_await corewire::yield();
    co_yield std::make_unique<int>(2);
}
corewire::generator<int> fails_after_one() {
    co_yield 1;
    co_await corewire::yield();
    throw std::runtime_error("as agreed");
}
corewire::generator<int> waits_for(event& e, int& alive) {
    struct resident {
        int& count;
        explicit resident(int& c) : count(c) { ++count; }
        resident(const resident&) = delete;
        ~resident() { --count; }
    } here(alive);
    co_yield 1;
    co_await e.wait();
    co_yield 2;
}
corewire::generator<int> takes_a_unit(semaphore& units) {
    const auto held = co_await units.acquire();
    co_yield static_cast<int>(held.count());
    co_yield 2;
}
corewire::generator<int> doubled(corewire::generator<int> inner) {
    while (auto* value = co_await inner.next()) co_yield *value * 2;
}

template <typename T>
task<std::vector<T>> all_of(corewire::generator<T> from) {
    std::vector<T> all;
    while (auto* value = co_await from.next()) all.push_back(std::move(*value));
    const auto* after_the_end = co_await from.next();
    if (after_the_end != nullptr) throw std::logic_error("there is more after the end");
    co_return all;
}
task<long> sum_of(corewire::generator<int> from) {
    long sum = 0;
    while (const int* value = co_await from.next()) sum += *value;
    co_return sum;
}
task<long> sum_after_waiting(event& e, corewire::generator<int> from) {
    co_await e.wait();
    auto sum = sum_of(std::move(from));
    co_return co_await sum;
}
task<> asks_once(corewire::generator<int>& from, std::vector<int>& got) {
    const int* value = co_await from.next();
    got.push_back(value != nullptr ? *value : -1);
}
task<> asks_within(corewire::generator<int>& from, wait_limits limits, std::vector<int>& got) {
    const int* value = co_await from.next(limits);
    got.push_back(value != nullptr ? *value : -1);
}
task<std::string> asks_until_it_fails() {
    auto from = fails_after_one();
    co_await from.next();
    std::string caught;
    try {
        co_await from.next();
    } catch (const std::runtime_error& e) {
        caught = e.what();
    }
    const int* after = co_await from.next();
    co_return caught + (after == nullptr ? ", then the end" : "");
}

} // namespace

BOOST_AUTO_TEST_SUITE(generator)

BOOST_AUTO_TEST_CASE(it_runs_only_when_asked_and_never_ahead) {
    driven d;
    int made = 0;
    std::vector<int> got;
    auto numbers = counts_to(3, made);
    BOOST_CHECK_EQUAL(made, 0);
    run_until_complete(d.loop, asks_once(numbers, got));
    BOOST_CHECK_EQUAL(made, 1);
    for (int i = 0; i < 4; ++i) run_until_complete(d.loop, asks_once(numbers, got));
    BOOST_CHECK_EQUAL(made, 3);
    const std::vector<int> expected{1, 2, 3, -1, -1};
    BOOST_CHECK_EQUAL_COLLECTIONS(got.begin(), got.end(), expected.begin(), expected.end());
}

BOOST_AUTO_TEST_CASE(values_arrive_in_order_whether_or_not_it_waits_in_between) {
    driven d;
    for (const bool waits : {false, true}) {
        const auto all = run_until_complete(d.loop, all_of(words(waits)));
        BOOST_REQUIRE_EQUAL(all.size(), 3u);
        BOOST_CHECK_EQUAL(all[0], "a word that is too long to be stored in place");
        BOOST_CHECK_EQUAL(all[1], "a word that is too long to be stored in place, still whole");
        BOOST_CHECK_EQUAL(all[2], all[1]);
    }
}

BOOST_AUTO_TEST_CASE(values_that_cannot_be_copied_are_moved_out) {
    driven d;
    const auto all = run_until_complete(d.loop, all_of(boxes()));
    BOOST_REQUIRE_EQUAL(all.size(), 2u);
    BOOST_CHECK_EQUAL(*all[0] + *all[1], 3);
}

BOOST_AUTO_TEST_CASE(a_million_ready_values_use_no_stack) {
    driven d;
    int made = 0;
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, sum_of(counts_to(1'000'000, made))), 500'000'500'000);
    event e;
    e.set();
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, sum_after_waiting(e, counts_to(1'000'000, made))), 500'000'500'000);
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, sum_of(doubled(counts_to(1'000'000, made)))), 1'000'001'000'000);
}

BOOST_AUTO_TEST_CASE(an_exception_of_the_body_reaches_the_one_who_asks_once_and_then_it_has_ended) {
    driven d;
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, asks_until_it_fails()), "as agreed, then the end");
}

BOOST_AUTO_TEST_CASE(dropping_it_destroys_the_body_where_it_stands) {
    driven d;
    event e;
    int alive = 0;
    std::vector<int> got;
    {
        auto numbers = waits_for(e, alive);
        run_until_complete(d.loop, asks_once(numbers, got));
        auto asking = asks_once(numbers, got);
        asking.handle().resume();
        BOOST_CHECK_EQUAL(alive, 1);
        asking = {}; // who asks goes first
    }
    BOOST_CHECK_EQUAL(alive, 0);
    e.set();
    BOOST_CHECK(!d.loop.poll_once());
    BOOST_CHECK_EQUAL(got.size(), 1u);
}

BOOST_AUTO_TEST_CASE(one_who_gives_up_asking_leaves_the_generator_usable) {
    driven d;
    event e;
    int alive = 0;
    std::vector<int> got;
    auto numbers = waits_for(e, alive);
    run_until_complete(d.loop, asks_once(numbers, got));
    std::errc outcome{};
    bool done = false;
    auto limited = record(
        [&] { return with_deadline(asks_once(numbers, got), {.deadline = d.loop.now() + 1ms}); }, outcome, done);
    limited.handle().resume();
    d.advance(1ms);
    BOOST_CHECK(outcome == std::errc::timed_out);
    e.set(); // the body gets to its next value while nobody waits for it
    d.settle();
    run_until_complete(d.loop, asks_once(numbers, got));
    BOOST_CHECK_EQUAL(got.back(), 2); // it is kept for who asks next
    run_until_complete(d.loop, asks_once(numbers, got));
    BOOST_CHECK_EQUAL(got.back(), -1);
}

struct asked_within_limits : reactor_test::observed {
    void ask(wait_limits limits) {
        done = false;
        group.spawn(record([this, limits] { return asks_within(numbers, limits, got); }, outcome, done));
    }
    wait_limits in_a_millisecond() const { return {.deadline = loop.now() + 1ms}; }
    event e;
    int alive = 0;
    std::vector<int> got;
    corewire::generator<int> numbers = waits_for(e, alive);
};

BOOST_FIXTURE_TEST_CASE(a_deadline_or_a_stop_ends_the_asking_and_the_value_is_kept_for_the_next, asked_within_limits) {
    ask({.deadline = loop.now()}); // what is ready at once needs no time
    BOOST_CHECK(done && outcome == std::errc{});
    ask(in_a_millisecond());
    advance(1ms - 1ns);
    BOOST_CHECK(!done);
    advance(1ns);
    BOOST_CHECK(done && outcome == std::errc::timed_out);
    stop_source stop;
    ask({.stop = stop.token()});
    stop.request_stop();
    settle();
    BOOST_CHECK(done && outcome == std::errc::operation_canceled);
    ask({.deadline = loop.now()});
    BOOST_CHECK(done && outcome == std::errc::timed_out);
    BOOST_CHECK_EQUAL(alive, 1);
    e.set();
    settle(); // the body yields while nobody asks
    ask({.deadline = loop.now()});
    BOOST_CHECK(done && outcome == std::errc{});
    ask(in_a_millisecond());
    const std::vector<int> expected{1, 2, -1};
    BOOST_CHECK_EQUAL_COLLECTIONS(got.begin(), got.end(), expected.begin(), expected.end());
    BOOST_CHECK(loop.timers().next_expiry() == never);
}

BOOST_FIXTURE_TEST_CASE(a_value_in_time_disarms_the_limits, asked_within_limits) {
    ask({});
    stop_source stop;
    ask({.deadline = loop.now() + 1ms, .stop = stop.token()});
    e.set();
    settle();
    BOOST_CHECK(done && outcome == std::errc{});
    BOOST_CHECK_EQUAL(got.back(), 2);
    BOOST_CHECK(loop.timers().next_expiry() == never);
    stop.request_stop();
    BOOST_CHECK(!loop.poll_once());
}

BOOST_FIXTURE_TEST_CASE(one_who_asks_within_limits_and_goes_leaves_the_generator_usable, asked_within_limits) {
    ask({});
    ask(in_a_millisecond());
    group.destroy_all();
    BOOST_CHECK(loop.timers().next_expiry() == never);
    ask(in_a_millisecond());
    e.set();
    settle();
    BOOST_CHECK(done && got.back() == 2);
}

BOOST_AUTO_TEST_CASE(one_who_goes_when_the_value_has_come_leaves_it_to_the_next) {
    driven d(reactor_options{.resume_budget = 1});
    event e;
    int alive = 0;
    std::vector<int> got;
    auto numbers = waits_for(e, alive);
    run_until_complete(d.loop, asks_once(numbers, got));
    {
        task_group group("goes");
        group.spawn(asks_within(numbers, {.deadline = d.loop.now() + 1ms}, got));
        e.set();
        d.loop.poll_once(); // the body only: who asks has been woken and not run
        group.destroy_all();
    }
    BOOST_CHECK_EQUAL(got.size(), 1u);
    run_until_complete(d.loop, asks_once(numbers, got));
    BOOST_CHECK_EQUAL(got.back(), 2);
}

BOOST_AUTO_TEST_CASE(asking_again_does_not_disturb_the_wait_of_the_body) {
    driven d;
    semaphore units(1);
    std::vector<int> got;
    auto numbers = takes_a_unit(units);
    auto held = units.try_acquire();
    BOOST_REQUIRE_EQUAL(held.count(), 1u);
    for (int i = 0; i < 2; ++i) { // two ask and give up, while the body stands in the semaphore's line
        auto asking = asks_once(numbers, got);
        asking.handle().resume();
        d.settle();
    }
    auto last = asks_once(numbers, got);
    last.handle().resume();
    d.settle();
    BOOST_CHECK(got.empty());
    BOOST_CHECK_EQUAL(units.held(), 1u);
    held.release();
    d.settle();
    BOOST_CHECK_EQUAL(got.size(), 1u);
    BOOST_CHECK_EQUAL(got.back(), 1);
    BOOST_CHECK_EQUAL(units.held(), 1u); // the body's now
}

BOOST_AUTO_TEST_CASE(asking_while_another_waits_is_a_mistake_that_aborts) {
    driven d;
    BOOST_CHECK(reactor_test::aborts([] {
        event e;
        int alive = 0;
        std::vector<int> got;
        auto numbers = waits_for(e, alive);
        auto first = asks_once(numbers, got), second = asks_once(numbers, got), third = asks_once(numbers, got);
        first.handle().resume();
        second.handle().resume();
        third.handle().resume();
    }));
}

BOOST_AUTO_TEST_SUITE_END()
