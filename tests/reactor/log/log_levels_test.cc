// Which module's messages are written from which level on, and what is wrong with what somebody has typed.
#include <corewire/reactor/log/log_level.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

BOOST_AUTO_TEST_SUITE(log_levels)

BOOST_AUTO_TEST_CASE(a_module_without_a_level_of_its_own_has_that_of_the_others) {
    corewire::log_levels levels;
    BOOST_TEST(levels.set("tcp=debug,warn").empty());
    BOOST_CHECK(levels.of("tcp") == log_level::debug);
    BOOST_CHECK(levels.of("arp") == log_level::warn);
    BOOST_CHECK(levels.of("tc") == log_level::warn);
    BOOST_TEST(levels.text() == "tcp=debug,warn");
}

BOOST_AUTO_TEST_CASE(new_levels_replace_all_of_the_old_ones_and_tell_who_keeps_them) {
    corewire::log_levels levels;
    BOOST_CHECK(levels.of("tcp") == log_level::info);
    levels.set("tcp=off");
    const std::uint32_t before = levels.generation();
    BOOST_TEST(levels.set("arp=error").empty());
    BOOST_TEST(levels.generation() != before);
    BOOST_CHECK(levels.of("tcp") == log_level::info);
    BOOST_CHECK(levels.of("arp") == log_level::error);
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_is_named_and_changes_nothing) {
    corewire::log_levels levels;
    levels.set("tcp=debug");
    const std::uint32_t before = levels.generation();
    BOOST_TEST(levels.set("") == "'' is none of debug, info, warn, error, off");
    BOOST_TEST(levels.set("tcp=loud") == "'loud' is none of debug, info, warn, error, off");
    BOOST_TEST(levels.set("warn,") == "'' is none of debug, info, warn, error, off");
    BOOST_TEST(levels.set("=warn") == "'' is no name of a module");
    BOOST_TEST(levels.set("T\x1b[=warn") == "'T\x1b[' is no name of a module");
    BOOST_TEST(levels.set(std::string(32, 'a') + "=warn") == "'" + std::string(32, 'a') + "' is no name of a module");
    BOOST_TEST(levels.set("warn,info") == "two levels for all modules");
    BOOST_TEST(levels.set("tcp=info,tcp=warn") == "two levels for the module tcp");
    BOOST_TEST(levels.text() == "tcp=debug,info");
    BOOST_TEST(levels.generation() == before);
}

BOOST_AUTO_TEST_CASE(thirty_two_modules_have_a_level_and_not_one_more) {
    corewire::log_levels levels;
    std::string text;
    for (int i = 0; i < 32; ++i) text += "m" + std::to_string(i) + "=error,";
    BOOST_TEST(levels.set(text + "warn").empty());
    BOOST_CHECK(levels.of("m31") == log_level::error);
    BOOST_TEST(levels.set(text + "m32=error") == "levels for more than 32 modules");
}

BOOST_AUTO_TEST_SUITE_END()
