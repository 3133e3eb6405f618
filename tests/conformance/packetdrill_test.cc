// libcorewire_packetdrill.so, driven as packetdrill drives it: every script below scripts/ is played on its virtual clock.
// ctest: timeout=120
#include "player.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace corewire::conformance;

namespace {

std::filesystem::path script_folder() {
    const char* source = std::getenv("COREWIRE_SOURCE_DIR");
    return std::filesystem::path(source != nullptr ? source : ".") / "tests/conformance/scripts";
}

std::vector<std::string> scripts() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(script_folder())) {
        if (entry.path().extension() == ".pkt") names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string text_of(const std::string& name) {
    std::ifstream file(script_folder() / name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void play(const std::string& text, const char* flags = "linux settings=none") {
    player p(flags);
    try {
        p.play(text);
    } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(packetdrill)

BOOST_AUTO_TEST_CASE(every_script_of_the_folder_plays_as_written) {
    BOOST_TEST(scripts().size() >= 3u);
    for (const std::string& name : scripts()) {
        BOOST_TEST_CONTEXT(name) { play(text_of(name)); }
    }
}

BOOST_AUTO_TEST_CASE(a_script_that_expects_what_never_leaves_fails_and_does_not_hang) {
    player p("linux");
    BOOST_CHECK_THROW(p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 > . 1:1(0) ack 1\n"), script_failed);
}

BOOST_AUTO_TEST_SUITE_END()
