// when_any() and with_deadline() over waits that others have a part in: the kernel, another shard, a helper thread. What is cut short is
// gone at once here; what the other end still does or sends is dropped there, and the next wait is not disturbed. In a running runtime.
#include "some_shards.hh"

#include <corewire/file.hh>
#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/when_any.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace corewire;
using namespace std::chrono_literals;
using shard_test::run_on_first;

namespace {

wait_limits soon() { return {.deadline = reactor::current().now() + 2ms}; }

bool is(const std::exception_ptr& why, std::errc code) {
    try {
        std::rethrow_exception(why);
    } catch (const std::system_error& e) {
        return e.code() == code;
    }
}

/// The buffer lives in the frame: it must not go before the kernel has let go of it.
task<std::string> reads_from(pipe_reader& from) {
    std::array<std::byte, 64> into;
    const std::size_t n = co_await from.read(into);
    co_return std::string(reinterpret_cast<const char*>(into.data()), n);
}
task<std::string> in_a_while() {
    co_await sleep_for(2ms);
    co_return "nothing";
}
task<> pipes_are_cut_short() {
    auto [out, in] = make_pipe();
    auto [other_out, other_in] = make_pipe();
    const auto late = co_await as_result(with_deadline(reads_from(out), soon()));
    BOOST_CHECK(!late && is(late.error(), std::errc::timed_out));
    co_await in.write("first");
    {
        const auto got = co_await reads_from(out);
        BOOST_CHECK_EQUAL(got, "first");
    } // the wait that was cut short has taken nothing
    const auto nothing = co_await when_any(reads_from(out), in_a_while());
    BOOST_CHECK_EQUAL(nothing.index(), 1u);
    co_await other_in.write("second");
    const auto second = co_await when_any(reads_from(out), reads_from(other_out));
    BOOST_CHECK_EQUAL(second.index(), 1u);
    BOOST_CHECK_EQUAL(std::get<1>(second), "second");
    co_await in.write("third");
    {
        const auto got = co_await reads_from(out);
        BOOST_CHECK_EQUAL(got, "third");
    }
    BOOST_CHECK_EQUAL(reactor::current().files().waits().in_flight(), 0u);
}

/// Regular files cannot be made to wait from outside; a race of many against a timer ends either way, and every byte is right.
task<std::size_t> reads_block(const file& from, std::uint64_t at) {
    std::array<std::byte, 4096> into;
    const std::size_t n = co_await from.read_exactly(io_piece{into}, at);
    BOOST_CHECK_EQUAL(n, into.size());
    for (const std::byte each : into) BOOST_REQUIRE(each == std::byte(at / 4096));
    co_return n;
}
task<> files_are_cut_short() {
    std::string name = "/tmp/cw-cut-short-XXXXXX";
    const unique_fd made(::mkstemp(name.data()));
    BOOST_REQUIRE(made);
    file over = co_await file::create(name);
    ::unlink(name.c_str());
    std::array<std::byte, 4096> block;
    for (unsigned i = 0; i < 16; ++i) {
        block.fill(std::byte(i));
        co_await over.write(byte_span(block), 4096 * i);
    }
    for (int round = 0; round < 200; ++round) {
        const auto winner = co_await when_any(reads_block(over, 4096 * (round % 16u)), reads_block(over, 4096 * ((round + 5) % 16u)));
        BOOST_CHECK_LT(winner.index(), 2u);
        const duration patience = std::chrono::microseconds{round % 40};
        const auto read = co_await as_result(with_deadline(reads_block(over, 4096 * (round % 16u)),
                                                           {.deadline = reactor::current().now() + patience}));
        if (!read) BOOST_CHECK(is(read.error(), std::errc::timed_out));
    }
    BOOST_CHECK_EQUAL(reactor::current().files().operations().in_flight(), 0u);
    co_await over.close();
}

/// Of shard 1.
struct over_there {
    event goes_on;
    int ended = 0;
};
task<int> waits_there(over_there& there) {
    co_await there.goes_on.wait();
    co_return ++there.ended;
}
task<int> calls(over_there& there) {
    auto call = submit_to(1, [&there] { return waits_there(there); });
    co_return co_await call;
}
task<int> calls_function() {
    auto call = submit_to(1, [] { return 7; });
    co_return co_await call;
}
task<> calls_are_cut_short() {
    over_there there;
    const auto late = co_await as_result(with_deadline(calls(there), soon()));
    BOOST_CHECK(!late && is(late.error(), std::errc::timed_out));
    const auto first = co_await when_any(calls(there), calls_function(), calls(there));
    BOOST_CHECK_EQUAL(first.index(), 1u);
    BOOST_CHECK_EQUAL(std::get<1>(first), 7);
    auto let_go = submit_to(1, [&there] { there.goes_on.set(); });
    co_await let_go;
    // Those whose callers have gone end there all the same, and their answers find nobody.
    for (int ended = 0; ended < 3;) {
        auto ask = submit_to(1, [&there] { return there.ended; });
        ended = co_await ask;
    }
    while (this_shard::mail().calls().in_flight() != 0) co_await yield();
    {
        const auto got = co_await calls(there);
        BOOST_CHECK_EQUAL(got, 4);
    }
}

std::atomic<bool> let_helpers_go;
std::atomic<int> helped;
task<int> blocks() {
    auto call = run_blocking([] {
        while (!let_helpers_go) std::this_thread::yield();
        return ++helped;
    });
    co_return co_await call;
}
task<int> answers_at_once() {
    auto call = run_blocking([] { return 7; });
    co_return co_await call;
}
task<> blocking_calls_are_cut_short() {
    let_helpers_go = false;
    helped = 0;
    const auto late = co_await as_result(with_deadline(blocks(), soon()));
    BOOST_CHECK(!late && is(late.error(), std::errc::timed_out));
    const auto first = co_await when_any(blocks(), answers_at_once());
    BOOST_CHECK_EQUAL(first.index(), 1u);
    BOOST_CHECK_EQUAL(std::get<1>(first), 7);
    let_helpers_go = true;
    while (helped == 0) co_await yield(); // one at least had begun; what comes back finds nobody
    const int mine = co_await blocks();
    BOOST_CHECK_LE(mine, 3);
}

} // namespace

BOOST_AUTO_TEST_SUITE(cut_short)

BOOST_AUTO_TEST_CASE(reads_of_pipes) { run_on_first(pipes_are_cut_short, 1); }

BOOST_AUTO_TEST_CASE(reads_of_files) { run_on_first(files_are_cut_short, 1); }

BOOST_AUTO_TEST_CASE(the_same_without_io_uring) {
    runtime_options options = shard_test::shards(1);
    options.loop.io.allow_uring = false;
    run_on_first(pipes_are_cut_short, options);
    run_on_first(files_are_cut_short, options);
}

BOOST_AUTO_TEST_CASE(calls_to_another_shard) { run_on_first(calls_are_cut_short); }

BOOST_AUTO_TEST_CASE(blocking_calls) { run_on_first(blocking_calls_are_cut_short, 1); }

BOOST_AUTO_TEST_SUITE_END()
