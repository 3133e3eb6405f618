// The histogram against a sorted vector of the same values.
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/metrics/histogram.hh>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

using namespace corewire;

BOOST_AUTO_TEST_SUITE(histogram)

BOOST_AUTO_TEST_CASE(an_empty_one_answers_zero) {
    const corewire::histogram h;
    BOOST_CHECK_EQUAL(h.quantile(0.5), 0u);
    BOOST_CHECK_EQUAL(h.min(), 0u);
    BOOST_CHECK_EQUAL(h.max(), 0u);
}

BOOST_AUTO_TEST_CASE(percentiles_are_right_to_three_digits_at_every_scale) {
    for (const std::uint64_t scale : {1'000ull, 100'000ull, 10'000'000ull, 99'000'000'000ull}) {
        random_generator random(scale);
        corewire::histogram h;
        std::vector<std::uint64_t> values;
        for (int i = 0; i < 20'000; ++i) {
            values.push_back(random.below(scale) + 1);
            h.record(values.back());
        }
        std::sort(values.begin(), values.end());
        for (const double p : {1.0, 50.0, 90.0, 99.0, 99.9}) {
            const double exact = static_cast<double>(values[static_cast<std::size_t>(p / 100 * 20'000) - 1]);
            BOOST_CHECK_CLOSE_FRACTION(static_cast<double>(h.quantile(p / 100)), exact, 0.002);
        }
        BOOST_CHECK_EQUAL(h.min(), values.front());
        BOOST_CHECK_EQUAL(h.max(), values.back());
        BOOST_CHECK_EQUAL(h.quantile(1), values.back());
    }
}

BOOST_AUTO_TEST_CASE(merging_two_is_recording_into_one) {
    random_generator random(3);
    corewire::histogram a, b, both;
    for (int i = 0; i < 1'000; ++i) {
        const std::uint64_t v = random.below(1'000'000);
        (i % 3 == 0 ? a : b).record(v);
        both.record(v);
    }
    a.merge(b);
    BOOST_CHECK_EQUAL(a.count(), both.count());
    for (int p = 1; p <= 100; ++p) BOOST_CHECK_EQUAL(a.quantile(p / 100.0), both.quantile(p / 100.0));
}

BOOST_AUTO_TEST_CASE(a_value_beyond_the_range_counts_as_the_largest_and_breaks_nothing) {
    corewire::histogram h;
    h.record(UINT64_MAX);
    h.record(5);
    BOOST_CHECK_EQUAL(h.count(), 2u);
    BOOST_CHECK_EQUAL(h.quantile(0.5), 5u);
    BOOST_CHECK_EQUAL(h.max(), UINT64_MAX);
}

BOOST_AUTO_TEST_CASE(the_smallest_and_the_largest_are_exact_whatever_came_first) {
    const std::uint64_t most = corewire::histogram::max_value;
    const std::vector<std::vector<std::uint64_t>> cases{{most}, {most, 3}, {0}, {7, 7}, {9, 2, 30, 4}};
    for (const std::vector<std::uint64_t>& values : cases) {
        corewire::histogram one, merged;
        for (const std::uint64_t v : values) {
            corewire::histogram single;
            single.record(v);
            one.record(v);
            merged.merge(single);
        }
        for (const corewire::histogram& h : {one, merged}) {
            BOOST_CHECK_EQUAL(h.min(), *std::min_element(values.begin(), values.end()));
            BOOST_CHECK_EQUAL(h.max(), *std::max_element(values.begin(), values.end()));
            BOOST_CHECK_EQUAL(h.count(), values.size());
        }
    }
    corewire::histogram h;
    h.record(8);
    h.reset();
    h.record(12);
    BOOST_CHECK_EQUAL(h.min(), 12u);
    BOOST_CHECK_EQUAL(h.max(), 12u);
}

BOOST_AUTO_TEST_SUITE_END()
