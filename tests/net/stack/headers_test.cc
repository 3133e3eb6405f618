// Small things the stack does with headers: the congestion mark on what goes out, and whose flow an ICMP error quotes.
#include <corewire/net/stack/output_path.hh>
#include <corewire/net/stack/quoted_flow.hh>
#include <corewire/net/wire/ipv4.hh>

#include <boost/test/unit_test.hpp>

#include <array>

using namespace corewire;

namespace {

constexpr std::size_t icmp_at = 20, quote_at = 28, ports_at = 48, size = 56;
using datagram = std::array<std::byte, size>;

/// An ICMP error that quotes a TCP segment from 10.0.0.1:7 to 10.0.0.2:4321.
datagram error(std::uint8_t type, wire::ip_protocol about = wire::ip_protocol::tcp, std::uint16_t offset = 0) {
    datagram d{};
    wire::ipv4_header{.total_length = size, .protocol = wire::ip_protocol::icmp, .source = wire::ipv4_address(0x0a000003),
                      .destination = wire::ipv4_address(0x0a000001)}
        .emit(d);
    d[icmp_at] = std::byte{type};
    wire::ipv4_header{.total_length = 500, .fragment_offset = offset, .protocol = about,
                      .source = wire::ipv4_address(0x0a000001), .destination = wire::ipv4_address(0x0a000002)}
        .emit(mutable_byte_span(d).subspan(quote_at));
    store_be16(d.data() + ports_at, 7);
    store_be16(d.data() + ports_at + 2, 4321);
    return d;
}
std::optional<flow_key> flow_of(byte_span d) {
    wire::ipv4_view ip;
    BOOST_REQUIRE((wire::ipv4_view::parse(d, ip) == wire::parse_error::none));
    const auto quoted = quoted_flow(ip);
    return quoted ? std::optional(quoted->flow) : std::nullopt;
}

} // namespace

BOOST_AUTO_TEST_SUITE(headers)

BOOST_AUTO_TEST_CASE(ect_is_marked_and_the_checksum_stays_right) { // RFC 3168 5, RFC 1624
    for (std::uint32_t i = 0; i < 70'000; ++i) {
        std::array<std::byte, link_and_ip_size> frame{};
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + i % 1480), .identification = static_cast<std::uint16_t>(i),
                          .source = wire::ipv4_address(0x0a000001 + i), .destination = wire::ipv4_address(0x0a000002)}
            .emit(mutable_byte_span(frame).subspan(wire::ethernet_header::size));
        output_path::mark_ecn_capable(frame.data());
        wire::ipv4_view ip;
        BOOST_REQUIRE((wire::ipv4_view::parse_quoted(byte_span(frame).subspan(wire::ethernet_header::size), ip) ==
                       wire::parse_error::none));
        BOOST_REQUIRE(ip.ecn() == 2);
        BOOST_REQUIRE(ip.checksum_ok());
    }
}

BOOST_AUTO_TEST_CASE(an_icmp_error_speaks_of_the_flow_it_quotes) { // RFC 792
    for (const std::uint8_t type : {3, 4, 5, 11, 12}) {
        const auto flow = flow_of(error(type));
        BOOST_REQUIRE(flow.has_value());
        BOOST_TEST((*flow == flow_key{0x0a000001, 0x0a000002, 7, 4321}));
    }
    BOOST_TEST(flow_of(error(3, wire::ip_protocol::udp)).has_value());
}

BOOST_AUTO_TEST_CASE(what_quotes_no_flow_speaks_of_none) {
    for (const std::uint8_t type : {0, 8, 13}) BOOST_TEST(!flow_of(error(type)).has_value()); // no errors
    BOOST_TEST(!flow_of(error(3, wire::ip_protocol::icmp)).has_value());
    BOOST_TEST(!flow_of(error(3, wire::ip_protocol::tcp, 8)).has_value()); // a later fragment has no ports
    auto garbled = error(3);
    garbled[quote_at] = std::byte{0x42}; // a header of 8 bytes
    BOOST_TEST(!flow_of(garbled).has_value());
    for (std::uint16_t length = 20; length < size; ++length) { // every truncation
        auto cut = error(3);
        store_be16(cut.data() + 2, length);
        BOOST_TEST(!flow_of(cut).has_value());
    }
}

BOOST_AUTO_TEST_SUITE_END()
