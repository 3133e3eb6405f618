// Datagram sockets.
#include <tests/support/socket_suite.hh>

#include <vector>

namespace corewire::socket_suite {

task<> datagrams_echo(world& w) {
    udp_socket server = bind_udp_server(w);
    udp_socket client = bind_udp_client(w);
    const socket_address to = at_server(w, server.local_address().port);
    for (int i = 0; i < 1000; ++i) {
        const std::string text(static_cast<std::size_t>(i), 'd');
        co_await client.send_to(std::as_bytes(std::span{text}), to);
        datagram question = co_await server.receive_from();
        BOOST_REQUIRE_EQUAL(question.data.size(), text.size());
        BOOST_REQUIRE_EQUAL(question.from.port, client.local_address().port);
        co_await server.send_to(std::move(question.data), question.from);
        datagram answer = co_await client.receive_from();
        BOOST_REQUIRE(answer.data.text() == text);
        BOOST_REQUIRE(answer.from == to);
    }
}

task<> a_datagram_to_a_closed_port_is_refused(world& w) {
    std::uint16_t port = 0;
    {
        udp_socket server = bind_udp_server(w);
        port = server.local_address().port;
    }
    co_await some_turns();
    {
        udp_socket unused = bind_udp_client(w); // makes the client's provider the current one
    }
    udp_socket client = udp_socket::connect(at_server(w, port));
    const std::string_view text = "anybody?";
    co_await client.send(std::as_bytes(std::span{text}));
    const std::errc why = co_await error_of([&] { return client.receive_from(soon(std::chrono::seconds{10})); });
    BOOST_TEST(why == std::errc::connection_refused);
}

task<> a_connected_socket_hears_its_peer_only(world& w) {
    udp_socket server = bind_udp_server(w);
    udp_socket stranger = bind_udp_server(w);
    {
        udp_socket unused = bind_udp_client(w);
    }
    udp_socket client = udp_socket::connect(at_server(w, server.local_address().port));
    const std::string_view text = "hello";
    co_await client.send(std::as_bytes(std::span{text}));
    datagram hello = co_await server.receive_from();
    const std::string_view wrong = "from a stranger";
    co_await stranger.send_to(std::as_bytes(std::span{wrong}), hello.from);
    co_await server.send_to(std::move(hello.data), hello.from);
    datagram heard = co_await client.receive_from();
    BOOST_TEST(heard.data.text() == "hello");
    const std::errc more = co_await error_of([&] { return client.receive_from(soon()); });
    BOOST_TEST(more == std::errc::timed_out);
}

task<> datagram_errors_are_told(world& w) {
    udp_socket client = bind_udp_client(w);
    const std::vector<std::byte> large(65536);
    const std::errc too_large = co_await error_of([&] { return client.send_to(byte_span{large}, at_server(w, 9)); });
    BOOST_TEST(too_large == std::errc::message_size);
    const std::errc no_peer = co_await error_of([&] { return client.send(byte_span{large}.first(10)); });
    BOOST_TEST(no_peer == std::errc::destination_address_required);
}

task<> cancelled_and_expired_receives_leave(world& w) {
    udp_socket server = bind_udp_server(w);
    udp_socket client = bind_udp_client(w);
    const std::errc expired = co_await error_of([&] { return server.receive_from(soon()); });
    BOOST_TEST(expired == std::errc::timed_out);
    stop_source stop;
    std::optional<std::errc> cancelled;
    task_group waiting{"waiting"};
    waiting.spawn(note_error(cancelled, [&] { return server.receive_from({.stop = stop.token()}); }));
    co_await some_turns();
    stop.request_stop();
    co_await waiting.join();
    BOOST_TEST(cancelled == std::errc::operation_canceled);
    const std::string_view text = "still here";
    co_await client.send_to(std::as_bytes(std::span{text}), at_server(w, server.local_address().port));
    datagram heard = co_await server.receive_from();
    BOOST_TEST(heard.data.text() == text);
}

task<> closing_a_datagram_socket_cancels_receive(world& w) {
    udp_socket server = bind_udp_server(w);
    std::optional<std::errc> outcome;
    task_group waiting{"waiting"};
    waiting.spawn(note_error(outcome, [&] { return server.receive_from(); }));
    co_await some_turns();
    server.close();
    co_await waiting.join();
    BOOST_TEST(outcome == std::errc::operation_canceled);
}

} // namespace corewire::socket_suite
