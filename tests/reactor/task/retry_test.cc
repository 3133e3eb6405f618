// retry and back_off: how often, how long in between, and what ends it. In virtual time, from a seed.
#include "driven.hh"

#include <corewire/reactor/task/retry.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <system_error>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;
using reactor_test::record;

namespace {

task<int> works_at(int attempt, int& attempts) {
    ++attempts;
    if (attempts < attempt) throw std::system_error(std::make_error_code(std::errc::connection_refused));
    co_return 42;
}
task<> refuses(std::errc why, int& attempts) {
    ++attempts;
    throw std::system_error(std::make_error_code(why));
    co_return;
}
task<> breaks(int& attempts) {
    ++attempts;
    throw std::logic_error("as agreed");
    co_return;
}
task<> hangs(int& attempts, bool& alive) {
    ++attempts;
    struct resident {
        bool& here;
        explicit resident(bool& h) : here(h) { here = true; }
        resident(const resident&) = delete;
        ~resident() { here = false; }
    } inside(alive);
    co_await sleep_for(1h);
}
task<> keeps(task<int> work, int& result) { result = co_await work; }

const retry_policy exact{.attempts = 5, .first = 10ms, .longest = 35ms, .jitter = 0};

struct observed : driven {
    std::errc outcome{std::errc::io_error};
    bool done = false;
    int attempts = 0;
    corewire::task_group group{"test"};
};

} // namespace

BOOST_AUTO_TEST_SUITE(retry)

BOOST_AUTO_TEST_CASE(pauses_grow_by_the_factor_up_to_the_longest) {
    back_off pauses(exact);
    for (const auto expected : {10ms, 20ms, 35ms, 35ms}) BOOST_CHECK(pauses.next() == expected);
    pauses.reset();
    BOOST_CHECK(pauses.next() == 10ms);
}

BOOST_AUTO_TEST_CASE(jitter_draws_from_its_part_of_the_pause_and_repeats_from_a_seed) {
    retry_policy half{.first = 100ms, .longest = 100ms, .jitter = 0.5, .seed = 7};
    back_off pauses(half), again(half);
    duration least = duration::max(), most{};
    for (int i = 0; i < 1000; ++i) {
        const duration pause = pauses.next();
        BOOST_CHECK(pause == again.next());
        least = std::min(least, pause);
        most = std::max(most, pause);
    }
    BOOST_CHECK(least >= 50ms && least < 51ms);
    BOOST_CHECK(most <= 100ms && most > 99ms);
    half.seed = 8;
    back_off other(half);
    BOOST_CHECK(back_off(retry_policy{.jitter = 1, .seed = 7}).next() != other.next());
}

BOOST_AUTO_TEST_CASE(success_at_once_pauses_nowhere) {
    observed o;
    int result = 0;
    o.group.spawn(record([&] { return keeps(corewire::retry(exact, [&] { return works_at(1, o.attempts); }), result); },
                         o.outcome, o.done));
    BOOST_CHECK(o.done);
    BOOST_CHECK_EQUAL(result, 42);
}

BOOST_AUTO_TEST_CASE(it_tries_again_after_each_pause_until_it_works) {
    observed o;
    int result = 0;
    o.group.spawn(record([&] { return keeps(corewire::retry(exact, [&] { return works_at(3, o.attempts); }), result); },
                         o.outcome, o.done));
    o.advance(10ms - 1ns);
    BOOST_CHECK_EQUAL(o.attempts, 1);
    o.advance(1ns);
    BOOST_CHECK_EQUAL(o.attempts, 2);
    o.advance(20ms - 1ns);
    BOOST_CHECK_EQUAL(o.attempts, 2);
    o.advance(1ns);
    BOOST_CHECK_EQUAL(result, 42);
}

BOOST_AUTO_TEST_CASE(when_the_attempts_are_used_up_the_last_failure_is_thrown) {
    observed o;
    o.group.spawn(record([&] { return corewire::retry(exact, [&] { return refuses(std::errc::connection_refused, o.attempts); }); },
                         o.outcome, o.done));
    o.advance(10ms);
    o.advance(20ms);
    o.advance(35ms);
    BOOST_CHECK(!o.done);
    o.advance(35ms);
    BOOST_CHECK(o.done);
    BOOST_CHECK_EQUAL(o.attempts, 5);
    BOOST_CHECK(o.outcome == std::errc::connection_refused);
}

BOOST_AUTO_TEST_CASE(a_stop_ends_a_pause) {
    observed o;
    stop_source stop;
    o.group.spawn(record(
        [&] {
            return corewire::retry(exact, [&] { return refuses(std::errc::timed_out, o.attempts); }, {.stop = stop.token()});
        },
        o.outcome, o.done));
    stop.request_stop();
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
    BOOST_CHECK_EQUAL(o.attempts, 1);
}

BOOST_AUTO_TEST_CASE(a_pause_that_would_end_after_the_deadline_is_not_begun) {
    observed o;
    o.group.spawn(record(
        [&] {
            return corewire::retry(exact, [&] { return refuses(std::errc::connection_refused, o.attempts); },
                                   {.deadline = o.loop.now() + 25ms});
        },
        o.outcome, o.done));
    o.advance(10ms);
    BOOST_CHECK_EQUAL(o.attempts, 2);
    BOOST_CHECK(o.outcome == std::errc::connection_refused); // 15 ms before the deadline, and the next pause is 20 ms
}

BOOST_AUTO_TEST_CASE(an_attempt_that_hangs_is_ended_by_the_deadline_or_a_stop) {
    for (const bool by_stop : {false, true}) {
        observed o;
        stop_source stop;
        bool alive = false;
        o.group.spawn(record(
            [&] {
                return corewire::retry(exact, [&] { return hangs(o.attempts, alive); },
                                       {.deadline = o.loop.now() + 25ms, .stop = stop.token()});
            },
            o.outcome, o.done));
        o.advance(25ms - 1ns);
        BOOST_CHECK(!o.done && alive);
        if (by_stop) stop.request_stop();
        o.advance(1ns);
        BOOST_CHECK(o.outcome == (by_stop ? std::errc::operation_canceled : std::errc::timed_out));
        BOOST_CHECK(o.done && !alive);
        BOOST_CHECK_EQUAL(o.attempts, 1);
        BOOST_CHECK(o.loop.timers().next_expiry() == never);
    }
}

BOOST_AUTO_TEST_CASE(what_ends_by_the_limits_is_not_tried_again_whatever_the_caller_says) {
    observed o;
    stop_source stop;
    bool alive = false;
    const auto always = [](const std::exception_ptr&) { return true; };
    o.group.spawn(record(
        [&] { return corewire::retry(exact, [&] { return hangs(o.attempts, alive); }, {.stop = stop.token()}, always); },
        o.outcome, o.done));
    stop.request_stop();
    o.settle();
    BOOST_CHECK(o.outcome == std::errc::operation_canceled);
    BOOST_CHECK_EQUAL(o.attempts, 1);
}

BOOST_AUTO_TEST_CASE(mistakes_and_cancellation_are_not_tried_again) {
    observed o;
    auto broken = corewire::retry(exact, [&] { return breaks(o.attempts); });
    broken.handle().resume();
    BOOST_REQUIRE(broken.done());
    BOOST_CHECK_THROW(broken.handle().promise().take(), std::logic_error);
    o.group.spawn(record([&] { return corewire::retry(exact, [&] { return refuses(std::errc::operation_canceled, o.attempts); }); },
                         o.outcome, o.done));
    BOOST_CHECK(o.done);
    BOOST_CHECK_EQUAL(o.attempts, 2);
}

BOOST_AUTO_TEST_CASE(the_caller_may_say_what_is_tried_again) {
    observed o;
    const auto always = [](const std::exception_ptr&) { return true; };
    auto broken = corewire::retry(exact, [&] { return breaks(o.attempts); }, {}, always);
    broken.handle().resume();
    for (int i = 0; i < 4; ++i) o.advance(35ms);
    BOOST_CHECK(broken.done());
    BOOST_CHECK_EQUAL(o.attempts, 5);
}

BOOST_AUTO_TEST_CASE(dropping_it_during_a_pause_leaves_nothing_behind) {
    observed o;
    {
        auto dropped = corewire::retry(exact, [&] { return refuses(std::errc::timed_out, o.attempts); });
        dropped.handle().resume();
        BOOST_CHECK(o.loop.timers().next_expiry() != never);
    }
    BOOST_CHECK(o.loop.timers().next_expiry() == never);
}

BOOST_AUTO_TEST_SUITE_END()
