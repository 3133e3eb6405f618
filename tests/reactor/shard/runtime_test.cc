// The runtime on real threads: start, failure, stop, drain, signals, sleep and wake. Shards are not pinned where the
// test does not need it, so that it also runs where fewer CPUs are allowed.
// ctest: processors=2
#include "some_shards.hh"

#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/topology/pinning.hh>

#include <boost/test/unit_test.hpp>
#include <array>
#include <atomic>
#include <csignal>
#include <deque>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::shards;
using shard_test::until_stopped;

namespace {

/// Runs `child` in a process of its own and returns its wait status.
template <typename Child>
int status_of_child(Child&& child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::alarm(60); // it does not outlive its test
        child();
        ::_exit(99);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
}

} // namespace

BOOST_AUTO_TEST_SUITE(runtime)

BOOST_AUTO_TEST_CASE(the_body_runs_once_on_every_shard_each_on_a_thread_of_its_own) {
    corewire::runtime r(shards(3));
    std::array<std::atomic<int>, 3> runs{};
    std::array<std::atomic<pthread_t>, 3> threads{};
    r.run([&]() -> task<> {
        const auto note = [](auto& counts, auto& who) -> task<> {
            if (this_shard::count() == 3) ++counts[this_shard::id()];
            who[this_shard::id()] = pthread_self();
            co_return;
        };
        return note(runs, threads);
    });
    for (auto& n : runs) BOOST_TEST(n == 1);
    BOOST_TEST((threads[0] == pthread_self()));
    BOOST_TEST((threads[0] != threads[1] && threads[1] != threads[2] && threads[0] != threads[2]));
}

BOOST_AUTO_TEST_CASE(hooks_run_around_the_bodies_on_their_own_shard) {
    corewire::runtime r(shards(2));
    std::atomic<int> up{0}, up_at_body{0}, down{0};
    r.run(
        [&]() -> task<> {
            up_at_body += up;
            return []() -> task<> { co_return; }();
        },
        {.set_up = [&](unsigned shard) { up += shard == reactor::current().shard() ? 1 : 100; },
         .tear_down = [&](unsigned shard) { down += shard == reactor::current().shard() ? 1 : 100; }});
    BOOST_TEST(up_at_body == 4); // both were up before either body
    BOOST_TEST(down == 2);
}

BOOST_AUTO_TEST_CASE(a_set_up_that_throws_ends_the_run_before_any_body) {
    corewire::runtime r(shards(2));
    std::atomic<int> bodies{0};
    const auto run = [&] {
        r.run(
            [&]() -> task<> {
                ++bodies;
                return until_stopped();
            },
            {.set_up = [](unsigned shard) {
                if (shard == 1) throw std::runtime_error("no such queue");
            }});
    };
    BOOST_CHECK_EXCEPTION(run(), std::runtime_error, [](auto& e) { return std::string{e.what()} == "no such queue"; });
    BOOST_TEST(bodies == 0);
}

BOOST_AUTO_TEST_CASE(a_body_that_throws_stops_the_others_and_is_reported) {
    corewire::runtime r(shards(2));
    const auto fail_on_one = []() -> task<> {
        if (this_shard::id() == 1) throw std::runtime_error("shard 1 has had enough");
        co_await until_stopped();
    };
    BOOST_CHECK_THROW(r.run(fail_on_one), std::runtime_error);
    BOOST_TEST(r.abandoned() == 0u);
}

BOOST_AUTO_TEST_CASE(it_can_run_again) {
    corewire::runtime r(shards(2));
    std::atomic<int> runs{0};
    for (int i = 0; i < 20; ++i)
        r.run([&]() -> task<> {
            ++runs;
            return []() -> task<> { co_return; }();
        });
    BOOST_TEST(runs == 40);
}

BOOST_AUTO_TEST_CASE(a_stop_reaches_shards_that_sleep_and_calls_on_stop_once_each) {
    corewire::runtime r(shards(2));
    std::atomic<int> stops{0};
    const auto body = []() -> task<> {
        if (this_shard::id() == 0) {
            co_await sleep_for(20ms); // by now shard 1 sleeps
            corewire::runtime::current().request_stop();
            corewire::runtime::current().request_stop();
        }
        co_await until_stopped();
    };
    r.run(body, {.on_stop = [&](unsigned) { ++stops; }});
    BOOST_TEST(stops == 2);
    BOOST_TEST(r.stop_requested());
}

BOOST_AUTO_TEST_CASE(tasks_that_do_not_end_in_time_are_abandoned_and_counted) {
    runtime_options options = shards(2);
    options.drain = 30ms;
    corewire::runtime r(options);
    const auto body = []() -> task<> {
        if (this_shard::id() == 0) corewire::runtime::current().request_stop();
        co_await sleep_for(std::chrono::hours{24}); // deaf to the stop
    };
    r.run(body);
    BOOST_TEST(r.abandoned() == 2u);
}

BOOST_AUTO_TEST_CASE(a_call_that_comes_when_its_shard_has_abandoned_its_tasks_has_its_time_too) {
    runtime_options options = shards(2);
    options.drain = 500ms;
    corewire::runtime r(options);
    static std::atomic<bool> abandoned, begun, first_round_over, ended;
    abandoned = begun = first_round_over = ended = false;
    struct marks {
        ~marks() { abandoned = true; }
    };
    const auto comes_late = []() -> task<> {
        begun = true;
        while (!first_round_over) co_await yield();
        co_await sleep_for(5ms); // into the second
        ended = true;
    };
    const auto body = [&]() -> task<> {
        if (this_shard::id() == 1) {
            const marks mark;
            co_await sleep_for(std::chrono::hours{24});
        }
        corewire::runtime::current().request_stop();
        while (!abandoned) std::this_thread::yield(); // not yet told itself
        auto nobody_waits = submit_to(1, comes_late);
        while (!begun) co_await yield();
    };
    r.run(body, {.lingers = [](unsigned shard) {
        if (shard == 0) first_round_over = true;
        return false;
    }});
    BOOST_TEST(ended);
    BOOST_TEST(r.abandoned() == 1u);
}

BOOST_AUTO_TEST_CASE(spawned_tasks_are_waited_for) {
    corewire::runtime r(shards(2));
    static std::atomic<int> ended;
    ended = 0;
    const auto body = []() -> task<> {
        for (int i = 0; i < 10; ++i)
            spawn([]() -> task<> {
                co_await sleep_for(2ms);
                ++ended;
            }());
        co_return;
    };
    r.run(body);
    BOOST_TEST(ended == 20);
}

BOOST_AUTO_TEST_CASE(a_finished_shard_still_serves_the_calls_of_the_others) {
    corewire::runtime r(shards(2));
    static std::atomic<int> sum;
    sum = 0;
    const auto body = []() -> task<> {
        if (this_shard::id() == 1) co_return;
        for (int i = 0; i < 100; ++i) {
            if (i % 10 == 0) co_await sleep_for(1ms);
            sum += co_await submit_to(1, [] { return 1; });
        }
    };
    r.run(body);
    BOOST_TEST(sum == 100);
}

BOOST_AUTO_TEST_CASE(a_sleeping_shard_is_woken_once_for_a_burst_of_messages) {
    corewire::runtime r(shards(2));
    static std::uint64_t sleeps_during_burst;
    const auto body = []() -> task<> {
        if (this_shard::id() == 1) co_return;
        co_await sleep_for(20ms); // shard 1 spins for 50 us, then sleeps
        const std::uint64_t before = co_await submit_to(1, [] { return reactor::current().sleeps(); });
        {
            std::deque<remote_call<std::uint64_t (*)()>> burst;
            for (int i = 0; i < 100; ++i)
                burst.emplace_back(this_shard::mail(), 1u, +[] { return reactor::current().sleeps(); }, wait_limits{});
            for (auto& call : burst) sleeps_during_burst = co_await call;
        }
        sleeps_during_burst -= before;
    };
    r.run(body);
    BOOST_TEST(sleeps_during_burst <= 1u);
}

BOOST_AUTO_TEST_CASE(shutdown_under_load_loses_no_reply) {
    runtime_options options = shards(2);
    options.mail.ring_slots = 8;
    corewire::runtime r(options);
    static std::atomic<std::uint64_t> asked, answered;
    asked = answered = 0;
    const auto caller = []() -> task<> {
        while (!this_shard::stopping().stop_requested()) {
            ++asked;
            answered += co_await submit_to(1 - this_shard::id(), [] { return 1u; });
        }
    };
    static task<> (*one_caller)() = +caller;
    const auto body = []() -> task<> {
        for (int i = 0; i < 100; ++i) spawn(one_caller());
        while (answered < 1000) co_await sleep_for(1ms); // not a time: a busy machine may give a shard none of it
        corewire::runtime::current().request_stop();
    };
    r.run(body);
    BOOST_TEST(asked >= 1000u);
    BOOST_TEST(asked == answered);
    BOOST_TEST(r.abandoned() == 0u);
}

BOOST_AUTO_TEST_CASE(threads_are_pinned_and_the_caller_gets_its_mask_back) {
    const std::vector<unsigned> before = this_thread_cpus();
    runtime_options options = shards(0);
    options.cpus = before;
    options.pin = true;
    corewire::runtime r(options);
    static std::atomic<unsigned> right;
    right = 0;
    r.run([&]() -> task<> {
        if (this_thread_cpus() == std::vector<unsigned>{before[this_shard::id()]}) ++right;
        return []() -> task<> { co_return; }();
    });
    BOOST_TEST(right == before.size());
    BOOST_TEST(this_thread_cpus() == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_runtime_without_cpus_is_refused) {
    BOOST_CHECK_THROW(corewire::runtime{runtime_options{}}, std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(sigterm_ends_the_run_in_order_and_the_second_signal_ends_the_process) {
    for (const int signal : {SIGINT, SIGTERM}) {
        const int in_order = status_of_child([&] {
            runtime_options options = shards(2);
            options.handle_signals = true;
            corewire::runtime r(options);
            static int which;
            which = signal;
            r.run([]() -> task<> {
                if (this_shard::id() == 0) ::kill(::getpid(), which);
                return until_stopped();
            });
            ::_exit(r.abandoned() == 0 ? 0 : 1);
        });
        BOOST_TEST((WIFEXITED(in_order) && WEXITSTATUS(in_order) == 0));
    }
    const int told_twice = status_of_child([] { // by timeout(1): the process, and its group
        runtime_options options = shards(1);
        options.handle_signals = true;
        corewire::runtime r(options);
        r.run([]() -> task<> {
            ::kill(::getpid(), SIGINT);
            ::kill(::getpid(), SIGTERM);
            co_await until_stopped();
        });
        ::_exit(0);
    });
    BOOST_TEST((WIFEXITED(told_twice) && WEXITSTATUS(told_twice) == 0));
    const int held = status_of_child([] {
        runtime_options options = shards(1);
        options.handle_signals = true;
        corewire::runtime r(options);
        r.run([]() -> task<> {
            ::kill(::getpid(), SIGINT);
            for (;;) { // the shard that is told of signals looks for none
                ::kill(::getpid(), SIGTERM);
                std::this_thread::yield();
            }
            co_return;
        });
    });
    BOOST_TEST((WIFEXITED(held) && WEXITSTATUS(held) == 130));
    const int at_once = status_of_child([] {
        runtime_options options = shards(2);
        options.handle_signals = true;
        corewire::runtime r(options);
        const auto body = []() -> task<> {
            if (this_shard::id() != 0) co_return;
            ::kill(::getpid(), SIGINT);
            while (!corewire::runtime::current().stop_requested()) co_await sleep_for(1ms);
            for (;;) {
                ::kill(::getpid(), SIGINT);
                co_await sleep_for(1ms);
            }
        };
        r.run(body);
    });
    BOOST_TEST((WIFEXITED(at_once) && WEXITSTATUS(at_once) == 130));
}

BOOST_AUTO_TEST_SUITE_END()
