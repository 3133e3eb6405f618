// The IPv4 header: what is taken, what is refused, options, quoted datagrams.
#include "support.hh"

#include <corewire/net/wire/ipv4.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {

parse_error parse_result(byte_span packet) {
    ipv4_view v;
    return ipv4_view::parse(packet, v);
}

/// A random header that emit() can write, with `options` bytes of options and a total length to match `payload`.
ipv4_header random_header(corewire::random_generator& random, std::size_t options, std::size_t payload) {
    ipv4_header h;
    h.total_length = static_cast<std::uint16_t>(20 + options + payload);
    h.dscp = static_cast<std::uint8_t>(random.below(64));
    h.ecn = static_cast<std::uint8_t>(random.below(4));
    h.identification = any<std::uint16_t>(random);
    h.dont_fragment = random.chance(0.5);
    h.more_fragments = random.chance(0.5);
    h.fragment_offset = static_cast<std::uint16_t>(random.below(8192) * 8);
    h.ttl = any<std::uint8_t>(random);
    h.protocol = static_cast<ip_protocol>(any<std::uint8_t>(random));
    h.source = ipv4_address(any<std::uint32_t>(random));
    h.destination = ipv4_address(any<std::uint32_t>(random));
    return h;
}

} // namespace

BOOST_AUTO_TEST_SUITE(ipv4)

BOOST_AUTO_TEST_CASE(a_header_of_a_kernel_is_read_and_written_back) {
    const byte_vector packet = packet_of(kernel::syn);
    ipv4_view v;
    BOOST_REQUIRE(ipv4_view::parse(packet, v) == parse_error::none);
    BOOST_TEST(v.header_size() == 20u);
    BOOST_TEST(v.total_length() == 60);
    BOOST_TEST(v.dscp() == 0);
    BOOST_TEST(v.ecn() == 0);
    BOOST_TEST(v.identification() == 0x8b2f);
    BOOST_TEST(v.dont_fragment());
    BOOST_TEST(!v.more_fragments());
    BOOST_TEST(v.fragment_offset() == 0);
    BOOST_TEST(!v.is_fragment());
    BOOST_TEST(v.ttl() == 64);
    BOOST_TEST((v.protocol() == ip_protocol::tcp));
    BOOST_TEST(v.checksum() == 0x9b78);
    BOOST_TEST(v.checksum_ok());
    BOOST_TEST(v.source() == ipv4_address(10, 9, 0, 1));
    BOOST_TEST(v.destination() == ipv4_address(10, 9, 0, 2));
    BOOST_TEST(v.options().empty());
    BOOST_TEST(v.payload().size() == 40u);
    BOOST_TEST(v.payload().data() == packet.data() + 20);

    byte_vector out(20);
    BOOST_TEST(ipv4_header::from(v).emit(out) == 20u);
    BOOST_TEST(to_hex(out) == to_hex(byte_span(packet).first(20)));
}

BOOST_AUTO_TEST_CASE(the_service_octet_is_split_into_dscp_and_ecn) {
    const byte_vector packet = packet_of(kernel::port_unreachable); // type of service 0xc0
    ipv4_view v;
    BOOST_REQUIRE(ipv4_view::parse(packet, v) == parse_error::none);
    BOOST_TEST(v.dscp() == 48); // CS6
    BOOST_TEST(v.ecn() == 0);
}

BOOST_AUTO_TEST_CASE(fragments_of_a_kernel_are_read) {
    byte_vector first = hex(kernel::udp_first_fragment_header);
    first.resize(0x5dc);
    ipv4_view v;
    BOOST_REQUIRE(ipv4_view::parse(first, v) == parse_error::none);
    BOOST_TEST(v.is_fragment());
    BOOST_TEST(v.more_fragments());
    BOOST_TEST(!v.dont_fragment());
    BOOST_TEST(v.fragment_offset() == 0);
    byte_vector last = hex(kernel::udp_last_fragment_header);
    last.resize(0x254);
    BOOST_REQUIRE(ipv4_view::parse(last, v) == parse_error::none);
    BOOST_TEST(v.is_fragment());
    BOOST_TEST(!v.more_fragments());
    BOOST_TEST(v.fragment_offset() == 1480);
    BOOST_TEST(v.checksum_ok());
}

BOOST_AUTO_TEST_CASE(padding_behind_the_total_length_is_cut_off) {
    byte_vector packet = packet_of(kernel::echo_request);
    const std::size_t size = packet.size();
    packet.resize(size + 10, std::byte{0xee});
    ipv4_view v;
    BOOST_REQUIRE(ipv4_view::parse(packet, v) == parse_error::none);
    BOOST_TEST(v.payload().size() == size - 20);
}

BOOST_AUTO_TEST_CASE(hostile_headers_are_refused_each_for_its_reason) {
    struct row {
        const char* what;
        const char* packet;
        parse_error expected;
    };
    static constexpr row table[] = {
        {"nothing", "", parse_error::truncated},
        {"version and IHL alone", "45", parse_error::truncated},
        {"19 bytes", "450000140000400040060000 0a0900010a0900", parse_error::truncated},
        {"version 6", "650000140000400040060000 0a0900010a090002", parse_error::bad_version},
        {"version 0", "050000140000400040060000 0a0900010a090002", parse_error::bad_version},
        {"IHL 0", "400000140000400040060000 0a0900010a090002", parse_error::bad_header_length},
        {"IHL 4", "440000140000400040060000 0a0900010a090002", parse_error::bad_header_length},
        {"IHL 6 in 20 bytes", "460000180000400040060000 0a0900010a090002", parse_error::truncated},
        {"IHL 15 in 24 bytes", "4f00003c0000400040060000 0a0900010a090002 01010101", parse_error::truncated},
        {"total length 0", "450000000000400040060000 0a0900010a090002", parse_error::bad_length},
        {"total length 19", "450000130000400040060000 0a0900010a090002", parse_error::bad_length},
        {"total length below the IHL", "460000170000400040060000 0a0900010a090002 01010101", parse_error::bad_length},
        {"total length 21 in 20 bytes", "450000150000400040060000 0a0900010a090002", parse_error::truncated},
        {"total length 65535 in 20 bytes", "4500ffff0000400040060000 0a0900010a090002", parse_error::truncated},
        {"just a header", "450000140000400040060000 0a0900010a090002", parse_error::none},
        {"IHL 6 and 24 bytes", "460000180000400040060000 0a0900010a090002 01010101", parse_error::none},
    };
    for (const row& r : table)
        BOOST_TEST(parse_result(hex(r.packet)) == r.expected, r.what);
}

BOOST_AUTO_TEST_CASE(every_cut_of_a_packet_is_truncated) {
    const byte_vector packet = packet_of(kernel::igmp_v3_report);
    for (std::size_t size = 0; size < packet.size(); ++size) {
        BOOST_TEST(parse_result(exact(byte_span(packet).first(size))) == parse_error::truncated);
    }
    BOOST_TEST(parse_result(packet) == parse_error::none);
}

BOOST_AUTO_TEST_CASE(a_damaged_header_fails_its_checksum_with_options_and_without) {
    for (const std::string_view frame : {kernel::syn, kernel::igmp_v3_report}) {
        const byte_vector packet = packet_of(frame);
        ipv4_view v;
        BOOST_REQUIRE(ipv4_view::parse(packet, v) == parse_error::none);
        BOOST_TEST(v.checksum_ok());
        for (std::size_t at = 4; at < v.header_size(); ++at) {
            byte_vector damaged = packet;
            damaged[at] ^= std::byte{0x40};
            ipv4_view w;
            BOOST_REQUIRE(ipv4_view::parse(damaged, w) == parse_error::none);
            BOOST_TEST(!w.checksum_ok());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_router_alert_is_read_and_written) {
    const byte_vector packet = packet_of(kernel::igmp_v3_report);
    ipv4_view v;
    BOOST_REQUIRE(ipv4_view::parse(packet, v) == parse_error::none);
    BOOST_TEST(v.header_size() == 24u);
    ipv4_option_cursor cursor(v.options());
    ipv4_option option;
    BOOST_REQUIRE(cursor.next(option));
    BOOST_TEST((option.type == ipv4_option_type::router_alert));
    BOOST_TEST(option.data.size() == 2u);
    BOOST_TEST(option.copied());
    BOOST_TEST(!cursor.next(option));
    BOOST_TEST(cursor.error() == parse_error::none);

    byte_vector out(24);
    BOOST_TEST(ipv4_header::from(v).emit(out, ipv4_router_alert) == 24u);
    BOOST_TEST(to_hex(out) == to_hex(byte_span(packet).first(24)));
}

BOOST_AUTO_TEST_CASE(options_are_walked_to_their_end_or_their_fault) {
    struct row {
        const char* what;
        const char* options;
        std::size_t count;
        parse_error error;
    };
    static constexpr row table[] = {
        {"none", "", 0, parse_error::none},
        {"no-operations", "01010101", 0, parse_error::none},
        {"end of list at once, rubbish behind it", "00ffffff", 0, parse_error::none},
        {"record route of one address", "07 07 04 00000000 00", 1, parse_error::none},
        {"two with a no-operation between", "94040000 01 83 07 04 0a000001", 2, parse_error::none},
        {"an unknown one", "5f 02 0101", 1, parse_error::none},
        {"length 0", "0700 0000", 0, parse_error::bad_option},
        {"length 1", "0701 0000", 0, parse_error::bad_option},
        {"length beyond the header", "0705 0000", 0, parse_error::bad_option},
        {"length 255", "07ff 0000", 0, parse_error::bad_option},
        {"a type without a length at the very end", "010101 07", 0, parse_error::bad_option},
        {"a fault behind a good one", "94040000 0709 0000", 1, parse_error::bad_option},
    };
    for (const row& r : table) {
        const byte_vector bytes = hex(r.options);
        ipv4_option_cursor cursor(bytes);
        std::size_t count = 0;
        for (ipv4_option option; cursor.next(option);)
            ++count;
        BOOST_TEST(count == r.count, r.what);
        BOOST_TEST(cursor.error() == r.error, r.what);
        ipv4_option option;
        BOOST_TEST(!cursor.next(option), r.what);
    }
    const byte_vector route = hex("83 07 04 0a000001");
    ipv4_option_cursor cursor(route);
    ipv4_option option;
    BOOST_REQUIRE(cursor.next(option));
    BOOST_TEST(option.is_source_route());
}

BOOST_AUTO_TEST_CASE(a_quoted_datagram_may_be_cut_short) {
    const byte_vector packet = packet_of(kernel::syn);
    for (std::size_t size = 0; size <= packet.size(); ++size) {
        const byte_vector part = exact(byte_span(packet).first(size));
        ipv4_view v;
        const parse_error error = ipv4_view::parse_quoted(part, v);
        if (size < 20) {
            BOOST_TEST(error == parse_error::truncated);
        } else {
            BOOST_REQUIRE(error == parse_error::none);
            BOOST_TEST(v.payload().size() == size - 20);
            BOOST_TEST(v.total_length() == 60);
        }
    }
    byte_vector longer = packet;
    longer.resize(100);
    ipv4_view v;
    BOOST_REQUIRE(ipv4_view::parse_quoted(longer, v) == parse_error::none);
    BOOST_TEST(v.payload().size() == 40u);
}

BOOST_AUTO_TEST_CASE(a_quoted_header_itself_may_not_be_cut) {
    const byte_vector packet = packet_of(kernel::igmp_v3_report); // a header of 24 bytes
    for (std::size_t size = 0; size <= packet.size(); ++size) {
        const byte_vector part = exact(byte_span(packet).first(size));
        ipv4_view v;
        BOOST_TEST(ipv4_view::parse_quoted(part, v) == (size < 24 ? parse_error::truncated : parse_error::none));
    }
}

BOOST_AUTO_TEST_CASE(random_headers_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 5000; ++i) {
        const byte_vector options(random.below(11) * 4, std::byte{1});
        const std::size_t payload = random.below(100);
        const ipv4_header h = random_header(random, options.size(), payload);
        byte_vector bytes(h.total_length);
        BOOST_REQUIRE(h.emit(bytes, options) == 20 + options.size());
        ipv4_view v;
        BOOST_REQUIRE(ipv4_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(ipv4_header::from(v) == h);
        BOOST_REQUIRE(v.checksum_ok());
        BOOST_REQUIRE(v.options().size() == options.size());
        BOOST_REQUIRE(v.payload().size() == payload);
    }
}

BOOST_AUTO_TEST_CASE(a_smaller_ttl_keeps_the_checksum_right) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 2000; ++i) {
        ipv4_header h = random_header(random, 0, 0);
        h.ttl = static_cast<std::uint8_t>(1 + random.below(255));
        byte_vector bytes(20);
        h.emit(bytes);
        decrement_ttl(bytes.data());
        ipv4_view v;
        BOOST_REQUIRE(ipv4_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(v.checksum_ok());
        BOOST_REQUIRE(v.ttl() == h.ttl - 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
