// promise and future: each order of keeping, awaiting, moving and giving up.
#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/task/task_group.hh>

#include "two_shards.hh"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>
#include <string>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

struct one_loop {
    shard_test::manual_clock clock;
    reactor loop{{.clock = &clock}};
    reactor::scope here{loop};
    task_group tasks{"test"};
    void turn() { loop.poll_once(); }
};

task<> await_into(future<int>& awaited, std::string& out, wait_limits limits = {}) {
    try {
        const int n = co_await awaited.get(limits);
        out = std::to_string(n);
    } catch (const std::system_error& e) {
        out = e.code() == std::errc::timed_out ? "timed out" : "cancelled";
    } catch (const std::exception& e) {
        out = e.what();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(future)

BOOST_AUTO_TEST_CASE(a_kept_promise_wakes_who_waits_on_the_next_turn) {
    one_loop l;
    promise<int> p;
    corewire::future<int> f = p.get_future();
    std::string out = "waiting";
    l.tasks.spawn(await_into(f, out));
    l.turn();
    BOOST_TEST(out == "waiting");
    p.set_value(3);
    BOOST_TEST(out == "waiting"); // woken, not resumed from inside set_value
    l.turn();
    BOOST_TEST(out == "3");
}

BOOST_AUTO_TEST_CASE(a_promise_kept_before_the_await_does_not_suspend) {
    one_loop l;
    promise<int> p;
    corewire::future<int> f = p.get_future();
    p.set_value(4);
    BOOST_TEST(f.ready());
    std::string out;
    l.tasks.spawn(await_into(f, out));
    BOOST_TEST(out == "4");
}

BOOST_AUTO_TEST_CASE(a_promise_may_be_kept_before_its_future_is_asked_for) {
    one_loop l;
    promise<int> p;
    p.set_value(5);
    corewire::future<int> f = p.get_future();
    std::string out;
    l.tasks.spawn(await_into(f, out));
    BOOST_TEST(out == "5");
}

BOOST_AUTO_TEST_CASE(both_ends_may_be_moved) {
    one_loop l;
    auto first = std::make_unique<promise<int>>();
    corewire::future<int> f = first->get_future();
    corewire::future<int> moved = std::move(f);
    promise<int> second = std::move(*first);
    first.reset(); // the moved-from promise breaks nothing
    second.set_value(6);
    std::string out;
    l.tasks.spawn(await_into(moved, out));
    BOOST_TEST(out == "6");
}

BOOST_AUTO_TEST_CASE(a_promise_that_goes_unkept_is_broken) {
    one_loop l;
    std::string out;
    corewire::future<int> f;
    {
        promise<int> p;
        f = p.get_future();
        l.tasks.spawn(await_into(f, out));
    }
    l.turn();
    BOOST_TEST(out == "a promise was destroyed before it was kept");
}

BOOST_AUTO_TEST_CASE(an_exception_travels) {
    one_loop l;
    promise<int> p;
    corewire::future<int> f = p.get_future();
    p.set_exception(std::make_exception_ptr(std::runtime_error("no such key")));
    std::string out;
    l.tasks.spawn(await_into(f, out));
    BOOST_TEST(out == "no such key");
}

BOOST_AUTO_TEST_CASE(a_value_that_nobody_wants_any_more_is_dropped) {
    one_loop l;
    promise<std::shared_ptr<int>> p;
    auto witness = std::make_shared<int>(1);
    { const corewire::future<std::shared_ptr<int>> dropped = p.get_future(); }
    p.set_value(witness);
    BOOST_TEST(*witness == 1);
}

BOOST_AUTO_TEST_CASE(a_wait_ends_at_its_deadline_and_not_before) {
    one_loop l;
    promise<int> p;
    corewire::future<int> f = p.get_future();
    std::string out = "waiting";
    l.tasks.spawn(await_into(f, out, {.deadline = l.clock.time + 5ms}));
    l.clock.time += 5ms - 1ns;
    l.turn();
    BOOST_TEST(out == "waiting");
    l.clock.time += 1ns;
    l.turn();
    BOOST_TEST(out == "timed out");
    p.set_value(1); // too late: the future keeps it
    BOOST_TEST(f.ready());
}

BOOST_AUTO_TEST_CASE(a_stop_token_cancels_the_wait) {
    one_loop l;
    promise<int> p;
    corewire::future<int> f = p.get_future();
    stop_source source;
    std::string out = "waiting";
    l.tasks.spawn(await_into(f, out, {.stop = source.token()}));
    source.request_stop();
    l.turn();
    BOOST_TEST(out == "cancelled");
}

BOOST_AUTO_TEST_CASE(a_destroyed_waiter_is_not_woken) {
    one_loop l;
    promise<int> p;
    corewire::future<int> f = p.get_future();
    std::string out = "waiting";
    l.tasks.spawn(await_into(f, out));
    l.tasks.destroy_all();
    p.set_value(9);
    l.turn();
    BOOST_TEST(out == "waiting");
}

BOOST_AUTO_TEST_CASE(void_futures_carry_only_the_moment) {
    one_loop l;
    promise<void> p;
    corewire::future<void> f = p.get_future();
    p.set_value();
    BOOST_TEST(f.ready());
}

BOOST_AUTO_TEST_SUITE_END()
