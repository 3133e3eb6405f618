// When a shard publishes: by the clock, in slices, at once when asked; less often when it is idle.
#include "tests/support/virtual_clock.hh"

#include <corewire/reactor/metrics/publisher.hh>
#include <corewire/reactor/task/run_until_complete.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

struct publishing_shard {
    virtual_clock clock;
    reactor loop{{.clock = &clock}};
    reactor::scope here{loop};
    metrics_page page{"test", "none", 1, ""};
    metric_registry registry{page, 0, "shard=\"0\""};
    std::uint64_t value = 1;

    void turns(int n) {
        for (int i = 0; i < n; ++i) loop.poll_once();
    }
};

/// Takes three slices a round.
struct slow_collector final : metric_collector {
    bool collect(metric_registry&, bool first) noexcept override {
        if (first) {
            ++rounds;
            slices = 0;
        }
        return ++slices < 3;
    }
    int rounds = 0;
    int slices = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(publisher, publishing_shard)

BOOST_AUTO_TEST_CASE(it_publishes_four_times_a_second_while_the_shard_works) {
    metric_publisher publish(loop, registry);
    const auto id = registry.add("test_total", "Help.", metric_kind::counter, value, metric_unit::count, {});
    turns(3);
    BOOST_TEST(registry.publications() == 1u);
    for (int i = 0; i < 20; ++i) {
        ++value;
        clock.advance(50ms);
        turns(3);
    }
    BOOST_TEST(registry.publications() == 5u);
    BOOST_TEST(registry.value(id) == 21u);
    BOOST_TEST(registry.head().interval == 250'000'000u);
    BOOST_TEST(registry.head().published != 0u);
}

BOOST_AUTO_TEST_CASE(a_round_takes_a_slice_a_turn) {
    metric_publisher publish(loop, registry, {.slice = 10});
    slow_collector collector;
    publish.add(collector);
    metric_group group(&registry);
    for (int i = 0; i < 35; ++i) group.counter("test_total", "Help.", value, metric_label("i", std::to_string(i)));
    turns(6);
    BOOST_TEST(registry.publications() == 0u);
    turns(1);
    BOOST_TEST(registry.publications() == 1u);
    BOOST_TEST(collector.rounds == 1);
    BOOST_TEST(collector.slices == 3);
}

BOOST_AUTO_TEST_CASE(a_scrape_has_what_is_true_now) {
    metric_publisher publish(loop, registry, {.slice = 1});
    const auto id = registry.add("test_a_total", "Help.", metric_kind::counter, value, metric_unit::count, {});
    registry.add("test_b_total", "Help.", metric_kind::counter, value, metric_unit::count, {});
    turns(1); // in the middle of a round of the timer's
    value = 9;
    task_group tasks;
    tasks.spawn(publish.publish_now());
    turns(8);
    BOOST_TEST(tasks.size() == 0u);
    BOOST_TEST(registry.value(id) == 9u);
}

BOOST_AUTO_TEST_CASE(nothing_stays_behind_a_publisher_that_goes) {
    { metric_publisher publish(loop, registry); }
    clock.advance(1s);
    turns(2);
    BOOST_TEST(registry.publications() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
