// Lists of CPU numbers: written, read, refused.
#include <corewire/reactor/topology/ranges.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using numbers = std::vector<unsigned>;

BOOST_AUTO_TEST_SUITE(ranges)

BOOST_AUTO_TEST_CASE(lists_are_read_sorted_and_each_number_once) {
    BOOST_TEST((parse_ranges("0-3,6") == numbers{0, 1, 2, 3, 6}));
    BOOST_TEST((parse_ranges(" 6,0-1,1-2\n") == numbers{0, 1, 2, 6}));
    BOOST_TEST((parse_ranges("") == numbers{}));
    BOOST_TEST((parse_ranges("\n") == numbers{}));
    BOOST_TEST((parse_ranges("65535") == numbers{65'535}));
}

BOOST_AUTO_TEST_CASE(what_is_no_list_is_nothing) {
    for (const char* text : {"x", ",", "1,", ",1", "-1", "1-", "3-1", "1 2", "65536", "0-4000000000", "(null)", "1-2-3", "0x3"})
        BOOST_TEST(!parse_ranges(text), "'" << text << "' was read");
}

BOOST_AUTO_TEST_CASE(many_overlapping_ranges_cost_no_more_than_their_numbers) {
    std::string text = "0-65535";
    for (int i = 0; i < 1000; ++i) text += ",0-65535";
    BOOST_TEST(parse_ranges(text).value().size() == 65'536u);
}

BOOST_AUTO_TEST_CASE(numbers_have_nothing_round_them) {
    BOOST_TEST(parse_unsigned("12").value() == 12u);
    BOOST_TEST(parse_unsigned("12", 12).value() == 12u);
    for (const char* text : {"", " 1", "1 ", "+1", "-1", "1.0", "13", "99999999999999999999"})
        BOOST_TEST(!parse_unsigned(text, 12), "'" << text << "' was read");
}

BOOST_AUTO_TEST_SUITE_END()
