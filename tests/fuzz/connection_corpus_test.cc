// The fuzz target of a whole connection without a fuzzer: strings of random bytes from a seed, and what the fuzzer once found.
// ctest: timeout=300
#include "connection_target.hh"

#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

namespace {

void run(corewire::byte_span bytes) {
    const auto block = std::make_unique<std::byte[]>(bytes.size()); // exactly as large as the input
    std::ranges::copy(bytes, block.get());
    connection_fuzz::connection({block.get(), bytes.size()});
}

} // namespace

BOOST_AUTO_TEST_SUITE(connection_corpus)

BOOST_AUTO_TEST_CASE(thousands_of_connections_at_random) {
    constexpr std::uint64_t seed = 93;
    BOOST_TEST_MESSAGE("seed " << seed);
    corewire::random_generator random(seed);
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> bytes(20 + random.below(600));
        for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
        run(bytes);
    }
}

BOOST_AUTO_TEST_SUITE_END()
