// Segments of a burst that go to a local kernel as one frame: what joins, what does not, and that the headers fit all of it.
#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/port/joined_segments.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/tcp.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <vector>

using namespace corewire;
using wire::tcp_flags;

namespace {

constexpr std::uint32_t tcp_at = 34, header_size = 66;
constexpr ipv4 from{10, 0, 0, 1}, to{10, 0, 0, 2};

struct burst {
    frame_pool pool{256};
    std::vector<packet> packets;
    std::uint32_t seq = 0xffffff00; ///< wraps within the burst

    /// Headers with timestamps, the first `in_head` bytes of payload behind them and the rest in the body.
    packet& push(std::uint32_t payload, std::uint32_t in_head, tcp_flags flags = tcp_flags::ack) {
        packet p;
        p.head = pool.allocate_buffer();
        std::byte* at = p.head.append(header_size + in_head);
        std::memset(at, 0, header_size);
        store_be16(at + 12, 0x0800);
        wire::ipv4_header ip;
        ip.total_length = static_cast<std::uint16_t>(header_size - 14 + payload);
        ip.source = from;
        ip.destination = to;
        ip.emit({at + 14, 20});
        const auto sum = wire::pseudo_header_sum(from, to, wire::ip_protocol::tcp, header_size - tcp_at + payload).folded();
        const wire::tcp_header tcp{
            .source_port = 1, .destination_port = 2, .sequence = seq, .acknowledgment = 77, .flags = flags, .window = 500, .checksum = sum};
        tcp.emit({at + tcp_at, 32}, 12);
        fill(at + header_size, in_head);
        if (payload != in_head) {
            p.body = pool.allocate_buffer();
            fill(p.body.append(payload - in_head), payload - in_head);
        }
        p.flags = offload::l4_checksum_needed;
        p.l4_offset = tcp_at;
        p.l4_checksum_offset = 16;
        seq += payload;
        packets.push_back(std::move(p));
        return packets.back();
    }
    void fill(std::byte* at, std::uint32_t n) {
        for (std::uint32_t i = 0; i < n; ++i) at[i] = static_cast<std::byte>(next++);
    }
    unsigned next = 0;

    /// How many of them join().
    std::size_t join(joined_segments& into) {
        if (!into.begin(packets.front())) return 0;
        std::size_t n = 1;
        while (n < packets.size() && into.add(packets[n])) ++n;
        return n;
    }
};

std::vector<std::byte> bytes_of(std::span<iovec> parts) {
    std::vector<std::byte> all;
    for (const iovec& part : parts.subspan(1)) {
        const auto* at = static_cast<const std::byte*>(part.iov_base);
        all.insert(all.end(), at, at + part.iov_len);
    }
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(joined_segments)

BOOST_AUTO_TEST_CASE(a_burst_of_one_flow_becomes_one_frame_with_headers_that_fit_it) {
    burst b;
    b.push(1000, 1000);
    b.push(1000, 0);
    b.push(1000, 400);
    b.push(300, 300, tcp_flags::ack | tcp_flags::psh);
    corewire::joined_segments joined;
    BOOST_TEST(b.join(joined) == 4u);
    const std::vector<std::byte> all = bytes_of(joined.finish());
    BOOST_REQUIRE(all.size() == joined.size());
    BOOST_TEST(joined.size() == header_size + 3300u);
    BOOST_TEST(joined.segment_size() == 1000u);
    BOOST_TEST(joined.segments() == 4u);
    wire::ipv4_view ip;
    wire::tcp_view tcp;
    BOOST_REQUIRE((wire::ipv4_view::parse(byte_span(all).subspan(14), ip) == wire::parse_error::none));
    BOOST_REQUIRE((wire::tcp_view::parse(ip.payload(), tcp) == wire::parse_error::none));
    BOOST_TEST(ip.total_length() == header_size - 14u + 3300u);
    BOOST_TEST(ip.checksum_ok());
    BOOST_TEST(tcp.sequence() == 0xffffff00u);
    BOOST_TEST(tcp.flags() == (tcp_flags::ack | tcp_flags::psh));
    BOOST_TEST(tcp.checksum() == wire::pseudo_header_sum(from, to, wire::ip_protocol::tcp, ip.payload().size()).folded());
    for (std::size_t i = 0; i < 3300; ++i) BOOST_REQUIRE(tcp.payload()[i] == static_cast<std::byte>(i));
}

BOOST_AUTO_TEST_CASE(what_is_not_the_next_of_the_same_flow_does_not_join) {
    const auto joins = [](auto&& change) {
        burst b;
        b.push(1000, 1000);
        packet& second = b.push(1000, 1000);
        change(second, second.head.mutable_data());
        corewire::joined_segments joined;
        return b.join(joined) == 2;
    };
    BOOST_TEST(joins([](packet&, std::byte*) {}));
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_be32(at + tcp_at + 4, 5); }));                          // a gap
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_be16(at + tcp_at, 9); }));                              // another port
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_be32(at + 30, 0x0a000003); }));                         // another host
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_u8(at, 4); }));                                         // another neighbour
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_be32(at + tcp_at + 8, 78); }));                         // another ACK
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_be16(at + tcp_at + 14, 501); }));                       // another window
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_u8(at + tcp_at + 24, 1); }));                           // another time
    BOOST_TEST(!joins([](packet&, std::byte* at) { store_u8(at + 15, 2); }));                                    // ECN
    for (const unsigned flags : {0x11u, 0x12u, 0x14u, 0x30u, 0x50u, 0x90u, 0u})                                  // FIN SYN RST URG ECE CWR
        BOOST_TEST(!joins([&](packet&, std::byte* at) { store_u8(at + tcp_at + 13, static_cast<std::uint8_t>(flags)); }));
    BOOST_TEST(!joins([](packet& p, std::byte*) { p.flags = offload::none; }));                                  // a finished checksum
    BOOST_TEST(!joins([](packet& p, std::byte*) { p.head.remove_suffix(1000); }));                               // no payload
}

/// Two segments of 1,000 bytes over IPv6, behind a VLAN's tag; `change` makes of the second what it likes.
struct ipv6_burst {
    static constexpr std::uint32_t ip_at = 18, tcp_at = ip_at + 40, header_size = tcp_at + 20;
    const ipv6 source = *ipv6::parse("2001:db8::1"), destination = *ipv6::parse("2001:db8::2");
    burst b;
    void push(std::uint32_t seq) {
        packet p;
        p.head = b.pool.allocate_buffer();
        std::byte* at = p.head.append(header_size + 1000);
        std::memset(at, 0, header_size);
        store_be16(at + 12, 0x8100);
        store_be16(at + 16, 0x86dd);
        wire::ipv6_header{.payload_length = 1020,
                          .next_header = wire::ip_protocol::tcp,
                          .hop_limit = 64,
                          .source = source,
                          .destination = destination}
            .emit({at + ip_at, 40});
        const auto sum = wire::pseudo_header_sum(source, destination, wire::ip_protocol::tcp, 1020).folded();
        const wire::tcp_header tcp{.source_port = 1,
                                   .destination_port = 2,
                                   .sequence = seq,
                                   .acknowledgment = 77,
                                   .flags = tcp_flags::ack,
                                   .window = 500,
                                   .checksum = sum};
        tcp.emit({at + tcp_at, 20}, 0);
        b.fill(at + header_size, 1000);
        p.flags = offload::l4_checksum_needed;
        p.l4_offset = tcp_at;
        p.l4_checksum_offset = 16;
        b.packets.push_back(std::move(p));
    }
    ipv6_burst() {
        push(1000);
        push(2000);
    }
    std::byte* second() { return b.packets[1].head.mutable_data(); }
};

BOOST_AUTO_TEST_CASE(segments_over_ipv6_join_too) {
    ipv6_burst six;
    corewire::joined_segments joined;
    BOOST_TEST(six.b.join(joined) == 2u);
    BOOST_TEST(joined.over_ipv6());
    const std::vector<std::byte> all = bytes_of(joined.finish());
    BOOST_REQUIRE(all.size() == ipv6_burst::header_size + 2000u);
    wire::ipv6_view ip;
    wire::tcp_view tcp;
    BOOST_REQUIRE((wire::ipv6_view::parse(byte_span(all).subspan(ipv6_burst::ip_at), ip) == wire::parse_error::none));
    BOOST_REQUIRE((wire::tcp_view::parse(ip.payload(), tcp) == wire::parse_error::none));
    BOOST_TEST(ip.payload().size() == 2020u);
    BOOST_TEST(tcp.checksum() == wire::pseudo_header_sum(six.source, six.destination, wire::ip_protocol::tcp, 2020).folded());
    for (std::size_t i = 0; i < 2000; ++i) BOOST_REQUIRE(tcp.payload()[i] == static_cast<std::byte>(i));
}

BOOST_AUTO_TEST_CASE(over_ipv6_what_is_of_another_flow_or_not_tcp_at_once_does_not_join) {
    const auto joins = [](std::uint32_t at, std::uint8_t value) {
        ipv6_burst six;
        store_u8(six.second() + ipv6_burst::ip_at + at, value);
        corewire::joined_segments joined;
        return six.b.join(joined) == 2;
    };
    BOOST_TEST(joins(0, 0x60));
    BOOST_TEST(!joins(1, 0x20)); // ECN
    BOOST_TEST(!joins(3, 1));    // another flow label
    BOOST_TEST(!joins(7, 63));   // another hop limit
    BOOST_TEST(!joins(23, 9));   // another source
    BOOST_TEST(!joins(39, 9));   // another destination
    for (const auto& [at, value] : {std::pair{0u, 0x40u}, std::pair{6u, 0u}, std::pair{6u, 44u}, std::pair{6u, 17u}}) {
        ipv6_burst six;
        store_u8(six.b.packets[0].head.mutable_data() + ipv6_burst::ip_at + at, static_cast<std::uint8_t>(value));
        BOOST_TEST(!corewire::joined_segments{}.begin(six.b.packets[0]));
    }
}

BOOST_AUTO_TEST_CASE(nothing_joins_behind_a_short_segment_nor_a_longer_one) {
    for (const auto& [first, second] : {std::pair{500u, 1000u}, std::pair{1000u, 1001u}}) {
        burst b;
        b.push(first, first);
        b.push(second, second);
        corewire::joined_segments joined;
        BOOST_TEST(b.join(joined) == 1u);
    }
    burst b;
    for (const std::uint32_t size : {1000u, 500u, 500u}) b.push(size, size);
    corewire::joined_segments joined;
    BOOST_TEST(b.join(joined) == 2u);
}

BOOST_AUTO_TEST_CASE(a_frame_ends_at_64_segments_and_at_64_kib) {
    burst small, large;
    for (int i = 0; i < 70; ++i) small.push(100, 100);
    for (int i = 0; i < 60; ++i) large.push(1448, 1448);
    corewire::joined_segments joined;
    BOOST_TEST(small.join(joined) == corewire::joined_segments::most_segments);
    BOOST_TEST(large.join(joined) == 45u); // 45 * 1448 + 52 = 65'212
    BOOST_TEST(joined.size() - 14 <= corewire::joined_segments::largest);
}

BOOST_AUTO_TEST_CASE(what_is_not_plain_tcp_does_not_begin) {
    const auto begins = [](auto&& change) {
        burst b;
        packet& p = b.push(1000, 1000);
        change(p, p.head.mutable_data());
        corewire::joined_segments joined;
        return joined.begin(p);
    };
    BOOST_TEST(begins([](packet&, std::byte*) {}));
    BOOST_TEST(!begins([](packet&, std::byte* at) { store_be16(at + 12, 0x0806); }));
    BOOST_TEST(!begins([](packet&, std::byte* at) { store_u8(at + 14, 0x46); }));  // IP options
    BOOST_TEST(!begins([](packet&, std::byte* at) { store_u8(at + 23, 17); }));    // UDP
    BOOST_TEST(!begins([](packet&, std::byte* at) { store_be16(at + 20, 0x2000); })); // a fragment
    BOOST_TEST(!begins([](packet&, std::byte* at) { store_u8(at + tcp_at + 12, 0x40); }));
    BOOST_TEST(!begins([](packet& p, std::byte*) { p.head.remove_suffix(1000); }));
    BOOST_TEST(!begins([](packet& p, std::byte*) { p.l4_offset = 2000; }));
}

BOOST_AUTO_TEST_SUITE_END()
