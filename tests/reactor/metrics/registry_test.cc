// Registering by reference, publishing into a section, and what is refused.
#include <corewire/reactor/metrics/registry.hh>

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

using namespace corewire;

namespace {

struct one_shard {
    metrics_page page{"test", "none", 1, ""};
    metric_registry registry{page, 0, "shard=\"0\""};
    std::vector<catalog_entry> catalog() const {
        std::vector<catalog_entry> all;
        for (metric_registry::series_id at = 0;;)
            if (at = registry.catalog(at, 3, all); at == 0) return all;
    }
    void publish() {
        for (metric_registry::series_id at = 0;;)
            if (at = registry.publish(at, 3); at == 0) return;
    }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(registry, one_shard)

BOOST_AUTO_TEST_CASE(a_counter_is_registered_by_reference_and_its_value_published) {
    std::uint64_t packets = 7;
    metric_group group(&registry, "port=\"a\"");
    group.counter("test_packets_total", "Packets seen.", packets);
    publish();
    const auto all = catalog();
    BOOST_REQUIRE_EQUAL(all.size(), 1u);
    BOOST_TEST(all[0].name == "test_packets_total");
    BOOST_TEST(all[0].help == "Packets seen.");
    BOOST_TEST(all[0].labels == "shard=\"0\",port=\"a\"");
    BOOST_TEST(registry.value(0) == 7u);
    packets = 1'000'000'000'000;
    BOOST_TEST(registry.value(0) == 7u);
    publish();
    BOOST_TEST(registry.value(0) == 1'000'000'000'000u);
}

BOOST_AUTO_TEST_CASE(a_gauge_may_be_a_function) {
    std::vector<int> queue(5);
    metric_group group(&registry);
    group.gauge("test_queue", "Waiting.", [](const void* of) noexcept -> std::uint64_t {
        return static_cast<const std::vector<int>*>(of)->size();
    }, &queue);
    publish();
    BOOST_TEST(registry.value(0) == 5u);
}

BOOST_AUTO_TEST_CASE(a_histogram_publishes_how_many_values_were_at_most_each_bound) {
    histogram h;
    for (const std::uint64_t v : {500, 1'000, 1'001, 70'000}) h.record(v);
    h.record(20'000'000'000);
    metric_group group(&registry);
    group.histogram("test_duration_seconds", "How long.", h, duration_bounds());
    publish();
    const unsigned n = static_cast<unsigned>(duration_bounds().size());
    BOOST_TEST(registry.value(0, 0) == 1'000u);
    BOOST_TEST(registry.value(0, n + 0) == 2u);                        // at most 1 us
    BOOST_TEST(registry.value(0, n + 1) == 3u);                        // 2 us
    BOOST_TEST(registry.value(0, n + 5) == 3u);                        // 50 us
    BOOST_TEST(registry.value(0, n + 6) == 4u);                        // 100 us
    BOOST_TEST(registry.value(0, 2 * n - 1) == 4u);                    // 10 s
    BOOST_TEST(registry.value(0, 2 * n) == 5u);                        // all
    BOOST_TEST(registry.value(0, 2 * n + 1) == 20'000'072'501u);       // sum
}

BOOST_AUTO_TEST_CASE(a_group_unregisters_when_it_goes_and_its_place_is_used_again) {
    std::uint64_t value = 1;
    const std::uint64_t before = registry.generation();
    {
        metric_group group(&registry);
        group.counter("test_a_total", "A.", value);
        group.counter("test_b_total", "B.", value);
        BOOST_TEST(registry.size() == 2u);
    }
    BOOST_TEST(registry.size() == 0u);
    BOOST_TEST(catalog().empty());
    BOOST_TEST(registry.generation() != before);
    for (int i = 0; i < 100'000; ++i) {
        metric_group group(&registry);
        group.counter("test_a_total", "A.", value);
        BOOST_REQUIRE(group.size() == 1u);
    }
    BOOST_TEST(registry.refused() == 0u);
    BOOST_TEST(registry.head().series_count == 2u);
}

BOOST_AUTO_TEST_CASE(more_series_than_the_page_holds_are_refused_and_counted) {
    std::uint64_t value = 1;
    metric_group group(&registry);
    for (unsigned i = 0; i < page::series_capacity + 10; ++i)
        group.counter("test_many_total", "Many.", value, metric_label("i", std::to_string(i)));
    BOOST_TEST(registry.size() == page::series_capacity);
    BOOST_TEST(registry.refused() == 10u);
    publish();
    BOOST_TEST(registry.value(page::series_capacity - 1) == 1u);
}

BOOST_AUTO_TEST_CASE(more_text_than_the_page_holds_is_refused_and_counted) {
    std::uint64_t value = 1;
    metric_group group(&registry);
    const std::string filler(900, 'x');
    for (unsigned i = 0; i < 4'000; ++i)
        group.counter("test_long_total", "Long.", value, metric_label("i", fmt::format("{}{}", filler, i)));
    BOOST_TEST(registry.refused() > 0u);
    BOOST_TEST(registry.size() + registry.refused() == 4'000u);
}

BOOST_AUTO_TEST_CASE(a_histogram_of_powers_of_two_brings_its_own_bounds) {
    log2_histogram h;
    for (const std::uint64_t v : {0, 127, 128, 255, 256}) h.record(v);
    h.record(std::uint64_t{1} << 40); // beyond the last bound
    metric_group group(&registry);
    group.histogram("test_turn_seconds", "How long.", h);
    publish();
    const auto all = catalog();
    BOOST_REQUIRE_EQUAL(all.size(), 1u);
    BOOST_TEST((all[0].kind == metric_kind::histogram));
    BOOST_TEST((all[0].unit == metric_unit::nanoseconds));
    const std::uint32_t n = log2_histogram::bound_count;
    BOOST_TEST(all[0].buckets == n);
    const std::vector<std::uint64_t> bounds{127, 255, 511}, counts{2, 4, 5};
    for (std::uint32_t i = 0; i < 3; ++i) {
        BOOST_TEST(registry.value(0, i) == bounds[i]);
        BOOST_TEST(registry.value(0, n + i) == counts[i]);
    }
    BOOST_TEST(registry.value(0, n - 1) == 8'589'934'591u);
    BOOST_TEST(registry.value(0, 2 * n - 1) == 5u);
    BOOST_TEST(registry.value(0, 2 * n) == 6u);
    BOOST_TEST(registry.value(0, 2 * n + 1) == (std::uint64_t{1} << 40) + 766);
}

BOOST_AUTO_TEST_CASE(a_histogram_that_does_not_fit_any_more_is_refused) {
    histogram h;
    metric_group group(&registry);
    for (unsigned i = 0; i < 1'000; ++i)
        group.histogram("test_seconds", "H.", h, duration_bounds(), metric_label("i", std::to_string(i)));
    BOOST_TEST(registry.refused() == 1'000u - page::value_capacity / (2 * duration_bounds().size() + 2));
}

BOOST_AUTO_TEST_CASE(what_a_programmer_does_wrong_throws) {
    std::uint64_t value = 1;
    metric_group group(&registry);
    BOOST_CHECK_THROW(group.counter("1st_total", "Help.", value), std::invalid_argument);
    BOOST_CHECK_THROW(group.counter("a-b", "Help.", value), std::invalid_argument);
    BOOST_CHECK_THROW(group.counter("", "Help.", value), std::invalid_argument);
    BOOST_CHECK_THROW(group.counter("test_total", "", value), std::invalid_argument);
    BOOST_CHECK_THROW(group.counter("test_total", "two\nlines", value), std::invalid_argument);
    group.counter("test_total", "Help.", value);
    BOOST_CHECK_THROW(group.counter("test_total", "Help.", value), std::invalid_argument);
    BOOST_CHECK_THROW(group.gauge("test_total", "Help.", value, "a=\"1\""), std::invalid_argument);
    BOOST_CHECK_THROW(group.counter("test_total", "Other help.", value, "a=\"1\""), std::invalid_argument);
    BOOST_CHECK_THROW(group.counter("test_total", "Help.", value, std::string(2'000, 'x')), std::invalid_argument);
    histogram h;
    const std::uint64_t falling[] = {2, 1};
    BOOST_CHECK_THROW(group.histogram("test_h", "Help.", h, falling), std::invalid_argument);
    BOOST_CHECK_THROW(group.histogram("test_h", "Help.", h, {}), std::invalid_argument);
    BOOST_TEST(registry.size() == 1u);
}

BOOST_AUTO_TEST_CASE(labels_are_escaped_and_printable) {
    BOOST_TEST(metric_label("a", "x\"y\\z\n\x01\xff") == "a=\"x\\\"y\\\\z\\n??\"");
    BOOST_TEST(join_labels("", "b") == "b");
    BOOST_TEST(join_labels("a", "") == "a");
    BOOST_TEST(join_labels("a", "b") == "a,b");
}

BOOST_AUTO_TEST_CASE(without_a_registry_nothing_is_registered) {
    std::uint64_t value = 1;
    metric_group group(metric_registry::current_or_null());
    group.counter("test_total", "Help.", value);
    BOOST_TEST(group.size() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
