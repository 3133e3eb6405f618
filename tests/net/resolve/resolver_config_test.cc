// The host's own table of names.
#include <corewire/net/resolve/resolver_config.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

BOOST_AUTO_TEST_SUITE(resolver_config)

BOOST_AUTO_TEST_CASE(each_name_of_a_line_has_its_address) {
    const auto hosts = parse_hosts("127.0.0.1\tlocalhost here # a comment\n\n# 192.0.2.9 nobody\n  2001:db8::1   six\r\n192.0.2.1 last");
    BOOST_REQUIRE(hosts.size() == 4);
    BOOST_TEST(hosts[0].name == "localhost");
    BOOST_TEST(hosts[1].name == "here");
    BOOST_TEST((hosts[1].address == ip_address(ipv4(127, 0, 0, 1))));
    BOOST_TEST(hosts[2].name == "six");
    BOOST_TEST(std::holds_alternative<ipv6>(hosts[2].address));
    BOOST_TEST(hosts[3].name == "last");
}

BOOST_AUTO_TEST_CASE(what_is_no_line_of_hosts_is_left_out) {
    BOOST_TEST(parse_hosts("").empty());
    BOOST_TEST(parse_hosts("\n\n \t\n#\n").empty());
    BOOST_TEST(parse_hosts("192.0.2.1\n192.0.2.256 a\nname 192.0.2.1\n192.0.2.1#b c\n").empty());
}

BOOST_AUTO_TEST_CASE(a_table_is_cut_at_its_bound) {
    std::string text = "192.0.2.1";
    for (int i = 0; i < 100; ++i) text += " n" + std::to_string(i);
    BOOST_TEST(parse_hosts(text, 7).size() == 7);
}

BOOST_AUTO_TEST_CASE(this_system_has_a_configuration) {
    const corewire::resolver_config c = corewire::resolver_config::from_system();
    BOOST_TEST((c.timeout > duration{0}));
    BOOST_TEST(c.attempts > 0);
}

BOOST_AUTO_TEST_SUITE_END()
