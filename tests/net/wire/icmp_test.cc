// ICMP messages and what they quote.
#include "support.hh"

#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/ipv4.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {
/// The ICMP message in a captured frame.
byte_vector message_of(std::string_view frame) {
    const byte_vector packet = packet_of(frame);
    ipv4_view ip;
    BOOST_REQUIRE(ipv4_view::parse(packet, ip) == parse_error::none);
    BOOST_REQUIRE((ip.protocol() == ip_protocol::icmp));
    return exact(ip.payload());
}
} // namespace

BOOST_AUTO_TEST_SUITE(icmp)

BOOST_AUTO_TEST_CASE(an_echo_request_is_read_and_answered_as_a_kernel_does) {
    byte_vector message = message_of(kernel::echo_request);
    icmp_view v;
    BOOST_REQUIRE(icmp_view::parse(message, v) == parse_error::none);
    BOOST_TEST((v.type() == icmp_type::echo_request));
    BOOST_TEST(v.code() == 0);
    BOOST_TEST(v.identifier() == 0x1234);
    BOOST_TEST(v.sequence() == 1);
    BOOST_TEST(v.payload().size() == 8u);
    BOOST_TEST(v.checksum_ok());
    BOOST_TEST(!v.is_error());

    byte_vector out(message.size());
    BOOST_TEST(icmp_header::echo_reply(v.identifier(), v.sequence()).emit(out, v.payload()) == message.size());
    BOOST_TEST(out == message_of(kernel::echo_reply));
    BOOST_TEST(icmp_header::echo_request(0x1234, 1).emit(out, v.payload()) == message.size());
    BOOST_TEST(out == message);
    make_echo_reply(message);
    BOOST_TEST(message == message_of(kernel::echo_reply));
}

BOOST_AUTO_TEST_CASE(a_port_unreachable_leads_to_the_socket_that_sent) {
    const byte_vector message = message_of(kernel::port_unreachable);
    icmp_view v;
    BOOST_REQUIRE(icmp_view::parse(message, v) == parse_error::none);
    BOOST_TEST(v.is(icmp_unreachable::port));
    BOOST_TEST(!v.is(icmp_unreachable::host));
    BOOST_TEST(!v.is(icmp_time_exceeded::ttl));
    BOOST_TEST(v.is_error());
    BOOST_TEST(v.checksum_ok());
    ipv4_view quoted;
    BOOST_REQUIRE(ipv4_view::parse_quoted(v.quoted(), quoted) == parse_error::none);
    BOOST_TEST(quoted.destination() == ipv4_address(10, 9, 0, 2));
    BOOST_TEST((quoted.protocol() == ip_protocol::udp));
    quoted_transport transport;
    BOOST_REQUIRE(quoted_transport::parse(quoted.payload(), transport) == parse_error::none);
    BOOST_TEST(transport.source_port == 0xdd8d);
    BOOST_TEST(transport.destination_port == 9999);

    byte_vector out(message.size());
    icmp_header::unreachable(icmp_unreachable::port).emit(out, v.payload());
    BOOST_TEST(out == message);
}

BOOST_AUTO_TEST_CASE(seven_quoted_bytes_name_no_port) {
    quoted_transport transport;
    BOOST_TEST(quoted_transport::parse(byte_vector(7), transport) == parse_error::truncated);
    BOOST_TEST(quoted_transport::parse(hex("0102030405060708"), transport) == parse_error::none);
    BOOST_TEST((transport == quoted_transport{0x0102, 0x0304, 0x05060708}));
}

BOOST_AUTO_TEST_CASE(fragmentation_needed_carries_the_mtu) {
    const byte_vector quoted = packet_of(kernel::syn);
    byte_vector bytes(8 + quoted.size());
    icmp_header::fragmentation_needed(1400).emit(bytes, quoted);
    BOOST_TEST(to_hex(byte_span(bytes).first(2)) == "0304");
    BOOST_TEST(to_hex(byte_span(bytes).subspan(4, 4)) == "00000578");
    icmp_view v;
    BOOST_REQUIRE(icmp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.is(icmp_unreachable::fragmentation_needed));
    BOOST_TEST(v.next_hop_mtu() == 1400);
    BOOST_TEST(v.checksum_ok());
    BOOST_TEST(v.quoted().size() == quoted.size());
}

BOOST_AUTO_TEST_CASE(time_exceeded_and_parameter_problem) {
    byte_vector bytes(8);
    icmp_view v;
    icmp_header::time_exceeded(icmp_time_exceeded::reassembly).emit(bytes);
    BOOST_REQUIRE(icmp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.is(icmp_time_exceeded::reassembly));
    icmp_header::parameter_problem(20).emit(bytes);
    BOOST_REQUIRE(icmp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST((v.type() == icmp_type::parameter_problem));
    BOOST_TEST(v.pointer() == 20);
    BOOST_TEST(v.checksum_ok());
}

BOOST_AUTO_TEST_CASE(extensions_behind_the_quote_are_left_out) {
    byte_vector bytes(8 + 128 + 20);
    bytes[0] = std::byte{11};
    bytes[5] = std::byte{32}; // RFC 4884: 32 words of quote
    icmp_view v;
    BOOST_REQUIRE(icmp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.quoted().size() == 128u);
    bytes[5] = std::byte{255}; // more than there is: not believed
    BOOST_TEST(v.quoted().size() == 148u);
    bytes[5] = std::byte{5}; // less than RFC 4884 allows: not believed
    BOOST_TEST(v.quoted().size() == 148u);
    bytes[5] = std::byte{32};
    bytes[0] = std::byte{5}; // a redirect's octet belongs to an address
    BOOST_TEST(v.quoted().size() == 148u);
    BOOST_TEST(v.gateway() == ipv4_address(0, 32, 0, 0));
}

BOOST_AUTO_TEST_CASE(a_short_message_is_truncated) {
    const byte_vector message = message_of(kernel::echo_request);
    for (std::size_t size = 0; size < 8; ++size) {
        icmp_view v;
        BOOST_TEST(icmp_view::parse(exact(byte_span(message).first(size)), v) == parse_error::truncated);
    }
}

BOOST_AUTO_TEST_CASE(random_messages_go_both_ways_and_damage_is_found) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 3000; ++i) {
        const icmp_header h{static_cast<icmp_type>(any<std::uint8_t>(random)), any<std::uint8_t>(random),
                            any<std::uint32_t>(random)};
        const byte_vector payload = random_payload(random, random.below(200));
        byte_vector bytes(8 + payload.size());
        BOOST_REQUIRE(h.emit(bytes, payload) == bytes.size());
        icmp_view v;
        BOOST_REQUIRE(icmp_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(icmp_header::from(v) == h);
        BOOST_REQUIRE(exact(v.payload()) == payload);
        if (h != icmp_header{icmp_type::echo_reply, 0, 0}) BOOST_REQUIRE(v.checksum_ok());
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
        BOOST_REQUIRE(!v.checksum_ok());
    }
}

BOOST_AUTO_TEST_CASE(a_reply_of_nothing_but_zeros_has_a_good_checksum) {
    byte_vector message(20);
    icmp_header::echo_request(0, 0).emit(message, byte_vector(12));
    make_echo_reply(message);
    icmp_view v;
    BOOST_REQUIRE(icmp_view::parse(message, v) == parse_error::none);
    BOOST_TEST(v.checksum() == 0xffffu);
    BOOST_TEST(v.checksum_ok());
}

BOOST_AUTO_TEST_CASE(every_echo_request_becomes_its_reply_in_place) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 3000; ++i) {
        const auto identifier = any<std::uint16_t>(random);
        const auto sequence = any<std::uint16_t>(random);
        const byte_vector payload(random.below(20),
                                  random.chance(0.3) ? std::byte{0} : static_cast<std::byte>(random.next()));
        byte_vector request(8 + payload.size());
        byte_vector reply(8 + payload.size());
        icmp_header::echo_request(identifier, sequence).emit(request, payload);
        icmp_header::echo_reply(identifier, sequence).emit(reply, payload);
        make_echo_reply(request);
        icmp_view v;
        BOOST_REQUIRE(icmp_view::parse(request, v) == parse_error::none);
        BOOST_REQUIRE(v.checksum_ok());
        if (corewire::load_be16(reply.data() + 2) == 0xffff)
            corewire::store_be16(reply.data() + 2, 0); // either is zero
        if (corewire::load_be16(request.data() + 2) == 0xffff) corewire::store_be16(request.data() + 2, 0);
        BOOST_REQUIRE(to_hex(request) == to_hex(reply));
    }
}

BOOST_AUTO_TEST_SUITE_END()
