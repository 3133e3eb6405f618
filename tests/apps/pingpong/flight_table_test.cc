// Messages in flight over a network that loses, doubles and delays them.
#include <corewire/apps/pingpong/flights.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace corewire;
using corewire::pingpong::flights;

BOOST_AUTO_TEST_SUITE(flight_table)

BOOST_AUTO_TEST_CASE(a_number_names_its_place_and_is_never_used_twice) {
    flights table(3);
    std::vector<std::uint64_t> seen;
    for (int round = 0; round < 100; ++round) {
        for (std::uint32_t place = 0; place < 3; ++place) {
            const std::uint64_t number = table.depart(place, from_ns(round));
            BOOST_TEST(table.place_of(number) == place);
            seen.push_back(number);
        }
        BOOST_TEST(table.count() == 3u);
        for (std::size_t i = seen.size() - 3; i < seen.size(); ++i) BOOST_TEST(to_ns(table.land(seen[i])) == round);
    }
    std::sort(seen.begin(), seen.end());
    BOOST_CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

BOOST_AUTO_TEST_CASE(what_landed_or_was_given_up_is_not_in_flight_any_more) {
    flights table(2);
    const std::uint64_t landed = table.depart(0, from_ns(10));
    const std::uint64_t lost = table.depart(1, from_ns(20));
    BOOST_TEST(table.in_flight(landed));
    table.land(landed);
    BOOST_TEST(!table.in_flight(landed));

    std::vector<std::uint32_t> given_up;
    table.give_up_before(from_ns(20), [&](std::uint32_t place) { given_up.push_back(place); });
    BOOST_TEST(given_up.empty()); // exactly at the limit: not yet
    table.give_up_before(from_ns(21), [&](std::uint32_t place) { given_up.push_back(place); });
    BOOST_TEST(given_up == std::vector<std::uint32_t>{1}, boost::test_tools::per_element());
    BOOST_TEST(!table.in_flight(lost));
    BOOST_TEST(table.count() == 0u);
}

BOOST_AUTO_TEST_CASE(a_late_answer_is_not_taken_for_its_successors) {
    flights table(1);
    const std::uint64_t lost = table.depart(0, from_ns(0));
    table.give_up_before(from_ns(1), [](std::uint32_t) {});
    const std::uint64_t next = table.depart(0, from_ns(1));
    BOOST_TEST(!table.in_flight(lost));
    BOOST_TEST(table.in_flight(next));
}

BOOST_AUTO_TEST_SUITE_END()
