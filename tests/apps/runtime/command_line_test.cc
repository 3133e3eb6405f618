// A command line: what is written into the program's variables, and what the user reads when a word is wrong.
#include <corewire/apps/runtime/command_line.hh>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace cw = corewire;
using words = std::vector<std::string>;

namespace {

/// What a line is refused with; empty when it is taken.
std::string refusal(cw::command_line& line, words given) {
    try {
        line.read(std::move(given));
        return {};
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_line)

BOOST_AUTO_TEST_CASE(values_of_every_kind_are_written_into_the_variables) {
    cw::command_line line("ant", "Carries leaves.");
    std::uint8_t small = 0;
    std::uint16_t port = 7;
    std::uint64_t large = 0;
    std::int64_t below = 0;
    double part = 0;
    std::string name;
    std::optional<unsigned> perhaps, never;
    words many;
    std::vector<unsigned> numbers;
    bool flag = false;
    line.add_option("--small", small);
    line.add_option("--port", port);
    line.add_option("--large", large);
    line.add_option("--below", below);
    line.add_option("--part", part);
    line.add_option("-n,--name", name);
    line.add_option("--perhaps", perhaps);
    line.add_option("--never", never);
    line.add_option("--each", many).one_value_each_time();
    line.add_option("--numbers", numbers).expected(2, 2).delimiter(',');
    line.add_flag("--flag", flag);
    BOOST_TEST(refusal(line, {"--small", "9", "--large=18446744073709551615", "--below", "-5", "--part", "0.5", "-n", "a b",
                              "--perhaps", "3", "--each", "x", "--each", "y", "--numbers", "4,5", "--flag"}) == "");
    BOOST_TEST(small == 9);
    BOOST_TEST(port == 7);
    BOOST_TEST(large == UINT64_MAX);
    BOOST_TEST(below == -5);
    BOOST_TEST(part == 0.5);
    BOOST_TEST(name == "a b");
    BOOST_TEST(perhaps.value() == 3);
    BOOST_TEST(!never);
    BOOST_TEST(many == (words{"x", "y"}), boost::test_tools::per_element());
    BOOST_TEST(numbers == (std::vector<unsigned>{4, 5}), boost::test_tools::per_element());
    BOOST_TEST(flag);
    BOOST_TEST(line.given("--port") == false);
    BOOST_TEST(line.given("--name") == true);
    BOOST_CHECK_THROW(line.given("--nose"), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_the_option_and_the_reason) {
    cw::command_line line("ant", "");
    unsigned count = 1;
    double part = 0;
    std::string pace;
    bool fast = false, slow = false;
    line.add_option("--count", count).check_range(1, 9);
    line.add_option("--part", part).check_range(0.0, 1.0);
    line.add_option("--pace", pace).check_one_of({"walk", "run"});
    const auto quickly = line.add_flag("--fast", fast);
    line.add_flag("--slow", slow).excludes(quickly);
    line.add_option_function<std::string>("-l,--leaf", [](const std::string& text) {
        if (text != "oak") throw cw::option_refused("'" + text + "' is no leaf");
    });
    line.add_list_function("--trees", [](const words& all) {
        if (all.size() > 1) throw cw::option_refused("one is enough");
    }).expected(1, 2);
    BOOST_TEST(refusal(line, {"--count", "9", "--part", "1", "--pace", "run", "--leaf", "oak", "--trees", "elm"}) == "");
    BOOST_TEST(refusal(line, {"--count", "10"}) == "--count: Value 10 not in range 1 to 9");
    BOOST_TEST(refusal(line, {"--part", "-0.1"}) == "--part: Value -0.1 not in range 0.000000 to 1.000000");
    BOOST_TEST(refusal(line, {"--pace", "fly"}) == "--pace: fly not in {walk,run}");
    BOOST_TEST(refusal(line, {"--slow", "--fast"}) == "--fast excludes --slow");
    BOOST_TEST(refusal(line, {"--leaf", "tin"}) == "--leaf: 'tin' is no leaf");
    BOOST_TEST(refusal(line, {"--trees", "elm", "ash"}) == "--trees: one is enough");
    BOOST_TEST(refusal(line, {"--wings"}) == "The following argument was not expected: --wings");
    BOOST_TEST(refusal(line, {"--count", "many"}) == "--count: Value many not in range 1 to 9");
}

BOOST_AUTO_TEST_CASE(a_subcommand_has_options_of_its_own_and_may_be_called_back) {
    cw::command_line line("ant", "");
    line.require_subcommand(1, 1);
    unsigned leaves = 0;
    bool called = false;
    cw::command_line carry = line.add_subcommand("carry", "Leaves");
    carry.add_option("leaves", leaves).required();
    carry.callback([&] { called = true; });
    line.add_subcommand("rest");
    BOOST_TEST(refusal(line, {"carry"}) == "leaves is required");
    BOOST_TEST(refusal(line, {"dance"}) != "");
    BOOST_TEST(refusal(line, {"carry", "3"}) == "");
    BOOST_TEST(leaves == 3);
    BOOST_TEST(called);
    BOOST_TEST(line.got_subcommand("carry"));
    BOOST_TEST(!line.got_subcommand("rest"));
}

BOOST_AUTO_TEST_CASE(options_come_from_a_file_as_well_and_the_last_of_two_counts_where_it_is_said_so) {
    const std::string file = "/tmp/corewire-options-" + std::to_string(::getpid());
    std::ofstream(file) << "name = \"file\"\n# a remark\n";
    cw::command_line line("ant", "");
    std::string name, level;
    line.add_option_group("Names").add_option("--name", name);
    line.add_option("--level", level).take_last();
    line.add_config_file("--config", "Options");
    BOOST_TEST(refusal(line, {"--config", file, "--level", "a", "--level", "b"}) == "");
    BOOST_TEST(name == "file");
    BOOST_TEST(level == "b");
    ::unlink(file.c_str());
}

BOOST_AUTO_TEST_CASE(what_a_file_says_that_is_no_option_is_refused) {
    const std::string file = "/tmp/corewire-options-" + std::to_string(::getpid());
    const auto said_of = [&](const char* text) {
        std::ofstream(file) << text;
        cw::command_line line("ant", "");
        int port = 7;
        line.add_option_group("Ports").add_option("--port", port);
        line.add_config_file("--config", "Options");
        return refusal(line, {"--config", file});
    };
    BOOST_TEST(said_of("port = 8\n") == "");
    BOOST_TEST(said_of("prot = 8\n") == file + ": 'prot' is no option of this program");
    BOOST_TEST(said_of("[main]\nport = 8\n").starts_with(file + ": 'main"));
    BOOST_TEST(said_of("port 8\n") == file + ": 'port 8' is no option of this program");
    BOOST_TEST(said_of("port = x\n") != "");
    ::unlink(file.c_str());
}

BOOST_AUTO_TEST_CASE(an_option_is_described_once) {
    cw::command_line line("ant", "");
    int n = 0;
    line.add_option("--n", n);
    BOOST_CHECK_THROW(line.add_option("--n", n), std::exception);
}

BOOST_AUTO_TEST_SUITE_END()
