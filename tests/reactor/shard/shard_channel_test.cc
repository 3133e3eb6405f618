// shard_channel<T>: many shards into one: order, credits, a full ring, closing, and shutdown.
#include "some_shards.hh"

#include <corewire/reactor/shard/shard_channel.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/when_all.hh>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::run_on_first;

namespace {

struct parcel {
    unsigned from;
    int number;
    std::string text;
};
using line = corewire::shard_channel<parcel>;

std::errc code_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::system_error& e) {
        return static_cast<std::errc>(e.code().value());
    }
}

task<int> sends(line& c, int count) {
    int sent = 0;
    for (; sent < count; ++sent) {
        parcel next{this_shard::id(), sent, "a text that is too long to be stored in place"};
        co_await c.send(std::move(next));
    }
    co_return sent;
}
task<> sends_on(line& c, unsigned shard, int count) {
    const int sent = co_await submit_to(shard, [&c, count] { return sends(c, count); });
    BOOST_CHECK_EQUAL(sent, count);
}
task<> receives(line& c, int count) {
    std::vector<int> next(this_shard::count(), 0);
    for (int got = 0; got < count; ++got) {
        auto value = co_await c.receive();
        BOOST_REQUIRE(value);
        BOOST_CHECK_EQUAL(value->number, next[value->from]++); // each shard's in order
        BOOST_CHECK_EQUAL(value->text.size(), 45u);
    }
}
task<> many_to_one() {
    line c(8);
    std::vector<task<>> all;
    for (unsigned shard = 0; shard < this_shard::count(); ++shard) all.push_back(sends_on(c, shard, 5000));
    all.push_back(receives(c, 5000 * static_cast<int>(this_shard::count())));
    co_await when_all(std::move(all));
    BOOST_CHECK_EQUAL(c.size(), 0u);
    co_await c.close();
}

task<std::errc> send_until_it_fails(line& c, std::atomic<int>& sent, duration within) {
    try {
        for (;; ++sent) {
            parcel next{this_shard::id(), sent, {}};
            wait_limits limits; // outside the co_await: g++ evaluates both sides of a ?: in there
            if (within != duration::max()) limits.deadline = reactor::current().now() + within;
            co_await c.send(std::move(next), limits);
        }
    } catch (const std::system_error& e) {
        co_return static_cast<std::errc>(e.code().value());
    }
}
task<> nobody_receives() {
    line c(8);
    std::atomic<int> sent{0};
    const std::errc outcome = co_await submit_to(1, [&] { return send_until_it_fails(c, sent, 1ms); });
    BOOST_CHECK(outcome == std::errc::timed_out);
    BOOST_CHECK_EQUAL(sent.load(), 8); // the limit of one shard
    for (int i = 0; i < 8; ++i) {
        const auto value = co_await c.receive();
        BOOST_CHECK_EQUAL(value->number, i);
    }
    BOOST_CHECK(!c.try_receive());
    co_await c.close();
}
task<> closed_under_senders() {
    line c(8);
    std::atomic<int> sent{0};
    auto call = submit_to(1, [&] { return send_until_it_fails(c, sent, duration::max()); });
    while (sent != 8) co_await yield();
    co_await c.close();
    const std::errc outcome = co_await call;
    BOOST_CHECK(outcome == std::errc::broken_pipe);
    for (int i = 0; i < 8; ++i) BOOST_CHECK((co_await c.receive()).has_value()); // what had come is still received
    BOOST_CHECK(!(co_await c.receive()).has_value());
    std::errc late{};
    try {
        parcel too_late{0, 0, {}};
        co_await c.send(std::move(too_late));
    } catch (const std::system_error& e) {
        late = static_cast<std::errc>(e.code().value());
    }
    BOOST_CHECK(late == std::errc::broken_pipe);
}
task<> closed_with_values_unread() {
    auto counted = std::make_shared<int>(0);
    {
        corewire::shard_channel<std::shared_ptr<int>> c(2);
        co_await c.send(counted);
        co_await c.send(counted);
        co_await c.close();
    }
    BOOST_CHECK_EQUAL(counted.use_count(), 1);
}
task<> receives_by_a_deadline() {
    line c(1);
    std::errc outcome{};
    try {
        static_cast<void>(co_await c.receive({.deadline = reactor::current().now() + 1ms}));
    } catch (const std::system_error& e) {
        outcome = static_cast<std::errc>(e.code().value());
    }
    BOOST_CHECK(outcome == std::errc::timed_out);
    co_await c.close();
}

task<> stops_soon(stop_source& stop) {
    co_await yield();
    stop.request_stop();
}
task<> ends_by_its_token() {
    line c(1);
    stop_source stop;
    task_group group("stops");
    group.spawn(stops_soon(stop));
    const auto got = co_await as_result(c.receive({.stop = stop.token()}));
    BOOST_CHECK(!got && code_of(got.error()) == std::errc::operation_canceled);
    parcel first{0, 0, {}}, second{0, 1, {}};
    co_await c.send(std::move(first));
    stop_source again;
    group.spawn(stops_soon(again));
    const auto sent = co_await as_result(c.send(std::move(second), {.stop = again.token()}));
    BOOST_CHECK(!sent && code_of(sent.error()) == std::errc::operation_canceled);
    BOOST_CHECK_EQUAL(c.size(), 1u); // what was not sent is gone
    co_await group.join();
    co_await c.close();
}
task<> waits_for_one(line& c, int& got) {
    if (auto value = co_await c.receive()) got = value->number;
}
task<> sends_one(line& c, int number) {
    parcel next{this_shard::id(), number, {}};
    co_await c.send(std::move(next));
}
/// Who is destroyed while it waits leaves its place to those behind.
task<> loses_its_waiters() {
    line c(1);
    int gone = -1, got = -1;
    task_group leaving("leaving"), staying("staying");
    leaving.spawn(waits_for_one(c, gone));
    staying.spawn(waits_for_one(c, got));
    leaving.destroy_all();
    co_await sends_one(c, 7);
    co_await staying.join();
    BOOST_CHECK_EQUAL(got, 7);
    BOOST_CHECK_EQUAL(gone, -1);
    co_await sends_one(c, 8); // the only credit
    leaving.spawn(sends_one(c, 9));
    staying.spawn(sends_one(c, 10));
    leaving.destroy_all();
    BOOST_CHECK_EQUAL((co_await c.receive())->number, 8);
    BOOST_CHECK_EQUAL((co_await c.receive())->number, 10);
    co_await staying.join();
    co_await c.close();
}
/// What the two shards tell each other while neither returns to its loop.
struct standstill {
    std::atomic<bool> begun{false}, home_stands{false}, over{false};
    static void wait_for(const std::atomic<bool>& sign) {
        while (!sign) std::this_thread::yield();
    }
};
/// On another shard, while home takes nothing from the ring: those that stand in the ring's line are destroyed there.
task<> fills_the_ring_and_goes(line& c, standstill& signs) {
    signs.begun = true;
    standstill::wait_for(signs.home_stands);
    task_group senders("senders");
    for (int i = 0; i < 8; ++i) senders.spawn(sends_one(c, i));
    BOOST_CHECK_EQUAL(senders.size(), 6u); // the ring has two slots
    senders.destroy_all();
    signs.over = true;
    co_return;
}
task<> loses_senders_in_the_rings_line() {
    line c(8);
    standstill signs;
    auto call = submit_to(1, [&] { return fills_the_ring_and_goes(c, signs); });
    while (!signs.begun) co_await yield();
    signs.home_stands = true;
    standstill::wait_for(signs.over);
    co_await call;
    co_await c.close(); // nobody is waited for who is not there
    int received = 0;
    while (auto value = c.try_receive()) BOOST_CHECK_EQUAL(value->number, received++);
    BOOST_CHECK_EQUAL(received, 2);
}
/// Home has taken what was in the ring, so that one look at the mail brings the answer, and then lets the sender's value into the ring: who
/// waited for the answer runs first.
task<> destroys_a_sender_that_has_sent(line& c, standstill& signs, const std::atomic<bool>& home_took) {
    signs.begun = true;
    standstill::wait_for(signs.home_stands);
    auto answer = submit_to(c.home(), [] {});
    task_group senders("senders");
    senders.spawn(sends_one(c, 0));
    senders.spawn(sends_one(c, 1));
    BOOST_CHECK_EQUAL(senders.size(), 1u); // the ring has two slots
    signs.over = true;
    standstill::wait_for(home_took);
    co_await answer;
    senders.destroy_all();
}
task<> loses_a_sender_between_the_ring_and_its_turn() {
    line c(2);
    standstill signs;
    std::atomic<bool> took{false};
    auto call = submit_to(1, [&] { return destroys_a_sender_that_has_sent(c, signs, took); });
    while (!signs.begun) co_await yield();
    signs.home_stands = true;
    standstill::wait_for(signs.over);
    while (c.size() == 0) co_await yield();
    took = true;
    co_await call;
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 2; ++i) {
            const auto value = co_await c.receive();
            BOOST_CHECK_EQUAL(value->number, i);
        }
        std::atomic<int> sent{0}; // no more than its limit
        auto again = submit_to(1, [&] { return send_until_it_fails(c, sent, 1ms); });
        co_await again;
        BOOST_CHECK_EQUAL(sent.load(), 2);
    }
    co_await c.close();
}
/// A sender that has its credit and has not run since: its value has been sent, as far as close() is concerned.
task<> closes_behind_a_sender_with_a_credit() {
    line c(1);
    task_group senders("senders");
    co_await sends_one(c, 1);
    senders.spawn(sends_one(c, 2));
    const auto first = co_await c.receive(); // its credit goes to the one that waits
    BOOST_CHECK(first && first->number == 1);
    co_await c.close();
    const auto second = c.try_receive();
    BOOST_CHECK(second && second->number == 2);
    co_await senders.join();
}
/// Sends without end, through what stays when the channel goes: the frame of one send() after another.
task<> sends_until_it_ends(line& c, std::atomic<int>& begun) {
    task_group senders("senders"); // more than there are credits and places in the ring
    for (int i = 0; i < 12; ++i) senders.spawn(sends_one(c, i));
    ++begun;
    co_await senders.join();
}
/// At shutdown it goes with values unread, on their way, and in every line.
task<> goes_at_shutdown(runtime& all) {
    auto c = std::make_unique<line>(8);
    std::atomic<int> begun{0};
    task_group calls("calls");
    const auto call = [](line& to, unsigned shard, std::atomic<int>& count) -> task<> {
        co_await submit_to(shard, [&to, &count] { return sends_until_it_ends(to, count); });
    };
    for (unsigned shard = 1; shard < this_shard::count(); ++shard) calls.spawn(call(*c, shard, begun));
    while (begun != 2) co_await yield();
    all.request_stop();
    while (!this_shard::stopping().stop_requested()) co_await yield();
    c.reset();
    calls.destroy_all();
}
task<> closes_by_a_deadline() {
    line c(8);
    const time_point past = reactor::current().now();
    const auto closed = co_await as_result(c.close({.deadline = past}));
    BOOST_CHECK(!closed && code_of(closed.error()) == std::errc::timed_out);
    co_await c.close();
}

} // namespace

BOOST_AUTO_TEST_SUITE(shard_channel)

BOOST_AUTO_TEST_CASE(values_of_each_shard_arrive_in_the_order_they_were_sent) { run_on_first(many_to_one, 3); }

BOOST_AUTO_TEST_CASE(a_ring_smaller_than_the_credits_holds_senders_up_and_loses_nothing) {
    run_on_first(many_to_one, 3, {.ring_slots = 2});
}

BOOST_AUTO_TEST_CASE(a_shard_that_nobody_listens_to_stops_at_its_limit) { run_on_first(nobody_receives); }

BOOST_AUTO_TEST_CASE(closing_ends_senders_on_other_shards_and_keeps_what_has_come) { run_on_first(closed_under_senders); }

BOOST_AUTO_TEST_CASE(closing_while_senders_stand_in_line_for_the_ring_waits_for_them) {
    run_on_first(closed_under_senders, 2, {.ring_slots = 2});
}

BOOST_AUTO_TEST_CASE(values_that_nobody_reads_are_destroyed_with_it) { run_on_first(closed_with_values_unread, 1); }

BOOST_AUTO_TEST_CASE(a_deadline_ends_a_receive) { run_on_first(receives_by_a_deadline, 1); }

BOOST_AUTO_TEST_CASE(a_token_ends_a_receive_and_a_send) { run_on_first(ends_by_its_token, 1); }

BOOST_AUTO_TEST_CASE(who_is_destroyed_while_it_waits_leaves_its_place_to_those_behind) { run_on_first(loses_its_waiters, 1); }

BOOST_AUTO_TEST_CASE(a_sender_that_is_destroyed_in_the_line_for_the_ring_is_not_waited_for) {
    run_on_first(loses_senders_in_the_rings_line, 2, {.ring_slots = 2});
}

BOOST_AUTO_TEST_CASE(a_sender_that_is_destroyed_when_its_value_is_in_the_ring_has_spent_its_credit) {
    run_on_first(loses_a_sender_between_the_ring_and_its_turn, 2, {.ring_slots = 2});
}

BOOST_AUTO_TEST_CASE(what_has_its_credit_when_the_channel_is_closed_still_arrives) {
    run_on_first(closes_behind_a_sender_with_a_credit, 1);
}

BOOST_AUTO_TEST_CASE(one_that_goes_at_shutdown_is_there_for_what_is_on_its_way) {
    corewire::runtime_options options = shard_test::shards(3);
    options.mail.ring_slots = 2;
    options.drain = 1ms; // the senders wait for credits that nobody gives any more
    corewire::runtime all(options);
    all.run([&all]() -> task<> {
        const auto nothing = []() -> task<> { co_return; };
        return this_shard::id() == 0 ? goes_at_shutdown(all) : nothing();
    });
}

BOOST_AUTO_TEST_CASE(a_close_that_is_cut_short_is_called_again) { run_on_first(closes_by_a_deadline); }

BOOST_AUTO_TEST_SUITE_END()
