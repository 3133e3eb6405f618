// barrier: nobody goes on before everybody has come, round after round.
#include "some_shards.hh"
#include "two_shards.hh"

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
#include <memory>
#include <string>
#include <system_error>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::run_on_first;

namespace {

constexpr int rounds = 200;

std::errc code_of(const std::exception_ptr& why) {
    try {
        std::rethrow_exception(why);
    } catch (const std::system_error& e) {
        return static_cast<std::errc>(e.code().value());
    }
}

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
task<> arrives(barrier& meet, std::errc& outcome);
/// Alone twice, then with another: only the two together open it.
task<> alone_it_never_opens(barrier& meet, wait_limits limits, std::errc expected) {
    for (int again = 0; again < 3; ++again) {
        const auto met = co_await as_result(meet.arrive_and_wait(limits));
        BOOST_CHECK(!met && code_of(met.error()) == expected);
    }
    BOOST_CHECK_EQUAL(meet.rounds(), 0u);
    BOOST_CHECK_EQUAL(meet.arrived(), 0u);
    task_group group("another");
    std::errc outcome{};
    group.spawn(arrives(meet, outcome));
    BOOST_CHECK_EQUAL(meet.arrived(), 1u);
    co_await meet.arrive_and_wait();
    co_await group.join();
    BOOST_CHECK(outcome == std::errc{});
    BOOST_CHECK_EQUAL(meet.rounds(), 1u);
}
task<> gives_up_by_its_deadline() {
    barrier meet(2);
    co_await alone_it_never_opens(meet, {.deadline = reactor::current().now() + 1ms}, std::errc::timed_out);
}
task<> gives_up_by_its_token() {
    barrier meet(2);
    stop_source stop;
    task_group group("stops");
    group.spawn(stops_soon(stop));
    co_await alone_it_never_opens(meet, {.stop = stop.token()}, std::errc::operation_canceled);
    co_await group.join();
}
task<> is_destroyed_in_line() {
    barrier meet(2);
    for (int again = 0; again < 3; ++again) {
        task_group group("goes");
        std::errc outcome{};
        group.spawn(arrives(meet, outcome));
        BOOST_CHECK_EQUAL(meet.arrived(), 1u);
        group.destroy_all();
        BOOST_CHECK_EQUAL(meet.arrived(), 0u);
    }
    BOOST_CHECK_EQUAL(meet.rounds(), 0u);
    co_return;
}

/// Patience that grows, so that on a slow machine, too, all meet in the end.
task<> walks_impatiently(field& f) {
    for (int round = 0; round < rounds; ++round) {
        ++f.came[round];
        for (duration patience = 10us;; patience *= 2) {
            const auto met = co_await as_result(f.meet.arrive_and_wait({.deadline = reactor::current().now() + patience}));
            if (met) break;
        }
        if (f.came[round] != static_cast<int>(this_shard::count())) ++f.too_early;
    }
}
task<> all_walk_impatiently() {
    field f;
    std::vector<task<>> walks;
    const auto walk_on = [](field* where, unsigned shard) -> task<> {
        co_await submit_to(shard, [where] { return walks_impatiently(*where); });
    };
    for (unsigned shard = 0; shard < this_shard::count(); ++shard) walks.push_back(walk_on(&f, shard));
    co_await when_all(std::move(walks));
    BOOST_CHECK_EQUAL(f.too_early.load(), 0);
    BOOST_CHECK_EQUAL(f.meet.rounds(), static_cast<std::uint64_t>(rounds));
    BOOST_CHECK_EQUAL(f.meet.arrived(), 0u);
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

std::atomic<bool> all_on_their_way{false};

task<int> many_arrive(barrier& meet) {
    std::array<std::errc, 8> outcomes{};
    task_group group("arriving");
    for (std::errc& each : outcomes) group.spawn(arrives(meet, each)); // more than the ring has places
    all_on_their_way = true; // from here on `meet` may go
    co_await group.join();
    co_return static_cast<int>(std::ranges::count(outcomes, std::errc::operation_canceled));
}
/// At shutdown: those who have arrived, and those whose call is still on its way.
task<> goes_at_shutdown(runtime& all) {
    auto meet = std::make_unique<barrier>(100);
    auto call = submit_to(1, [&] { return many_arrive(*meet); });
    while (meet->arrived() == 0 || !all_on_their_way) co_await yield();
    all.request_stop();
    while (!this_shard::stopping().stop_requested()) co_await yield();
    meet.reset();
    const int canceled = co_await call;
    BOOST_CHECK_EQUAL(canceled, 8);
}

/// The barrier of shard a, by hand, with arrivals from shard b (and a's own).
struct by_hand {
    explicit by_hand(std::size_t participants = 2) : core(std::make_shared<detail::barrier_core>(s.a.mail, participants)) {}
    ~by_hand() {
        gone();
        s.settle();
        BOOST_CHECK_EQUAL(s.b.mail.calls().in_flight(), 0u);
        BOOST_CHECK(core == nullptr || core.use_count() == 1);
    }
    void gone() {
        if (core != nullptr) s.a.as_here([&] { core->abandon(); });
    }
    static task<> arrives(std::shared_ptr<detail::barrier_core> at, mailbox& from, wait_limits limits, std::string& outcome) {
        try {
            co_await detail::barrier_core::arrive_and_wait(std::move(at), from, limits);
            outcome = "met";
        } catch (const std::system_error& e) {
            outcome = e.code() == std::errc::timed_out ? "timed out" : e.code() == std::errc::operation_canceled ? "canceled" : e.what();
        }
    }
    void arrive(shard_test::hand_driven_shard& at, std::string& outcome, wait_limits limits = {}) {
        at.as_here([&] { at.loop.root_group().spawn(arrives(core, at.mail, limits, outcome)); });
    }
    void destroy_tasks(shard_test::hand_driven_shard& at) {
        at.as_here([&] { at.loop.root_group().destroy_all(); });
    }
    wait_limits soon() const { return {.deadline = s.clock.time + 1ms}; }
    /// An arrival from b is taken in, and its withdrawal sent.
    void first_gives_up() {
        arrive(s.b, first, soon());
        s.a.turn();
        s.clock.time += 2ms;
        s.b.turn();
    }
    /// b's ring to a has no room any more.
    void fill_ring() {
        while (s.b.mail.try_post(0, [] {})) {}
    }
    shard_test::two_shards s;
    std::shared_ptr<detail::barrier_core> core;
    std::string first, second;
};

} // namespace

BOOST_AUTO_TEST_SUITE(barrier)

BOOST_AUTO_TEST_CASE(nobody_goes_on_before_everybody_has_come) { run_on_first(all_walk, 3); }

BOOST_AUTO_TEST_CASE(one_that_gives_up_or_goes_has_not_arrived) {
    run_on_first(gives_up_by_its_deadline);
    run_on_first(gives_up_by_its_token);
    run_on_first(is_destroyed_in_line);
}

BOOST_AUTO_TEST_CASE(those_who_give_up_and_try_again_meet_all_the_same) { run_on_first(all_walk_impatiently, 3); }

BOOST_AUTO_TEST_CASE(an_arrival_from_another_shard_is_taken_back_by_its_deadline) {
    by_hand w;
    w.arrive(w.s.b, w.first, w.soon());
    w.s.a.turn();
    BOOST_CHECK_EQUAL(w.core->arrived(), 1u);
    w.s.clock.time += 2ms;
    w.s.b.turn(); // gives up, and waits for home's word
    BOOST_CHECK_EQUAL(w.first, "");
    w.s.a.turn();
    BOOST_CHECK_EQUAL(w.core->arrived(), 0u);
    w.s.b.turn();
    BOOST_CHECK_EQUAL(w.first, "timed out");
    w.arrive(w.s.b, w.second);
    w.s.settle();
    BOOST_CHECK_EQUAL(w.second, "");
    BOOST_CHECK_EQUAL(w.core->rounds(), 0u);
}

BOOST_AUTO_TEST_CASE(where_the_last_one_comes_before_the_withdrawal_both_have_met) {
    by_hand w;
    w.first_gives_up();
    w.arrive(w.s.a, w.second); // the withdrawal stands in the ring still
    BOOST_CHECK_EQUAL(w.core->rounds(), 1u);
    w.s.settle();
    BOOST_CHECK_EQUAL(w.first, "met");
    BOOST_CHECK_EQUAL(w.second, "met");
    BOOST_CHECK_EQUAL(w.core->arrived(), 0u);
}

BOOST_AUTO_TEST_CASE(where_the_withdrawal_comes_first_the_last_one_waits) {
    by_hand w;
    w.first_gives_up();
    w.s.a.turn();
    w.arrive(w.s.a, w.second);
    w.s.settle();
    BOOST_CHECK_EQUAL(w.first, "timed out");
    BOOST_CHECK_EQUAL(w.second, "");
    BOOST_CHECK_EQUAL(w.core->arrived(), 1u);
}

BOOST_AUTO_TEST_CASE(an_arrival_whose_frame_goes_is_taken_back) {
    by_hand w;
    w.arrive(w.s.b, w.first);
    w.destroy_tasks(w.s.b); // both messages stand in the ring
    w.arrive(w.s.b, w.first);
    w.s.a.turn();
    BOOST_CHECK_EQUAL(w.core->arrived(), 1u);
    w.destroy_tasks(w.s.b);
    w.s.settle();
    BOOST_CHECK_EQUAL(w.core->arrived(), 0u);
    BOOST_CHECK_EQUAL(w.core->rounds(), 0u);
}

BOOST_AUTO_TEST_CASE(a_withdrawal_that_finds_no_room_waits_for_it_without_its_frame) {
    by_hand w(10);
    for (int i = 0; i < 3; ++i) w.arrive(w.s.b, w.first, w.soon());
    w.s.a.turn();
    BOOST_CHECK_EQUAL(w.core->arrived(), 3u);
    w.fill_ring();
    w.arrive(w.s.b, w.second); // waits for room in its frame
    w.destroy_tasks(w.s.b);
    w.s.settle();
    BOOST_CHECK_EQUAL(w.core->arrived(), 0u);
}

BOOST_AUTO_TEST_CASE(one_that_gives_up_before_there_was_room_never_arrives) {
    by_hand w;
    w.fill_ring();
    w.arrive(w.s.b, w.first, w.soon());
    w.s.clock.time += 2ms;
    w.s.b.turn();
    BOOST_CHECK_EQUAL(w.first, "timed out");
    w.s.settle();
    BOOST_CHECK_EQUAL(w.core->arrived(), 0u);
}

BOOST_AUTO_TEST_CASE(a_withdrawal_that_comes_too_late_does_not_touch_the_next_arrival) {
    by_hand w;
    w.arrive(w.s.b, w.first);
    w.s.a.turn();
    w.arrive(w.s.a, w.second); // opens it; the answer stands in the ring
    w.destroy_tasks(w.s.b);
    w.s.b.turn(); // the answer finds nobody, and its record is free
    w.arrive(w.s.b, w.first); // with the same record
    w.s.settle();
    BOOST_CHECK_EQUAL(w.core->rounds(), 1u);
    BOOST_CHECK_EQUAL(w.core->arrived(), 1u);
    w.arrive(w.s.a, w.second);
    w.s.settle();
    BOOST_CHECK_EQUAL(w.first, "met");
}

BOOST_AUTO_TEST_CASE(messages_on_their_way_outlive_the_barrier) {
    by_hand w;
    std::string third;
    w.arrive(w.s.b, w.first);
    w.s.a.turn();
    w.destroy_tasks(w.s.b); // a withdrawal on its way,
    w.arrive(w.s.b, w.second); // an arrival,
    w.fill_ring();
    w.arrive(w.s.b, third); // and one that waits for room
    w.gone();
    w.core.reset();
    w.s.settle();
    BOOST_CHECK_EQUAL(w.second, "canceled");
    BOOST_CHECK_EQUAL(third, "canceled");
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
