// Mailboxes, turn by turn: order, full rings in both directions, calls that give up, messages that nobody took.
#include "two_shards.hh"

#include <boost/test/unit_test.hpp>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace corewire;
using namespace shard_test;
using namespace std::chrono_literals;

namespace {

template <typename F>
task<> call_and_store(hand_driven_shard& from, F f, std::string& out, wait_limits limits = {}) {
    try {
        auto call = submit(from, 1, std::move(f), limits);
        const auto value = co_await call;
        out = std::to_string(value);
    } catch (const std::system_error& e) {
        out = e.code() == std::errc::timed_out                          ? "timed out"
              : e.code() == std::errc::operation_canceled               ? "cancelled"
              : e.code() == std::errc::resource_unavailable_try_again   ? "try again"
                                                                        : "other";
    } catch (const std::exception& e) {
        out = e.what();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(mailbox)

BOOST_AUTO_TEST_CASE(a_call_takes_one_turn_of_each_shard) {
    two_shards s;
    std::string out = "waiting";
    s.a.as_here([&] { s.a.loop.root_group().spawn(call_and_store(s.a, [] { return 42; }, out)); });
    s.b.turn();
    BOOST_TEST(out == "waiting");
    s.a.turn();
    BOOST_TEST(out == "42");
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
    BOOST_TEST(s.a.mail.statistics().sent == 1u);
    BOOST_TEST(s.b.mail.statistics().sent == 1u);
}

BOOST_AUTO_TEST_CASE(an_exception_comes_back_as_itself) {
    two_shards s;
    std::string out;
    s.a.as_here([&] {
        s.a.loop.root_group().spawn(
            call_and_store(s.a, []() -> int { throw std::out_of_range("no row 7"); }, out));
    });
    s.settle();
    BOOST_TEST(out == "no row 7");
}

BOOST_AUTO_TEST_CASE(a_full_ring_makes_callers_wait_in_order_and_loses_none) {
    two_shards s; // four slots
    std::vector<int> ran;
    std::array<std::string, 20> outs;
    s.a.as_here([&] {
        for (int i = 0; i < 20; ++i)
            s.a.loop.root_group().spawn(call_and_store(s.a, [&ran, i] { return ran.push_back(i), i; }, outs[i]));
    });
    BOOST_TEST(s.a.mail.statistics().waited == 16u);
    s.settle();
    BOOST_TEST(ran.size() == 20u);
    for (int i = 0; i < 20; ++i) {
        BOOST_TEST(ran[i] == i);
        BOOST_TEST(outs[i] == std::to_string(i));
    }
}

BOOST_AUTO_TEST_CASE(replies_that_find_the_ring_full_are_parked_with_the_caller_and_arrive_in_order) {
    two_shards s({.ring_slots = 4});
    std::array<std::string, 12> outs;
    s.a.as_here([&] {
        for (int i = 0; i < 12; ++i) s.a.loop.root_group().spawn(call_and_store(s.a, [i] { return i; }, outs[i]));
    });
    // A's mailbox sends, and B answers, while nothing takes the answers in: B's ring to A holds four of them.
    for (int turn = 0; turn < 3; ++turn) {
        s.b.turn();
        static_cast<poller&>(s.a.mail).flush({});
    }
    BOOST_TEST(outs[0].empty());
    s.settle();
    for (int i = 0; i < 12; ++i) BOOST_TEST(outs[i] == std::to_string(i));
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(two_shards_that_fill_each_others_rings_both_get_on) {
    two_shards s({.ring_slots = 2, .batch = 1});
    int done = 0;
    const auto caller = [](hand_driven_shard& from, unsigned to, int& finished) -> task<> {
        auto call = submit(from, to, [] { return 1; });
        const int one = co_await call;
        finished += one;
    };
    s.a.as_here([&] {
        for (int i = 0; i < 50; ++i) s.a.loop.root_group().spawn(caller(s.a, 1, done));
    });
    s.b.as_here([&] {
        for (int i = 0; i < 50; ++i) s.b.loop.root_group().spawn(caller(s.b, 0, done));
    });
    s.settle();
    BOOST_TEST(done == 100);
    BOOST_TEST(s.a.mail.statistics().parked + s.b.mail.statistics().parked > 0u);
    BOOST_TEST(s.a.mail.quiet());
    BOOST_TEST(s.b.mail.quiet());
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_the_wait_but_not_the_call) {
    two_shards s;
    bool ran = false;
    std::string out = "waiting";
    s.a.as_here([&] {
        s.a.loop.root_group().spawn(call_and_store(
            s.a, [&ran] { return ran = true, 1; }, out, {.deadline = s.clock.time + 1ms}));
    });
    s.clock.time += 1ms;
    s.a.turn();
    BOOST_TEST(out == "timed out");
    BOOST_TEST(s.a.mail.calls().in_flight() == 1u); // the record waits for the reply
    s.settle();
    BOOST_TEST(ran);
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(a_call_cancelled_before_it_was_sent_never_runs) {
    two_shards s;
    int ran = 0;
    stop_source stop;
    std::array<std::string, 6> outs;
    s.a.as_here([&] {
        for (auto& out : outs)
            s.a.loop.root_group().spawn(call_and_store(s.a, [&ran] { return ++ran; }, out, {.stop = stop.token()}));
        stop.request_stop();
    });
    s.settle();
    BOOST_TEST(ran == 4); // the ring's four; two waited in their frames
    for (const auto& out : outs) BOOST_TEST(out == "cancelled");
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(a_caller_destroyed_in_flight_leaves_nothing_behind) {
    two_shards s;
    std::array<std::string, 6> outs;
    s.a.as_here([&] {
        for (auto& out : outs) s.a.loop.root_group().spawn(call_and_store(s.a, [] { return 1; }, out));
        s.a.loop.root_group().destroy_all();
    });
    s.settle();
    for (const auto& out : outs) BOOST_TEST(out.empty());
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(a_callable_that_does_not_let_itself_be_moved_takes_no_record) {
    struct unwilling {
        unwilling() = default;
        unwilling(const unwilling&) { throw std::runtime_error("stays here"); }
        int operator()() const { return 1; }
    };
    two_shards s;
    s.a.as_here([&] {
        const unwilling stays;
        BOOST_CHECK_THROW(submit(s.a, 1, stays), std::runtime_error);
    });
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(more_calls_than_the_limit_fail_at_once_and_are_counted) {
    two_shards s({.ring_slots = 4, .calls_in_flight = 8});
    std::array<std::string, 10> outs;
    s.a.as_here([&] {
        for (auto& out : outs) s.a.loop.root_group().spawn(call_and_store(s.a, [] { return 1; }, out));
    });
    BOOST_TEST(outs[8] == "try again");
    BOOST_TEST(outs[9] == "try again");
    BOOST_TEST(s.a.mail.calls().exhausted() == 2u);
    s.settle();
    BOOST_TEST(outs[7] == "1");
}

BOOST_AUTO_TEST_CASE(a_post_is_refused_when_the_ring_is_full_and_keeps_its_callable) {
    two_shards s;
    int ran = 0;
    auto witness = std::make_shared<int>(0);
    auto post = [&ran, witness] { ++ran; };
    for (int i = 0; i < 4; ++i) BOOST_TEST(s.a.mail.try_post(1, post));
    BOOST_TEST(!s.a.mail.try_post(1, std::move(post)));
    BOOST_TEST(s.a.mail.statistics().posts_refused == 1u);
    BOOST_TEST(witness.use_count() == 6);
    s.settle();
    BOOST_TEST(ran == 4);
    BOOST_TEST(witness.use_count() == 2);
}

BOOST_AUTO_TEST_CASE(messages_that_nobody_took_are_destroyed_with_the_mailbox) {
    auto witness = std::make_shared<int>(0);
    {
        manual_clock clock;
        hand_driven_shard a(clock, 0, {.ring_slots = 4}), b(clock, 1, {.ring_slots = 4});
        corewire::mailbox::connect(a.mail, b.mail);
        BOOST_TEST(a.mail.try_post(1, [witness] {}));
        BOOST_TEST(witness.use_count() == 2);
    }
    BOOST_TEST(witness.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(large_callables_and_results_travel_in_blocks) {
    two_shards s;
    std::array<char, 200> text{};
    text[199] = 'x';
    std::array<char, 300> result{};
    const auto caller = [](hand_driven_shard& from, std::array<char, 200> argument, std::array<char, 300>& into) -> task<> {
        auto call = submit(from, 1, [argument] {
            std::array<char, 300> big{};
            big[299] = argument[199];
            return big;
        });
        into = co_await call;
    };
    s.a.as_here([&] { s.a.loop.root_group().spawn(caller(s.a, text, result)); });
    s.settle();
    BOOST_TEST(result[299] == 'x');
}

BOOST_AUTO_TEST_CASE(move_only_results_come_home) {
    two_shards s;
    std::unique_ptr<int> result;
    const auto caller = [](hand_driven_shard& from, std::unique_ptr<int>& into) -> task<> {
        auto call = submit(from, 1, [argument = std::make_unique<int>(7)]() mutable { return std::move(argument); });
        into = co_await call;
    };
    s.a.as_here([&] { s.a.loop.root_group().spawn(caller(s.a, result)); });
    s.settle();
    BOOST_REQUIRE(result);
    BOOST_TEST(*result == 7);
}

BOOST_AUTO_TEST_CASE(a_task_runs_over_there_and_its_end_is_the_answer) {
    two_shards s;
    std::string out;
    promise<int> gate; // shard b's
    corewire::future<int> opened = gate.get_future();
    s.a.as_here([&] {
        s.a.loop.root_group().spawn(call_and_store(
            s.a,
            [&opened] {
                return [](corewire::future<int>& f) -> task<int> {
                    const int n = co_await f;
                    co_return n + 1;
                }(opened);
            },
            out));
    });
    s.settle();
    BOOST_TEST(out.empty());
    s.b.as_here([&] { gate.set_value(1); });
    s.settle();
    BOOST_TEST(out == "2");
}

BOOST_AUTO_TEST_CASE(a_task_abandoned_over_there_answers_with_a_cancellation) {
    two_shards s;
    std::string out;
    promise<int> never_kept;
    corewire::future<int> waiting = never_kept.get_future();
    s.a.as_here([&] {
        s.a.loop.root_group().spawn(call_and_store(
            s.a, [&waiting] { return [](corewire::future<int>& f) -> task<int> { co_return co_await f; }(waiting); }, out));
    });
    s.settle();
    s.b.as_here([&] { s.b.loop.root_group().destroy_all(); });
    s.settle();
    BOOST_TEST(out == "cancelled");
    BOOST_TEST(s.a.mail.calls().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(a_frame_freed_on_another_shard_goes_home) {
    two_shards s;
    // A task made on shard a, destroyed on shard b: its frame is shard a's memory.
    std::optional<task<int>> made;
    s.a.as_here([&] { made.emplace([]() -> task<int> { co_return 1; }()); });
    s.b.as_here([&] { made.reset(); });
    const auto home_before = s.a.loop.frames().came_home();
    s.a.as_here([&] {
        // The returns are taken in when a list runs dry: ask for frames of that size until they are.
        std::vector<task<int>> frames;
        for (int i = 0; i < 5000; ++i) frames.push_back([]() -> task<int> { co_return 1; }());
    });
    BOOST_TEST(s.a.loop.frames().came_home() == home_before + 1);
    BOOST_TEST(s.b.loop.frames().came_home() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
