// The text that Prometheus reads, byte for byte.
#include <corewire/reactor/metrics/text_exposition.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

namespace {

struct two_shards {
    metrics_page page{"test", "none", 2, ""};
    metric_registry first{page, 0, "shard=\"0\""};
    metric_registry second{page, 1, "shard=\"1\""};
    text_exposition text{page};

    std::string render(std::size_t slice) {
        text.clear();
        for (metric_registry* each : {&first, &second}) {
            std::vector<catalog_entry> all;
            each->catalog(0, page::series_capacity, all);
            for (const catalog_entry& e : all) text.add(each == &first ? 0 : 1, e);
            each->publish(0, page::series_capacity);
        }
        std::string out;
        text_exposition::position at;
        slices = 1;
        while (text.render(at, slice, out)) ++slices;
        return out;
    }
    std::size_t slices = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(text_exposition, two_shards)

BOOST_AUTO_TEST_CASE(a_family_is_one_block_whatever_shards_it_comes_from) {
    std::uint64_t a = 1, b = 2, c = 3;
    metric_group here(&first), there(&second);
    here.counter("test_a_total", "The first \\ one.", a);
    here.gauge("test_b_seconds", "The second one.", b, "x=\"y\"", metric_unit::nanoseconds);
    there.counter("test_a_total", "The first \\ one.", c);
    const char* const expected = "# HELP test_a_total The first \\\\ one.\n"
                                 "# TYPE test_a_total counter\n"
                                 "test_a_total{shard=\"0\"} 1\n"
                                 "test_a_total{shard=\"1\"} 3\n"
                                 "# HELP test_b_seconds The second one.\n"
                                 "# TYPE test_b_seconds gauge\n"
                                 "test_b_seconds{shard=\"0\",x=\"y\"} 0.000000002\n";
    BOOST_TEST(render(1'000) == expected);
    BOOST_TEST(slices == 1u);
    BOOST_TEST(render(1) == expected);
    BOOST_TEST(slices >= 3u);
}

BOOST_AUTO_TEST_CASE(a_histogram_has_buckets_that_never_fall_a_sum_and_a_count) {
    histogram h;
    h.record(1'500);
    h.record(3'000'000'000);
    const std::uint64_t bounds[] = {1'000, 2'000, 1'000'000'000};
    metric_group group(&first);
    group.histogram("test_seconds", "How long.", h, bounds);
    BOOST_TEST(render(1) == "# HELP test_seconds How long.\n"
                            "# TYPE test_seconds histogram\n"
                            "test_seconds_bucket{shard=\"0\",le=\"0.000001\"} 0\n"
                            "test_seconds_bucket{shard=\"0\",le=\"0.000002\"} 1\n"
                            "test_seconds_bucket{shard=\"0\",le=\"1\"} 1\n"
                            "test_seconds_bucket{shard=\"0\",le=\"+Inf\"} 2\n"
                            "test_seconds_sum{shard=\"0\"} 3.0000015\n"
                            "test_seconds_count{shard=\"0\"} 2\n");
}

BOOST_AUTO_TEST_CASE(nothing_registered_is_an_empty_page) { BOOST_TEST(render(10).empty()); }

BOOST_AUTO_TEST_CASE(units_are_shown_exactly) {
    const auto shown = [](std::uint64_t value, metric_unit unit) {
        std::string out;
        append_metric_value(out, value, unit);
        return out;
    };
    BOOST_TEST(shown(UINT64_MAX, metric_unit::count) == "18446744073709551615");
    BOOST_TEST(shown(0, metric_unit::nanoseconds) == "0");
    BOOST_TEST(shown(1, metric_unit::nanoseconds) == "0.000000001");
    BOOST_TEST(shown(1'250'000'000, metric_unit::nanoseconds) == "1.25");
    BOOST_TEST(shown(990'000, metric_unit::parts_per_million) == "0.99");
    BOOST_TEST(shown(1'000'000, metric_unit::parts_per_million) == "1");
}

BOOST_AUTO_TEST_SUITE_END()
