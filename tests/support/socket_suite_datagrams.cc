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
    udp_socket server = bind_udp_server(w);
    {
        udp_socket unused = bind_udp_client(w); // makes the client's provider the current one
    }
    udp_socket client = udp_socket::connect(at_server(w, server.local_address().port)); // before the port is free: it must not get that one
    server = udp_socket{};
    co_await some_turns();
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
    const std::errc no_port = co_await error_of([&] { return client.send_to(byte_span{large}.first(10), at_server(w, 0)); });
    BOOST_TEST(no_port == std::errc::invalid_argument);
    const auto connects_to_nobody = [](world& in) -> task<> {
        static_cast<void>(udp_socket::connect(at_server(in, 0)));
        co_return;
    };
    const std::errc nobody = co_await error_of([&] { return connects_to_nobody(w); });
    BOOST_TEST(nobody == std::errc::invalid_argument);
}

task<> whole_datagrams_arrive_and_the_paths_mtu_is_told(world& w) {
    udp_socket server = bind_udp_server(w);
    udp_socket of_nobody = bind_udp_client(w); // makes the client's provider the current one
    udp_socket client = udp_socket::connect(at_server(w, server.local_address().port));
    const std::vector<std::byte> bytes(900); // InfiniBand's packets may have 1,024
    for (const datagram_size how : {datagram_size::refuse, datagram_size::probe, datagram_size::cut}) {
        client.set_datagram_size(how);
        co_await client.send(byte_span{bytes});
        datagram heard = co_await server.receive_from();
        BOOST_TEST(heard.data.size() == bytes.size());
        BOOST_TEST(client.path_mtu() >= bytes.size() + 28);
    }
    BOOST_CHECK_EXCEPTION(static_cast<void>(of_nobody.path_mtu()), std::system_error,
                          [](const std::system_error& e) { return e.code() == std::errc::not_connected; });
}

task<> a_datagram_says_where_it_was_sent_to_and_is_answered_from_there(world& w) {
    const bool four = w.server_address().is_v4();
    const net_address any = four ? net_address(ipv4::any()) : net_address(ipv6::any());
    w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
    udp_socket server = udp_socket::bind({any, 0});
    udp_socket client = bind_udp_client(w);
    const socket_address to = at_server(w, server.local_address().port);
    const std::string_view text = "where am I?";
    const byte_span bytes = std::as_bytes(std::span{text});
    co_await client.send_to(bytes, to);
    datagram question = co_await server.receive_from();
    BOOST_TEST(question.to == w.server_address());
    const net_address group = four ? net_address(ipv4(239, 77, 1, 9)) : net_address(*ipv6::parse("ff02::4321"));
    const datagram_options ways[] = {{.from = question.to},
                                     {.from = question.to, .hops = 1, .traffic_class = 0xb8},
                                     {.hops = 255, .traffic_class = 255},
                                     {.from = group}};
    for (const datagram_options& how : ways) {
        co_await server.send_to(bytes, question.from, how);
        datagram answer = co_await client.receive_from();
        BOOST_TEST(answer.data.text() == text);
        BOOST_REQUIRE(answer.from == to);
    }
    datagram_options how{.from = four ? net_address(ipv4(203, 0, 113, 9)) : net_address(*ipv6::parse("2001:db8:9::9"))};
    const std::errc not_ours = co_await error_of([&] { return server.send_to(bytes, question.from, how); });
    BOOST_TEST(not_ours == std::errc::address_not_available);
    how.from = four ? net_address(ipv6::loopback()) : net_address(ipv4::loopback());
    const std::errc other_family = co_await error_of([&] { return server.send_to(bytes, question.from, how); });
    BOOST_TEST(other_family == std::errc::address_family_not_supported);
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

namespace {

const ipv4 feed(239, 77, 1, 2), other_feed(239, 77, 1, 3);

/// A host's socket at any address, and any port.
udp_socket bind_anywhere(world& w, socket_provider& host) {
    w.loop().attached(reactor::attachment::network) = &host;
    return udp_socket::bind({ipv4::any(), 0});
}

} // namespace

task<> a_member_of_a_group_hears_it_until_it_leaves(world& w) {
    udp_socket member = bind_anywhere(w, w.server());
    udp_socket sender = bind_anywhere(w, w.client());
    const multicast_options on{.on = w.client_address()};
    sender.set_multicast(on);
    const socket_address to(feed, member.local_address().port), to_other(other_feed, member.local_address().port);
    const std::string_view early = "early", other = "other", heard = "heard", late = "late";
    co_await sender.send_to(std::as_bytes(std::span{early}), to);
    const std::errc before = co_await error_of([&] { return member.receive_from(soon()); });
    BOOST_TEST(before == std::errc::timed_out);
    member.join(feed, w.server_address());
    co_await sender.send_to(std::as_bytes(std::span{other}), to_other);
    co_await sender.send_to(std::as_bytes(std::span{heard}), to);
    datagram d = co_await member.receive_from(soon(std::chrono::seconds{10}));
    BOOST_TEST(d.data.text() == heard);
    BOOST_TEST(d.from.port == sender.local_address().port);
    member.leave(feed, w.server_address());
    co_await sender.send_to(std::as_bytes(std::span{late}), to);
    const std::errc after = co_await error_of([&] { return member.receive_from(soon()); });
    BOOST_TEST(after == std::errc::timed_out);
}

task<> datagrams_to_a_group_loop_back_unless_told_not_to(world& w) {
    udp_socket both = bind_anywhere(w, w.client());
    both.join(feed, w.client_address());
    const socket_address to(feed, both.local_address().port);
    const std::string_view first = "first", second = "second", third = "third";
    multicast_options how{.on = w.client_address()};
    both.set_multicast(how);
    co_await both.send_to(std::as_bytes(std::span{first}), to);
    datagram d = co_await both.receive_from(soon(std::chrono::seconds{10}));
    BOOST_TEST(d.data.text() == first);
    how.loopback = false;
    both.set_multicast(how);
    co_await both.send_to(std::as_bytes(std::span{second}), to);
    // What the kernel sends over `lo` has left, and comes in again.
    if (w.client_address() == net_address(ipv4::loopback())) d = co_await both.receive_from(soon(std::chrono::seconds{10}));
    how = {.hops = 0, .on = w.client_address()}; // to nobody but us
    both.set_multicast(how);
    co_await both.send_to(std::as_bytes(std::span{third}), to);
    d = co_await both.receive_from(soon(std::chrono::seconds{10}));
    BOOST_TEST(d.data.text() == third);
}

task<> memberships_are_checked_and_bounded(world& w) {
    udp_socket member = bind_anywhere(w, w.server());
    const net_address on = w.server_address();
    const auto why = [](auto&& call) {
        try {
            call();
        } catch (const std::system_error& error) {
            return static_cast<std::errc>(error.code().value());
        }
        return std::errc{};
    };
    BOOST_TEST((why([&] { member.join(ipv4(192, 0, 2, 1), on); }) == std::errc::invalid_argument));
    BOOST_TEST((why([&] { member.join(*ipv6::parse("ff02::4321"), on); }) == std::errc::address_family_not_supported));
    BOOST_TEST((why([&] { member.join(feed, ipv4(203, 0, 113, 9)); }) == std::errc::address_not_available));
    BOOST_TEST((why([&] { member.leave(feed, on); }) == std::errc::address_not_available));
    for (std::uint8_t i = 0; i < 20; ++i) member.join(ipv4(239, 77, 2, i), on);
    BOOST_TEST((why([&] { member.join(ipv4(239, 77, 2, 7), on); }) == std::errc::address_in_use));
    BOOST_TEST((why([&] { member.join(feed, on); }) == std::errc::no_buffer_space));
    member.leave(ipv4(239, 77, 2, 7), on);
    member.join(feed, on);
    member.close();
    BOOST_TEST((why([&] { member.join(feed, on); }) == std::errc::bad_file_descriptor));
    co_return;
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
