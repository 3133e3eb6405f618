// What fuzzers have kept (corpus/NAME.hex, an input a line): each input that reaches something of its own is played again.
// ctest: timeout=300
#include "targets.hh"

#include <boost/test/unit_test.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace {

/// In a heap block of exactly its size, so that AddressSanitizer sees a read too far.
void play(const fuzz::target& target, const std::string& line) {
    const std::size_t size = line.size() / 2;
    const auto block = std::make_unique<std::byte[]>(size);
    for (std::size_t i = 0; i < size; ++i) {
        unsigned value = 0;
        const char* digits = line.data() + 2 * i;
        const auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
        BOOST_REQUIRE_MESSAGE(error == std::errc{} && end == digits + 2, target.name << ": a line that is not hexadecimal");
        block[i] = static_cast<std::byte>(value);
    }
    target.run({block.get(), size});
}

} // namespace

BOOST_AUTO_TEST_SUITE(corpus)

BOOST_AUTO_TEST_CASE(every_target_plays_what_was_kept_of_it) {
    const char* source = std::getenv("COREWIRE_SOURCE_DIR");
    BOOST_REQUIRE_MESSAGE(source != nullptr, "COREWIRE_SOURCE_DIR is not set");
    for (const fuzz::target& target : fuzz::all_targets()) {
        const std::string file = std::string(source) + "/tests/fuzz/corpus/" + std::string(target.name) + ".hex";
        std::ifstream in(file);
        std::size_t inputs = 0;
        for (std::string line; std::getline(in, line); ++inputs) play(target, line);
        BOOST_TEST(inputs > 0, file << ": nothing is kept; `tools/fuzz --keep " << target.name << "` makes it");
    }
}

BOOST_AUTO_TEST_CASE(what_was_kept_is_of_a_target) { // CTest has an entry for each file
    const char* source = std::getenv("COREWIRE_SOURCE_DIR");
    BOOST_REQUIRE_MESSAGE(source != nullptr, "COREWIRE_SOURCE_DIR is not set");
    const std::vector<fuzz::target> all = fuzz::all_targets();
    for (const auto& entry : std::filesystem::directory_iterator(std::string(source) + "/tests/fuzz/corpus")) {
        const std::string name = entry.path().stem();
        const bool known = std::ranges::any_of(all, [&](const fuzz::target& each) { return each.name == name; });
        BOOST_TEST(known, name << ": no target of this name");
    }
}

BOOST_AUTO_TEST_SUITE_END()
