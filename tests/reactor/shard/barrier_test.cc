// barrier: nobody goes on before everybody has come, round after round.
#include "some_shards.hh"

#include <corewire/reactor/shard/barrier.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/when_all.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <system_error>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::run_on_first;

namespace {

constexpr int rounds = 200;

struct field {
    field() : meet(this_shard::count()) {}
    barrier meet;
    std::atomic<int> came[rounds] = {};
    std::atomic<int> too_early{0};
    task<> walk() {
        for (int round = 0; round < rounds; ++round) {
            ++came[round];
            co_await meet.arrive_and_wait();
            if (came[round] != static_cast<int>(this_shard::count())) ++too_early;
        }
    }
};
task<> all_walk() {
    field f;
    std::vector<task<>> walks;
    const auto walk_on = [](field* where, unsigned shard) -> task<> { co_await submit_to(shard, [where] { return where->walk(); }); };
    for (unsigned shard = 0; shard < this_shard::count(); ++shard) walks.push_back(walk_on(&f, shard));
    co_await when_all(std::move(walks));
    BOOST_CHECK_EQUAL(f.too_early.load(), 0);
    BOOST_CHECK_EQUAL(f.meet.rounds(), static_cast<std::uint64_t>(rounds));
    BOOST_CHECK_EQUAL(f.meet.arrived(), 0u);
}

task<> stops_soon(stop_source& stop) {
    co_await yield();
    stop.request_stop();
}
task<> gives_up_by_its_deadline() {
    barrier meet(2);
    std::errc outcome{};
    try {
        co_await meet.arrive_and_wait({.deadline = reactor::current().now() + 1ms});
    } catch (const std::system_error& e) {
        outcome = static_cast<std::errc>(e.code().value());
    }
    BOOST_CHECK(outcome == std::errc::timed_out);
    BOOST_CHECK_EQUAL(meet.arrived(), 1u); // it has arrived nevertheless
    co_await meet.arrive_and_wait();
    BOOST_CHECK_EQUAL(meet.rounds(), 1u);
}
task<> gives_up_by_its_token() {
    barrier meet(2);
    stop_source stop;
    task_group group("stops");
    group.spawn(stops_soon(stop));
    auto arrival = meet.arrive_and_wait({.stop = stop.token()});
    const auto met = co_await as_result(arrival);
    BOOST_CHECK(!met && met.error() == std::errc::operation_canceled);
    BOOST_CHECK_EQUAL(meet.arrived(), 1u);
    co_await group.join();
    co_await meet.arrive_and_wait();
}
task<> arrives(barrier& meet, std::errc& outcome) {
    try {
        co_await meet.arrive_and_wait();
    } catch (const std::system_error& e) {
        outcome = static_cast<std::errc>(e.code().value());
    }
}
task<> goes_under_waiters() {
    std::errc outcome{};
    auto meet = std::make_unique<barrier>(2);
    task_group group("waiting");
    group.spawn(arrives(*meet, outcome));
    meet.reset();
    co_await group.join();
    BOOST_CHECK(outcome == std::errc::operation_canceled);
}

task<int> many_arrive(barrier& meet) {
    std::array<std::errc, 8> outcomes{};
    task_group group("arriving");
    for (std::errc& each : outcomes) group.spawn(arrives(meet, each)); // more than the ring has places
    co_await group.join();
    co_return static_cast<int>(std::ranges::count(outcomes, std::errc::operation_canceled));
}
/// At shutdown: those who have arrived, and those whose call is still on its way.
task<> goes_at_shutdown(runtime& all) {
    auto meet = std::make_unique<barrier>(100);
    auto call = submit_to(1, [&] { return many_arrive(*meet); });
    while (meet->arrived() == 0) co_await yield();
    all.request_stop();
    while (!this_shard::stopping().stop_requested()) co_await yield();
    meet.reset();
    const int canceled = co_await call;
    BOOST_CHECK_EQUAL(canceled, 8);
}

} // namespace

BOOST_AUTO_TEST_SUITE(barrier)

BOOST_AUTO_TEST_CASE(nobody_goes_on_before_everybody_has_come) { run_on_first(all_walk, 3); }

BOOST_AUTO_TEST_CASE(one_that_gives_up_has_arrived_nevertheless) {
    run_on_first(gives_up_by_its_deadline);
    run_on_first(gives_up_by_its_token);
}

BOOST_AUTO_TEST_CASE(at_shutdown_those_on_their_way_are_cancelled_too) {
    corewire::runtime_options options = shard_test::shards(2);
    options.mail.ring_slots = 2;
    corewire::runtime all(options);
    all.run([&all]() -> task<> {
        const auto nothing = []() -> task<> { co_return; };
        return this_shard::id() == 0 ? goes_at_shutdown(all) : nothing();
    });
}

BOOST_AUTO_TEST_CASE(destroying_it_cancels_those_who_wait) { run_on_first(goes_under_waiters); }

BOOST_AUTO_TEST_SUITE_END()
