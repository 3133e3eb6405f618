// The socket API over IPv6: the suite that IPv4 passes, on a virtual clock; and both families at one socket.
#include "stack_world_over_ipv6.hh"

#include <tests/support/ipv6_only_cases.hh>

using namespace corewire;

namespace {

stack_config with_ipv6() {
    stack_config config;
    config.ipv6.emplace().duplicate_probes = 0;
    return config;
}

struct ipv6_world : stack_world_over_ipv6 {
    explicit ipv6_world(bool vouch = false) : stack_world_over_ipv6({.vouch_for_checksums = vouch}, with_ipv6()) {}
};

using namespace socket_suite;

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, ipv6_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

namespace {

task<> serve_both_families(stack_world& w) {
    w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
    tcp_listener listener = tcp_listener::bind({ipv6::any(), 7});
    BOOST_TEST(listener.local_address().to_string() == "[::]:7");
    BOOST_CHECK_THROW(tcp_listener::bind({ipv4::any(), 7}), std::system_error);
    BOOST_CHECK_THROW(tcp_listener::bind({ipv6::any(), 7}), std::system_error);
    const net_address addresses[] = {net_address(w.first), net_address(w.six(w.first))};
    for (const net_address& to : addresses) {
        tcp_stream client = co_await dial(w, {to, 7});
        tcp_stream server = co_await listener.accept();
        BOOST_TEST(server.local_address().to_string() == socket_address(to, 7).to_string());
        BOOST_TEST(server.peer_address().is_v4() == to.is_v4());
        co_await client.write(std::string_view{"hello"});
        buffer heard = co_await server.read();
        BOOST_TEST(heard.text() == "hello");
        BOOST_TEST(client.info().path_mtu == 1500u);
        BOOST_TEST(client.info().announced_segment == (to.is_v4() ? 1460u : 1440u));
    }
}

task<> hear_both_families(stack_world& w) {
    w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
    udp_socket server = udp_socket::bind({ipv6::any(), 7});
    w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.client());
    const net_address addresses[] = {net_address(w.first), net_address(w.six(w.first))};
    for (const net_address& to : addresses) {
        udp_socket client = udp_socket::connect({to, 7});
        const std::string_view text = "hello";
        co_await client.send(std::as_bytes(std::span{text}));
        datagram d = co_await server.receive_from();
        BOOST_TEST(d.from.is_v4() == to.is_v4());
        co_await server.send_to(std::move(d.data), d.from);
        datagram back = co_await client.receive_from();
        BOOST_TEST(back.data.text() == text);
    }
    udp_socket four = udp_socket::bind({ipv4::any(), 0});
    const socket_address six(w.six(w.first), 7);
    const std::errc why = co_await error_of([&] { return four.send_to(byte_span{}, six); });
    BOOST_TEST(why == std::errc::address_family_not_supported);
}

task<> use_link_local_addresses(stack_world& w) {
    w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
    const ipv6 ours = wire::link_local_address(w.server().device().mac());
    tcp_listener listener = tcp_listener::bind({ours, 7});
    tcp_stream client = co_await dial(w, {ours, 7});
    tcp_stream server = co_await listener.accept();
    BOOST_TEST(server.peer_address().to_string() ==
               socket_address(wire::link_local_address(w.client().device().mac()), server.peer_address().port).to_string());
    const std::errc other = co_await error_of([&] { return dial(w, {w.six(w.first), 7}); });
    BOOST_TEST(other == std::errc::connection_refused); // it listens at one address
    const std::errc off_link = co_await error_of([&] { return dial(w, {*ipv6::parse("2001:db8:9::1"), 7}); });
    BOOST_TEST(off_link == std::errc::network_unreachable);
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_listener_at_any_address_serves_both_families, ipv6_world) { run(serve_both_families(*this)); }
BOOST_FIXTURE_TEST_CASE(a_datagram_socket_at_any_address_hears_both_families, ipv6_world) { run(hear_both_families(*this)); }
BOOST_FIXTURE_TEST_CASE(a_listener_for_ipv6_leaves_ipv4_to_another, ipv6_world) {
    run(ipv6_only_cases::a_listener_for_ipv6_leaves_ipv4_to_another(*this, first, six(first)));
}
BOOST_FIXTURE_TEST_CASE(a_datagram_socket_for_ipv6_leaves_ipv4_to_another, ipv6_world) {
    run(ipv6_only_cases::a_datagram_socket_for_ipv6_leaves_ipv4_to_another(*this, first, six(first)));
}
BOOST_FIXTURE_TEST_CASE(link_local_addresses_are_used_among_themselves, ipv6_world) { run(use_link_local_addresses(*this)); }

BOOST_AUTO_TEST_SUITE_END()
