// The events of a log as series: a shard's own, and in shard 0's section those of threads that are no shard's.
#include <corewire/reactor/log/log_metrics.hh>
#include <corewire/reactor/metrics/page_reader.hh>
#include <corewire/reactor/metrics/registry.hh>

#include "log_fixture.hh"
#include "tests/support/temporary_directory.hh"

#include <boost/test/unit_test.hpp>

#include <map>
#include <thread>
#include <unistd.h>

using namespace corewire;

namespace {

constexpr log_event<> said_here{"test", "here", log_level::warn, "here"};
constexpr log_event<unsigned> said_elsewhere{"test", "elsewhere", log_level::warn, "elsewhere {}"};
constexpr log_event<> unwritten{"test", "unwritten", log_level::debug, "unwritten"};

struct published_log : kept_log {
    published_log() : kept_log(1) {}
    const testing::temporary_directory folder;
    metrics_page page{"test", "none", 1, folder.path()};
    metric_registry registry{page, 0, "shard=\"0\""};
    log_metrics metrics{registry, *logs[0], &writer};

    /// By labels.
    std::map<std::string, std::uint64_t> events() {
        while (metrics.collect(registry, true)) {}
        registry.publish(0, 1'000);
        registry.end_round(250'000'000);
        page_report report;
        BOOST_REQUIRE(read_page(fmt::format("{}/corewire-{}", folder.path(), ::getpid()), report) == page_error::none);
        std::map<std::string, std::uint64_t> found;
        for (const series_report& each : report.sections.at(0).series)
            if (each.name == "corewire_log_events_total") found[each.labels] = each.values.at(0);
        return found;
    }
};

std::string labels(const char* event) { return fmt::format("shard=\"0\",module=\"test\",event=\"{}\"", event); }

} // namespace

BOOST_FIXTURE_TEST_SUITE(log_metrics, published_log)

BOOST_AUTO_TEST_CASE(events_of_shards_and_of_other_threads_are_counted_written_or_not) {
    BOOST_TEST(events().empty());
    {
        const reactor::scope here(*loops[0]);
        log_message(said_here);
    }
    std::thread([this] {
        for (unsigned i = 0; i < 3; ++i) writer.from_thread(said_elsewhere, i);
        writer.from_thread(unwritten);
    }).join();
    auto found = events();
    BOOST_TEST(found.size() == 3u);
    BOOST_TEST(found[labels("here")] == 1u);
    BOOST_TEST(found[labels("elsewhere")] == 3u);
    BOOST_TEST(found[labels("unwritten")] == 1u);
    writer.from_thread(said_elsewhere, 3u);
    BOOST_TEST(events()[labels("elsewhere")] == 4u);
}

BOOST_AUTO_TEST_CASE(an_event_that_shards_and_threads_say_has_the_shards_count) {
    {
        const reactor::scope here(*loops[0]);
        log_message(said_here);
    }
    writer.from_thread(said_here);
    writer.from_thread(said_here);
    auto found = events();
    BOOST_TEST(found.size() == 1u);
    BOOST_TEST(found[labels("here")] == 1u);
}

BOOST_AUTO_TEST_CASE(events_of_threads_beyond_their_places_are_written_all_the_same) {
    std::vector<log_event<>> many(corewire::log_writer::max_thread_events + 3, log_event<>{"test", "many", log_level::warn, "many"});
    for (const auto& each : many) writer.from_thread(each);
    for (const auto& each : writer.thread_events()) BOOST_TEST(each.occurred.load() == 1u);
    BOOST_TEST(messages().size() == many.size());
}

BOOST_AUTO_TEST_SUITE_END()
