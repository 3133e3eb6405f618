// A million messages between two threads: order kept, nothing lost, back-pressure reached.
// ctest: processors=2 timeout=300
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/topology/pinning.hh>

#include <boost/test/unit_test.hpp>
#include <array>
#include <atomic>
#include <vector>

using namespace corewire;

namespace {

constexpr std::uint64_t messages = 1'000'000;
constexpr unsigned callers = 100; // more than the ring has slots

/// What each shard has seen. Touched by its own shard only, read after the run.
struct alignas(cache_line) seen {
    std::array<std::uint64_t, callers> next{};
    std::uint64_t disordered = 0;
    std::uint64_t received = 0;
};
std::array<seen, 2> shards_seen;
std::array<mailbox_statistics, 2> at_end;

std::uint64_t receive(unsigned caller, std::uint64_t number) {
    seen& here = shards_seen[this_shard::id()];
    here.disordered += here.next[caller]++ != number;
    ++here.received;
    return ~number;
}

/// One of many that each send a stream of numbered messages to the other shard.
task<> stream(unsigned caller, std::uint64_t count, std::uint64_t& wrong_answers) {
    const unsigned to = 1 - this_shard::id();
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t answer = co_await submit_to(to, [caller, i] { return receive(caller, i); });
        wrong_answers += answer != ~i;
    }
}

/// Each on a CPU of its own where two are allowed; where they share one, an idle shard gives it up soon.
runtime_options two_shards_with_small_rings() {
    runtime_options options;
    options.cpus = this_thread_cpus();
    options.pin = options.cpus.size() >= 2;
    options.cpus.resize(2);
    options.handle_signals = false;
    options.loop.spin = options.pin ? std::chrono::microseconds{200} : std::chrono::microseconds{2};
    options.mail.ring_slots = 16;
    return options;
}

std::array<std::uint64_t, 2> wrong;
task<> both_ways() {
    task_group streams("streams");
    for (unsigned caller = 0; caller < callers; ++caller)
        streams.spawn(stream(caller, messages / callers / 2, wrong[this_shard::id()]));
    co_await streams.join();
    at_end[this_shard::id()] = this_shard::mail().statistics();
}

} // namespace

BOOST_AUTO_TEST_SUITE(mailbox_stress)

BOOST_AUTO_TEST_CASE(a_million_calls_both_ways_through_small_rings_keep_their_order_and_all_are_answered) {
    shards_seen = {};
    wrong = {};
    runtime r(two_shards_with_small_rings());
    r.run(both_ways);
    for (unsigned shard : {0u, 1u}) {
        BOOST_TEST(shards_seen[shard].received == messages / 2);
        BOOST_TEST(shards_seen[shard].disordered == 0u);
        BOOST_TEST(wrong[shard] == 0u);
        BOOST_TEST(at_end[shard].waited > 0u, "the ring was never full: nothing was tested");
    }
}

BOOST_AUTO_TEST_CASE(posts_arrive_in_order_and_refusals_are_seen_by_the_sender) {
    static std::uint64_t next, disordered, refused;
    next = disordered = refused = 0;
    runtime r(two_shards_with_small_rings());
    r.run([]() -> task<> {
        return []() -> task<> {
            if (this_shard::id() == 1) co_return;
            for (std::uint64_t i = 0; i < 200'000; ++i)
                while (!this_shard::mail().try_post(1, [i] { disordered += next++ != i; })) {
                    ++refused;
                    co_await yield();
                }
        }();
    });
    BOOST_TEST(next == 200'000u);
    BOOST_TEST(disordered == 0u);
    BOOST_TEST(refused > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
