// What tests of random input draw from: the same in each run, so that a change is judged by itself. COREWIRE_TEST_SEED=N has another.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>

namespace corewire::testing {

inline std::uint64_t test_seed() {
    const char* const chosen = std::getenv("COREWIRE_TEST_SEED");
    const std::uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 0) : 20'260'101;
    BOOST_TEST_MESSAGE("seed " << seed << " (set COREWIRE_TEST_SEED to change it)");
    return seed;
}

} // namespace corewire::testing
