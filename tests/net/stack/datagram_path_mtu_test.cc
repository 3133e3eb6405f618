// What routers say of the path's MTU, as UDP's sockets heed it (RFC 1191, RFC 8201): over both families the same.
#include "datagram_link.hh"

#include <corewire/net/wire/icmp.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;

namespace {

struct sender : datagram_link {
    static constexpr ipv4 second4{10, 0, 0, 3};
    const ipv6 second = a6("2001:db8::3");

    sender() : datagram_link({peer4, second4, a6("2001:db8::2"), a6("2001:db8::3")}) {}
    net_address first(bool six) const { return six ? net_address(peer) : net_address(peer4); }
    net_address other(bool six) const { return six ? net_address(second) : net_address(second4); }

    using datagram_link::send_out;
    std::vector<bytes> send_out(std::size_t size, const net_address& to) { return send_out(socket, size, to); }
    /// A router on the way takes no more than `mtu` bytes of what is quoted.
    void too_big(const bytes& packet, std::uint32_t mtu, std::uint16_t our_port = 7) {
        if (load_u8(packet.data()) >> 4 == 6) {
            bytes quote(packet.begin(), packet.begin() + 100);
            store_be16(quote.data() + (load_u8(packet.data() + 6) == 44 ? 48 : 40), our_port);
            send(icmp(wire::icmpv6_header::packet_too_big(mtu), peer, us, quote), peer, us, ip_protocol::icmpv6);
            return;
        }
        bytes m(8);
        m[0] = std::byte{3};
        m[1] = std::byte{4};
        store_be16(m.data() + 6, static_cast<std::uint16_t>(mtu));
        m.insert(m.end(), packet.begin(), packet.begin() + 28);
        store_be16(m.data() + 28, our_port);
        store_be16(m.data() + 2, wire::internet_checksum(m));
        send4(m, peer4, us4, ip_protocol::icmp);
    }
    /// None is longer than `most`, and of IPv4 none may not be cut.
    static bool all_fit(const std::vector<bytes>& packets, std::size_t most) {
        for (const bytes& p : packets)
            if (p.size() > most || (load_u8(p.data()) >> 4 == 4 && (load_u8(p.data() + 6) & 0x40) != 0)) return false;
        return true;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(datagram_path_mtu)

BOOST_FIXTURE_TEST_CASE(what_a_router_does_not_take_is_cut_from_then_on_and_for_ten_minutes, sender) {
    for (const bool six : {false, true}) {
        const std::vector<bytes> whole = send_out(1400, first(six));
        BOOST_REQUIRE(whole.size() == 1u);
        too_big(whole[0], 1300);
        for (int i = 0; i < 2; ++i) {
            const std::vector<bytes> cut = send_out(1400, first(six));
            BOOST_TEST(cut.size() == 2u);
            BOOST_TEST(all_fit(cut, 1300));
            BOOST_TEST((failed == std::errc{}));
        }
        BOOST_TEST(send_out(1200, first(six)).size() == 1u);
        BOOST_TEST(send_out(1400, other(six)).size() == 1u);
        BOOST_TEST(send_out(1400, first(six)).size() == 2u);
        BOOST_TEST(stack->ip().path_mtu_to(clock.now(), first(six)) == 1500u); // what connections go by
        clock.advance(path_mtu_cache::lifetime);
        pass(1ms);
        BOOST_TEST(send_out(1400, first(six)).size() == 1u);
    }
}

BOOST_FIXTURE_TEST_CASE(fragments_that_are_too_big_are_made_smaller, sender) { // RFC 8201 4
    const std::vector<bytes> before = send_out(3000, first(true));
    BOOST_REQUIRE(before.size() == 3u);
    too_big(before[0], 1300);
    const std::vector<bytes> after = send_out(3000, first(true));
    BOOST_TEST(after.size() == 3u);
    BOOST_TEST(all_fit(after, 1300));
    too_big(after[0], 1279); // every link carries more: not believed
    BOOST_TEST(send_out(1252, first(true)).size() == 1u);
    too_big(after[0], 1280);
    BOOST_TEST(send_out(1252, first(true)).size() == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_report_about_nothing_that_was_sent_changes_nothing, sender) {
    for (const bool six : {false, true}) {
        std::vector<bytes> sent = send_out(1400, first(six));
        BOOST_REQUIRE(sent.size() == 1u);
        too_big(sent[0], 1300, 8);            // no socket is there
        too_big(sent[0], six ? 1448u : 1428u); // it takes what was sent
        bytes elsewhere = sent[0];
        if (six) second.store(elsewhere.data() + 24);
        else second4.store(elsewhere.data() + 16);
        too_big(elsewhere, 1300); // nothing has been sent there
        BOOST_TEST(send_out(1400, other(six)).size() == 1u);
        BOOST_TEST(send_out(1400, first(six)).size() == 1u);
    }
}

BOOST_FIXTURE_TEST_CASE(a_connected_socket_is_told_once_and_goes_on, sender) { // RFC 1191 3
    for (const bool six : {false, true}) {
        udp_socket connected = udp_socket::connect(socket_address(first(six), 4000));
        const std::vector<bytes> sent = send_out(connected, 1400, {});
        BOOST_REQUIRE(sent.size() == 1u);
        too_big(sent[0], 1300, connected.local_address().port);
        BOOST_TEST(send_out(connected, 1400, {}).empty());
        BOOST_TEST((failed == std::errc::message_size));
        BOOST_TEST(all_fit(send_out(connected, 1400, {}), 1300));
        BOOST_TEST((failed == std::errc{}));
    }
}

BOOST_FIXTURE_TEST_CASE(a_connected_socket_is_not_told_what_cannot_be, sender) { // RFC 8201 4
    udp_socket connected = udp_socket::connect(socket_address(first(true), 4000));
    const std::vector<bytes> sent = send_out(connected, 1400, {});
    BOOST_REQUIRE(sent.size() == 1u);
    for (const std::uint32_t mtu : {0u, 1279u}) too_big(sent[0], mtu, connected.local_address().port);
    BOOST_TEST(send_out(connected, 1400, {}).size() == 1u);
    BOOST_TEST((failed == std::errc{}));
    for (const bool six : {false, true}) { // RFC 1191 3: as long as what was sent, or longer
        udp_socket another = udp_socket::connect(socket_address(first(six), 4001));
        const std::vector<bytes> whole = send_out(another, 1400, {});
        BOOST_REQUIRE(whole.size() == 1u);
        too_big(whole[0], static_cast<std::uint32_t>(whole[0].size()), another.local_address().port);
        BOOST_TEST(send_out(another, 1400, {}).size() == 1u);
        BOOST_TEST((failed == std::errc{}));
    }
}

namespace {

/// One whole packet of so many bytes; of IPv4, one that nobody may cut.
bool is_whole(const std::vector<std::vector<std::byte>>& packets, std::size_t size) {
    if (packets.size() != 1 || packets[0].size() != size) return false;
    const std::byte* const p = packets[0].data();
    return load_u8(p) >> 4 == 6 ? load_u8(p + 6) == 17 : (load_be16(p + 6) & 0xffff) == 0x4000;
}

} // namespace

BOOST_FIXTURE_TEST_CASE(who_wants_none_cut_is_refused_what_is_too_large, sender) { // RFC 8899 4.1, 4.6.1; RFC 1191 3
    for (const bool six : {false, true}) {
        const std::size_t headers = six ? 48 : 28;
        udp_socket connected = udp_socket::connect(socket_address(first(six), 4000));
        connected.set_datagram_size(datagram_size::refuse);
        BOOST_TEST(connected.path_mtu() == 1500u);
        BOOST_TEST(is_whole(send_out(connected, 1500 - headers, {}), 1500));
        BOOST_TEST(send_out(connected, 1501 - headers, {}).empty());
        BOOST_TEST((failed == std::errc::message_size));
        const std::vector<bytes> sent = send_out(connected, 1400, {});
        BOOST_REQUIRE(sent.size() == 1u);
        too_big(sent[0], 1300, connected.local_address().port);
        BOOST_TEST(connected.path_mtu() == 1300u);
        BOOST_TEST(send_out(connected, 1400, {}).empty()); // the report, which is told once
        for (const std::size_t size : {1400ul, 1301 - headers}) {
            BOOST_TEST(send_out(connected, size, {}).empty());
            BOOST_TEST((failed == std::errc::message_size));
        }
        BOOST_TEST(is_whole(send_out(connected, 1300 - headers, {}), 1300));
        BOOST_TEST((failed == std::errc{}));
        connected.set_datagram_size(datagram_size::cut); // from now on
        BOOST_TEST(all_fit(send_out(connected, 1400, {}), 1300));
        BOOST_TEST((failed == std::errc{}));
    }
    BOOST_CHECK_EXCEPTION(static_cast<void>(socket.path_mtu()), std::system_error,
                          [](const std::system_error& e) { return e.code() == std::errc::not_connected; });
}

BOOST_FIXTURE_TEST_CASE(who_probes_goes_by_the_link_alone, sender) { // RFC 8899 4.1, 5.1.4
    for (const bool six : {false, true}) {
        const std::size_t headers = six ? 48 : 28;
        socket.set_datagram_size(datagram_size::probe);
        const std::vector<bytes> sent = send_out(1400, first(six));
        BOOST_REQUIRE(sent.size() == 1u);
        too_big(sent[0], 1300);
        stack->ip().path_mtus().lower(clock.now(), first(six), 1290); // as a connection has found it
        const net_address group = six ? net_address(a6("ff02::77")) : net_address(ipv4(239, 1, 1, 1));
        stack->ip().path_mtus().lower(clock.now(), group, 1290);
        for (const net_address& to : {first(six), group}) {
            BOOST_TEST(is_whole(send_out(1500 - headers, to), 1500));
            BOOST_TEST((failed == std::errc{}));
            BOOST_TEST(send_out(1501 - headers, to).empty()); // no link takes it
            BOOST_TEST((failed == std::errc::message_size));
        }
        socket.set_datagram_size(datagram_size::cut);
        BOOST_TEST(all_fit(send_out(1400, first(six)), 1290));
    }
}

BOOST_AUTO_TEST_SUITE_END()
