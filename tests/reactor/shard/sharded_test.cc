// sharded<Service>: life, failure, calls and folds over two shards.
// ctest: processors=2
#include "some_shards.hh"

#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/sharded.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>
#include <corewire/reactor/task/stop.hh>

#include <boost/test/unit_test.hpp>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

using namespace corewire;

namespace {

struct counter {
    explicit counter(int start, int fails_on = -1) : value(start), home(this_shard::id()) {
        if (static_cast<int>(home) == fails_on) throw std::runtime_error("this shard has no room");
        ++alive;
    }
    ~counter() {
        if (home == this_shard::id()) --alive;
    }
    task<> stop() {
        ++stopped;
        co_return;
    }
    task<int> add_later(int n) {
        co_await yield();
        co_return value += n;
    }
    int value;
    unsigned home;
    inline static std::atomic<int> alive{0}, stopped{0};
};

/// Holds shard 1 for a while in the group that it is called in, so that others' work goes first there.
task<> spend_time_there() {
    auto spent = submit_to(1, [] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{2};
        while (std::chrono::steady_clock::now() < until) {}
    });
    co_await spent;
}

/// Runs `on_shard_zero` with three unpinned shards.
void with_shards(std::function<task<>()> on_shard_zero) {
    runtime r({.cpus = {0, 1, 2}, .pin = false, .handle_signals = false});
    static std::function<task<>()> body;
    body = std::move(on_shard_zero);
    counter::alive = counter::stopped = 0;
    r.run([]() -> task<> {
        if (this_shard::id() == 0) return body();
        return []() -> task<> { co_return; }();
    });
}

} // namespace

BOOST_AUTO_TEST_SUITE(sharded)

BOOST_AUTO_TEST_CASE(an_instance_is_made_on_every_shard_and_destroyed_there) {
    static int alive_between;
    with_shards([]() -> task<> {
        corewire::sharded<counter> all;
        co_await all.start(5);
        alive_between = counter::alive;
        co_await all.stop();
    });
    BOOST_TEST(alive_between == 3);
    BOOST_TEST(counter::alive == 0);
    BOOST_TEST(counter::stopped == 3);
}

BOOST_AUTO_TEST_CASE(calls_reach_one_instance_or_all_and_results_are_folded_in_order) {
    static int one, sum;
    static std::string order;
    with_shards([]() -> task<> {
        corewire::sharded<counter> all;
        co_await all.start(10);
        co_await all.invoke_on_all([](counter& c) { c.value += static_cast<int>(this_shard::id()); });
        one = co_await all.invoke_on(2, [](counter& c) { return c.value; });
        sum = co_await all.map_reduce([](counter& c) { return c.value; }, 0, std::plus<>{});
        order = co_await all.map_reduce([](counter& c) { return std::to_string(c.value); }, std::string{},
                                        [](std::string a, std::string b) { return a + b + ";"; });
        co_await all.stop();
    });
    BOOST_TEST(one == 12);
    BOOST_TEST(sum == 33);
    BOOST_TEST(order == "10;11;12;");
}

BOOST_AUTO_TEST_CASE(calls_may_return_tasks) {
    static int later, sum;
    with_shards([]() -> task<> {
        corewire::sharded<counter> all;
        co_await all.start(1);
        later = co_await all.invoke_on(1, [](counter& c) { return c.add_later(4); });
        co_await all.invoke_on_all([](counter& c) -> task<int> { return c.add_later(1); });
        sum = co_await all.map_reduce([](counter& c) { return c.add_later(0); }, 0, std::plus<>{});
        co_await all.stop();
    });
    BOOST_TEST(later == 5);
    BOOST_TEST(sum == 2 + 6 + 2);
}

BOOST_AUTO_TEST_CASE(a_constructor_that_throws_undoes_the_others) {
    static std::string said;
    static bool started;
    with_shards([]() -> task<> {
        corewire::sharded<counter> all;
        try {
            co_await all.start(1, 1);
        } catch (const std::runtime_error& e) {
            said = e.what();
        }
        started = all.started();
    });
    BOOST_TEST(said == "this shard has no room");
    BOOST_TEST(!started);
    BOOST_TEST(counter::alive == 0);
}

BOOST_AUTO_TEST_CASE(a_stop_waits_for_calls_that_were_given_up) {
    static int rounds;
    static std::atomic<int> late;
    late = 0;
    with_shards([]() -> task<> {
        auto two_groups = submit_to(1, [] { static_cast<void>(reactor::current().make_scheduling_group("batch", 100)); });
        co_await two_groups;
        for (rounds = 0; rounds < 20; ++rounds) {
            corewire::sharded<counter> all;
            co_await all.start(5);
            {
                auto given_up = all.invoke_on(1, [](counter& c) -> task<> {
                    for (int i = 0; i < 3; ++i) co_await yield();
                    late += c.value;
                });
            }
            co_await all.stop();
            BOOST_REQUIRE(late == 5 * (rounds + 1));
        }
    });
    BOOST_TEST(rounds == 20);
}

BOOST_AUTO_TEST_CASE(a_start_that_gave_up_is_undone_by_a_stop) {
    static int rounds;
    static std::string said;
    said.clear();
    with_shards([]() -> task<> {
        auto two_groups = submit_to(1, [] { static_cast<void>(reactor::current().make_scheduling_group("batch", 100)); });
        co_await two_groups;
        const scheduling_group batch = reactor::current().make_scheduling_group("batch", 100);
        stop_source enough;
        enough.request_stop();
        for (rounds = 0; rounds < 20; ++rounds) {
            corewire::sharded<counter> all;
            co_await run_in(batch, spend_time_there());
            try {
                co_await run_in(batch, all.start({.stop = enough.token()}, 5)); // stands in a line of its own over there
            } catch (const std::system_error& e) {
                said += e.code() == std::errc::operation_canceled ? 'c' : '?';
            }
            BOOST_REQUIRE(all.started());
            co_await all.stop();
            BOOST_REQUIRE(!all.started());
            BOOST_REQUIRE(counter::alive == 0);
        }
    });
    BOOST_TEST(said == std::string(20, 'c'));
    BOOST_TEST(counter::stopped == 60);
}

BOOST_AUTO_TEST_CASE(a_start_that_gave_up_says_so_though_an_instance_has_thrown) {
    static std::atomic<bool> may_end;
    static std::string said;
    may_end = false;
    said.clear();
    struct slow {
        slow() {
            if (this_shard::id() == 0) throw std::runtime_error("this shard has no room");
            while (this_shard::id() == 1 && !may_end) std::this_thread::yield();
        }
    };
    with_shards([]() -> task<> {
        corewire::sharded<slow> all;
        try {
            co_await all.start({.deadline = reactor::current().now() + std::chrono::milliseconds{1}});
        } catch (const std::system_error& e) {
            said += e.code() == std::errc::timed_out ? 't' : '?';
        } catch (const std::runtime_error& e) {
            said += e.what();
        }
        may_end = true;
        BOOST_REQUIRE(all.started());
        co_await all.stop();
        BOOST_REQUIRE(!all.started());
    });
    BOOST_TEST(said == "t");
}

BOOST_AUTO_TEST_CASE(a_start_with_time_enough_is_like_any) {
    static bool started;
    with_shards([]() -> task<> {
        corewire::sharded<counter> all;
        co_await all.start({.deadline = reactor::current().now() + std::chrono::minutes{5}}, 5);
        started = all.started() && counter::alive == 3;
        co_await all.stop({.deadline = reactor::current().now() + std::chrono::minutes{5}});
    });
    BOOST_TEST(started);
    BOOST_TEST(counter::alive == 0);
}

BOOST_AUTO_TEST_CASE(a_stop_that_gave_up_goes_on_and_the_next_waits_for_it) {
    static std::atomic<bool> may_end;
    static std::atomic<int> stops;
    static std::string said;
    may_end = false;
    stops = 0;
    said.clear();
    struct slow {
        task<> stop() {
            ++stops;
            while (!may_end) co_await yield();
            if (this_shard::id() == 2) throw std::runtime_error("it broke");
        }
    };
    with_shards([]() -> task<> {
        corewire::sharded<slow> all;
        co_await all.start();
        for (int i = 0; i < 3; ++i) {
            try {
                co_await all.stop({.deadline = reactor::current().now() + std::chrono::milliseconds{1}});
            } catch (const std::system_error& e) {
                said += e.code() == std::errc::timed_out ? 't' : '?';
            }
            BOOST_REQUIRE(all.started());
        }
        may_end = true;
        try {
            co_await all.stop();
        } catch (const std::runtime_error& e) {
            said += e.what();
        }
        BOOST_REQUIRE(!all.started());
    });
    BOOST_TEST(said == "tttit broke");
    BOOST_TEST(stops == 3);
}

BOOST_AUTO_TEST_CASE(stops_that_gave_up_in_another_group_have_ended_before_the_next_does) {
    static std::atomic<bool> may_end, freed;
    static std::optional<event> gone; // shard 1's
    may_end = freed = false;
    struct slow {
        ~slow() {
            if (this_shard::id() == 1) gone->set();
        }
        task<> stop() {
            while (!may_end) co_await yield();
        }
    };
    with_shards([]() -> task<> {
        auto two_groups = submit_to(1, [] { static_cast<void>(reactor::current().make_scheduling_group("batch", 1)); });
        co_await two_groups;
        const scheduling_group batch = reactor::current().make_scheduling_group("batch", 1);
        corewire::sharded<slow> all;
        co_await all.start();
        stop_source enough;
        enough.request_stop();
        for (const scheduling_group& each : {scheduling_group::current(), batch}) { // the second waits there for the first
            try {
                co_await run_in(each, all.stop({.stop = enough.token()}));
            } catch (const std::system_error&) {
            }
        }
        co_await run_in(batch, spend_time_there()); // both are there, and batch comes last from now on
        auto holds_shard_one = submit_to(1, []() -> task<> {
            gone.emplace();
            co_await gone->wait();
            detail::in_line behind_the_last_stop(*detail::running_queue);
            co_await behind_the_last_stop;
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
            while (!freed && std::chrono::steady_clock::now() < until) std::this_thread::yield(); // before others' turn
            gone.reset();
        });
        const auto ends_them = []() -> task<> {
            co_await yield();
            auto ends = submit_to(1, [] { may_end = true; }); // behind the third stop
            co_await ends;
            while (!freed) co_await yield(); // awake: shard 1 tells nobody while it is held
        };
        spawn(ends_them());
        co_await all.stop();
        freed = true;
        BOOST_REQUIRE(!all.started());
        co_await holds_shard_one;
    });
}

BOOST_AUTO_TEST_CASE(a_stop_that_cannot_be_sent_leaves_the_instances_to_the_next) {
    static std::string said;
    static int stopped_then, alive_then;
    said.clear();
    counter::alive = counter::stopped = 0;
    const auto body = []() -> task<> {
        corewire::sharded<counter> all;
        co_await all.start(1);
        const auto tell = [](const std::system_error& e) {
            said += e.code() == std::errc::resource_unavailable_try_again ? 'a' : '?';
        };
        const auto waits = []() -> task<> { co_await yield(); };
        {
            auto first = submit_to(1, waits); // one of two calls: one is left for two shards that are not this one
            try {
                co_await all.stop();
            } catch (const std::system_error& e) {
                tell(e);
            }
            co_await first;
        }
        BOOST_REQUIRE(all.started());
        stopped_then = counter::stopped;
        alive_then = counter::alive;
        co_await all.stop();
        BOOST_REQUIRE(!all.started());
    };
    shard_test::run_on_first(body, 3, {.calls_in_flight = 2});
    BOOST_TEST(said == "a");
    BOOST_TEST(stopped_then == 2);
    BOOST_TEST(alive_then == 1);
    BOOST_TEST(counter::stopped == 3);
    BOOST_TEST(counter::alive == 0);
}

BOOST_AUTO_TEST_CASE(a_start_that_cannot_be_sent_waits_for_what_was_and_says_so) {
    static std::string said;
    said.clear();
    counter::alive = counter::stopped = 0;
    const auto body = []() -> task<> {
        corewire::sharded<counter> all;
        const auto waits = []() -> task<> { co_await yield(); };
        {
            auto first = submit_to(1, waits);
            try {
                co_await all.start(1); // to shard 1, and no more
            } catch (const std::system_error& e) {
                said += e.code() == std::errc::resource_unavailable_try_again ? 'a' : '?';
            }
            co_await first;
        }
        if (all.started()) co_await all.stop();
    };
    shard_test::run_on_first(body, 3, {.calls_in_flight = 2});
    BOOST_TEST(said == "a");
    BOOST_TEST(counter::stopped == 2);
    BOOST_TEST(counter::alive == 0);
}

BOOST_AUTO_TEST_CASE(a_start_throws_what_came_first_and_not_what_the_stop_after_it_threw) {
    static std::string said;
    said.clear();
    struct fails_twice {
        fails_twice() {
            if (this_shard::id() == 1) throw std::runtime_error("this shard has no room");
        }
        task<> stop() {
            throw std::runtime_error("it broke");
            co_return;
        }
    };
    with_shards([]() -> task<> {
        corewire::sharded<fails_twice> all;
        try {
            co_await all.start();
        } catch (const std::runtime_error& e) {
            said = e.what();
        }
        BOOST_REQUIRE(!all.started());
    });
    BOOST_TEST(said == "this shard has no room");
}

BOOST_AUTO_TEST_CASE(an_instance_whose_stop_was_abandoned_at_shutdown_is_not_destroyed_on_another_shard) {
    static std::atomic<int> died_abroad;
    static std::atomic<bool> hung;
    static std::string said;
    died_abroad = 0;
    hung = false;
    said.clear();
    struct hangs {
        ~hangs() {
            if (this_shard::id() != home) ++died_abroad;
        }
        task<> stop() {
            if (home != 1) co_return;
            hung = true;
            co_await never.wait();
        }
        unsigned home = this_shard::id();
        event never;
    };
    static std::atomic<hangs*> left_alone; // so that a leak checker sees that it is known
    const auto body = []() -> task<> {
        corewire::sharded<hangs> all;
        co_await all.start();
        auto look = all.invoke_on(1, [](hangs& h) { left_alone = &h; });
        co_await look;
        const auto stops_the_runtime = []() -> task<> {
            while (!hung) co_await yield();
            corewire::runtime::current().request_stop();
            while (this_shard::mail().quiet()) std::this_thread::yield(); // shard 1 gives up before this one knows
        };
        spawn(stops_the_runtime());
        try {
            co_await all.stop();
        } catch (const std::system_error& e) {
            said += e.code() == std::errc::operation_canceled ? 'c' : '?';
        }
        while (!this_shard::stopping().stop_requested()) co_await yield();
    };
    runtime_options options = shard_test::shards(2);
    options.drain = std::chrono::milliseconds{1};
    runtime all(options);
    all.run([&]() -> task<> { return this_shard::id() == 0 ? body() : shard_test::until_stopped(); });
    BOOST_TEST(all.abandoned() == 1u);
    BOOST_TEST(said == "c");
    BOOST_TEST(died_abroad == 0);
}

BOOST_AUTO_TEST_CASE(an_exception_of_one_call_is_thrown_after_all_have_ended) {
    static int ran;
    static std::string said;
    with_shards([]() -> task<> {
        corewire::sharded<counter> all;
        co_await all.start(0);
        static std::atomic<int> ended;
        ended = 0;
        try {
            co_await all.invoke_on_all([](counter&) {
                ++ended;
                if (this_shard::id() != 1) throw std::runtime_error("shard " + std::to_string(this_shard::id()));
            });
        } catch (const std::runtime_error& e) {
            said = e.what();
        }
        ran = ended;
        co_await all.stop();
    });
    BOOST_TEST(ran == 3);
    BOOST_TEST(said == "shard 0");
}

BOOST_AUTO_TEST_SUITE_END()
