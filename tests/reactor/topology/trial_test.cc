// Work in a child process: what comes to its end, and what does not.
#include <corewire/reactor/topology/trial.hh>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <sys/mman.h>

using namespace corewire;

namespace {

/// Addresses only: nothing is written there.
void take(std::size_t bytes) {
    if (::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        throw std::bad_alloc();
}

} // namespace

BOOST_AUTO_TEST_SUITE(trial)

BOOST_AUTO_TEST_CASE(what_ends_survives) { BOOST_TEST(survives([] {})); }

BOOST_AUTO_TEST_CASE(what_throws_aborts_or_never_ends_does_not) {
    BOOST_TEST(!survives([] { throw std::runtime_error("no"); }));
    BOOST_TEST(!survives([] { std::abort(); }));
    BOOST_TEST(!survives([] { for (volatile unsigned turns = 0;;) turns = turns + 1; }, 1));
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_beside_what_there_is) {
    const std::size_t bound = 64u << 20;
    BOOST_TEST(survives([] { take(32u << 20); }, 20, bound));
    BOOST_TEST(!survives([] { take(65u << 20); }, 20, bound));
    BOOST_TEST(!survives([] { take((1u << 30) + 4096); }));
    BOOST_TEST(survives([] { take((1u << 30) + 4096); }, 20, std::size_t{2} << 30)); // only the child is bounded
}

BOOST_AUTO_TEST_SUITE_END()
