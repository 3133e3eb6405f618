// The fixed part of the TCP header.
#include "support.hh"

#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {
parse_error parse_result(byte_span segment) {
    tcp_view v;
    return tcp_view::parse(segment, v);
}
} // namespace

BOOST_AUTO_TEST_SUITE(tcp)

BOOST_AUTO_TEST_CASE(a_segment_of_a_kernel_is_read) {
    const byte_vector packet = packet_of(kernel::data);
    ipv4_view ip;
    BOOST_REQUIRE(ipv4_view::parse(packet, ip) == parse_error::none);
    tcp_view v;
    BOOST_REQUIRE(tcp_view::parse(ip.payload(), v) == parse_error::none);
    BOOST_TEST(v.source_port() == 0xaa74);
    BOOST_TEST(v.destination_port() == 7777);
    BOOST_TEST(v.sequence() == 0xff1d7b48);
    BOOST_TEST(v.acknowledgment() == 0xa8242cc9);
    BOOST_TEST(v.header_size() == 32u);
    BOOST_TEST(v.flags() == (tcp_flags::psh | tcp_flags::ack));
    BOOST_TEST(v.reserved() == 0);
    BOOST_TEST(v.window() == 0x3f);
    BOOST_TEST(v.checksum() == 0x948f);
    BOOST_TEST(v.urgent_pointer() == 0);
    BOOST_TEST(v.options().size() == 12u);
    const byte_span payload = v.payload();
    BOOST_TEST(std::string(reinterpret_cast<const char*>(payload.data()), payload.size()) == "hello, wire");
    BOOST_TEST(v.sequence_length() == 11u);
    BOOST_TEST(v.checksum_ok(ip.source(), ip.destination()));
    BOOST_TEST(!v.checksum_ok(ip.source(), ipv4_address(10, 9, 0, 3)));
}

BOOST_AUTO_TEST_CASE(every_kind_of_segment_of_a_kernel_is_written_back_bit_for_bit) {
    for (const std::string_view frame :
         {kernel::syn, kernel::syn_ack, kernel::data, kernel::fin_ack, kernel::rst_ack}) {
        const byte_vector packet = packet_of(frame);
        ipv4_view ip;
        BOOST_REQUIRE(ipv4_view::parse(packet, ip) == parse_error::none);
        tcp_view v;
        BOOST_REQUIRE(tcp_view::parse(ip.payload(), v) == parse_error::none);
        BOOST_TEST(v.checksum_ok(ip.source(), ip.destination()));
        tcp_options options;
        BOOST_REQUIRE(tcp_options::parse(v.options(), options) == parse_error::none);

        tcp_header h = tcp_header::from(v);
        h.checksum = 0;
        byte_vector out(60);
        const std::size_t size = h.emit(out, options.emit(mutable_byte_span(out).subspan(tcp_header::min_size)));
        BOOST_REQUIRE(size == v.header_size());
        out.resize(size);
        out.insert(out.end(), v.payload().begin(), v.payload().end());
        store_tcp_checksum(mutable_byte_span(out), ip.source(), ip.destination());
        BOOST_TEST(to_hex(out) == to_hex(v.segment()));
    }
}

BOOST_AUTO_TEST_CASE(syn_and_fin_take_a_sequence_number_each) {
    byte_vector bytes(24);
    tcp_view v;
    const auto length = [&](tcp_flags flags) {
        tcp_header{.flags = flags}.emit(bytes);
        BOOST_REQUIRE(tcp_view::parse(bytes, v) == parse_error::none);
        return v.sequence_length();
    };
    BOOST_TEST(length(tcp_flags::ack) == 4u);
    BOOST_TEST(length(tcp_flags::syn) == 5u);
    BOOST_TEST(length(tcp_flags::fin | tcp_flags::ack) == 5u);
    BOOST_TEST(length(tcp_flags::syn | tcp_flags::fin) == 6u);
}

BOOST_AUTO_TEST_CASE(hostile_data_offsets_are_refused) {
    struct row {
        const char* what;
        std::size_t size;
        std::uint8_t offset; // in words
        parse_error expected;
    };
    static constexpr row table[] = {
        {"nothing", 0, 5, parse_error::truncated},
        {"19 bytes", 19, 5, parse_error::truncated},
        {"offset 0", 20, 0, parse_error::bad_header_length},
        {"offset 4", 40, 4, parse_error::bad_header_length},
        {"offset 6 in 20 bytes", 20, 6, parse_error::truncated},
        {"offset 15 in 59 bytes", 59, 15, parse_error::truncated},
        {"offset 5", 20, 5, parse_error::none},
        {"offset 15 in 60 bytes", 60, 15, parse_error::none},
    };
    for (const row& r : table) {
        byte_vector bytes(r.size);
        if (r.size > 12) bytes[12] = static_cast<std::byte>(r.offset << 4);
        BOOST_TEST(parse_result(bytes) == r.expected, r.what);
    }
}

BOOST_AUTO_TEST_CASE(flags_are_a_set_with_names) {
    BOOST_TEST(to_string(tcp_flags::none) == "none");
    BOOST_TEST(to_string(tcp_flags::syn | tcp_flags::ack) == "SYN|ACK");
    BOOST_TEST(to_string(~tcp_flags::none) == "FIN|SYN|RST|PSH|ACK|URG|ECE|CWR|AE");
    tcp_flags f = tcp_flags::syn;
    f |= tcp_flags::ece;
    BOOST_TEST(has(f, tcp_flags::ece | tcp_flags::cwr));
    f &= ~tcp_flags::ece;
    BOOST_TEST(f == tcp_flags::syn);
    BOOST_TEST(!has(f, tcp_flags::fin));
}

BOOST_AUTO_TEST_CASE(random_headers_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 5000; ++i) {
        const tcp_header h{any<std::uint16_t>(random),
                           any<std::uint16_t>(random),
                           any<std::uint32_t>(random),
                           any<std::uint32_t>(random),
                           static_cast<tcp_flags>(any<std::uint16_t>(random) & 0x1ff),
                           any<std::uint16_t>(random),
                           any<std::uint16_t>(random),
                           any<std::uint16_t>(random)};
        const std::size_t options = random.below(11) * 4;
        const std::size_t payload = random.below(50);
        byte_vector bytes(20 + options + payload);
        BOOST_REQUIRE(h.emit(bytes, options) == 20 + options);
        tcp_view v;
        BOOST_REQUIRE(tcp_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(tcp_header::from(v) == h);
        BOOST_REQUIRE(v.options().size() == options);
        BOOST_REQUIRE(v.payload().size() == payload);
        BOOST_REQUIRE(v.reserved() == 0);
    }
}

BOOST_AUTO_TEST_CASE(random_segments_verify_over_both_ip_versions_and_damage_is_found) { // RFC 9293 3.1: MUST-2
    corewire::random_generator random(test_seed());
    const ipv6_address six_a = *ipv6_address::parse("2001:db8::1");
    const ipv6_address six_b = *ipv6_address::parse("2001:db8::2");
    for (int i = 0; i < 2000; ++i) {
        byte_vector bytes = random_payload(random, 20 + random.below(300));
        const std::size_t options = std::min<std::size_t>(random.below(11), (bytes.size() - 20) / 4) * 4;
        tcp_header{.source_port = 7, .destination_port = 8, .flags = tcp_flags::ack}.emit(bytes, options);
        byte_vector bytes6 = bytes;
        const ipv4_address a(any<std::uint32_t>(random));
        const ipv4_address b(any<std::uint32_t>(random));
        store_tcp_checksum(mutable_byte_span(bytes), a, b);
        store_tcp_checksum(mutable_byte_span(bytes6), six_a, six_b);
        tcp_view v;
        tcp_view v6;
        BOOST_REQUIRE(tcp_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(tcp_view::parse(bytes6, v6) == parse_error::none);
        BOOST_REQUIRE(v.checksum_ok(a, b));
        BOOST_REQUIRE(v6.checksum_ok(six_a, six_b));
        const std::size_t at = random.below(bytes.size());
        const auto bit = static_cast<std::byte>(1u << random.below(8));
        bytes[at] ^= bit;
        bytes6[at] ^= bit;
        BOOST_REQUIRE(!v.checksum_ok(a, b));
        BOOST_REQUIRE(!v6.checksum_ok(six_a, six_b));
    }
}

BOOST_AUTO_TEST_CASE(an_offloading_port_finds_the_pseudo_header_in_the_field) {
    // What offload::l4_checksum_needed asks for: the port adds the segment, field included, and stores the complement.
    const ipv4_address a(10, 0, 0, 1);
    const ipv4_address b(10, 0, 0, 2);
    byte_vector bytes(33, std::byte{0x5a});
    tcp_header h{.source_port = 1, .destination_port = 2, .flags = tcp_flags::ack};
    h.checksum = pseudo_header_sum(a, b, ip_protocol::tcp, bytes.size()).folded();
    h.emit(bytes);
    corewire::store_be16(bytes.data() + tcp_header::checksum_offset, internet_checksum(bytes));
    tcp_view v;
    BOOST_REQUIRE(tcp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.checksum_ok(a, b));
}

BOOST_AUTO_TEST_SUITE_END()
