// ARP packets.
#include "support.hh"

#include <corewire/net/wire/arp.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {
const mac_address mac_a(0x02000000000a);
const mac_address mac_b(0x02000000000b);
const ipv4_address ip_a(10, 9, 0, 1);
const ipv4_address ip_b(10, 9, 0, 2);
} // namespace

BOOST_AUTO_TEST_SUITE(arp)

BOOST_AUTO_TEST_CASE(a_request_of_a_kernel_is_read_and_answered_as_a_kernel_does) {
    const byte_vector packet = packet_of(kernel::arp_request);
    arp_view v;
    BOOST_REQUIRE(arp_view::parse(packet, v) == parse_error::none);
    BOOST_TEST((v.operation() == arp_operation::request));
    BOOST_TEST(v.sender_mac() == mac_a);
    BOOST_TEST(v.sender_ip() == ip_a);
    BOOST_TEST(v.target_mac().is_zero());
    BOOST_TEST(v.target_ip() == ip_b);
    BOOST_TEST(!v.is_gratuitous());
    BOOST_TEST(!v.is_probe());

    byte_vector out(28);
    BOOST_TEST(arp_packet::request(mac_a, ip_a, ip_b).emit(out) == 28u);
    BOOST_TEST(out == packet);
    arp_packet::reply_to(v, mac_b).emit(out);
    BOOST_TEST(out == packet_of(kernel::arp_reply));
}

BOOST_AUTO_TEST_CASE(announcements_and_probes_are_told_apart) {
    byte_vector bytes(28);
    arp_view v;
    arp_packet::announcement(mac_a, ip_a).emit(bytes);
    BOOST_REQUIRE(arp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.is_gratuitous());
    BOOST_TEST(!v.is_probe());
    arp_packet::request(mac_a, ipv4_address::any(), ip_a).emit(bytes);
    BOOST_REQUIRE(arp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.is_probe());
    BOOST_TEST(!v.is_gratuitous());
}

BOOST_AUTO_TEST_CASE(the_padding_of_a_short_frame_is_no_fault) {
    byte_vector packet = packet_of(kernel::arp_request);
    packet.resize(46);
    arp_view v;
    BOOST_TEST(arp_view::parse(packet, v) == parse_error::none);
}

BOOST_AUTO_TEST_CASE(a_short_packet_is_truncated) {
    const byte_vector packet = packet_of(kernel::arp_request);
    for (std::size_t size = 0; size < 28; ++size) {
        const byte_vector part = exact(byte_span(packet).first(size));
        arp_view v;
        BOOST_TEST(arp_view::parse(part, v) == parse_error::truncated);
    }
}

BOOST_AUTO_TEST_CASE(anything_but_ipv4_over_ethernet_is_unsupported) {
    for (std::size_t at = 0; at < 6; ++at) { // hardware type, protocol type, both lengths
        byte_vector packet = packet_of(kernel::arp_request);
        packet[at] ^= std::byte{0x02};
        arp_view v;
        BOOST_TEST(arp_view::parse(packet, v) == parse_error::unsupported);
    }
}

BOOST_AUTO_TEST_CASE(random_packets_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 2000; ++i) {
        const arp_packet p{static_cast<arp_operation>(any<std::uint16_t>(random)),
                           mac_address(any<std::uint64_t>(random)), ipv4_address(any<std::uint32_t>(random)),
                           mac_address(any<std::uint64_t>(random)), ipv4_address(any<std::uint32_t>(random))};
        byte_vector bytes(28);
        p.emit(bytes);
        arp_view v;
        BOOST_REQUIRE(arp_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(arp_packet::from(v) == p);
    }
}

BOOST_AUTO_TEST_SUITE_END()
