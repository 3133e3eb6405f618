// Calls and values between shards take nothing from the heap in their stride, on either side.
#include "some_shards.hh"
#include "tests/support/counting_new.hh"

#include <corewire/reactor/shard/barrier.hh>
#include <corewire/reactor/shard/foreign_ptr.hh>
#include <corewire/reactor/shard/shard_channel.hh>
#include <corewire/reactor/shard/shard_local.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using shard_test::run_on_first;

namespace {

struct meeting {
    barrier meet{2};
    corewire::shard_channel<long> values{16};
    corewire::foreign_ptr<int> away{};
    corewire::shard_local<int> own{};
};

task<> there(meeting& m, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        co_await m.values.send(i);
        ++*m.own;
        co_await m.meet.arrive_and_wait();
    }
}
task<std::uint64_t> there_counted(meeting& m, int rounds) {
    const std::uint64_t before = corewire::testing::heap_allocations;
    co_await there(m, rounds);
    co_return corewire::testing::heap_allocations - before;
}
task<> here(meeting& m, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const auto value = co_await m.values.receive();
        BOOST_REQUIRE_EQUAL(value.value_or(-1), i);
        const int answer = co_await submit_to(1, [i] { return i + 1; });
        BOOST_REQUIRE_EQUAL(answer, i + 1);
        const int one_more = *m.own + 1;
        *m.own = co_await m.away.invoke([one_more](int& kept) { return kept = one_more; });
        BOOST_REQUIRE_EQUAL(*m.own, one_more);
        co_await m.meet.arrive_and_wait();
    }
}
task<> both() {
    meeting m;
    m.away = co_await submit_to(1, [] { return make_foreign<int>(0); });
    auto warm = submit_to(1, [&m] { return there(m, 100); });
    co_await here(m, 100);
    co_await warm;
    auto counted = submit_to(1, [&m] { return there_counted(m, 1000); });
    const std::uint64_t before = corewire::testing::heap_allocations;
    co_await here(m, 1000);
    BOOST_CHECK_EQUAL(corewire::testing::heap_allocations - before, 0u);
    const std::uint64_t taken_there = co_await counted;
    BOOST_CHECK_EQUAL(taken_there, 0u);
    co_await m.values.close();
}

} // namespace

BOOST_AUTO_TEST_SUITE(shard_allocation)

BOOST_AUTO_TEST_CASE(calls_values_and_meetings_allocate_nothing_in_their_stride) { run_on_first(both); }

BOOST_AUTO_TEST_SUITE_END()
