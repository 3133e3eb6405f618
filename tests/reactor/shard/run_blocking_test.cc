// Calls that block, on helper threads: results, errors, limits, cancellation, shutdown.
// ctest: timeout=120 processors=2
#include "some_shards.hh"

#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/task_group.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::shards;

namespace {

std::atomic<bool> go; ///< what the helpers of a test wait for
std::atomic<int> begun, ran;
void block() {
    ++begun;
    while (!go) std::this_thread::sleep_for(1ms);
    ++ran;
}
void start_over() {
    go = false;
    begun = ran = 0;
}

runtime_options with_pool(unsigned count, blocking_options pool) {
    runtime_options options = shards(count);
    options.blocking = pool;
    return options;
}

task<> blocks(wait_limits limits, std::errc& outcome) {
    try {
        co_await corewire::run_blocking(&block, limits);
        outcome = std::errc{};
    } catch (const std::system_error& e) {
        outcome = static_cast<std::errc>(e.code().value());
    }
}
task<> until(const std::atomic<int>& n, int at_least) {
    while (n < at_least) co_await sleep_for(1ms);
}

} // namespace

BOOST_AUTO_TEST_SUITE(run_blocking)

BOOST_AUTO_TEST_CASE(results_and_exceptions_come_back_to_the_shard_that_asked) {
    corewire::runtime r(shards(2));
    static std::atomic<int> right;
    right = 0;
    r.run([]() -> task<> {
        const unsigned me = this_shard::id();
        const auto shard_thread = std::this_thread::get_id();
        const bool elsewhere = co_await corewire::run_blocking(
            [shard_thread] { return std::this_thread::get_id() != shard_thread && reactor::current_or_null() == nullptr; });
        right += elsewhere && this_shard::id() == me && std::this_thread::get_id() == shard_thread;
        auto owning = corewire::run_blocking([text = std::string(100, 'x')] { return std::make_unique<std::string>(text); });
        const std::unique_ptr<std::string> got = co_await owning;
        right += got->size() == 100;
        try {
            co_await corewire::run_blocking([]() -> int { throw std::runtime_error("as asked"); });
        } catch (const std::runtime_error&) {
            ++right;
        }
    });
    BOOST_TEST(right == 6);
}

BOOST_AUTO_TEST_CASE(the_shard_goes_on_while_a_helper_blocks) {
    corewire::runtime r(shards(1));
    static std::uint64_t turns;
    start_over();
    r.run([]() -> task<> {
        std::errc outcome = std::errc::io_error;
        task_group calls{"calls"};
        calls.spawn(blocks({}, outcome));
        co_await until(begun, 1);
        const std::uint64_t before = reactor::current().turns();
        co_await sleep_for(5ms);
        turns = reactor::current().turns() - before;
        go = true;
        co_await calls.join();
        BOOST_CHECK(outcome == std::errc{});
    });
    BOOST_TEST(turns >= 1u);
}

BOOST_AUTO_TEST_CASE(threads_and_queue_are_limited_and_what_does_not_fit_is_refused) {
    corewire::runtime r(with_pool(1, {.threads = 2, .queue = 3}));
    start_over();
    r.run([]() -> task<> {
        blocking_pool& pool = corewire::runtime::current().blocking();
        std::errc outcome[6];
        task_group calls{"calls"};
        for (int i = 0; i < 2; ++i) calls.spawn(blocks({}, outcome[i]));
        co_await until(begun, 2);
        for (int i = 2; i < 5; ++i) calls.spawn(blocks({}, outcome[i]));
        outcome[5] = {};
        co_await blocks({}, outcome[5]);
        BOOST_CHECK(outcome[5] == std::errc::resource_unavailable_try_again);
        BOOST_TEST(pool.statistics().refused == 1u);
        BOOST_TEST(pool.statistics().threads == 2u);
        BOOST_TEST(begun == 2);
        go = true;
        co_await calls.join();
        for (int i = 0; i < 5; ++i) BOOST_CHECK(outcome[i] == std::errc{});
        BOOST_TEST(ran == 5);
        BOOST_TEST(pool.statistics().begun == 5u);
    });
}

BOOST_AUTO_TEST_CASE(a_call_that_is_given_up_in_the_queue_never_begins_and_one_that_has_begun_runs_on) {
    corewire::runtime r(with_pool(1, {.threads = 1}));
    start_over();
    r.run([]() -> task<> {
        std::errc running{}, queued{}, stopped{};
        stop_source stop;
        task_group calls{"calls"};
        calls.spawn(blocks({.stop = stop.token()}, running));
        co_await until(begun, 1);
        calls.spawn(blocks({.deadline = reactor::current().now() + 5ms}, queued));
        calls.spawn(blocks({.stop = stop.token()}, stopped));
        while (queued == std::errc{}) co_await sleep_for(1ms);
        stop.request_stop();
        co_await calls.join(); // though the first one still blocks
        BOOST_CHECK(running == std::errc::operation_canceled);
        BOOST_CHECK(queued == std::errc::timed_out);
        BOOST_CHECK(stopped == std::errc::operation_canceled);
        BOOST_TEST(corewire::runtime::current().blocking().statistics().withdrawn == 2u);
        go = true;
        co_await until(ran, 1);
        co_await corewire::run_blocking([] {}); // the helper is there for the next one
    });
    BOOST_TEST(begun == 1);
}

/// What a call that is given up owns goes with it, another call included.
BOOST_AUTO_TEST_CASE(a_call_that_owns_another_is_given_up_in_the_queue) {
    corewire::runtime r(with_pool(1, {.threads = 1}));
    start_over();
    r.run([]() -> task<> {
        std::errc running{}, within{}, around{};
        task_group calls{"calls"};
        calls.spawn(blocks({}, running));
        co_await until(begun, 1);
        auto inner = std::make_shared<task_group>("inner");
        inner->spawn(blocks({}, within));
        struct owner {
            std::shared_ptr<task_group> group;
            ~owner() {
                if (group) group->destroy_all();
            }
        };
        auto owned = std::make_shared<owner>(std::move(inner));
        stop_source stop;
        const auto outer = [](std::shared_ptr<owner> keeps, stop_token until_told, std::errc& how) -> task<> {
            auto call = corewire::run_blocking([keeps = std::move(keeps)] {}, {.stop = until_told});
            const auto done = co_await as_result(call);
            how = done ? std::errc{} : static_cast<std::errc>(done.error().value());
        };
        calls.spawn(outer(std::move(owned), stop.token(), around));
        stop.request_stop();
        go = true;
        co_await calls.join();
        BOOST_CHECK(around == std::errc::operation_canceled);
        BOOST_TEST(corewire::runtime::current().blocking().statistics().withdrawn == 2u);
    });
    BOOST_TEST(ran == 1);
}

BOOST_AUTO_TEST_CASE(a_pool_has_a_thread_at_least) {
    corewire::runtime r(with_pool(1, {.threads = 0}));
    start_over();
    go = true;
    r.run([]() -> task<> {
        std::errc outcome = std::errc::io_error;
        co_await blocks({.deadline = reactor::current().now() + 20s}, outcome);
        BOOST_CHECK(outcome == std::errc{});
    });
    BOOST_TEST(ran == 1);
}

BOOST_AUTO_TEST_CASE(the_runtime_ends_after_what_its_helpers_do_also_when_nobody_waits_for_it) {
    runtime_options options = shards(1);
    options.drain = 10ms;
    corewire::runtime r(options);
    start_over();
    static std::atomic<bool> drained;
    drained = false;
    std::thread later([] {
        while (!drained) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(50ms); // who does not wait for the helper has ended by then, or soon
        go = true;
    });
    r.run([]() -> task<> {
        static std::errc outcome;
        spawn(blocks({}, outcome)); // deaf to the stop: abandoned while its helper blocks
        co_await until(begun, 1);
        corewire::runtime::current().request_stop();
    }, {.tear_down = [](unsigned) { drained = true; }});
    BOOST_TEST(r.abandoned() == 1u);
    BOOST_TEST(ran == 1);
    later.join();
}

BOOST_AUTO_TEST_CASE(calls_that_hang_at_the_end_are_reported_once) {
    runtime_options options = shards(1);
    options.drain = 10ms;
    std::vector<blocking_remainder> reports;
    options.blocking.patience = 10ms;
    options.blocking.report = [&reports](const blocking_remainder& left) {
        reports.push_back(left);
        go = true;
    };
    corewire::runtime r(options);
    start_over();
    r.run([]() -> task<> {
        static std::errc outcome[2];
        for (std::errc& each : outcome) spawn(blocks({}, each));
        co_await until(begun, 2);
        corewire::runtime::current().request_stop();
    });
    BOOST_TEST(ran == 2);
    BOOST_REQUIRE(reports.size() == 1u);
    BOOST_TEST(reports[0].calls == 2u);
    BOOST_TEST((reports[0].longest >= options.blocking.patience));
    BOOST_TEST(to_string({.calls = 2, .longest = 1004ms}).starts_with("2 calls of run_blocking() still run, the longest for 1004 ms: "));
}

BOOST_AUTO_TEST_CASE(an_end_without_hanging_calls_reports_nothing) {
    runtime_options options = shards(1);
    bool reported = false;
    options.blocking.report = [&reported](const blocking_remainder&) { reported = true; };
    corewire::runtime r(options);
    r.run([]() -> task<> { co_await corewire::run_blocking([] {}); });
    BOOST_TEST(!reported);
}

BOOST_AUTO_TEST_SUITE_END()
