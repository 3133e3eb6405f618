// A scrape of three shards, one of which hangs: nobody else pays for it, also while series come.
// ctest: timeout=120 processors=2
#include <corewire/apps/runtime/inspection/exposition_server.hh>
#include <tests/reactor/shard/some_shards.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <fmt/format.h>
#include <optional>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

constexpr unsigned count = 3;

struct shards_metrics {
    shards_metrics(metrics_page& page, unsigned shard)
        : registry(page, shard, fmt::format("shard=\"{}\"", shard)),
          publisher(reactor::current(), registry, {.interval = 3600s, .idle_interval = 3600s}), group(&registry) {
        reactor::current().attached(reactor::attachment::metrics) = &registry;
        group.counter("test_early_total", "There from the start.", value);
    }
    ~shards_metrics() { reactor::current().attached(reactor::attachment::metrics) = nullptr; }
    std::uint64_t value = 7;
    metric_registry registry;
    metric_publisher publisher;
    metric_group group;
};

std::array<std::atomic<metric_publisher*>, count> publishers;
std::atomic<unsigned> ready, later;
std::atomic<bool> hang, hung, release, done;

task<> until(std::atomic<bool>& flag) {
    while (!flag) co_await yield();
}

task<> scrapes(metrics_page& page, shards_metrics& own) {
    while (ready != count) co_await yield();
    exposition_server endpoint(page, [] { return std::vector<metric_publisher*>(publishers.begin(), publishers.end()); },
                               {.publish_timeout = 2s});
    std::string before, beside, after;
    co_await endpoint.render(before);
    hang = true;
    co_await until(hung);
    own.group.counter("test_late_total", "Comes later.", own.value);
    ++later;
    while (later != 2) co_await yield();
    co_await endpoint.render(beside);
    BOOST_TEST(endpoint.statistics().stale == 1u);
    release = true;
    release.notify_all();
    co_await endpoint.render(after);
    done = true;
    for (const char* series : {"test_early_total{shard=\"0\"} 7\n", "test_early_total{shard=\"1\"} 7\n",
                               "test_early_total{shard=\"2\"} 7\n"})
        for (const std::string* page_text : {&before, &beside, &after}) BOOST_TEST(page_text->find(series) != page_text->npos, series);
    for (const char* series : {"test_late_total{shard=\"0\"} 7\n", "test_late_total{shard=\"2\"} 7\n"})
        for (const std::string* page_text : {&beside, &after}) BOOST_TEST(page_text->find(series) != page_text->npos, series);
}

task<> body(metrics_page& page) {
    const unsigned shard = this_shard::id();
    shards_metrics own(page, shard);
    publishers[shard] = &own.publisher;
    ++ready;
    if (shard == 0) co_return co_await scrapes(page, own);
    co_await until(hang);
    if (shard == 1) {
        hung = true;
        release.wait(false); // a task that blocks its shard
    } else {
        co_await until(hung);
        own.group.counter("test_late_total", "Comes later.", own.value);
        ++later;
    }
    co_await until(done);
}

} // namespace

BOOST_AUTO_TEST_SUITE(hung_shard)

BOOST_AUTO_TEST_CASE(a_shard_that_hangs_takes_no_other_out_of_the_scrape) {
    metrics_page page("test", "wire", count, "");
    corewire::runtime all(shard_test::shards(count));
    all.run([&page] { return body(page); });
}

BOOST_AUTO_TEST_SUITE_END()
