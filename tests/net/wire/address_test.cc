// The text forms of addresses, what addresses know about themselves, and prefixes.
#include "support.hh"

#include <corewire/net/wire/address.hh>

#include <unordered_set>

using namespace corewire::wire;
using namespace wire_test;

BOOST_AUTO_TEST_SUITE(address)

BOOST_AUTO_TEST_CASE(ipv4_text_goes_both_ways) {
    for (const char* text : {"0.0.0.0", "127.0.0.1", "192.0.2.1", "255.255.255.255", "10.0.0.200", "1.2.3.4"}) {
        const auto parsed = ipv4_address::parse(text);
        BOOST_REQUIRE_MESSAGE(parsed, text);
        BOOST_TEST(to_string(*parsed) == text);
    }
    BOOST_TEST(ipv4_address::parse("192.0.2.1")->value() == 0xc0000201u);
    BOOST_TEST(*ipv4_address::parse("1.2.3.4") == ipv4_address(1, 2, 3, 4));
}

BOOST_AUTO_TEST_CASE(ipv4_text_that_is_no_address_is_refused) {
    for (const char* text :
         {"",          "1",         "1.2.3",     "1.2.3.4.5",  "1.2.3.",   ".1.2.3",     "1..2.3",
          "256.0.0.1", "1.2.3.256", "1.2.3.999", "01.2.3.4",   "1.2.3.04", "00.0.0.0",   "1.2.3.4 ",
          " 1.2.3.4",  "+1.2.3.4",  "-1.2.3.4",  "1.2.3.4/24", "a.b.c.d",  "0x7f.0.0.1", "1.2.3.4444444444444",
          "1,2,3,4",   "::1"}) {
        BOOST_TEST(!ipv4_address::parse(text), "taken: '" << text << "'");
    }
    BOOST_TEST(!ipv4_address::parse(std::string_view("1.2.3.4\0", 8)));
}

BOOST_AUTO_TEST_CASE(ipv4_addresses_know_their_kind) {
    BOOST_TEST(ipv4_address::any().is_any());
    BOOST_TEST(ipv4_address::loopback().is_loopback());
    BOOST_TEST(ipv4_address(127, 255, 0, 3).is_loopback());
    BOOST_TEST(!ipv4_address(128, 0, 0, 1).is_loopback());
    BOOST_TEST(ipv4_address::broadcast().is_broadcast());
    BOOST_TEST(!ipv4_address::broadcast().is_reserved());
    BOOST_TEST(ipv4_address(240, 0, 0, 1).is_reserved());
    BOOST_TEST(ipv4_address(224, 0, 0, 0).is_multicast());
    BOOST_TEST(ipv4_address(239, 255, 255, 255).is_multicast());
    BOOST_TEST(!ipv4_address(223, 255, 255, 255).is_multicast());
    BOOST_TEST(!ipv4_address(240, 0, 0, 0).is_multicast());
    BOOST_TEST(ipv4_address(224, 0, 0, 251).is_link_local_multicast());
    BOOST_TEST(!ipv4_address(224, 0, 1, 1).is_link_local_multicast());
    BOOST_TEST(ipv4_address(169, 254, 1, 1).is_link_local());
    BOOST_TEST(!ipv4_address(169, 253, 1, 1).is_link_local());
    for (const char* text : {"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1"}) {
        BOOST_TEST(ipv4_address::parse(text)->is_private(), text);
    }
    for (const char* text : {"11.0.0.1", "172.15.255.255", "172.32.0.0", "192.169.0.1", "8.8.8.8"}) {
        BOOST_TEST(!ipv4_address::parse(text)->is_private(), text);
        BOOST_TEST(ipv4_address::parse(text)->is_unicast(), text);
    }
    for (const char* text : {"0.0.0.0", "0.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255"}) {
        BOOST_TEST(!ipv4_address::parse(text)->is_unicast(), text);
    }
    BOOST_TEST(ipv4_address(1, 0, 0, 0) > ipv4_address(0, 255, 255, 255));
}

BOOST_AUTO_TEST_CASE(ipv4_bytes_go_both_ways) {
    std::byte bytes[4];
    ipv4_address(192, 0, 2, 1).store(bytes);
    BOOST_TEST(to_hex(bytes) == "c0000201");
    BOOST_TEST(ipv4_address::load(bytes) == ipv4_address(192, 0, 2, 1));
    BOOST_TEST((ipv4_address(192, 0, 2, 1).octets() == std::array<std::uint8_t, 4>{192, 0, 2, 1}));
}

BOOST_AUTO_TEST_CASE(mac_text_goes_both_ways) {
    BOOST_TEST(to_string(*mac_address::parse("02:00:5e:10:00:fF")) == "02:00:5e:10:00:ff");
    BOOST_TEST(*mac_address::parse("02-00-00-00-00-01") == mac_address(0x020000000001));
    BOOST_TEST(mac_address(2, 0, 0, 0, 0, 1).value() == 0x020000000001u);
    for (const char* text :
         {"", "02:00:00:00:00", "02:00:00:00:00:0", "02:00:00:00:00:001", "02:00:00:00:00:0g", "02:00-00:00:00:01",
          "020000000001", "0:200:00:00:00:01", "02:00:00:00:00:01:", "02.00.00.00.00.01"}) {
        BOOST_TEST(!mac_address::parse(text), "taken: '" << text << "'");
    }
}

BOOST_AUTO_TEST_CASE(mac_addresses_know_their_kind) {
    BOOST_TEST(mac_address::broadcast().is_broadcast());
    BOOST_TEST(mac_address::broadcast().is_multicast());
    BOOST_TEST(mac_address(0x01005e000001).is_multicast());
    BOOST_TEST(!mac_address(0x01005e000001).is_unicast());
    BOOST_TEST(mac_address(0x020000000001).is_unicast());
    BOOST_TEST(mac_address(0x020000000001).is_locally_administered());
    BOOST_TEST(!mac_address(0x001122334455).is_locally_administered());
    BOOST_TEST(mac_address().is_zero());
    BOOST_TEST(!mac_address().is_unicast());
    // RFC 1112 6.4: the low 23 bits; 224.128.64.32 and 224.0.64.32 share one.
    BOOST_TEST(to_string(mac_address::of_multicast(ipv4_address(239, 255, 64, 32))) == "01:00:5e:7f:40:20");
    BOOST_TEST(mac_address::of_multicast(ipv4_address(224, 128, 64, 32)) ==
               mac_address::of_multicast(ipv4_address(224, 0, 64, 32)));
    std::byte bytes[6];
    mac_address(0x0a0b0c0d0e0f).store(bytes);
    BOOST_TEST(to_hex(bytes) == "0a0b0c0d0e0f");
    BOOST_TEST(mac_address::load(bytes) == mac_address(0x0a0b0c0d0e0f));
}

BOOST_AUTO_TEST_CASE(ipv6_text_is_written_as_rfc_5952_says) {
    struct row {
        const char* in;
        const char* out;
    };
    // RFC 5952 1, 2, 4 and 5.
    static constexpr row table[] = {
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:db8::1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:DB8:0:0:1::1", "2001:db8::1:0:0:1"},
        {"2001:db8:aaaa:bbbb:cccc:dddd:eeee:0001", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1"},
        {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, // a single zero group stays
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},          // the longest run
        {"2001:db8:0:0:1:0:0:0", "2001:db8:0:0:1::"},
        {"0:0:0:0:0:0:0:0", "::"},
        {"0:0:0:0:0:0:0:1", "::1"},
        {"1:0:0:0:0:0:0:0", "1::"},
        {"0:1:0:0:0:0:0:0", "0:1::"},
        {"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
        {"::ffff:c000:201", "::ffff:192.0.2.1"},
        {"::c000:201", "::c000:201"},
        {"FE80::A", "fe80::a"},
    };
    for (const row& r : table) {
        const auto parsed = ipv6_address::parse(r.in);
        BOOST_REQUIRE_MESSAGE(parsed, r.in);
        BOOST_TEST(to_string(*parsed) == r.out);
        BOOST_TEST(*ipv6_address::parse(r.out) == *parsed);
    }
}

BOOST_AUTO_TEST_CASE(ipv6_text_that_is_no_address_is_refused) {
    for (const char* text :
         {"", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", "::1%eth0", "::1 ",
          "[::1]", "1.2.3.4", "::1.2.3", "::256.0.0.1", "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"}) {
        BOOST_TEST(!ipv6_address::parse(text), "taken: '" << text << "'");
    }
    BOOST_TEST(!ipv6_address::parse(std::string_view("::1\0::1", 7)));
}

BOOST_AUTO_TEST_CASE(ipv6_addresses_know_their_kind) {
    BOOST_TEST(ipv6_address::any().is_any());
    BOOST_TEST(ipv6_address::loopback() == *ipv6_address::parse("::1"));
    BOOST_TEST(ipv6_address::all_nodes() == *ipv6_address::parse("ff02::1"));
    BOOST_TEST(ipv6_address::all_routers() == *ipv6_address::parse("ff02::2"));
    BOOST_TEST(ipv6_address::parse("fe80::1")->is_link_local());
    BOOST_TEST(ipv6_address::parse("febf::1")->is_link_local());
    BOOST_TEST(!ipv6_address::parse("fec0::1")->is_link_local());
    BOOST_TEST(ipv6_address::parse("ff0e::1")->is_multicast());
    BOOST_TEST(ipv6_address::mapped(ipv4_address(192, 0, 2, 1)).is_mapped());
    BOOST_TEST(ipv6_address::mapped(ipv4_address(192, 0, 2, 1)).embedded() == ipv4_address(192, 0, 2, 1));
    BOOST_TEST(!ipv6_address::loopback().is_mapped());
    // RFC 4291 2.7.1's example; RFC 2464 7.
    const auto solicited = ipv6_address::parse("4037::01:800:200e:8c6c")->solicited_node();
    BOOST_TEST(solicited == *ipv6_address::parse("ff02::1:ff0e:8c6c"));
    BOOST_TEST(to_string(multicast_mac(solicited)) == "33:33:ff:0e:8c:6c");
}

BOOST_AUTO_TEST_CASE(random_ipv6_addresses_survive_their_text) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 5000; ++i) {
        ipv6_address::octet_array octets;
        for (auto& o : octets)
            o = random.chance(0.6) ? 0 : static_cast<std::uint8_t>(random.next());
        const ipv6_address a(octets);
        const auto again = ipv6_address::parse(to_string(a));
        BOOST_REQUIRE_MESSAGE(again && *again == a, to_string(a));
    }
}

BOOST_AUTO_TEST_CASE(a_prefix_gives_the_host_and_the_network) {
    const auto p = ip_prefix::parse("10.0.0.1/24");
    BOOST_REQUIRE(p);
    BOOST_TEST(p->address() == ipv4_address(10, 0, 0, 1));
    BOOST_TEST(p->length() == 24);
    BOOST_TEST(p->network() == ipv4_address(10, 0, 0, 0));
    BOOST_TEST(p->mask() == ipv4_address(255, 255, 255, 0));
    BOOST_TEST(p->broadcast() == ipv4_address(10, 0, 0, 255));
    BOOST_TEST(p->contains(ipv4_address(10, 0, 0, 200)));
    BOOST_TEST(!p->contains(ipv4_address(10, 0, 1, 1)));
    BOOST_TEST(to_string(*p) == "10.0.0.1/24");
}

BOOST_AUTO_TEST_CASE(prefixes_at_the_edges) {
    BOOST_TEST(ip_prefix::parse("0.0.0.0/0")->contains(ipv4_address(8, 8, 8, 8)));
    BOOST_TEST(ip_prefix::parse("1.2.3.4/0")->mask() == ipv4_address::any());
    BOOST_TEST(ip_prefix::parse("10.0.0.4/31")->contains(ipv4_address(10, 0, 0, 5)));
    BOOST_TEST(ip_prefix::parse("10.0.0.4/31")->broadcast() == ipv4_address::broadcast()); // RFC 3021
    BOOST_TEST(!ip_prefix::parse("10.0.0.4/32")->contains(ipv4_address(10, 0, 0, 5)));
    BOOST_TEST(ip_prefix::parse("10.0.0.4/32")->mask() == ipv4_address::broadcast());
    BOOST_TEST(ip_prefix::parse("10.0.0.4/30")->broadcast() == ipv4_address(10, 0, 0, 7));
    BOOST_TEST(ip_prefix(ipv4_address(1, 2, 3, 4), 99).length() == 32);
    for (const char* text :
         {"", "10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/024", "10.0.0/24", "/24", "10.0.0.1/24 ",
          "10.0.0.1//24", "10.0.0.1/255.255.255.0", "10.0.0.1/2a", "10.0.0.1/256", "10.0.0.1/288"}) {
        BOOST_TEST(!ip_prefix::parse(text), "taken: '" << text << "'");
    }
}

BOOST_AUTO_TEST_CASE(addresses_are_keys_and_have_the_public_names) {
    static_assert(std::is_same_v<corewire::ipv4, ipv4_address>);
    static_assert(std::is_same_v<corewire::ipv6, ipv6_address>);
    static_assert(std::is_same_v<corewire::mac_address, mac_address>);
    static_assert(std::is_same_v<corewire::ip_prefix, ip_prefix>);
    std::unordered_set<ipv4_address> v4{ipv4_address(1, 2, 3, 4), ipv4_address(1, 2, 3, 5), ipv4_address(1, 2, 3, 4)};
    BOOST_TEST(v4.size() == 2u);
    std::unordered_set<ipv6_address> v6{ipv6_address::any(), ipv6_address::loopback(), ipv6_address::any()};
    BOOST_TEST(v6.size() == 2u);
    std::unordered_set<mac_address> macs{mac_address(1), mac_address(2), mac_address(1)};
    BOOST_TEST(macs.size() == 2u);
    std::unordered_set<ip_prefix> prefixes{*ip_prefix::parse("10.0.0.0/8"), *ip_prefix::parse("10.0.0.0/9")};
    BOOST_TEST(prefixes.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
