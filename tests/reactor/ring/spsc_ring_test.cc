// The ring between two threads: order, bounds, wrap-around, and a run of both ends on two threads.
#include <corewire/reactor/base/spsc_ring.hh>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(spsc_ring)

BOOST_AUTO_TEST_CASE(a_new_ring_is_empty) {
    corewire::spsc_ring<int> ring(4);
    BOOST_TEST(ring.empty());
    BOOST_TEST(ring.front() == nullptr);
    BOOST_TEST(ring.capacity() == 4u);
}

BOOST_AUTO_TEST_CASE(values_come_out_in_the_order_they_went_in_over_many_laps) {
    corewire::spsc_ring<int> ring(4);
    int next_out = 0;
    for (int next_in = 0; next_in < 1000;) {
        for (int burst = 0; burst <= next_in % 4; ++burst, ++next_in) BOOST_REQUIRE(ring.try_push(next_in));
        ring.consume(100, [&](int value) { BOOST_TEST(value == next_out++); });
    }
    BOOST_TEST(ring.empty());
}

BOOST_AUTO_TEST_CASE(a_full_ring_refuses_until_the_consumer_has_published_room) {
    corewire::spsc_ring<int> ring(2);
    BOOST_TEST(ring.try_push(1));
    BOOST_TEST(ring.try_push(2));
    BOOST_TEST(!ring.try_push(3));
    BOOST_TEST(*ring.front() == 1);
    ring.pop();
    BOOST_TEST(!ring.try_push(3)); // popped, not yet given back
    ring.publish();
    BOOST_TEST(ring.try_push(3));
    BOOST_TEST(!ring.try_push(4));
}

BOOST_AUTO_TEST_CASE(a_batch_is_taken_as_far_as_it_fits) {
    corewire::spsc_ring<int> ring(4);
    const std::vector<int> values{0, 1, 2, 3, 4, 5};
    BOOST_TEST(ring.push_batch(values) == 4u);
    BOOST_TEST(ring.consume(3, [](int) {}) == 3u);
    BOOST_TEST(ring.push_batch(std::span{values}.subspan(4)) == 2u);
    std::vector<int> rest;
    ring.consume(10, [&](int value) { rest.push_back(value); });
    BOOST_TEST(rest == (std::vector<int>{3, 4, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(values_are_destroyed_once_when_popped) {
    auto witness = std::make_shared<int>(7);
    corewire::spsc_ring<std::shared_ptr<int>> ring(2);
    for (int round = 0; round < 5; ++round) {
        BOOST_TEST(ring.try_push(witness));
        BOOST_TEST(witness.use_count() == 2);
        ring.consume(1, [](auto&) {});
        BOOST_TEST(witness.use_count() == 1);
    }
}

BOOST_AUTO_TEST_CASE(two_threads_exchange_a_million_values_in_order_through_a_small_ring) {
    struct pair_of_words {
        std::uint64_t a, b; // both must be seen together
    };
    constexpr std::uint64_t count = 1'000'000;
    corewire::spsc_ring<pair_of_words> ring(64);
    std::uint64_t refused = 0;
    std::thread producer([&] {
        for (std::uint64_t i = 0; i < count; ++i)
            while (!ring.try_push({i, ~i})) {
                ++refused;
                std::this_thread::yield();
            }
    });
    std::uint64_t expected = 0, torn = 0, disordered = 0;
    while (expected < count) {
        const std::size_t taken = ring.consume(32, [&](pair_of_words& value) {
            torn += value.b != ~value.a;
            disordered += value.a != expected++;
        });
        if (taken == 0) std::this_thread::yield();
    }
    producer.join();
    BOOST_TEST(torn == 0u);
    BOOST_TEST(disordered == 0u);
    BOOST_TEST_MESSAGE("the ring was full " << refused << " times");
}

BOOST_AUTO_TEST_SUITE_END()
