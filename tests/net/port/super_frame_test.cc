// A local sender's large TCP frames, cut; its unfinished checksums, recognised; when queued frames are sent.
#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/port/super_frame.hh>
#include <corewire/net/port/xdp/kick_policy.hh>
#include <corewire/net/port/xdp/partial_checksum.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/tcp.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>

using namespace corewire;

namespace {

constexpr unsigned fin_psh_ack = 0x19;

/// Ethernet, IPv4 and TCP headers of 10.0.0.1 -> 10.0.0.2 with `payload` bytes behind them, and the checksum left open.
buffer tcp_frame(frame_pool& pool, std::uint32_t payload) {
    buffer b = pool.allocate_buffer(256);
    std::byte* at = b.append(54 + payload);
    std::memset(at, 0, 54 + payload);
    store_be16(at + 12, 0x0800);
    std::byte* ip = at + 14;
    store_u8(ip, 0x45);
    store_be16(ip + 2, static_cast<std::uint16_t>(40 + payload));
    store_be16(ip + 4, 1000);
    store_u8(ip + 8, 64);
    store_u8(ip + 9, 6);
    store_be32(ip + 12, 0x0a000001);
    store_be32(ip + 16, 0x0a000002);
    std::byte* tcp = ip + 20;
    store_be32(tcp + 4, 0xffffff00); // the numbers wrap within the frame
    store_u8(tcp + 12, 0x50);
    store_u8(tcp + 13, fin_psh_ack);
    std::uint32_t sum = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 6 + 20 + payload;
    sum = (sum >> 16) + (sum & 0xffff);
    store_be16(tcp + 16, static_cast<std::uint16_t>(sum));
    return b;
}

struct segment {
    wire::ipv4_view ip;
    wire::tcp_view tcp;
    explicit segment(const buffer& b) {
        BOOST_REQUIRE((wire::ipv4_view::parse(b.bytes().subspan(14), ip) == wire::parse_error::none));
        BOOST_REQUIRE((wire::tcp_view::parse(ip.payload(), tcp) == wire::parse_error::none));
    }
};

/// A frame in three pieces, of 500, 1,000 and 7 bytes of text; cut() makes them segments.
struct three_pieces {
    frame_pool pool{8};
    buffer first = tcp_frame(pool, 500), second = pool.allocate_buffer(256), last = pool.allocate_buffer(256);
    three_pieces() {
        second.append(1000);
        last.append(7);
    }
    void cut() {
        corewire::super_frame cutter;
        BOOST_REQUIRE(cutter.begin(first));
        cutter.go_on(second, false);
        cutter.go_on(last, true);
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(super_frame)

BOOST_FIXTURE_TEST_CASE(pieces_become_segments_that_follow_each_other, three_pieces) {
    cut();
    const segment a(first), b(second), c(last);
    BOOST_TEST(a.tcp.payload().size() == 500u);
    BOOST_TEST(b.tcp.payload().size() == 1000u);
    BOOST_TEST(c.tcp.payload().size() == 7u);
    BOOST_TEST(b.tcp.sequence() == 0xffffff00u + 500);
    BOOST_TEST(c.tcp.sequence() == 0xffffff00u + 1500);
    BOOST_TEST(static_cast<unsigned>(a.tcp.flags()) == 0x10u);
    BOOST_TEST(static_cast<unsigned>(b.tcp.flags()) == 0x10u);
    BOOST_TEST(static_cast<unsigned>(c.tcp.flags()) == fin_psh_ack);
    BOOST_TEST(c.ip.identification() == 1002);
    BOOST_TEST((a.ip.checksum_ok() && b.ip.checksum_ok() && c.ip.checksum_ok()));
}

/// Makes the IPv4 header of the first piece one of IPv6, from 2001:db8::1 to ::2.
void make_ipv6(buffer& first) {
    std::byte tcp[20 + 500];
    std::memcpy(tcp, first.data() + 34, sizeof tcp);
    first.append(20);
    std::byte* at = first.mutable_data();
    store_be16(at + 12, 0x86dd);
    wire::ipv6_header{.payload_length = 60'000, // as if it were whole
                      .next_header = wire::ip_protocol::tcp,
                      .hop_limit = 64,
                      .source = *ipv6::parse("2001:db8::1"),
                      .destination = *ipv6::parse("2001:db8::2")}
        .emit({at + 14, 40});
    std::memcpy(at + 54, tcp, sizeof tcp);
}

BOOST_FIXTURE_TEST_CASE(pieces_over_ipv6_become_segments_too, three_pieces) {
    make_ipv6(first);
    cut();
    std::uint32_t next = 0xffffff00;
    const std::uint32_t sizes[] = {500, 1000, 7};
    const buffer* pieces[] = {&first, &second, &last};
    for (int i = 0; i < 3; ++i) {
        wire::ipv6_view ip;
        wire::tcp_view tcp;
        BOOST_REQUIRE((wire::ipv6_view::parse(pieces[i]->bytes().subspan(14), ip) == wire::parse_error::none));
        BOOST_REQUIRE((wire::tcp_view::parse(ip.payload(), tcp) == wire::parse_error::none));
        BOOST_TEST(pieces[i]->size() == 74 + sizes[i]);
        BOOST_TEST(tcp.payload().size() == sizes[i]);
        BOOST_TEST(tcp.sequence() == next);
        BOOST_TEST(static_cast<unsigned>(tcp.flags()) == (i == 2 ? fin_psh_ack : 0x10u));
        BOOST_TEST((ip.destination() == *ipv6::parse("2001:db8::2")));
        next += sizes[i];
    }
}

BOOST_AUTO_TEST_CASE(what_has_more_headers_than_ipv6_and_tcp_is_not_cut) {
    frame_pool pool(8);
    corewire::super_frame cutter;
    for (const auto& [at, value] :
         {std::pair{14u, 0x45u}, std::pair{20u, 0u}, std::pair{20u, 44u}, std::pair{20u, 17u}, std::pair{66u, 0x40u}}) {
        buffer b = tcp_frame(pool, 500);
        make_ipv6(b);
        store_u8(b.mutable_data() + at, static_cast<std::uint8_t>(value));
        BOOST_TEST(!cutter.begin(b), "byte " << at << " = " << value);
    }
    for (std::uint32_t size = 0; size < 74; ++size) {
        buffer b = tcp_frame(pool, 500);
        make_ipv6(b);
        b.truncate(size);
        BOOST_TEST(!cutter.begin(b), size);
    }
}

BOOST_AUTO_TEST_CASE(every_piece_has_the_same_counter_of_accurate_ecn) {
    for (unsigned counter = 0; counter < 8; ++counter) { // RFC 9768 3.2: AE, CWR, ECE
        three_pieces p;
        const unsigned flags = (counter & 4) << 6 | (counter & 3) << 6 | 0x10;
        store_be16(p.first.mutable_data() + 46, static_cast<std::uint16_t>(0x5000 | flags));
        p.cut();
        for (const buffer* piece : {&p.first, &p.second, &p.last}) BOOST_TEST(static_cast<unsigned>(segment(*piece).tcp.flags()) == flags);
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_whole_tcp_is_not_cut) {
    frame_pool pool(8);
    corewire::super_frame cutter;
    const auto refuses = [&](std::size_t at, unsigned value) {
        buffer b = tcp_frame(pool, 100);
        store_u8(b.mutable_data() + at, static_cast<std::uint8_t>(value));
        BOOST_TEST(!cutter.begin(b), "byte " << at << " = " << value);
    };
    refuses(12, 0x86);         // no such type
    refuses(14, 0x65);         // version 6
    refuses(14, 0x44);         // IHL below 20
    refuses(14 + 9, 17);       // UDP
    refuses(14 + 6, 0x20);     // a fragment
    refuses(14 + 20 + 12, 0x40); // data offset below 20
    for (std::uint32_t size = 0; size < 58; ++size) {
        buffer b = tcp_frame(pool, 100);
        b.truncate(size);
        BOOST_TEST(!cutter.begin(b));
    }
}

BOOST_AUTO_TEST_CASE(an_open_checksum_is_recognised_and_a_complete_or_damaged_one_is_not) {
    frame_pool pool(8);
    for (std::uint32_t payload = 0; payload < 1500; payload += 7) {
        buffer b = tcp_frame(pool, payload);
        BOOST_TEST(has_partial_checksum(b.bytes()));
        b.mutable_data()[14 + 20 + 16] ^= std::byte{1};
        BOOST_TEST(!has_partial_checksum(b.bytes()));
    }
    buffer b = tcp_frame(pool, 4);
    for (std::uint32_t size = 0; size < 52; ++size) BOOST_TEST(!has_partial_checksum(b.bytes().first(size)));
}

BOOST_AUTO_TEST_CASE(a_ping_pong_is_sent_at_once_but_for_rare_trials) {
    kick_policy k;
    std::uint64_t now = 0;
    int waits = 0;
    for (int i = 0; i < 100'000; ++i) {
        now += 10'000;
        bool waited = false;
        if (!k.queued(1, now)) {
            BOOST_REQUIRE(!k.tired(now + kick_policy::patience));
            BOOST_REQUIRE(k.tired(now + kick_policy::patience + 1));
            waited = true;
            ++waits;
        }
        k.kicked(waited);
    }
    BOOST_TEST((waits > 0 && waits < 100));
}

BOOST_AUTO_TEST_CASE(a_stream_of_requests_soon_shares_calls_of_sixteen) {
    kick_policy k;
    for (int i = 0; i < 2000; ++i) {
        if (k.queued(1, static_cast<std::uint64_t>(i))) k.kicked(false);
    }
    BOOST_TEST(k.target() == kick_policy::largest_batch);
}

BOOST_AUTO_TEST_CASE(what_is_queued_does_not_wait_for_the_end_of_a_stream) {
    kick_policy k;
    while (k.target() == 1) {
        if (k.queued(1, 0)) k.kicked(false);
    }
    std::uint64_t now = 1'000'000;
    BOOST_REQUIRE(!k.queued(1, now));
    for (const std::uint64_t end = now + kick_policy::longest; now <= end; now += 1'000) {
        BOOST_REQUIRE(!k.tired(now));
        k.arrived(now);
    }
    BOOST_TEST(k.tired(now));
}

BOOST_AUTO_TEST_SUITE_END()
