// Sockets at `::` for IPv6 alone, for the tests of both providers (RFC 3493 5.3). `four`, `six`: where the client reaches the server.
#pragma once

#include <tests/support/socket_suite.hh>

#include <string_view>

namespace corewire::ipv6_only_cases {

using namespace socket_suite;

inline bool is_refused(const std::system_error& e) { return e.code() == std::errc::invalid_argument; }

inline task<> a_listener_for_ipv6_leaves_ipv4_to_another(world& w, net_address four, net_address six) {
    use(w, w.server());
    tcp_listener of_six = tcp_listener::bind({ipv6::any(), 0}, {.ipv6_only = true});
    const std::uint16_t port = of_six.local_address().port;
    const std::errc alone = co_await error_of([&] { return dial(w, {four, port}); });
    BOOST_TEST(alone == std::errc::connection_refused);
    use(w, w.server());
    tcp_listener of_four = tcp_listener::bind({ipv4::any(), port});
    for (const bool is_four : {true, false}) {
        tcp_listener& listener = is_four ? of_four : of_six;
        tcp_stream client = co_await dial(w, {is_four ? four : six, port});
        tcp_stream server = co_await listener.accept(soon(std::chrono::seconds{10}));
        BOOST_TEST(server.peer_address().is_v4() == is_four);
    }
    BOOST_CHECK_EXCEPTION(tcp_listener::bind({ipv4::any(), 0}, {.ipv6_only = true}), std::system_error, is_refused);
}

inline task<> a_datagram_socket_for_ipv6_leaves_ipv4_to_another(world& w, net_address four, net_address six) {
    use(w, w.server());
    udp_socket of_six = udp_socket::bind({ipv6::any(), 0}, {.ipv6_only = true});
    const std::uint16_t port = of_six.local_address().port;
    udp_socket of_four = udp_socket::bind({ipv4::any(), port});
    const std::string_view text = "to whom?";
    const byte_span bytes = std::as_bytes(std::span{text});
    for (const bool is_four : {true, false}) {
        use(w, w.client());
        udp_socket client = udp_socket::connect({is_four ? four : six, port});
        co_await client.send(bytes);
        udp_socket& server = is_four ? of_four : of_six;
        datagram heard = co_await server.receive_from(soon(std::chrono::seconds{10}));
        BOOST_TEST(heard.data.text() == text);
        BOOST_TEST(heard.from.is_v4() == is_four);
        const socket_address to_four(four, heard.from.port);
        if (is_four) continue;
        co_await of_six.send_to(std::move(heard.data), heard.from);
        const std::errc other = co_await error_of([&] { return of_six.send_to(bytes, to_four); });
        BOOST_TEST(other == std::errc::address_family_not_supported);
    }
    of_four = udp_socket{};
    co_await some_turns();
    use(w, w.client());
    udp_socket client = udp_socket::connect({four, port});
    co_await client.send(bytes);
    const std::errc nobody = co_await error_of([&] { return client.receive_from(soon(std::chrono::seconds{10})); });
    BOOST_TEST(nobody == std::errc::connection_refused);
    BOOST_CHECK_EXCEPTION(udp_socket::bind({ipv4::any(), 0}, {.ipv6_only = true}), std::system_error, is_refused);
    BOOST_CHECK_EXCEPTION(udp_socket::connect({four, port}, {.ipv6_only = true}), std::system_error, is_refused);
}

} // namespace corewire::ipv6_only_cases
