// docs/SIMULATOR.md: its text holds the very code that is compiled and run here.
#include "docs/simulator/looking.hh"
#include "docs/simulator/scenario.hh"

#include <tests/support/temporary_directory.hh>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

std::string contents(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
}

} // namespace

BOOST_AUTO_TEST_SUITE(manual)

BOOST_AUTO_TEST_CASE(the_answer_comes_after_the_crash_and_twice_the_same_way) {
    const auto once = example::a_server_crashes(7);
    BOOST_TEST(once.answer == "10000000");
    BOOST_TEST((once.took > std::chrono::seconds{4} && once.took < std::chrono::minutes{10}));
    const auto again = example::a_server_crashes(7);
    BOOST_TEST(again.digest == once.digest);
    BOOST_TEST(example::a_server_crashes(8).digest != once.digest);
}

BOOST_AUTO_TEST_CASE(what_the_cable_the_nics_and_the_stack_have_counted_fits_together) {
    const corewire::testing::temporary_directory folder;
    const auto seen = example::a_bad_way_there(folder / "client.pcap");
    BOOST_TEST(seen.lost > 10u);
    BOOST_TEST(seen.arrived == seen.sent - seen.lost);
    BOOST_TEST(seen.understood > 0u);
    BOOST_TEST(seen.understood <= seen.arrived);
    BOOST_TEST(seen.captured > seen.sent);
    BOOST_TEST(std::filesystem::file_size(folder / "client.pcap") > 1'000'000u);
}

BOOST_AUTO_TEST_CASE(the_manual_shows_the_code_that_runs) {
    const char* where = std::getenv("COREWIRE_SOURCE_DIR");
    BOOST_REQUIRE(where != nullptr);
    const std::string source = where;
    const std::string text = contents(source + "/docs/SIMULATOR.md");
    for (const char* file : {"service.hh", "scenario.hh", "looking.hh"}) {
        const std::string block = "```cpp\n" + contents(source + "/docs/simulator/" + file) + "```";
        BOOST_TEST((text.find(block) != std::string::npos), file << " is not in docs/SIMULATOR.md word for word");
    }
}

BOOST_AUTO_TEST_SUITE_END()
