// One number for what a process makes of some seeds: two_processes.sh compares those of several.
#include "soak_world.hh"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

using namespace corewire;

BOOST_AUTO_TEST_SUITE(process_digest)

BOOST_AUTO_TEST_CASE(fifty_lives_of_the_soak_as_one_number) {
    std::uint64_t all = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const soaking::outcome life = soaking::world(soaking::plan::draw(seed)).live();
        for (const std::uint64_t part : {life.digest, life.bytes, life.cable.corrupted, std::uint64_t{life.completed}})
            all = (all ^ part) * 0x9e3779b97f4a7c15ull + seed;
    }
    BOOST_TEST(all != 0u);
    BOOST_TEST_MESSAGE(fmt::format("digest {:016x}", all));
}

BOOST_AUTO_TEST_SUITE_END()
