// The 802.1Q tag.
#include "support.hh"

#include <corewire/net/wire/vlan.hh>

using namespace corewire::wire;
using namespace wire_test;

BOOST_AUTO_TEST_SUITE(vlan)

BOOST_AUTO_TEST_CASE(a_tagged_frame_is_read) {
    const byte_vector frame = hex("02000000000b 02000000000a 8100 b064 0800 45");
    ethernet_view e;
    BOOST_REQUIRE(ethernet_view::parse(frame, e) == parse_error::none);
    BOOST_TEST((e.type() == ether_type::vlan));
    vlan_view v;
    BOOST_REQUIRE(vlan_view::parse(e.payload(), v) == parse_error::none);
    BOOST_TEST(v.priority() == 5);
    BOOST_TEST(v.drop_eligible());
    BOOST_TEST(v.id() == 100);
    BOOST_TEST((v.type() == ether_type::ipv4));
    BOOST_TEST(v.payload().size() == 1u);
}

BOOST_AUTO_TEST_CASE(two_tags_are_read_one_after_the_other) {
    const byte_vector bytes = hex("0002 8100 2003 86dd 60");
    vlan_view outer;
    vlan_view inner;
    BOOST_REQUIRE(vlan_view::parse(bytes, outer) == parse_error::none);
    BOOST_TEST((outer.type() == ether_type::vlan));
    BOOST_REQUIRE(vlan_view::parse(outer.payload(), inner) == parse_error::none);
    BOOST_TEST(inner.id() == 3);
    BOOST_TEST(inner.priority() == 1);
    BOOST_TEST((inner.type() == ether_type::ipv6));
}

BOOST_AUTO_TEST_CASE(less_than_a_tag_is_truncated) {
    for (std::size_t size = 0; size < 4; ++size) {
        const byte_vector part(size);
        vlan_view v;
        BOOST_TEST(vlan_view::parse(part, v) == parse_error::truncated);
    }
}

BOOST_AUTO_TEST_CASE(random_tags_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 2000; ++i) {
        const vlan_tag tag{static_cast<std::uint16_t>(random.below(4096)), static_cast<std::uint8_t>(random.below(8)),
                           random.chance(0.5), static_cast<ether_type>(any<std::uint16_t>(random))};
        byte_vector bytes(4);
        BOOST_REQUIRE(tag.emit(bytes) == 4u);
        vlan_view v;
        BOOST_REQUIRE(vlan_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(vlan_tag::from(v) == tag);
    }
}

BOOST_AUTO_TEST_SUITE_END()
