// as_result: what would be thrown comes as a value; and maybe_yield, which gives way when the turn has been long.
#include "driven.hh"

#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;

namespace {

task<std::string> talks(bool fails) {
    co_await corewire::yield();
    if (fails) throw std::runtime_error("as agreed");
    co_return std::string("a result that is too long to be stored in place");
}
task<> does(bool fails) {
    if (fails) throw std::runtime_error("as agreed");
    co_return;
}
task<bool> of_tasks() {
    auto good = co_await as_result(talks(false));
    auto bad = co_await as_result(talks(true));
    auto done = co_await as_result(does(false));
    auto failed = co_await as_result(does(true));
    co_return good && good->size() == 47 && !bad && bad.error() != nullptr && done && !failed && failed.error() != nullptr;
}
task<bool> of_waits(corewire::mutex& m, corewire::channel<std::unique_ptr<int>>& c) {
    const time_point soon = reactor::current().now() + 1ms;
    auto first = co_await as_result(m.lock());
    auto second = co_await as_result(m.lock({.deadline = soon}));
    auto sent = co_await as_result(c.send(std::make_unique<int>(3)));
    auto received = co_await as_result(c.receive());
    c.close();
    auto refused = co_await as_result(c.send(std::make_unique<int>(4)));
    co_return first && *first && !second && second.error() == std::errc::timed_out && sent && received && ***received == 3 &&
        !refused && refused.error() == std::errc::broken_pipe;
}
task<std::error_code> of_a_sleep(stop_token stop) {
    auto slept = co_await as_result(sleep_for(1h, stop));
    co_return slept ? std::error_code{} : slept.error();
}
task<> counts(int& count, reactor_test::manual_clock& clock, duration each) {
    for (;;) {
        ++count;
        clock.time += each;
        co_await maybe_yield();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(as_result)

BOOST_AUTO_TEST_CASE(a_task_gives_its_value_or_its_exception) {
    driven d;
    BOOST_CHECK(run_until_complete(d.loop, of_tasks()));
}

BOOST_AUTO_TEST_CASE(a_wait_gives_what_it_waited_for_or_its_error_code) {
    driven d;
    corewire::mutex m;
    corewire::channel<std::unique_ptr<int>> c{1};
    auto t = of_waits(m, c);
    t.handle().resume();
    d.advance(1ms);
    BOOST_REQUIRE(t.done());
    BOOST_CHECK(t.handle().promise().take());
    BOOST_CHECK(!m.locked());
}

BOOST_AUTO_TEST_CASE(of_other_awaitables_a_system_error_becomes_its_code) {
    driven d;
    stop_source stop;
    stop.request_stop();
    BOOST_CHECK(run_until_complete(d.loop, of_a_sleep(stop.token())) == std::errc::operation_canceled);
}

BOOST_AUTO_TEST_CASE(maybe_yield_gives_way_once_the_turn_has_lasted_as_long_as_the_loop_allows) {
    driven d(reactor_options{.resume_time = 100us});
    int count = 0;
    task<> t = counts(count, d.clock, 1us);
    d.loop.poll_once();
    t.handle().resume();
    BOOST_CHECK_GE(count, 100);
    BOOST_CHECK_LE(count, 100 + 16);
    const int first = count;
    d.loop.poll_once();
    BOOST_CHECK_GE(count - first, 100);
    BOOST_CHECK_LE(count - first, 100 + 16);
}

BOOST_AUTO_TEST_SUITE_END()
