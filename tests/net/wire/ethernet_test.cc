// The Ethernet header.
#include "support.hh"

#include <corewire/net/wire/ethernet.hh>

using namespace corewire::wire;
using namespace wire_test;

BOOST_AUTO_TEST_SUITE(ethernet)

BOOST_AUTO_TEST_CASE(a_frame_of_a_kernel_is_read) {
    const byte_vector frame = hex(kernel::arp_request);
    ethernet_view v;
    BOOST_REQUIRE(ethernet_view::parse(frame, v) == parse_error::none);
    BOOST_TEST(v.destination().is_broadcast());
    BOOST_TEST(v.source() == mac_address(0x02000000000a));
    BOOST_TEST((v.type() == ether_type::arp));
    BOOST_TEST(v.payload().size() == 28u);
    BOOST_TEST(v.payload().data() == frame.data() + 14);
}

BOOST_AUTO_TEST_CASE(less_than_a_header_is_truncated) {
    const byte_vector frame = hex(kernel::arp_request);
    for (std::size_t size = 0; size <= 14; ++size) {
        const byte_vector part = exact(byte_span(frame).first(size));
        ethernet_view v;
        BOOST_TEST(ethernet_view::parse(part, v) == (size < 14 ? parse_error::truncated : parse_error::none));
    }
}

BOOST_AUTO_TEST_CASE(random_headers_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 2000; ++i) {
        const ethernet_header h{mac_address(any<std::uint64_t>(random)), mac_address(any<std::uint64_t>(random)),
                                static_cast<ether_type>(any<std::uint16_t>(random))};
        byte_vector bytes(14);
        BOOST_REQUIRE(h.emit(bytes) == 14u);
        ethernet_view v;
        BOOST_REQUIRE(ethernet_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(ethernet_header::from(v) == h);
    }
}

BOOST_AUTO_TEST_SUITE_END()
