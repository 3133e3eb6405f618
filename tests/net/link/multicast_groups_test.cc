#include <corewire/net/link/multicast_filter.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

BOOST_AUTO_TEST_SUITE(multicast_groups)

BOOST_AUTO_TEST_CASE(only_joined_groups_pass_and_all_hosts_always) {
    multicast_filter f;
    const ipv4 feed(239, 1, 2, 3);
    BOOST_TEST(f.accepts(ipv4::all_hosts()));
    BOOST_TEST(f.accepts(mac_address::of_multicast(ipv4::all_hosts())));
    BOOST_TEST(!f.accepts(feed));
    BOOST_TEST(f.join(feed));
    BOOST_TEST(f.accepts(feed));
    BOOST_TEST(f.accepts(mac_address::of_multicast(feed)));
    const ipv4 same_mac(238, 129, 2, 3); // 32 groups share a MAC: the frame passes, the packet doesn't
    BOOST_TEST(f.accepts(mac_address::of_multicast(same_mac)));
    BOOST_TEST(!f.accepts(same_mac));
}

BOOST_AUTO_TEST_CASE(a_group_stays_until_its_last_member_has_left) {
    multicast_filter f;
    const ipv4 feed(239, 1, 2, 3);
    f.join(feed);
    f.join(feed);
    BOOST_TEST(!f.leave(feed));
    BOOST_TEST(f.accepts(feed));
    BOOST_TEST(f.leave(feed));
    BOOST_TEST(!f.accepts(feed));
    BOOST_TEST(!f.leave(feed));
}

BOOST_AUTO_TEST_CASE(the_table_is_bounded_and_takes_nothing_but_groups) {
    multicast_filter f;
    BOOST_TEST(!f.join(ipv4(10, 0, 0, 1)));
    BOOST_TEST(!f.join(ipv4::broadcast()));
    for (std::uint32_t i = 0; i < multicast_filter::max_groups; ++i) BOOST_TEST(f.join(ipv4(0xef000000 + i)));
    BOOST_TEST(!f.join(ipv4(239, 9, 9, 9)));
    BOOST_TEST(f.refused() == 1u);
    BOOST_TEST(f.join(ipv4(0xef000000))); // one more member of a known group costs nothing
    BOOST_TEST(f.groups().size() == multicast_filter::max_groups);
}

BOOST_AUTO_TEST_SUITE_END()
