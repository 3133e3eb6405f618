// Calls when memory is short: each fails for whoever made it, and takes nothing with it.
// ctest: processors=2
#include "some_shards.hh"

#include <corewire/reactor/memory/poison.hh>
#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/shard/thread_call.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/task_group.hh>
#include <tests/reactor/task/driven.hh>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#if !defined(CW_ADDRESS_SANITIZER) && !defined(__SANITIZE_THREAD__)
namespace {

thread_local bool short_of_memory = false;

struct shortage {
    shortage() noexcept { short_of_memory = true; }
    ~shortage() { short_of_memory = false; }
};

} // namespace

// Coroutine frames come from there, and so does what operator new gives.
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* malloc(std::size_t size) noexcept { return short_of_memory ? nullptr : __libc_malloc(size); }

using namespace corewire;

namespace {

/// Awaits `call`, for whose beginning there is no memory.
template <typename Call>
struct begun_without_memory {
    decltype(std::declval<Call&>().operator co_await()) inner;
    explicit begun_without_memory(Call& call) noexcept : inner(call.operator co_await()) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> h) {
        const shortage now;
        return inner.await_suspend(h);
    }
    auto await_resume() { return inner.await_resume(); }
};

task<> stops(stop_source& which, bool& when) {
    co_await yield();
    when = true;
    which.request_stop();
}
/// The pool's queue asks for memory once in so many calls.
task<> blocks_without_memory(int& failed) {
    auto first = run_blocking([] { return 1; }); // there is a helper from here on
    co_await first;
    for (int i = 0; i < 200; ++i) {
        stop_source enough, later;
        auto call = run_blocking([] { return 1; }, {.stop = enough.token()});
        begun_without_memory begins(call);
        bool refused = false;
        try {
            co_await begins;
        } catch (const std::bad_alloc&) {
            refused = true;
        }
        if (!refused) continue;
        ++failed;
        enough.request_stop(); // is no matter of the call's any more
        task_group group("stops");
        event never_set;
        bool may_go_on = false;
        group.spawn(stops(later, may_go_on));
        const auto waited = co_await as_result(never_set.wait({.stop = later.token()}));
        BOOST_CHECK(!waited);
        BOOST_REQUIRE(may_go_on);
        co_await group.join();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(short_memory)

BOOST_AUTO_TEST_CASE(a_task_from_another_thread_that_has_no_memory_for_its_frame_fails) {
    reactor_test::driven d;
    const auto runs = []() -> task<int> { co_return 1; };
    auto call = std::make_unique<corewire::detail::thread_call<std::decay_t<decltype(runs)>>>(runs);
    auto result = call->get_future();
    external_call& its = *call;
    {
        const shortage now;
        its.run(std::move(call));
    }
    BOOST_CHECK_THROW(result.get(), std::bad_alloc);
}

BOOST_AUTO_TEST_CASE(limits_of_a_blocking_call_that_could_not_be_queued_end_nothing_later) {
    int failed = 0;
    runtime_options options = shard_test::shards(1);
    options.blocking.threads = 1;
    shard_test::run_on_first([&] { return blocks_without_memory(failed); }, options);
    BOOST_CHECK_GT(failed, 0);
}

BOOST_AUTO_TEST_SUITE_END()
#else
BOOST_AUTO_TEST_SUITE(short_memory)
BOOST_AUTO_TEST_CASE(is_for_builds_without_sanitizers) { BOOST_TEST_MESSAGE("sanitizers have a malloc of their own"); }
BOOST_AUTO_TEST_SUITE_END()
#endif
