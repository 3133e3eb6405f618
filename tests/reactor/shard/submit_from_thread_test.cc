// Work that other threads hand in: results, errors, back-pressure, order, shutdown.
// ctest: timeout=120 processors=2
#include "some_shards.hh"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::shards;
using shard_test::until_stopped;

namespace {

/// Runs shards that do nothing by themselves while `outside` runs on a thread of its own; then stops them.
template <typename Outside>
void with_thread(corewire::runtime& r, Outside&& outside) {
    std::promise<void> up;
    std::atomic<unsigned> bodies{0};
    std::thread thread([&] {
        up.get_future().wait();
        outside();
        r.request_stop();
    });
    r.run([&] {
        if (++bodies == r.shard_count()) up.set_value();
        return until_stopped();
    });
    thread.join();
}

bool is_cancelled(const std::system_error& e) { return e.code() == std::errc::operation_canceled; }

} // namespace

BOOST_AUTO_TEST_SUITE(submit_from_thread)

BOOST_AUTO_TEST_CASE(a_thread_gets_results_and_exceptions_of_calls_and_of_tasks) {
    corewire::runtime r(shards(2));
    with_thread(r, [&] {
        BOOST_TEST(r.submit_from_thread(1, [] { return this_shard::id(); }).get() == 1u);
        std::string text = "moved there";
        BOOST_TEST(r.submit_from_thread(0, [t = std::move(text)] { return t; }).get() == "moved there");
        r.submit_from_thread(0, [] {}).get();
        const auto slow = []() -> task<int> {
            co_await sleep_for(5ms);
            co_return 42;
        };
        BOOST_TEST(r.submit_from_thread(1, slow).get() == 42);
        BOOST_CHECK_THROW(r.submit_from_thread(0, []() -> int { throw std::runtime_error("x"); }).get(), std::runtime_error);
        const auto fails = []() -> task<> {
            co_await sleep_for(1ms);
            throw std::runtime_error("y");
        };
        BOOST_CHECK_THROW(r.submit_from_thread(0, fails).get(), std::runtime_error);
    });
    BOOST_TEST(r.inbox(0).statistics().accepted == 4u);
}

BOOST_AUTO_TEST_CASE(a_sleeping_shard_is_woken_each_time) {
    corewire::runtime r(shards(1));
    with_thread(r, [&] {
        for (int i = 0; i < 500; ++i) {
            if (i % 50 == 0) std::this_thread::sleep_for(1ms); // it spins for 50 us
            BOOST_REQUIRE(r.submit_from_thread(0, [i] { return i; }).get() == i); // a lost wake-up would hang here
        }
    });
}

BOOST_AUTO_TEST_CASE(calls_of_one_thread_run_in_order_and_those_of_many_are_all_run) {
    corewire::runtime r(shards(1));
    static std::vector<int> order;
    static int sum;
    order.clear();
    sum = 0;
    with_thread(r, [&] {
        std::vector<std::future<void>> pending;
        for (int i = 0; i < 1000; ++i) pending.push_back(r.submit_from_thread(0, [i] { order.push_back(i); }));
        for (auto& each : pending) each.get();
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < 500; ++i) r.submit_from_thread(0, [] { ++sum; }).get();
            });
        for (auto& each : threads) each.join();
    });
    BOOST_REQUIRE_EQUAL(order.size(), 1000u);
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
    BOOST_TEST(sum == 2000);
}

BOOST_AUTO_TEST_CASE(a_full_inbox_makes_threads_wait) {
    runtime_options options = shards(1);
    options.external_calls = 4;
    corewire::runtime r(options);
    static std::atomic<bool> go, holding;
    static std::atomic<int> handed_in;
    go = holding = false;
    handed_in = 0;
    with_thread(r, [&] {
        auto holds = r.submit_from_thread(0, [] {
            holding = true;
            while (!go) std::this_thread::yield();
        });
        while (!holding) std::this_thread::yield();
        std::thread other([&] {
            std::vector<std::future<void>> pending;
            for (int i = 0; i < 10; ++i) {
                pending.push_back(r.submit_from_thread(0, [] {}));
                ++handed_in;
            }
            for (auto& each : pending) each.get();
        });
        while (r.inbox(0).statistics().waited == 0) std::this_thread::yield();
        BOOST_TEST(handed_in == 4);
        go = true;
        other.join();
        holds.get();
    });
    BOOST_TEST(handed_in == 10);
}

BOOST_AUTO_TEST_CASE(a_thread_need_not_wait_for_room_for_longer_than_it_likes) {
    runtime_options options = shards(1);
    options.external_calls = 2;
    corewire::runtime r(options);
    static std::atomic<bool> go, holding;
    go = holding = false;
    with_thread(r, [&] {
        auto holds = r.submit_from_thread(0, [] {
            holding = true;
            while (!go) std::this_thread::yield(); // a shard that hangs
        }, 1h);
        while (!holding) std::this_thread::yield();
        std::vector<std::future<void>> pending;
        for (int i = 0; i < 2; ++i) pending.push_back(r.submit_from_thread(0, [] {}, duration::zero())); // there is room
        for (const duration patience : {duration::zero(), duration(1ms)})
            BOOST_CHECK_EXCEPTION(r.submit_from_thread(0, [] {}, patience), std::system_error,
                                  [](const std::system_error& e) { return e.code() == std::errc::timed_out; });
        BOOST_TEST(r.inbox(0).statistics().refused == 2u);
        go = true;
        for (auto& each : pending) each.get();
        holds.get();
    });
}

BOOST_AUTO_TEST_CASE(calls_before_the_start_and_after_the_end_are_refused_and_none_is_left_without_an_answer) {
    corewire::runtime r(shards(2));
    BOOST_CHECK_EXCEPTION(r.submit_from_thread(0, [] {}), std::system_error, is_cancelled);
    std::atomic<int> answered{0}, refused{0}, ended{0};
    std::thread hammering;
    with_thread(r, [&] {
        hammering = std::thread([&] {
            for (;;) {
                try {
                    auto f = r.submit_from_thread(answered % 2u, [] { return 1; });
                    try {
                        answered += f.get();
                    } catch (const std::system_error&) {
                        ++ended;
                    }
                } catch (const std::system_error& e) {
                    BOOST_CHECK(is_cancelled(e));
                    ++refused;
                    return;
                }
            }
        });
        while (answered < 100) std::this_thread::yield();
    });
    hammering.join(); // a call without an answer would hang here
    BOOST_TEST(answered >= 100);
    BOOST_TEST(refused == 1);
    BOOST_TEST(ended == 0);
    BOOST_CHECK_EXCEPTION(r.submit_from_thread(1, [] {}), std::system_error, is_cancelled);
}

BOOST_AUTO_TEST_CASE(a_task_that_is_abandoned_at_shutdown_tells_its_thread) {
    runtime_options options = shards(1);
    options.drain = 20ms;
    corewire::runtime r(options);
    std::future<void> never_ends;
    with_thread(r, [&] {
        const auto deaf = []() -> task<> { co_await sleep_for(1h); };
        never_ends = r.submit_from_thread(0, deaf);
        r.submit_from_thread(0, [] {}).get(); // it has begun
    });
    BOOST_CHECK_EXCEPTION(never_ends.get(), std::system_error, is_cancelled);
    BOOST_TEST(r.abandoned() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
