// The UDP header and its checksum.
#include "support.hh"

#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/udp.hh>

using namespace corewire::wire;
using namespace wire_test;

BOOST_AUTO_TEST_SUITE(udp)

BOOST_AUTO_TEST_CASE(a_datagram_of_a_kernel_is_read_and_written_back) {
    const byte_vector packet = packet_of(kernel::udp_datagram);
    ipv4_view ip;
    BOOST_REQUIRE(ipv4_view::parse(packet, ip) == parse_error::none);
    udp_view v;
    BOOST_REQUIRE(udp_view::parse(ip.payload(), v) == parse_error::none);
    BOOST_TEST(v.source_port() == 0xdd8d);
    BOOST_TEST(v.destination_port() == 7777);
    BOOST_TEST(v.length() == 16);
    BOOST_TEST(v.checksum() == 0x4e28);
    BOOST_TEST(v.checksum_ok(ip.source(), ip.destination()));
    BOOST_TEST(to_hex(v.payload()) == "646174616772616d");

    byte_vector out = exact(v.datagram());
    udp_header h = udp_header::from(v);
    h.checksum = 0;
    BOOST_TEST(h.emit(out) == 8u);
    store_udp_checksum(mutable_byte_span(out), ip.source(), ip.destination());
    BOOST_TEST(to_hex(out) == to_hex(ip.payload()));
}

BOOST_AUTO_TEST_CASE(a_datagram_over_ipv6_of_a_kernel) {
    const byte_vector packet = packet_of(kernel::udp_over_ipv6);
    ipv6_view ip;
    BOOST_REQUIRE(ipv6_view::parse(packet, ip) == parse_error::none);
    udp_view v;
    BOOST_REQUIRE(udp_view::parse(ip.payload(), v) == parse_error::none);
    BOOST_TEST(v.checksum_ok(ip.source(), ip.destination()));
    byte_vector out = exact(v.datagram());
    corewire::store_be16(out.data() + udp_header::checksum_offset, 0);
    udp_view bare;
    BOOST_REQUIRE(udp_view::parse(out, bare) == parse_error::none);
    BOOST_TEST(!bare.checksum_ok(ip.source(), ip.destination())); // over IPv6 it has to be there
    store_udp_checksum(mutable_byte_span(out), ip.source(), ip.destination());
    BOOST_TEST(to_hex(out) == to_hex(ip.payload()));
}

BOOST_AUTO_TEST_CASE(an_absent_checksum_is_accepted_over_ipv4) {
    const byte_vector bytes = hex("0001 0002 0009 0000 ff");
    udp_view v;
    BOOST_REQUIRE(udp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(!v.has_checksum());
    BOOST_TEST(v.checksum_ok(ipv4_address(1, 2, 3, 4), ipv4_address(5, 6, 7, 8)));
}

BOOST_AUTO_TEST_CASE(hostile_lengths_are_refused) {
    struct row {
        const char* what;
        const char* bytes;
        parse_error expected;
    };
    static constexpr row table[] = {
        {"nothing", "", parse_error::truncated},
        {"seven bytes", "00010002000800", parse_error::truncated},
        {"length 0", "0001000200000000", parse_error::bad_length},
        {"length 7", "0001000200070000", parse_error::bad_length},
        {"length 9 in 8 bytes", "0001000200090000", parse_error::truncated},
        {"length 65535", "00010002ffff0000", parse_error::truncated},
        {"just a header", "0001000200080000", parse_error::none},
    };
    for (const row& r : table) {
        udp_view v;
        BOOST_TEST(udp_view::parse(hex(r.bytes), v) == r.expected, r.what);
    }
}

BOOST_AUTO_TEST_CASE(bytes_behind_the_length_are_cut_off) {
    const byte_vector bytes = hex("0001 0002 000a 0000 aabb ccdd");
    udp_view v;
    BOOST_REQUIRE(udp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(to_hex(v.payload()) == "aabb");
}

BOOST_AUTO_TEST_CASE(random_datagrams_go_both_ways_and_damage_is_found) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 3000; ++i) {
        const byte_vector payload = random_payload(random, random.below(300));
        const ipv4_address source(any<std::uint32_t>(random));
        const ipv4_address destination(any<std::uint32_t>(random));
        udp_header h{any<std::uint16_t>(random), any<std::uint16_t>(random),
                     static_cast<std::uint16_t>(8 + payload.size()), 0};
        byte_vector bytes(8 + payload.size());
        h.emit(bytes);
        std::copy(payload.begin(), payload.end(), bytes.begin() + 8);
        store_udp_checksum(mutable_byte_span(bytes), source, destination);
        udp_view v;
        BOOST_REQUIRE(udp_view::parse(bytes, v) == parse_error::none);
        h.checksum = v.checksum();
        BOOST_REQUIRE(h.checksum != 0);
        BOOST_REQUIRE(udp_header::from(v) == h);
        BOOST_REQUIRE(v.checksum_ok(source, destination));
        BOOST_REQUIRE(!v.checksum_ok(source, ipv4_address(destination.value() ^ 0x100)));
        if (!payload.empty()) {
            bytes[8 + random.below(payload.size())] ^= static_cast<std::byte>(1u << random.below(8));
            BOOST_REQUIRE(!v.checksum_ok(source, destination));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
