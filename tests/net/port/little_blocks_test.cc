// Blocks for little data: kept for who comes next, bounded, and longer-lived than what they come from.
#include <corewire/net/frame/small_blocks.hh>

#include <boost/test/unit_test.hpp>

#include <memory>
#include <vector>

using namespace corewire;

namespace {

std::vector<buffer> copies(small_blocks& blocks, std::size_t count, std::size_t size) {
    const std::vector<std::byte> bytes(size, std::byte{7});
    std::vector<buffer> out;
    for (std::size_t i = 0; i < count; ++i) {
        out.push_back(blocks.copy(bytes));
        if (out.back().empty()) out.pop_back();
    }
    return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(little_blocks)

BOOST_AUTO_TEST_CASE(in_steady_state_nothing_is_allocated) {
    small_blocks blocks(1 << 20);
    for (int round = 0; round < 10; ++round) {
        for (const std::size_t size : {1u, 192u, 193u, 512u}) {
            const std::vector<buffer> all = copies(blocks, 100, size);
            BOOST_TEST(all.size() == 100u);
            for (const buffer& each : all) BOOST_TEST((each.size() == size && each.data()[size - 1] == std::byte{7}));
        }
        BOOST_TEST(blocks.allocations() == 200u); // of two sizes
        BOOST_TEST(blocks.held() == 0u);
    }
}

BOOST_AUTO_TEST_CASE(they_are_bounded_together_and_kept_ones_make_room) {
    const std::uint64_t little = sizeof(frame) + 192, large = sizeof(frame) + 512;
    small_blocks blocks(9 * little);
    BOOST_TEST(copies(blocks, 20, 10).size() == 9u);
    std::vector<buffer> some = copies(blocks, 2, 10);
    BOOST_TEST(copies(blocks, 20, 500).size() == 7 * little / large); // in place of the seven that are kept
    BOOST_TEST(copies(blocks, 20, 10).size() == 7u);
    BOOST_TEST(blocks.held() == 2 * little);
}

BOOST_AUTO_TEST_CASE(a_buffer_outlives_them) {
    auto blocks = std::make_unique<small_blocks>(1 << 20);
    std::vector<buffer> some = copies(*blocks, 3, 10);
    some.pop_back();
    blocks.reset();
    BOOST_TEST((some.front().data()[9] == std::byte{7}));
}

BOOST_AUTO_TEST_SUITE_END()
