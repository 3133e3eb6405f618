// A datagram's source, hop limit and traffic class, and where it was sent to (RFC 1122 4.1.3.5, 4.1.4), as they are on the wire.
#include "datagram_link.hh"

#include <corewire/net/wire/udp.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;

namespace {

struct marked : datagram_link {
    static constexpr ipv4 group4{239, 77, 1, 2};
    const ipv6 group6 = a6("ff05::4321"), our_local = wire::link_local_address(mac_address(2, 0, 0, 0, 0, 1));

    marked() : datagram_link({peer4, a6("2001:db8::2"), a6("fe80::2")}) {
        socket.join(group4);
        socket.join(group6);
    }

    /// Where the socket hears that a datagram was sent to.
    net_address asked(const net_address& from, const net_address& to) {
        bytes d(8 + 4);
        wire::udp_header{4000, 7, static_cast<std::uint16_t>(d.size()), 0}.emit(d);
        wire::store_udp_checksum(d, from, to);
        heard_at.reset();
        tasks.spawn([](marked& w) -> task<> {
            const corewire::datagram got = co_await w.socket.receive_from();
            w.heard_at = got.to;
        }(*this));
        if (from.is_v4()) send4(d, from.v4(), to.v4(), ip_protocol::udp);
        else send(d, from.v6(), to.v6(), ip_protocol::udp);
        BOOST_REQUIRE(heard_at.has_value());
        return *heard_at;
    }
    std::vector<bytes> send_out(const net_address& to, const datagram_options& how, std::size_t size = 4) {
        return datagram_link::send_out(socket, size, to, how);
    }
    struct marks {
        net_address source;
        unsigned hops, traffic_class;
    };
    static marks marks_of(const bytes& packet) {
        if (load_u8(packet.data()) >> 4 == 6) {
            const wire::ipv6_view ip = view(packet);
            return {ip.source(), ip.hop_limit(), ip.traffic_class()};
        }
        wire::ipv4_view ip;
        BOOST_REQUIRE((wire::ipv4_view::parse(packet, ip) == wire::parse_error::none));
        BOOST_TEST(ip.checksum_ok());
        return {ip.source(), ip.ttl(), unsigned(ip.dscp()) << 2 | ip.ecn()};
    }
    std::optional<net_address> heard_at;
};

} // namespace

BOOST_AUTO_TEST_SUITE(datagram_options)

BOOST_FIXTURE_TEST_CASE(a_datagram_says_where_it_was_sent_to, marked) {
    for (const net_address& to : {net_address(us), net_address(our_local), net_address(group6)}) BOOST_TEST(asked(peer_local, to) == to);
    for (const net_address& to : {net_address(us4), net_address(group4)}) BOOST_TEST(asked(peer4, to) == to);
    BOOST_TEST(asked(peer4, ipv4(10, 0, 0, 255)) == net_address(us4)); // RFC 1122 3.2.1.3
    BOOST_TEST(asked(peer4, ipv4(255, 255, 255, 255)) == net_address(us4));
}

BOOST_FIXTURE_TEST_CASE(a_server_answers_from_the_address_that_was_asked, marked) {
    for (int i = 0; i < 2; ++i) { // each is kept, and neither is the other's
        for (const ipv6& ours : {us, our_local}) {
            const std::vector<bytes> answer = send_out(peer_local, {.from = asked(peer_local, ours)});
            BOOST_REQUIRE(answer.size() == 1u);
            BOOST_TEST(marks_of(answer[0]).source == net_address(ours));
            BOOST_TEST(wire::pseudo_header_sum(ours, peer_local, ip_protocol::udp, answer[0].size() - 40)
                           .add(byte_span(answer[0]).subspan(40))
                           .verifies());
        }
    }
    const std::vector<bytes> to_group = send_out(peer_local, {.from = asked(peer_local, group6)}); // no source: as ever
    BOOST_REQUIRE(to_group.size() == 1u);
    BOOST_TEST(marks_of(to_group[0]).source == net_address(our_local));
}

BOOST_FIXTURE_TEST_CASE(hops_and_traffic_class_are_on_every_packet_of_a_datagram_and_on_no_other, marked) {
    for (const net_address& to : {net_address(peer4), net_address(peer), net_address(group4), net_address(group6)}) {
        const unsigned as_ever = to.is_multicast() ? 1 : 64;
        for (const std::size_t size : {4u, 3000u}) {
            for (const std::uint8_t hops : {1, 2, 255}) {
                for (const std::uint8_t traffic_class : {0, 1, 0xb8, 255}) {
                    const std::vector<bytes> packets = send_out(to, {.hops = hops, .traffic_class = traffic_class}, size);
                    BOOST_REQUIRE(packets.size() == (size == 4 ? 1u : 3u));
                    for (const bytes& p : packets) {
                        BOOST_TEST(marks_of(p).hops == hops);
                        BOOST_TEST(marks_of(p).traffic_class == traffic_class);
                    }
                }
            }
            const std::vector<bytes> plain = send_out(to, {}, size);
            BOOST_REQUIRE(!plain.empty());
            BOOST_TEST(marks_of(plain[0]).hops == as_ever);
            BOOST_TEST(marks_of(plain[0]).traffic_class == 0u);
        }
    }
}

BOOST_FIXTURE_TEST_CASE(nothing_leaves_from_an_address_that_is_not_ours, marked) {
    BOOST_TEST(send_out(peer, {}).size() == 1u);
    BOOST_TEST(send_out(peer, {.from = a6("2001:db8::77")}).empty());
    BOOST_TEST((failed == std::errc::address_not_available));
    BOOST_TEST(send_out(peer4, {.from = ipv4(10, 0, 0, 77)}).empty());
    BOOST_TEST((failed == std::errc::address_not_available));
    BOOST_TEST(send_out(peer, {.from = us4}).empty());
    BOOST_TEST((failed == std::errc::address_family_not_supported));
    BOOST_TEST(send_out(peer4, {.from = us4}).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
