// The fuzz target of placement files without a fuzzer: good files cut at every length and changed at random 20,000 times
// from a seed.
// ctest: timeout=120
#include "placement_targets.hh"

#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

namespace {

constexpr std::string_view starts[] = {
    "# a comment\ninterface = \"eth1\"\nshard = \"pu:33,numa:1,queue:0\"   # next to eth1\nshard = \"pu:34,numa:1,queue:1+63\"\n",
    "shard=\"pu:0\"",
    "shard = \"pu:65535,numa:65535,queue:4095+0+1\"\r\n\tshard = \"queue:2, numa:3, pu:4\" # = \" #\n",
};

/// In a heap block of exactly its size, so that AddressSanitizer sees a read too far.
void run(std::string_view text) {
    const auto block = std::make_unique<char[]>(text.size());
    std::ranges::copy(text, block.get());
    placement_fuzz::file({block.get(), text.size()});
}

} // namespace

BOOST_AUTO_TEST_SUITE(placement_corpus)

BOOST_AUTO_TEST_CASE(good_files_cut_at_every_length) {
    for (const std::string_view start : starts)
        for (std::size_t size = 0; size <= start.size(); ++size) run(start.substr(0, size));
}

BOOST_AUTO_TEST_CASE(twenty_thousand_mutations) {
    constexpr std::uint64_t seed = 20'261;
    BOOST_TEST_MESSAGE("seed " << seed);
    corewire::random_generator random(seed);
    constexpr std::string_view pieces[] = {"\n", "\"", "#", "=", ",", ":", "+", "-", "pu:",
                                            "numa:", "queue:", "shard", "interface", "9999999999", "\xff"};
    for (int i = 0; i < 20'000; ++i) {
        std::string text{starts[random.below(std::size(starts))]};
        for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
            const std::size_t at = random.below(text.size() + 1);
            switch (random.below(4)) {
            case 0: text.insert(at, pieces[random.below(std::size(pieces))]); break;
            case 1: text.erase(at, 1 + random.below(8)); break;
            case 2: text.insert(at, text.substr(0, random.below(text.size() + 1))); break;
            default:
                if (at < text.size()) text[at] = static_cast<char>(random.next());
            }
        }
        run(text);
    }
}

BOOST_AUTO_TEST_SUITE_END()
