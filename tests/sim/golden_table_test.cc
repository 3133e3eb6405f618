// The tables that the golden tests are held to (golden_table.hh), by themselves.
#include "golden_table.hh"

#include <tests/support/temporary_directory.hh>

using namespace corewire;
using table = corewire::golden::golden_table;

namespace {

struct a_table {
    a_table() { std::ofstream(path) << "# row\tmeasured\texpected\tsource\none\t1.0000\t2.0000\tRFC 1\ntwo\t3.0000\t4.0000\tRFC 2\n"; }
    std::string text() const {
        std::ifstream in(path);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// The first that differs, without how to mend it.
    static std::string said(const std::vector<std::string>& all) { return all.at(0).substr(0, all.at(0).find(" (if")); }

    const testing::temporary_directory folder;
    const std::filesystem::path path = folder / "some.tsv";
};

} // namespace

BOOST_AUTO_TEST_SUITE(golden_table)

BOOST_FIXTURE_TEST_CASE(row_and_column_that_differ_are_said, a_table) {
    table t(path, false);
    BOOST_TEST(t.differences("one", 1.02, 2, "RFC 1").empty());
    const auto all = t.differences("two", 3.2, 4.1, "RFC 3");
    BOOST_REQUIRE(all.size() == 3u);
    BOOST_TEST(said(all) == "some.tsv, row \"two\": column \"measured\": 3.2000, committed 3.0000");
    BOOST_TEST(said({all[1]}) == "some.tsv, row \"two\": column \"expected\": 4.1000, committed 4.0000");
    BOOST_TEST(said({all[2]}) == "some.tsv, row \"two\": column \"source\": RFC 3, committed RFC 2");
    BOOST_TEST(said(t.differences("three", 1, 2, "RFC 1")) == "some.tsv, row \"three\": is not there: 1.0000, 2.0000, RFC 1");
    BOOST_TEST(said(t.differences("one", 1, 2, "RFC 1")) == "some.tsv, row \"one\": is measured twice");
}

BOOST_FIXTURE_TEST_CASE(a_table_that_is_written_anew_keeps_what_was_not_measured, a_table) {
    {
        table t(path, true);
        BOOST_TEST(t.differences("two", 7, 4, "RFC 2").empty());
        BOOST_TEST(t.differences("three", 5, 6, "RFC 3").empty());
    }
    BOOST_TEST(text() == "# row\tmeasured\texpected\tsource\none\t1.0000\t2.0000\tRFC 1\ntwo\t7.0000\t4.0000\tRFC 2\n"
                         "three\t5.0000\t6.0000\tRFC 3\n");
}

BOOST_FIXTURE_TEST_CASE(who_only_compares_writes_nothing, a_table) {
    const std::string before = text();
    static_cast<void>(table(path, false).differences("two", 7, 4, "RFC 2"));
    BOOST_TEST(text() == before);
}

BOOST_FIXTURE_TEST_CASE(a_table_with_a_row_twice_or_without_its_columns_is_refused, a_table) {
    for (const char* more : {"one\t1.0000\t2.0000\tRFC 1\n", "three\t1.0000\tRFC 1\n", "three\n"}) {
        std::ofstream(path, std::ios::app) << more;
        BOOST_CHECK_THROW(table(path, false), std::runtime_error);
        std::ofstream(path) << "one\t1.0000\t2.0000\tRFC 1\n";
    }
}

BOOST_AUTO_TEST_SUITE_END()
