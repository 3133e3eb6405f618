// A shard's accounts: what counts, what may be sent, when it ends. Time is what the test says it is.
#include <corewire/apps/pingpong/meter.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::pingpong;
using namespace std::chrono_literals;

namespace {

workload by_time(duration length, duration warmup) {
    workload load;
    load.length = length;
    load.warmup = warmup;
    return load;
}

} // namespace

BOOST_AUTO_TEST_SUITE(accounts)

BOOST_AUTO_TEST_CASE(what_was_sent_during_the_warm_up_is_not_counted) {
    meter m(by_time(1s, 100ns));
    m.begin(from_ns(0));
    m.record(from_ns(99), from_ns(150));
    m.record(from_ns(100), from_ns(160));
    const outcome result = m.close();
    BOOST_TEST(result.round_trips == 1u);
    BOOST_TEST(result.rtt_ns.min() == 60u);
}

BOOST_AUTO_TEST_CASE(at_the_end_of_the_time_nothing_more_may_be_sent) {
    meter m(by_time(1000ns, 100ns));
    m.begin(from_ns(0));
    for (const std::int64_t ns : {50, 100, 1099}) {
        m.look_at(from_ns(ns));
        BOOST_TEST(m.take_turn());
    }
    m.look_at(from_ns(1100));
    BOOST_TEST(!m.take_turn());
}

BOOST_AUTO_TEST_CASE(a_count_is_exactly_used_up) {
    workload load;
    load.warmup = 0ns;
    load.count = 3;
    meter m(load);
    m.begin(from_ns(5));
    for (int i = 0; i < 3; ++i) BOOST_TEST(m.take_turn());
    BOOST_TEST(!m.take_turn());
    m.look_at(from_ns(1'000'000'000));
    BOOST_TEST(!m.take_turn());
}

BOOST_AUTO_TEST_CASE(a_count_begins_after_the_warm_up) {
    workload load;
    load.warmup = 10ns;
    load.count = 1;
    meter m(load);
    m.begin(from_ns(0));
    for (int i = 0; i < 5; ++i) BOOST_TEST(m.take_turn());
    m.look_at(from_ns(10));
    BOOST_TEST(m.take_turn());
    BOOST_TEST(!m.take_turn());
}

BOOST_AUTO_TEST_CASE(seconds_run_from_the_end_of_the_warm_up_to_the_last_reply) {
    meter m(by_time(1s, 1s));
    m.begin(from_ns(0));
    m.record(from_ns(1'000'000'000), from_ns(1'250'000'000));
    m.record(from_ns(1'250'000'000), from_ns(1'500'000'000));
    BOOST_TEST(m.close().seconds == 0.5);
}

BOOST_AUTO_TEST_CASE(shares_of_connections_and_count_add_up_to_the_whole) {
    for (const unsigned shards : {1u, 2u, 3u, 7u}) {
        workload load;
        load.connections = 10;
        load.count = 1001;
        std::uint32_t connections = 0;
        std::uint64_t count = 0;
        for (unsigned i = 0; i < shards; ++i) {
            const workload mine = load.share(i, shards);
            BOOST_TEST(load.connections_before(i, shards) == connections);
            connections += mine.connections;
            count += *mine.count;
        }
        BOOST_TEST(connections == 10u);
        BOOST_TEST(count == 1001u);
    }
}

BOOST_AUTO_TEST_CASE(outcomes_of_several_shards_merge) {
    meter a(by_time(1s, 0s)), b(by_time(1s, 0s));
    a.begin(from_ns(0));
    b.begin(from_ns(0));
    a.record(from_ns(0), from_ns(100));
    b.record(from_ns(0), from_ns(300));
    b.error(2);
    outcome all = a.close();
    all.merge(b.close());
    BOOST_TEST(all.round_trips == 2u);
    BOOST_TEST(all.errors == 2u);
    BOOST_TEST(all.rtt_ns.max() == 300u);
    BOOST_TEST(all.seconds == 300e-9);
}

BOOST_AUTO_TEST_SUITE_END()
