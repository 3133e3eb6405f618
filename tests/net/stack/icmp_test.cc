// What the stack says to strangers by ICMP, and what it believes of what they say.
#include "datagram_link.hh"
#include "stack_world.hh"

#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/udp.hh>

using namespace corewire;
using namespace corewire::socket_suite;

BOOST_AUTO_TEST_SUITE(icmp)

namespace {

/// An ICMP message in a frame for the server, as if it had arrived.
void inject(stack_world& w, byte_span message, ipv4 from = stack_world::second, byte_span options = {}) {
    packet p;
    p.head = w.server().device().pool().allocate_buffer();
    std::memcpy(p.head.append(static_cast<std::uint32_t>(message.size())), message.data(), message.size());
    const auto header_size = static_cast<std::uint32_t>(wire::ipv4_header::min_size + options.size());
    const wire::ipv4_header ip{.total_length = static_cast<std::uint16_t>(header_size + message.size()),
                               .protocol = wire::ip_protocol::icmp,
                               .source = from,
                               .destination = stack_world::first};
    ip.emit({p.head.prepend(header_size), header_size}, options);
    const wire::ethernet_header link{
        .destination = w.server().device().mac(), .source = w.client().device().mac(), .type = wire::ether_type::ipv4};
    link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
    w.server().take_over(w.clock.now(), p);
}

/// The first piece of a datagram of UDP, in a frame to `mac`.
void inject_piece(stack_world& w, ipv4 to, mac_address mac, bool more = true) {
    packet p;
    p.head = w.server().device().pool().allocate_buffer();
    const wire::ethernet_header link{.destination = mac, .source = w.client().device().mac(), .type = wire::ether_type::ipv4};
    link.emit({p.head.append(wire::ethernet_header::size), wire::ethernet_header::size});
    const wire::ipv4_header ip{.total_length = 44, .identification = 1, .dont_fragment = false, .more_fragments = more,
                               .protocol = wire::ip_protocol::udp, .source = stack_world::second, .destination = to};
    ip.emit({p.head.append(20), 20});
    std::byte* const udp = p.head.append(24);
    std::memset(udp, 0, 24);
    wire::udp_header{.source_port = 9, .destination_port = 7, .length = 24}.emit({udp, 8});
    w.server().take_over(w.clock.now(), p);
}

task<> lose_a_forged_error(stack_world& w) {
    ends both = co_await connected(w);
    co_await both.server.write(std::string_view{"in flight"});
    // Port unreachable about the server's own segment, but with a sequence number that is not in flight (RFC 5927 4.1).
    std::array<std::byte, 8 + 20 + 8> message{};
    const auto local = both.server.local_address();
    const auto remote = both.server.peer_address();
    wire::ipv4_header{.total_length = 40, .source = local.v4(), .destination = remote.v4()}.emit(
        mutable_byte_span(message).subspan(8));
    store_be16(message.data() + 28, local.port);
    store_be16(message.data() + 30, remote.port);
    store_be32(message.data() + 32, 0x12345678);
    message[0] = std::byte{3};
    message[1] = std::byte{3};
    store_be16(message.data() + 2, wire::internet_checksum(message));
    inject(w, message);
    co_await some_turns();
    buffer heard = co_await both.client.read();
    BOOST_TEST(heard.text() == "in flight");
    co_await both.client.write(std::string_view{"still here"});
    buffer back = co_await both.server.read();
    BOOST_TEST(back.text() == "still here");
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_forged_error_does_not_end_a_connection, stack_world) { run(lose_a_forged_error(*this)); }

BOOST_FIXTURE_TEST_CASE(an_echo_request_is_answered, stack_world) {
    reactor::scope here(loop_);
    std::array<std::byte, 16> ping{};
    ping[0] = std::byte{8};
    store_be16(ping.data() + 2, wire::internet_checksum(ping));
    const auto before = client_.device().statistics().received_packets;
    inject(*this, ping);
    for (int i = 0; i < 20; ++i) turn();
    BOOST_TEST(client_.device().statistics().received_packets > before);
}

BOOST_FIXTURE_TEST_CASE(how_many_resets_leave_at_a_time_is_drawn, stack_world) { // or they would tell what others met with
    const auto burst = [this](ip_output& out) {
        int resets = 0;
        while (out.may_send_reset(clock.now())) ++resets;
        return resets;
    };
    const int one = burst(client().ip()), other = burst(server().ip());
    BOOST_TEST(one != other);
    for (const int each : {one, other}) BOOST_TEST((each > 800 && each < 1200));
}

BOOST_FIXTURE_TEST_CASE(datagrams_with_a_source_route_are_dropped, stack_world) { // RFC 1122 3.2.1.8, RFC 7126 4.3, 4.4
    reactor::scope here(loop_);
    std::array<std::byte, 16> ping{};
    ping[0] = std::byte{8};
    store_be16(ping.data() + 2, wire::internet_checksum(ping));
    std::array<std::byte, 8> option{}; // one hop, which is over: for us, were it not for the option
    option[1] = std::byte{7};
    option[2] = std::byte{8};
    for (int i = 0; i < 20; ++i) turn(); // the announcements of a start
    const auto before = client_.device().statistics().received_packets;
    for (const auto type : {wire::ipv4_option_type::loose_source_route, wire::ipv4_option_type::strict_source_route}) {
        option[0] = static_cast<std::byte>(type);
        inject(*this, ping, second, option);
    }
    for (int i = 0; i < 20; ++i) turn();
    BOOST_TEST(client_.device().statistics().received_packets == before);
    BOOST_TEST(server_.statistics().source_routed == 2u);
    option[0] = static_cast<std::byte>(wire::ipv4_option_type::record_route); // another option does no harm
    inject(*this, ping, second, option);
    for (int i = 0; i < 20; ++i) turn();
    BOOST_TEST(client_.device().statistics().received_packets > before);
}

BOOST_FIXTURE_TEST_CASE(nobody_is_told_that_pieces_of_a_broadcast_were_late, stack_world) { // RFC 1122 3.2.2
    reactor::scope here(loop_);
    const auto told_after = [this](ipv4 to, mac_address mac) {
        const std::uint64_t before = server_.icmp().statistics().errors_sent;
        inject_piece(*this, to, mac);
        clock.advance(std::chrono::seconds{31});
        for (int i = 0; i < 20; ++i) loop_.poll_once();
        BOOST_TEST(server_.fragments().size() == 0u);
        return server_.icmp().statistics().errors_sent - before;
    };
    BOOST_TEST(told_after(first, server_.device().mac()) == 1u);
    BOOST_TEST(told_after(ipv4(10, 0, 0, 255), mac_address::broadcast()) == 0u);
    BOOST_TEST(told_after(ipv4(10, 0, 0, 255), server_.device().mac()) == 0u);
    BOOST_TEST(told_after(ipv4(255, 255, 255, 255), mac_address::broadcast()) == 0u);
    BOOST_TEST(server_.fragments().statistics().timed_out == 4u);
}

BOOST_AUTO_TEST_CASE(a_protocol_that_nobody_speaks_is_told) { // RFC 1122 3.2.2.1: destination unreachable, code 2
    datagram_link w({datagram_link::peer4});
    const auto nobodys = static_cast<wire::ip_protocol>(200);
    const ipv6_link::bytes payload(8, std::byte{'p'});
    w.frames();
    w.send4(payload, w.peer4, w.us4, nobodys);
    const auto told = w.frames();
    BOOST_REQUIRE(told.size() == 1u);
    wire::ipv4_view ip, quoted;
    wire::icmp_view error;
    BOOST_REQUIRE((wire::ipv4_view::parse(byte_span(told[0]).subspan(14), ip) == wire::parse_error::none));
    BOOST_TEST((ip.protocol() == wire::ip_protocol::icmp && ip.source() == w.us4 && ip.destination() == w.peer4));
    BOOST_REQUIRE((wire::icmp_view::parse(ip.payload(), error) == wire::parse_error::none));
    BOOST_TEST((error.checksum_ok() && error.type() == wire::icmp_type::unreachable && error.code() == 2));
    BOOST_REQUIRE((wire::ipv4_view::parse_quoted(error.payload(), quoted) == wire::parse_error::none));
    BOOST_TEST((quoted.protocol() == nobodys && std::ranges::equal(quoted.payload(), payload)));
    BOOST_TEST(w.stack->statistics().unknown_protocol == 1u);
    w.send4(payload, w.peer4, ipv4(10, 0, 0, 255), nobodys); // not of what went to many (3.2.2)
    BOOST_TEST(w.frames().empty());
    BOOST_TEST(w.stack->statistics().unknown_protocol == 2u);
}

BOOST_FIXTURE_TEST_CASE(one_hosts_datagram_in_a_frame_for_all_is_dropped, stack_world) { // RFC 1122 3.3.6
    reactor::scope here(loop_);
    loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(&server_);
    udp_socket s = udp_socket::bind({ipv4::any(), 7});
    const auto heard_after = [this](ipv4 to, mac_address mac) {
        const std::uint64_t before = server_.udp().demux().statistics().delivered;
        inject_piece(*this, to, mac, false);
        return server_.udp().demux().statistics().delivered - before;
    };
    const std::uint64_t dropped = server_.statistics().not_for_us;
    BOOST_TEST(heard_after(first, server_.device().mac()) == 1u);
    BOOST_TEST(heard_after(ipv4(10, 0, 0, 255), mac_address::broadcast()) == 1u);
    BOOST_TEST(server_.statistics().not_for_us == dropped);
    BOOST_TEST(heard_after(first, mac_address::broadcast()) == 0u);
    BOOST_TEST(server_.statistics().not_for_us == dropped + 1);
}

BOOST_AUTO_TEST_SUITE_END()
