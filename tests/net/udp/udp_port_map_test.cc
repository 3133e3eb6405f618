// Several shards behind one address: whose a datagram to a port is.
#include "tests/net/udp/datagrams.hh"

#include <corewire/net/udp/udp_port_map.hh>

#include <boost/test/unit_test.hpp>

#include <memory>

using namespace corewire;
using namespace corewire::test;

BOOST_AUTO_TEST_SUITE(udp_port_map)

BOOST_AUTO_TEST_CASE(a_port_is_whose_it_is_and_the_hash_decides_between_several) {
    corewire::udp_port_map m;
    for (const unsigned shard : {0u, 1u, 40u}) {
        BOOST_TEST(m.owner(7, shard) == shard); // nobody's
        BOOST_TEST(m.choose(7, shard));
        BOOST_TEST(m.owner(7, 2) == shard);
        BOOST_TEST(!m.choose(7, 2));
        BOOST_TEST(!m.take(7, 2));
        m.leave(7, shard);
    }
    BOOST_TEST(m.take(7, 3));
    BOOST_TEST(!m.choose(7, 4));
    BOOST_TEST(m.owner(7, 4) == 3u);
    BOOST_TEST(m.take(7, 5));
    BOOST_TEST(m.owner(7, 3) == 3u);
    BOOST_TEST(m.owner(7, 5) == 5u);
    BOOST_TEST(m.owner(7, 6) == 3u); // those that have it share what hashes to others
    BOOST_TEST(m.owner(7, 7) == 5u);
    m.leave(7, 3);
    BOOST_TEST(m.owner(7, 6) == 5u);
    m.leave(7, 5);
    BOOST_TEST(m.choose(7, 1));
    BOOST_TEST(m.owner(8, 9) == 9u);
}

BOOST_AUTO_TEST_CASE(of_a_thousand_shards_each_may_choose_and_the_last_ones_bind_by_the_hash) {
    corewire::udp_port_map m;
    BOOST_TEST(m.choose(7, 1023));
    BOOST_TEST(m.owner(7, 2) == 1023u);
    m.leave(7, 1023);
    BOOST_TEST(m.owner(7, 2) == 2u);
    BOOST_TEST(m.take(7, 61));
    BOOST_TEST(m.take(7, 62));
    BOOST_TEST(m.take(7, 900));
    BOOST_TEST(m.owner(7, 900) == 900u);
    BOOST_TEST(m.owner(7, 2) == 61u);
    m.leave(7, 61);
    m.leave(7, 62);
    BOOST_TEST(m.owner(7, 900) == 900u);
    BOOST_TEST(m.owner(7, 2) == 2u);
}

BOOST_AUTO_TEST_CASE(two_shards_choose_different_ports_and_bind_none_that_the_other_has_chosen) {
    frame_pool pool(4);
    const auto map = std::make_shared<corewire::udp_port_map>();
    const udp_demux_options few{.ephemeral_first = 60'000, .ephemeral_last = 60'007};
    udp_demux first(pool, few, 1), second(pool, few, 1); // of one seed: both would like the same
    first.share_ports(map, 0);
    second.share_ports(map, 1);
    std::vector<std::unique_ptr<udp_endpoint>> all;
    for (int i = 0; i < 9; ++i) all.push_back(std::make_unique<udp_endpoint>(1));
    for (unsigned i = 0; i < 8; ++i) {
        BOOST_TEST(((i % 2 == 0 ? first : second).bind(*all[i], {ipv4::any(), 0}) == std::errc{}));
        BOOST_TEST(map->owner(all[i]->local().port, 7) == i % 2);
    }
    BOOST_TEST((first.bind(*all[8], {ipv4::any(), 0}) == std::errc::address_in_use));
    BOOST_TEST((first.bind(*all[8], {us, all[1]->local().port}) == std::errc::address_in_use));
    const std::uint16_t port = all[1]->local().port;
    second.unbind(*all[1]);
    BOOST_TEST((first.bind(*all[8], {us, port}) == std::errc{}));
    BOOST_TEST((second.bind(*all[1], {us, port}) == std::errc{}));
    BOOST_TEST(map->owner(port, 0) == 0u);
    BOOST_TEST(map->owner(port, 1) == 1u);
    // Connecting moves to a port that hashes home, if there is one; answers to any other are brought.
    const auto only = [](const void* to, udp_address local, udp_address) { return local.port == *static_cast<const std::uint16_t*>(to); };
    const home_hash home{only, &port};
    BOOST_TEST((first.connect(*all[0], us, {peer, 53}, home) == std::errc{}));
    const std::uint16_t before = all[0]->local().port;
    BOOST_TEST(before != port);
    first.unbind(*all[8]);
    second.unbind(*all[1]);
    BOOST_TEST((first.connect(*all[0], us, {peer, 53}, home) == std::errc{}));
    BOOST_TEST(all[0]->local().port == port);
    BOOST_TEST(map->owner(port, 1) == 0u);
    BOOST_TEST(map->owner(before, 1) == 1u);
    first.check_invariants();
    second.check_invariants();
}

BOOST_AUTO_TEST_SUITE_END()
