// as_result: what would be thrown comes as a value.
#include "driven.hh"

#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unwind.h>

using namespace corewire;
using namespace std::chrono_literals;
using reactor_test::driven;

namespace {

std::uint64_t thrown = 0;

} // namespace

/// Every throw of this program comes through here on its way to the library's.
extern "C" _Unwind_Reason_Code _Unwind_RaiseException(_Unwind_Exception* what) {
    ++thrown;
    static const auto next = reinterpret_cast<decltype(&_Unwind_RaiseException)>(::dlsym(RTLD_NEXT, "_Unwind_RaiseException"));
    return next(what);
}

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
/// Waits of every other kind that fail: none of them may throw on the way.
task<bool> fail_in_every_way(corewire::event& e, corewire::semaphore& units, corewire::task_group& group, future<int>& coming) {
    const auto soon = [] { return wait_limits{.deadline = reactor::current().now() + 1us}; };
    bool all = true;
    auto waited = co_await as_result(e.wait(soon()));
    all &= !waited && waited.error() == std::errc::timed_out;
    const auto held = co_await units.acquire(1);
    auto acquired = co_await as_result(units.acquire(1, soon()));
    all &= !acquired && acquired.error() == std::errc::timed_out;
    auto joined = co_await as_result(group.join(soon()));
    all &= !joined && joined.error() == std::errc::timed_out;
    auto got = co_await as_result(coming.get(soon()));
    all &= !got && got.error() == std::errc::timed_out;
    co_return all;
}
task<int> of_a_future(future<int> coming) {
    auto got = co_await as_result(coming);
    co_return got ? *got : got.error().value();
}
task<> waits(corewire::event& e) { co_await e.wait(); }

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

BOOST_AUTO_TEST_CASE(a_throw_is_counted_here) { // else the next two say nothing
    const std::uint64_t before = thrown;
    try {
        throw std::runtime_error("on purpose");
    } catch (const std::runtime_error&) {
    }
    BOOST_CHECK_EQUAL(thrown - before, 1u);
}

BOOST_AUTO_TEST_CASE(waits_that_say_beforehand_what_they_would_throw_do_not_throw) {
    driven d;
    corewire::event e;
    corewire::semaphore units{1};
    corewire::task_group group{"test"};
    promise<int> p;
    future<int> coming = p.get_future();
    group.spawn(waits(e));
    task<bool> t = fail_in_every_way(e, units, group, coming);
    const std::uint64_t before = thrown;
    t.handle().resume();
    for (int i = 0; i < 4; ++i) d.advance(1us);
    BOOST_REQUIRE(t.done());
    BOOST_CHECK(t.handle().promise().take());
    BOOST_CHECK_EQUAL(thrown - before, 0u);
}

BOOST_AUTO_TEST_CASE(of_a_sleep_that_is_stopped_nothing_is_thrown_either) {
    driven d;
    stop_source stop;
    stop.request_stop();
    const std::uint64_t before = thrown;
    BOOST_CHECK(run_until_complete(d.loop, of_a_sleep(stop.token())) == std::errc::operation_canceled);
    BOOST_CHECK_EQUAL(thrown - before, 0u);
}

BOOST_AUTO_TEST_CASE(a_future_gives_its_value_or_the_code_of_what_its_promise_was_given) {
    driven d;
    promise<int> kept, failed;
    kept.set_value(42);
    failed.set_exception(std::make_exception_ptr(std::system_error(ECONNRESET, std::generic_category())));
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, of_a_future(kept.get_future())), 42);
    BOOST_CHECK_EQUAL(run_until_complete(d.loop, of_a_future(failed.get_future())), ECONNRESET);
}

BOOST_AUTO_TEST_SUITE_END()
