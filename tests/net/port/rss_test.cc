// The Toeplitz hash against Microsoft's published vectors, and what steering relies on.
#include <corewire/net/port/rss.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

BOOST_AUTO_TEST_SUITE(rss)

BOOST_AUTO_TEST_CASE(the_published_vectors_for_ipv4_with_ports) {
    static const corewire::rss::toeplitz microsoft{corewire::rss::microsoft_key};
    const struct {
        ipv4 destination;
        std::uint16_t destination_port;
        ipv4 source;
        std::uint16_t source_port;
        std::uint32_t hash;
    } rows[] = {{{161, 142, 100, 80}, 1766, {66, 9, 149, 187}, 2794, 0x51ccc178},
                {{65, 69, 140, 83}, 4739, {199, 92, 111, 2}, 14230, 0xc626b0ea},
                {{12, 22, 207, 184}, 38024, {24, 19, 198, 95}, 12898, 0x5c2b394a},
                {{209, 142, 163, 6}, 2217, {38, 27, 205, 30}, 48228, 0xafc7327f},
                {{202, 188, 127, 2}, 1303, {153, 39, 163, 191}, 44251, 0x10e828a2}};
    for (const auto& r : rows) {
        BOOST_CHECK_EQUAL(microsoft.hash(r.source, r.source_port, r.destination, r.destination_port), r.hash);
    }
}

BOOST_AUTO_TEST_CASE(both_directions_of_a_flow_have_one_symmetric_hash) {
    random_generator random(1);
    for (int i = 0; i < 1'000; ++i) {
        const ipv4 a(static_cast<std::uint32_t>(random.next())), b(static_cast<std::uint32_t>(random.next()));
        const auto pa = static_cast<std::uint16_t>(random.next()), pb = static_cast<std::uint16_t>(random.next());
        BOOST_REQUIRE_EQUAL(corewire::rss::symmetric_hash(a, pa, b, pb), corewire::rss::symmetric_hash(b, pb, a, pa));
    }
}

BOOST_AUTO_TEST_CASE(consecutive_ports_spread_over_the_queues) {
    for (const unsigned queues : {2u, 3u, 8u}) {
        unsigned count[8] = {};
        for (std::uint16_t port = 40'000; port < 48'000; ++port) {
            const std::uint32_t h = corewire::rss::symmetric_hash({10, 0, 0, 1}, 7, {10, 0, 0, 2}, port);
            const unsigned q = corewire::rss::queue_for(h, queues);
            BOOST_REQUIRE_LT(q, queues);
            ++count[q];
        }
        for (unsigned q = 0; q < queues; ++q) {
            BOOST_CHECK_GT(count[q], 8'000 / queues * 3 / 4);
            BOOST_CHECK_LT(count[q], 8'000 / queues * 5 / 4);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
