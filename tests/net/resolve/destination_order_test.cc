// Which of several addresses is tried first: RFC 6724 6, its rules one by one, and its examples (10.2).
#include <corewire/net/resolve/destination_order.hh>

#include <corewire/net/wire/address_policy.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

namespace {

net_address a(const char* text) {
    if (const auto v4 = ipv4::parse(text)) return *v4;
    return *ipv6::parse(text);
}
destination unreachable(const char* to) { return {a(to), std::nullopt}; }
destination from(const char* source, const char* to, unsigned length = 64, bool deprecated = false) {
    return {a(to), chosen_source{.address = a(source), .prefix_length = length, .deprecated = deprecated}};
}
/// One way round, and not the other.
bool first(const destination& x, const destination& y) { return goes_before(x, y) && !goes_before(y, x); }
bool equal(const destination& x, const destination& y) { return !goes_before(x, y) && !goes_before(y, x); }

} // namespace

BOOST_AUTO_TEST_SUITE(destination_order)

BOOST_AUTO_TEST_CASE(the_policy_table_is_the_default_one) { // 2.1
    const auto is = [](const char* text, unsigned precedence, unsigned label) {
        return wire::policy_of(a(text)) == wire::address_policy{precedence, label};
    };
    BOOST_TEST(is("::1", 50, 0));
    BOOST_TEST(is("2001:db8::1", 40, 1));
    BOOST_TEST(is("fe80::1", 40, 1));
    BOOST_TEST(is("192.0.2.1", 35, 4));
    BOOST_TEST(is("2002:c000:201::1", 30, 2));
    BOOST_TEST(is("2001::1", 5, 5));
    BOOST_TEST(is("2001:1::1", 40, 1));
    BOOST_TEST(is("fc00::1", 3, 13));
    BOOST_TEST(is("fdff::1", 3, 13));
    BOOST_TEST(is("::192.0.2.1", 1, 3));
    BOOST_TEST(is("fec0::1", 1, 11));
    BOOST_TEST(is("3ffe::1", 1, 12));
}

BOOST_AUTO_TEST_CASE(scopes_are_the_link_the_site_and_the_world) { // 3.1 to 3.4
    for (const char* link : {"fe80::1", "::1", "169.254.1.1", "127.0.0.1", "ff02::1"}) BOOST_TEST(wire::scope_of(a(link)) == 2u);
    for (const char* site : {"fec0::1", "ff05::1"}) BOOST_TEST(wire::scope_of(a(site)) == 5u);
    for (const char* world : {"2001:db8::1", "fd00::1", "10.0.0.1", "192.168.1.1", "192.0.2.1", "ff0e::1"})
        BOOST_TEST(wire::scope_of(a(world)) == 14u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_reached_comes_last) { // rule 1
    BOOST_TEST(first(from("10.0.0.1", "192.0.2.1", 24), unreachable("2001:db8::1")));
    BOOST_TEST(first(unreachable("2001:db8::1"), unreachable("192.0.2.1"))); // the table still holds
}

BOOST_AUTO_TEST_CASE(scopes_that_match_come_first) { // rule 2; 10.2
    BOOST_TEST(first(from("2001:db8:1::2", "2001:db8:1::1"), from("169.254.13.78", "198.51.100.121", 16)));
    BOOST_TEST(first(from("198.51.100.117", "198.51.100.121", 24), from("fe80::1", "2001:db8:1::1")));
}

BOOST_AUTO_TEST_CASE(a_deprecated_source_comes_behind_one_that_is_not) { // rule 3
    BOOST_TEST(first(from("2001:db8:1::2", "2001:db8:1::1"), from("2001:db8:2::2", "2001:db8:2::1", 64, true)));
    BOOST_TEST(first(from("fe80::2", "fe80::1"), from("2001:db8:1::2", "2001:db8:1::1", 64, true)));
}

BOOST_AUTO_TEST_CASE(labels_that_match_come_first) { // rule 5; 10.2
    BOOST_TEST(first(from("2002:c633:6401::2", "2002:c633:6401::1"), from("2002:c633:6401::2", "2001:db8:1::1")));
    BOOST_TEST(first(from("10.0.0.1", "192.0.2.1", 24), from("fd00::1", "2001:db8::1"))); // a private prefix, and the world by IPv4 alone
}

BOOST_AUTO_TEST_CASE(the_higher_precedence_comes_first) { // rule 6; 10.2
    BOOST_TEST(first(from("2001:db8:1::2", "2001:db8:1::1"), from("10.1.2.4", "10.1.2.3", 24)));
    BOOST_TEST(first(from("2001:db8:1::2", "2001:db8:1::1"), from("2002:c633:6401::2", "2002:c633:6401::1")));
    BOOST_TEST(first(from("10.1.2.4", "10.1.2.3", 24), from("fd00::2", "fd00::1")));
}

BOOST_AUTO_TEST_CASE(the_smaller_scope_comes_first) { // rule 8; 10.2
    BOOST_TEST(first(from("fe80::2", "fe80::1"), from("2001:db8:1::2", "2001:db8:1::1")));
}

BOOST_AUTO_TEST_CASE(the_longer_common_prefix_comes_first) { // rule 9
    BOOST_TEST(first(from("2001:db8:1::2", "2001:db8:1::1"), from("2001:db8:1::2", "2001:db8:3ffe::1")));
    BOOST_TEST(equal(from("2001:db8:1::2", "2001:db8:1::7"), from("2001:db8:1::2", "2001:db8:1::3"))); // behind the prefix nothing counts
    BOOST_TEST(first(from("10.0.0.1", "10.0.0.9", 24), from("10.0.0.1", "10.0.1.9", 24)));             // our own network
    BOOST_TEST(equal(from("10.0.0.1", "10.0.1.9", 24), from("10.0.0.1", "192.0.2.1", 24)));            // else the servers' turns stand
    BOOST_TEST(equal(from("10.0.0.1", "10.0.0.9", 0), from("10.0.0.1", "192.0.2.1", 0)));
}

BOOST_AUTO_TEST_SUITE_END()
