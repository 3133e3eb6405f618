#include <corewire/net/ip/path_mtu.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {
time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }
const ipv4 far(192, 0, 2, 1);
} // namespace

BOOST_AUTO_TEST_SUITE(path_mtu_discovery)

BOOST_AUTO_TEST_CASE(a_report_lowers_the_estimate_for_its_destination_only_and_for_ten_minutes) {
    path_mtu_cache c(1500);
    BOOST_TEST((c.find(at(0s), far) == path_mtu{1500}));
    BOOST_TEST((c.on_too_big(at(0s), far, 1400, 1500) == path_mtu{1400}));
    BOOST_TEST((c.find(at(599s), far) == path_mtu{1400}));
    BOOST_TEST((c.find(at(1s), ipv4(192, 0, 2, 2)) == path_mtu{1500}));
    BOOST_TEST((c.find(at(600s), far) == path_mtu{1500})); // tried again
    BOOST_TEST(c.generation() == 1u);
}

BOOST_AUTO_TEST_CASE(an_estimate_never_grows_by_a_report) {
    path_mtu_cache c(1500);
    c.on_too_big(at(0s), far, 1200, 1500);
    for (const std::uint32_t reported : {1300u, 1500u, 9000u, 65535u, 1200u}) {
        BOOST_TEST((c.on_too_big(at(1s), far, reported, 1500) == path_mtu{1200}));
    }
    BOOST_TEST(c.ignored() == 5u);
    BOOST_TEST(c.generation() == 1u);
}

BOOST_AUTO_TEST_CASE(a_report_below_the_minimum_gives_the_minimum) {
    path_mtu_cache c(1500);
    BOOST_TEST((c.on_too_big(at(0s), far, 68, 1500) == path_mtu{552}));
    BOOST_TEST((c.on_too_big(at(0s), far, 1, 552) == path_mtu{552}));
    BOOST_TEST(c.below_minimum() == 2u);
    BOOST_TEST((c.find(at(1s), far) == path_mtu{552}));
}

BOOST_AUTO_TEST_CASE(a_report_of_less_than_every_link_of_ipv6_carries_is_not_believed) { // RFC 8201 4
    const ipv6 there = *ipv6::parse("2001:db8::1");
    path_mtu_cache c(1500);
    for (const std::uint32_t reported : {0u, 1u, 600u, 1279u}) BOOST_TEST((c.on_too_big(at(0s), there, reported, 1500) == path_mtu{1500}));
    BOOST_TEST(c.below_minimum() == 4u);
    BOOST_TEST(c.generation() == 0u);
    BOOST_TEST((c.on_too_big(at(0s), there, 1280, 1500) == path_mtu{1280}));
}

BOOST_AUTO_TEST_CASE(a_router_that_does_not_say_gets_the_next_plateau) {
    path_mtu_cache c(9000);
    BOOST_TEST((c.on_too_big(at(0s), far, 0, 9000) == path_mtu{8166}));
    BOOST_TEST((c.on_too_big(at(0s), far, 0, 8166) == path_mtu{4352}));
    BOOST_TEST((c.on_too_big(at(0s), far, 0, 4352) == path_mtu{2002}));
    BOOST_TEST((c.on_too_big(at(0s), far, 0, 2002) == path_mtu{1492}));
    BOOST_TEST((c.on_too_big(at(0s), far, 0, 65535) == path_mtu{1006})); // 4.2BSD added the header to the length
    BOOST_TEST((c.on_too_big(at(0s), far, 0, 1006) == path_mtu{552}));
    BOOST_TEST(plateau_below(1500) == 1492u);
    BOOST_TEST(plateau_below(68) == 68u);
    BOOST_TEST(plateau_below(0) == 68u);
}

BOOST_AUTO_TEST_CASE(the_cache_holds_256_destinations_and_the_oldest_makes_room) {
    path_mtu_cache c(1500);
    for (std::uint32_t i = 0; i < 300; ++i) c.on_too_big(at(i * 1ms), ipv4(0xc0000200 + i), 1400, 1500);
    BOOST_TEST(c.size(at(1s)) == path_mtu_cache::max_entries);
    BOOST_TEST(c.evicted() == 44u);
    BOOST_TEST((c.find(at(1s), ipv4(0xc0000200)).bytes == 1500u));
    BOOST_TEST((c.find(at(1s), ipv4(0xc0000200 + 299)).bytes == 1400u));
    c.on_too_big(at(11min), ipv4(8, 8, 8, 8), 1300, 1500); // the expired ones are reused without an eviction
    BOOST_TEST(c.evicted() == 44u);
    BOOST_TEST(c.size(at(11min)) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
