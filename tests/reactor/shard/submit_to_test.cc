// submit_to() as programs use it, on a running runtime: to another shard and to one's own.
// ctest: processors=2
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/sleep.hh>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

/// What the coroutines found, for the test to look at: Boost.Test's checks belong to the main thread.
std::string found;

void on_shard_zero(task<> (*body)()) {
    found.clear();
    static task<> (*run)();
    run = body;
    runtime r({.cpus = {0, 1}, .pin = false, .handle_signals = false});
    r.run([]() -> task<> {
        if (this_shard::id() == 0) return run();
        return []() -> task<> { co_return; }();
    });
}

std::string where() { return std::to_string(this_shard::id()); }
task<std::string> where_later() {
    co_await yield();
    co_return where();
}
task<std::string> fail_later() {
    co_await yield();
    throw std::runtime_error("failed on " + where());
}

} // namespace

BOOST_AUTO_TEST_SUITE(submit_to)

BOOST_AUTO_TEST_CASE(functions_and_tasks_run_on_the_shard_that_is_named) {
    on_shard_zero([]() -> task<> {
        found += co_await corewire::submit_to(1, where);
        found += co_await corewire::submit_to(0, where);
        found += co_await corewire::submit_to(1, where_later);
        found += co_await corewire::submit_to(0, where_later);
        found += where(); // and the caller goes on where it was
    });
    BOOST_TEST(found == "10100");
}

BOOST_AUTO_TEST_CASE(exceptions_of_functions_and_tasks_come_back_from_either_shard) {
    on_shard_zero([]() -> task<> {
        for (unsigned shard : {1u, 0u}) {
            try {
                co_await corewire::submit_to(shard, [] { throw std::runtime_error("failed at once;"); });
            } catch (const std::runtime_error& e) {
                found += e.what();
            }
            try {
                found += co_await corewire::submit_to(shard, fail_later);
            } catch (const std::runtime_error& e) {
                found += e.what() + std::string(";");
            }
        }
    });
    BOOST_TEST(found == "failed at once;failed on 1;failed at once;failed on 0;");
}

BOOST_AUTO_TEST_CASE(several_calls_may_be_on_their_way_before_the_first_is_awaited) {
    on_shard_zero([]() -> task<> {
        static int began;
        began = 0;
        auto first = corewire::submit_to(1, [] { return ++began; });
        auto second = corewire::submit_to(1, [] { return ++began; });
        auto third = corewire::submit_to(1, [] { return ++began; });
        while (!third.ready()) co_await yield();
        found += std::to_string(co_await third) + std::to_string(co_await second) + std::to_string(co_await first);
    });
    BOOST_TEST(found == "321");
}

BOOST_AUTO_TEST_CASE(calls_may_call_back) {
    on_shard_zero([]() -> task<> {
        found = co_await corewire::submit_to(1, [] {
            return []() -> task<std::string> {
                std::string there = where();
                const std::string back = co_await corewire::submit_to(0, where);
                co_return there + back + where();
            }();
        });
    });
    BOOST_TEST(found == "101");
}

BOOST_AUTO_TEST_CASE(a_deadline_cuts_the_wait_short_and_the_task_over_there_goes_on) {
    static bool ended;
    static std::atomic<bool> seen;
    ended = false;
    seen = false;
    on_shard_zero([]() -> task<> {
        const auto slow = [] {
            return []() -> task<> {
                while (!seen) co_await sleep_for(1ms);
                ended = true;
            }();
        };
        try {
            co_await corewire::submit_to(1, slow, {.deadline = reactor::current().now() + 2ms});
        } catch (const std::system_error& e) {
            found = e.code() == std::errc::timed_out ? "timed out" : e.what();
        }
        seen = true;
    });
    BOOST_TEST(found == "timed out");
    BOOST_TEST(ended);
}

BOOST_AUTO_TEST_CASE(what_is_captured_is_destroyed_on_the_shard_it_was_sent_to) {
    static std::thread::id made_on, destroyed_on;
    struct witness {
        ~witness() { destroyed_on = std::this_thread::get_id(); }
    };
    static std::thread::id other;
    on_shard_zero([]() -> task<> {
        made_on = std::this_thread::get_id();
        auto captured = std::make_unique<witness>();
        auto call = corewire::submit_to(1, [w = std::move(captured)] { return std::this_thread::get_id(); });
        other = co_await call;
    });
    BOOST_TEST((destroyed_on == other));
    BOOST_TEST((destroyed_on != made_on));
}

BOOST_AUTO_TEST_CASE(results_larger_than_a_message_come_whole) {
    on_shard_zero([]() -> task<> {
        const std::vector<int> sent(1000, 7);
        struct large {
            char text[500];
        };
        auto call = corewire::submit_to(1, [sent] {
            large l{};
            l.text[499] = static_cast<char>('0' + sent.at(999));
            return l;
        });
        const large answer = co_await call;
        found += answer.text[499];
    });
    BOOST_TEST(found == "7");
}

BOOST_AUTO_TEST_SUITE_END()
