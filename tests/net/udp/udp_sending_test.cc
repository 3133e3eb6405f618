// Headers put in front of payloads, in place, copied or by reference; and what arrives at the other end.
#include "tests/net/udp/datagrams.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

namespace {

const udp_address from{us, 1234}, to{peer, 7};
const mac_address our_mac(0x020000000001), peer_mac(0x020000000002);

struct bench {
    frame_pool pool{64};
    frame_pool large{2, 65'536 + 256};
    udp_headers headers{from, to};
    packet out;
    bench() { headers.set_link(our_mac, peer_mac); }

    buffer payload(byte_span data, std::uint32_t headroom = frame_headroom) {
        buffer b = data.size() > 1800 ? large.allocate_buffer(headroom) : pool.allocate_buffer(headroom);
        if (!data.empty()) std::memcpy(b.append(static_cast<std::uint32_t>(data.size())), data.data(), data.size());
        return b;
    }
    void check(byte_span data, std::uint16_t id = 0) {
        wire::ethernet_view ethernet;
        BOOST_REQUIRE((wire::ethernet_view::parse(out.head.bytes(), ethernet) == wire::parse_error::none));
        BOOST_TEST((ethernet.destination() == peer_mac));
        BOOST_TEST((ethernet.source() == our_mac));
        BOOST_TEST((ethernet.type() == wire::ether_type::ipv4));
        wire::ipv4_view ip;
        BOOST_REQUIRE((wire::ipv4_view::parse_quoted(ethernet.payload(), ip) == wire::parse_error::none));
        BOOST_TEST(ip.checksum_ok());
        BOOST_TEST(ip.total_length() == out.size() - 14);
        BOOST_TEST(ip.identification() == id);
        BOOST_TEST(ip.dont_fragment());
        std::vector<std::byte> all(ip.payload().begin(), ip.payload().end());
        all.insert(all.end(), out.body.bytes().begin(), out.body.bytes().end());
        wire::udp_view udp;
        BOOST_REQUIRE((wire::udp_view::parse(all, udp) == wire::parse_error::none));
        BOOST_TEST(udp.source_port() == 1234);
        BOOST_TEST(udp.destination_port() == 7);
        BOOST_TEST(udp.has_checksum());
        if (out.flags == offload::none) BOOST_TEST(udp.checksum_ok(us, peer));
        BOOST_TEST(same(udp.payload(), data));
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(udp_sending)

BOOST_AUTO_TEST_CASE(headers_go_in_front_of_a_payload_that_is_nobody_elses) {
    for (const std::size_t size : {0u, 1u, 2u, 64u, 1471u, 1472u}) {
        bench b;
        const auto data = pattern(size);
        buffer p = b.payload(data);
        const std::byte* bytes = p.data();
        BOOST_TEST(b.headers.wrap(p, udp_headers::checksum::compute, 0, b.pool, b.out));
        BOOST_TEST(b.out.head.data() + udp_headers::size == bytes);
        b.check(data);
        BOOST_TEST(b.pool.free_count == 63u);
    }
}

BOOST_AUTO_TEST_CASE(a_small_payload_that_cannot_be_written_round_is_copied_a_large_one_goes_by_reference) {
    bench b;
    for (const std::size_t size : {0u, 64u, 192u, 193u, 1400u}) {
        const auto data = pattern(size);
        buffer shared = b.payload(data);
        const buffer watcher = shared.share();
        BOOST_TEST(b.headers.wrap(shared, udp_headers::checksum::compute, 9, b.pool, b.out));
        BOOST_TEST(shared.underlying_frame() == nullptr);
        BOOST_TEST(b.out.body.empty() == (size <= udp_headers::copy_limit));
        if (size > udp_headers::copy_limit) BOOST_TEST(b.out.body.data() == watcher.data());
        b.check(data, 9);
        buffer cramped = b.payload(data, 41);
        BOOST_TEST(b.headers.wrap(cramped, udp_headers::checksum::compute, 0, b.pool, b.out));
        b.check(data);
    }
}

BOOST_AUTO_TEST_CASE(bytes_that_stay_the_callers_are_copied) {
    bench b;
    const auto data = pattern(1472);
    BOOST_TEST(b.headers.wrap_copy(data, udp_headers::checksum::compute, 3, b.pool, b.out));
    b.check(data, 3);
    BOOST_TEST(!b.headers.wrap_copy(pattern(1900), udp_headers::checksum::compute, 0, b.pool, b.out)); // beyond a frame
}

BOOST_AUTO_TEST_CASE(what_the_packet_held_before_is_gone) {
    bench b;
    const auto data = pattern(64);
    for (const bool copy : {false, true}) {
        b.out.body = b.payload(pattern(500));
        b.out.flags = offload::l4_checksum_needed;
        buffer p = b.payload(data);
        BOOST_TEST((copy ? b.headers.wrap_copy(data, udp_headers::checksum::compute, 0, b.pool, b.out)
                         : b.headers.wrap(p, udp_headers::checksum::compute, 0, b.pool, b.out)));
        BOOST_TEST(b.out.body.empty());
        b.check(data);
    }
}

BOOST_AUTO_TEST_CASE(the_longest_datagram_is_built) {
    bench b;
    const auto data = pattern(65'507);
    buffer p = b.payload(data);
    BOOST_TEST(b.headers.wrap(p, udp_headers::checksum::compute, 0, b.pool, b.out));
    b.check(data);
}

BOOST_AUTO_TEST_CASE(a_port_that_computes_checksums_gets_the_pseudo_header_and_the_offsets) {
    bench b;
    const auto data = pattern(64);
    buffer p = b.payload(data);
    BOOST_TEST(b.headers.wrap(p, udp_headers::checksum::offload, 0, b.pool, b.out));
    BOOST_TEST((b.out.flags == offload::l4_checksum_needed));
    BOOST_TEST(b.out.l4_offset == 34);
    BOOST_TEST(b.out.l4_checksum_offset == 6);
    // What the port does: the sum from l4_offset on, complemented, into the field.
    const std::uint16_t sum = wire::internet_checksum(b.out.head.bytes().subspan(34));
    store_be16(b.out.head.mutable_data() + 40, sum);
    b.out.flags = offload::none;
    b.check(data);
}

BOOST_AUTO_TEST_CASE(a_checksum_that_comes_out_as_zero_is_sent_as_all_ones) {
    bench b;
    std::vector<std::byte> data(2);
    buffer p = b.payload(data);
    BOOST_TEST(b.headers.wrap(p, udp_headers::checksum::compute, 0, b.pool, b.out));
    const std::uint16_t with_zero = load_be16(b.out.head.data() + 40);
    store_be16(data.data(), with_zero); // makes the sum all ones, its complement zero
    buffer q = b.payload(data);
    BOOST_TEST(b.headers.wrap(q, udp_headers::checksum::compute, 0, b.pool, b.out));
    BOOST_TEST(load_be16(b.out.head.data() + 40) == 0xffff);
    b.check(data);
}

BOOST_AUTO_TEST_CASE(an_empty_pool_leaves_the_payload_with_the_caller) {
    bench b;
    for (const std::size_t size : {64u, 1400u}) {
        std::vector<buffer> all;
        buffer shared = b.payload(pattern(size));
        const buffer watcher = shared.share();
        while (b.pool.free_count != 0) all.push_back(b.pool.allocate_buffer());
        BOOST_TEST(!b.headers.wrap(shared, udp_headers::checksum::compute, 0, b.pool, b.out));
        BOOST_TEST(shared.size() == size);
    }
}

BOOST_AUTO_TEST_CASE(what_is_sent_is_received) {
    bench b;
    udp_demux demux(b.pool, {}, 3);
    udp_endpoint e(4);
    BOOST_TEST((demux.bind(e, to) == std::errc{}));
    const auto data = pattern(700);
    buffer p = b.payload(data);
    const buffer watcher = p.share(); // forces head and body
    BOOST_TEST(b.headers.wrap(p, udp_headers::checksum::compute, 0, b.pool, b.out));
    b.out.head.remove_prefix(14);
    const wire::ipv4_view ip = view(b.out);
    BOOST_TEST((demux.input(ip, b.out).verdict == udp_verdict::delivered));
    const udp_datagram got = e.receive();
    BOOST_TEST((got.source == from));
    BOOST_TEST(same(got.data.bytes(), data));
}

BOOST_AUTO_TEST_SUITE_END()
