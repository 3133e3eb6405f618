// channel<T>: order, back-pressure, closing, and that no value is lost on one who is gone.
#include "waits.hh"

#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/when_all.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::attempt;
using reactor_test::driven;
using reactor_test::journal;

namespace {

using line = corewire::channel<std::string>;
using receiver = attempt<std::optional<std::string>>;
struct sent {};
using sender = attempt<sent>;

time_point end_of(duration within) { return within == duration::max() ? never : reactor::current().now() + within; }
auto receiving(line& c, duration within = duration::max()) {
    return [&c, within](stop_token stop) { return c.receive({.deadline = end_of(within), .stop = stop}); };
}
task<sent> send_one(line& c, std::string value, wait_limits limits) {
    co_await c.send(std::move(value), limits);
    co_return sent{};
}
auto sending(line& c, std::string value, duration within = duration::max()) {
    return [&c, value, within](stop_token stop) { return send_one(c, value, {.deadline = end_of(within), .stop = stop}); };
}
std::string got(const receiver& r) { return !r.held ? "(waits)" : r.held->has_value() ? **r.held : "(end)"; }

task<> produces(corewire::channel<int>& c, int from, int count) {
    for (int i = 0; i < count; ++i) co_await c.send(from + i);
}
task<> consumes(corewire::channel<int>& c, std::vector<int>& into) {
    while (auto value = co_await c.receive()) {
        into.push_back(*value);
        if (*value % 3 == 0) co_await corewire::yield();
    }
}
task<> produce_all(corewire::channel<int>& c) {
    co_await corewire::when_all(produces(c, 0, 100), produces(c, 1000, 100), produces(c, 2000, 100));
    c.close();
}
task<std::unique_ptr<int>> passes_on(corewire::channel<std::unique_ptr<int>>& c) {
    co_await c.send(std::make_unique<int>(7));
    auto received = co_await c.receive();
    co_return std::move(*received);
}

} // namespace

BOOST_AUTO_TEST_SUITE(channel)

BOOST_AUTO_TEST_CASE(values_arrive_in_the_order_they_were_sent) {
    driven d;
    line c{3};
    for (const char* word : {"one", "two", "three"}) BOOST_CHECK(c.try_send(word));
    BOOST_CHECK_EQUAL(c.size(), 3u);
    BOOST_CHECK_EQUAL(*c.try_receive(), "one");
    BOOST_CHECK(c.try_send("four"));
    for (const char* word : {"two", "three", "four"}) BOOST_CHECK_EQUAL(*c.try_receive(), word);
    BOOST_CHECK(!c.try_receive());
}

BOOST_AUTO_TEST_CASE(a_full_channel_refuses_and_leaves_the_value_alone) {
    driven d;
    line c{1};
    std::string value = "a value that is too long to be stored in place";
    BOOST_CHECK(c.try_send("first"));
    BOOST_CHECK(!c.try_send(std::move(value)));
    BOOST_CHECK_EQUAL(value, "a value that is too long to be stored in place");
}

BOOST_AUTO_TEST_CASE(receivers_are_served_in_the_order_they_came_and_nobody_overtakes) {
    driven d;
    journal log;
    line c{2};
    receiver a("a", log, receiving(c)), b("b", log, receiving(c));
    BOOST_CHECK(c.try_send("one"));
    BOOST_CHECK(!c.try_receive()); // a is on its way to it
    BOOST_CHECK(c.try_send("two"));
    receiver e("e", log, receiving(c));
    BOOST_CHECK_EQUAL(log.text, ""); // woken, and resumed by the loop
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b");
    BOOST_CHECK_EQUAL(got(a), "one");
    BOOST_CHECK_EQUAL(got(b), "two");
    BOOST_CHECK_EQUAL(got(e), "(waits)");
}

BOOST_AUTO_TEST_CASE(senders_wait_while_it_is_full_and_go_on_in_the_order_they_came) {
    driven d;
    journal log;
    line c{1};
    sender a("a", log, sending(c, "one")), b("b", log, sending(c, "two")), e("e", log, sending(c, "three"));
    BOOST_CHECK_EQUAL(log.text, "a");
    BOOST_CHECK_EQUAL(c.senders_waiting(), 2u);
    BOOST_CHECK_EQUAL(*c.try_receive(), "one");
    BOOST_CHECK(!c.try_send("four")); // two has the room
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b");
    BOOST_CHECK_EQUAL(*c.try_receive(), "two");
    BOOST_CHECK_EQUAL(*c.try_receive(), "three");
    d.settle();
    BOOST_CHECK_EQUAL(log.text, "a b e");
}

BOOST_AUTO_TEST_CASE(many_senders_and_receivers_lose_and_repeat_nothing) {
    driven d;
    corewire::channel<int> c{4};
    std::vector<int> first, second;
    run_until_complete(d.loop, corewire::when_all(consumes(c, first), consumes(c, second), produce_all(c)));
    BOOST_CHECK_EQUAL(first.size() + second.size(), 300u);
    for (const auto* each : {&first, &second}) { // each sender's values in order
        int last[3] = {-1, -1, -1};
        for (const int value : *each) {
            BOOST_CHECK_GT(value, last[value / 1000]);
            last[value / 1000] = value;
        }
    }
    first.insert(first.end(), second.begin(), second.end());
    std::sort(first.begin(), first.end());
    BOOST_CHECK(std::adjacent_find(first.begin(), first.end()) == first.end());
}

BOOST_AUTO_TEST_CASE(values_that_cannot_be_copied_pass_through) {
    driven d;
    corewire::channel<std::unique_ptr<int>> c{1};
    BOOST_CHECK_EQUAL(*run_until_complete(d.loop, passes_on(c)), 7);
}

BOOST_AUTO_TEST_CASE(a_stop_and_a_deadline_end_waits_on_both_sides) {
    driven d;
    journal log;
    line empty{1}, full{1};
    BOOST_CHECK(full.try_send("full"));
    receiver a("a", log, receiving(empty)), b("b", log, receiving(empty, 1ms));
    sender e("e", log, sending(full, "lost")), f("f", log, sending(full, "late", 1ms));
    a.stop.request_stop();
    e.stop.request_stop();
    d.advance(1ms - 1ns);
    BOOST_CHECK_EQUAL(log.text, "a! e!");
    d.advance(1ns);
    BOOST_CHECK_EQUAL(log.text, "a! e! b! f!");
    BOOST_CHECK(a.error == std::errc::operation_canceled && e.error == std::errc::operation_canceled);
    BOOST_CHECK(b.error == std::errc::timed_out && f.error == std::errc::timed_out);
    BOOST_CHECK_EQUAL(*full.try_receive(), "full");
    BOOST_CHECK(!full.try_receive()); // what was not sent is not there
}

BOOST_AUTO_TEST_CASE(waiters_that_are_destroyed_leave_their_lines) {
    driven d;
    journal log;
    line empty{1}, full{1};
    BOOST_CHECK(full.try_send("full"));
    receiver a("a", log, receiving(empty)), b("b", log, receiving(empty));
    sender e("e", log, sending(full, "one")), f("f", log, sending(full, "two"));
    a.destroy();
    e.destroy();
    BOOST_CHECK(empty.try_send("hello"));
    BOOST_CHECK_EQUAL(*full.try_receive(), "full");
    d.settle();
    BOOST_CHECK_EQUAL(got(b), "hello");
    BOOST_CHECK_EQUAL(*full.try_receive(), "two");
}

BOOST_AUTO_TEST_CASE(the_value_of_a_receiver_that_is_destroyed_before_it_runs_goes_to_the_next) {
    driven d;
    journal log;
    line c{2};
    receiver a("a", log, receiving(c)), b("b", log, receiving(c));
    BOOST_CHECK(c.try_send("one"));
    a.destroy();
    d.settle();
    BOOST_CHECK_EQUAL(got(b), "one");
    receiver e("e", log, receiving(c));
    BOOST_CHECK(c.try_send("two"));
    e.destroy();
    BOOST_CHECK_EQUAL(*c.try_receive(), "two"); // or stays where it was
}

BOOST_AUTO_TEST_CASE(a_value_that_was_sent_stays_sent_when_its_sender_goes) {
    driven d;
    journal log;
    line c{1};
    BOOST_CHECK(c.try_send("one"));
    sender a("a", log, sending(c, "two"));
    BOOST_CHECK_EQUAL(*c.try_receive(), "one");
    a.destroy();
    BOOST_CHECK_EQUAL(*c.try_receive(), "two");
}

BOOST_AUTO_TEST_CASE(closing_ends_senders_with_EPIPE_and_receivers_with_nothing) {
    driven d;
    journal log;
    line full{1}, empty{1};
    BOOST_CHECK(full.try_send("last"));
    sender a("a", log, sending(full, "too late"));
    receiver b("b", log, receiving(empty));
    full.close();
    empty.close();
    d.settle();
    BOOST_CHECK(a.error == std::errc::broken_pipe);
    BOOST_CHECK_EQUAL(got(b), "(end)");
    sender e("e", log, sending(full, "much too late"));
    BOOST_CHECK(e.error == std::errc::broken_pipe);
    BOOST_CHECK(!full.try_send("much too late"));
    receiver f("f", log, receiving(full)), g("g", log, receiving(full));
    BOOST_CHECK_EQUAL(got(f), "last"); // what is in it is still received
    BOOST_CHECK_EQUAL(got(g), "(end)");
}

BOOST_AUTO_TEST_CASE(destroying_it_cancels_those_in_line_and_destroys_what_is_in_it) {
    driven d;
    journal log;
    auto counted = std::make_shared<int>(1);
    std::optional<corewire::channel<std::shared_ptr<int>>> values(std::in_place, 2);
    BOOST_CHECK(values->try_send(std::shared_ptr<int>(counted)));
    BOOST_CHECK_EQUAL(counted.use_count(), 2);
    values.reset();
    BOOST_CHECK_EQUAL(counted.use_count(), 1);

    std::optional<line> empty(std::in_place, 1), full(std::in_place, 1);
    BOOST_CHECK(full->try_send("full"));
    receiver a("a", log, receiving(*empty));
    sender b("b", log, sending(*full, "one"));
    empty.reset();
    full.reset();
    d.settle();
    BOOST_CHECK(a.error == std::errc::operation_canceled);
    BOOST_CHECK(b.error == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(destroying_it_under_a_receiver_that_is_on_its_way_is_a_mistake_that_aborts) {
    driven d;
    BOOST_CHECK(reactor_test::aborts([] {
        journal log;
        std::optional<line> c(std::in_place, 1);
        receiver a("a", log, receiving(*c));
        c->try_send("one");
        c.reset();
    }));
}

BOOST_AUTO_TEST_SUITE_END()
