// The IPv6 header.
#include "support.hh"

#include <corewire/net/wire/ipv6.hh>

using namespace corewire::wire;
using namespace wire_test;

BOOST_AUTO_TEST_SUITE(ipv6)

BOOST_AUTO_TEST_CASE(a_header_of_a_kernel_is_read_and_written_back) {
    const byte_vector packet = packet_of(kernel::udp_over_ipv6);
    ipv6_view v;
    BOOST_REQUIRE(ipv6_view::parse(packet, v) == parse_error::none);
    BOOST_TEST(v.traffic_class() == 0);
    BOOST_TEST(v.flow_label() == 0x9988eu);
    BOOST_TEST(v.payload_length() == 10);
    BOOST_TEST((v.next_header() == ip_protocol::udp));
    BOOST_TEST(v.hop_limit() == 64);
    BOOST_TEST(v.source() == *ipv6_address::parse("fd00::1"));
    BOOST_TEST(v.destination() == *ipv6_address::parse("fd00::2"));
    BOOST_TEST(v.payload().size() == 10u);
    byte_vector out(40);
    BOOST_TEST(ipv6_header::from(v).emit(out) == 40u);
    BOOST_TEST(to_hex(out) == to_hex(byte_span(packet).first(40)));
}

BOOST_AUTO_TEST_CASE(short_packets_and_other_versions_are_refused) {
    const byte_vector packet = packet_of(kernel::udp_over_ipv6);
    for (std::size_t size = 0; size < packet.size(); ++size) {
        const byte_vector part = exact(byte_span(packet).first(size));
        ipv6_view v;
        BOOST_TEST(ipv6_view::parse(part, v) == parse_error::truncated);
        // In an ICMPv6 error the payload may be cut, the header may not.
        BOOST_TEST(ipv6_view::parse_quoted(part, v) == (size < 40 ? parse_error::truncated : parse_error::none));
        if (size >= 40) BOOST_TEST(v.payload().size() == size - 40);
    }
    byte_vector other = packet;
    other[0] = std::byte{0x45};
    ipv6_view v;
    BOOST_TEST(ipv6_view::parse(other, v) == parse_error::bad_version);
    BOOST_TEST(ipv6_view::parse_quoted(other, v) == parse_error::bad_version);
}

BOOST_AUTO_TEST_CASE(padding_behind_the_payload_is_cut_off) {
    byte_vector packet = packet_of(kernel::udp_over_ipv6);
    packet.resize(packet.size() + 6);
    ipv6_view v;
    BOOST_REQUIRE(ipv6_view::parse(packet, v) == parse_error::none);
    BOOST_TEST(v.payload().size() == 10u);
    BOOST_REQUIRE(ipv6_view::parse_quoted(packet, v) == parse_error::none);
    BOOST_TEST(v.payload().size() == 10u);
}

BOOST_AUTO_TEST_CASE(random_headers_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 2000; ++i) {
        ipv6_header h;
        h.traffic_class = any<std::uint8_t>(random);
        h.flow_label = static_cast<std::uint32_t>(random.below(1 << 20));
        h.payload_length = static_cast<std::uint16_t>(random.below(100));
        h.next_header = static_cast<ip_protocol>(any<std::uint8_t>(random));
        h.hop_limit = any<std::uint8_t>(random);
        h.source = ipv6_address::load(random_payload(random, 16).data());
        h.destination = ipv6_address::load(random_payload(random, 16).data());
        byte_vector bytes(40u + h.payload_length);
        BOOST_REQUIRE(h.emit(bytes) == 40u);
        ipv6_view v;
        BOOST_REQUIRE(ipv6_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(ipv6_header::from(v) == h);
        BOOST_REQUIRE(v.dscp() == h.traffic_class >> 2);
        BOOST_REQUIRE(v.ecn() == (h.traffic_class & 3));
    }
}

BOOST_AUTO_TEST_SUITE_END()
