// A stack on an address that is the host's too: who is asked for ports, flows and neighbours, and that ARP is never said.
#include "shared_world.hh"

#include <array>
#include <set>
#include <vector>

using namespace shared_test;

namespace {

stack_config with_ipv6() {
    stack_config config;
    config.ipv6.emplace();
    return config;
}

/// The same over IPv6: both have an address of each family, and the host's route to their network.
class shared_ipv6_world : public shared_world {
public:
    shared_ipv6_world() : shared_world(with_ipv6()) {
        const std::vector<ipv6_route> link{{ipv6_prefix(*ipv6::parse("2001:db8::"), 64), ipv6::any()}};
        for (network_stack* each : {&server_, &client_}) each->follow_routes({}, link);
        introduce();
    }
    net_address server_address() override { return six(first); }
    net_address client_address() override { return six(second); }
    network_stack& client_stack() { return client_; }
};

/// The client asks the host who the server is, waits for the answer, and gets through.
task<> connect_to_an_unknown_neighbor(shared_world& w) {
    tcp_listener listener = socket_suite::listen(w, 7);
    task_group calls{"call"};
    calls.spawn([](shared_world& here, socket_address to) -> task<> {
        tcp_stream stream = co_await socket_suite::dial(here, to);
        co_await stream.write(std::string_view{"found"});
    }(w, listener.local_address()));
    while (w.of_client().asked.empty()) co_await yield();
    BOOST_TEST((w.of_client().asked.front() == w.server_address()));
    w.introduce(); // the host has found out
    tcp_stream peer = co_await listener.accept();
    buffer data = co_await peer.read();
    BOOST_TEST(data.text() == "found");
    co_await calls.join();
}

} // namespace

BOOST_AUTO_TEST_SUITE(shared_mode)

BOOST_FIXTURE_TEST_CASE(a_port_is_claimed_until_its_last_connection_has_closed, shared_world) {
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        BOOST_TEST(w.of_server().claims(over_tcp, 7) == 1);
        tcp_stream client = co_await socket_suite::dial(w, listener.local_address());
        tcp_stream server = co_await listener.accept();
        BOOST_TEST(w.of_server().claims(over_tcp, 7) == 2);
        BOOST_TEST(w.of_client().flows == 1);
        BOOST_TEST(w.of_client().ports.empty());
        listener.close();
        BOOST_TEST(w.of_server().claims(over_tcp, 7) == 1); // what still comes to the connection is ours
        co_await client.write(std::string_view{"still ours"});
        buffer data = co_await server.read();
        BOOST_TEST(data.text() == "still ours");
    }(*this));
    BOOST_TEST(of_server().claims(over_tcp, 7) == 0); // after settle(): TIME-WAIT is over too
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(a_port_that_the_host_has_given_away_is_refused, shared_world) {
    of_server().forbidden = 80;
    run([](shared_world& w) -> task<> {
        const auto bind = [&] { static_cast<void>(socket_suite::listen(w, 80)); };
        for (int i = 0; i < 2; ++i)
            BOOST_CHECK_EXCEPTION(bind(), std::system_error, [](const auto& e) { return e.code() == std::errc::address_in_use; });
        w.of_server().forbidden = 0;
        BOOST_CHECK_NO_THROW(bind());
        w.of_client().forbidden = 81;
        static_cast<void>(socket_suite::bind_udp_client(w)); // makes the client's provider the current one
        BOOST_CHECK_THROW(static_cast<void>(udp_socket::bind({ipv4::any(), 81})), std::system_error);
        w.of_client().forbidden = 0;
        BOOST_CHECK_NO_THROW(static_cast<void>(udp_socket::bind({ipv4::any(), 81})));
        co_return;
    }(*this));
    BOOST_TEST(of_server().claims(over_tcp, 80) == 0);
    BOOST_TEST(of_client().claims(over_udp, 81) == 0);
}

BOOST_FIXTURE_TEST_CASE(a_flow_that_finds_no_room_is_refused, shared_world) {
    of_client().room_for_flows = 0;
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        const std::errc why = co_await socket_suite::error_of([&] { return socket_suite::dial(w, listener.local_address()); });
        BOOST_TEST(why == std::errc::no_buffer_space);
    }(*this));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(a_refused_flow_says_why, shared_world) {
    of_client().room_for_flows = 0;
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        for (const auto& [error, why] : {std::pair{ENOBUFS, "table is full"}, {EMFILE, "ulimit -n"}, {ENODEV, "device has gone"},
                                         {EPERM, "CAP_NET_RAW"}}) {
            w.of_client().refusal = error;
            std::error_code code;
            std::string sentence;
            try {
                tcp_stream never = co_await socket_suite::dial(w, listener.local_address());
            } catch (const std::system_error& e) {
                code = e.code();
                sentence = e.what();
            }
            BOOST_TEST(code.value() == error);
            BOOST_TEST(sentence.find(why) != std::string::npos, sentence);
        }
    }(*this));
}

BOOST_FIXTURE_TEST_CASE(nothing_is_sent_before_a_slow_claim_is_granted, shared_world) {
    of_client().slow = true;
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        auto& layer = static_cast<network_stack&>(w.client()).tcp();
        const std::uint64_t before = w.server().device().statistics().received_packets;
        task_group calls{"call"};
        std::errc outcome{};
        const auto call = [](shared_world& here, socket_address to, std::errc& became) -> task<> {
            became = co_await socket_suite::error_of([&] { return socket_suite::dial(here, to); });
        };
        calls.spawn(call(w, listener.local_address(), outcome));
        co_await sleep_for(std::chrono::seconds{2}); // its timer is not armed either
        BOOST_TEST(w.server().device().statistics().received_packets == before);
        BOOST_TEST(calls.size() == 1u);
        layer.follow_claim(w.of_client().last_flow, 0);
        tcp_stream peer = co_await listener.accept();
        co_await calls.join();
        BOOST_TEST((outcome == std::errc{}));
        // A refusal that comes late is the connection's error; nobody ever heard of it.
        const std::uint64_t heard = w.server().device().statistics().received_packets;
        calls.spawn(call(w, listener.local_address(), outcome));
        co_await yield();
        layer.follow_claim(w.of_client().last_flow, ENODEV);
        --w.of_client().flows;
        co_await calls.join();
        BOOST_TEST((outcome == std::errc::no_such_device));
        // Who gives up before the answer leaves nothing behind when it comes.
        outcome = co_await socket_suite::error_of(
            [&] { return socket_suite::dial(w, listener.local_address(), socket_suite::soon(std::chrono::milliseconds{5})); });
        BOOST_TEST((outcome == std::errc::timed_out));
        layer.follow_claim(w.of_client().last_flow, 0);
        co_await sleep_for(std::chrono::milliseconds{5});
        layer.follow_claim(w.of_client().last_flow, 0); // nobody's any more
        BOOST_TEST(w.server().device().statistics().received_packets >= heard);
    }(*this));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(a_port_that_is_found_late_to_be_anothers_is_passed_over, shared_world) {
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7, {.fast_open = 4});
        {
            const tcp_options_set fast{.fast_open = true}; // it brings the cookie, with which a SYN waits for the first write
            tcp_stream learns = co_await socket_suite::dial(w, listener.local_address(), {}, fast);
            tcp_stream answered = co_await listener.accept();
        }
        w.of_client().slow = true;
        auto& layer = static_cast<network_stack&>(w.client()).tcp();
        const auto call = [](shared_world& here, socket_address to, socket_address from, tcp_options_set how, std::errc& became) -> task<> {
            static_cast<void>(socket_suite::bind_udp_client(here)); // makes the client's provider the current one
            became = co_await socket_suite::error_of([&] { return tcp_stream::connect(to, how, {}, from); });
        };
        std::vector<std::uint16_t>& tried = w.of_client().tried;
        const auto refuse = [&] {
            layer.follow_claim(w.of_client().last_flow, EADDRINUSE);
            --w.of_client().flows;
        };
        for (const bool fast_open : {false, true}) {
            tcp_options_set how;
            how.fast_open = fast_open;
            task_group calls{"call"};
            std::errc outcome = std::errc::io_error;
            tried.clear();
            calls.spawn(call(w, listener.local_address(), {ipv4::any(), 0}, how, outcome));
            for (unsigned refused = 1; refused <= 3; ++refused) {
                while (tried.size() < refused) co_await yield();
                refuse();
            }
            while (tried.size() < 4) co_await yield();
            BOOST_TEST((std::set<std::uint16_t>(tried.begin(), tried.end()).size() == 4u));
            layer.follow_claim(w.of_client().last_flow, 0);
            co_await calls.join();
            BOOST_TEST((outcome == std::errc{}));
        }
        // Not without end; and who asks for a port gets that one, or none.
        for (const std::uint16_t port : {0, 40'000}) {
            task_group calls{"call"};
            std::errc outcome{};
            tried.clear();
            calls.spawn(call(w, listener.local_address(), {w.client_address(), port}, {}, outcome));
            const unsigned most = port == 0 ? 17 : 1;
            for (unsigned refused = 1; refused <= most; ++refused) {
                while (tried.size() < refused) co_await yield();
                refuse();
            }
            co_await calls.join();
            BOOST_TEST(tried.size() == most);
            BOOST_TEST((outcome == (port == 0 ? std::errc::address_not_available : std::errc::address_in_use)));
        }
    }(*this));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(a_datagram_socket_claims_the_port_that_it_chose, shared_world) {
    run([](shared_world& w) -> task<> {
        udp_socket socket = socket_suite::bind_udp_client(w);
        BOOST_TEST(w.of_client().claims(over_udp, socket.local_address().port) == 1);
        socket.close();
        BOOST_TEST(w.of_client().claims(over_udp, socket.local_address().port) == 0);
        co_return;
    }(*this));
}

BOOST_FIXTURE_TEST_CASE(a_datagram_socket_whose_port_is_not_home_finds_another_that_the_host_has_not, shared_world) {
    run([](shared_world& w) -> task<> {
        auto& stack = static_cast<network_stack&>(w.client());
        for (const int refusals : {0, 3, -1}) {
            const auto socket = stack.bind_udp({ipv4::any(), 0}, {});
            const std::uint16_t strange = socket->local_address().port;
            stack.udp().set_home_predicate([strange](const flow_name& flow) { return flow.local_port != strange; });
            w.of_client().refusals = refusals;
            const std::errc why = socket->connect({w.server_address(), 9});
            w.of_client().refusals = 0;
            BOOST_TEST((why == std::errc{}));
            const std::uint16_t port = socket->local_address().port;
            BOOST_TEST((port == strange) == (refusals < 0)); // the host has all: answers are handed over
            BOOST_TEST(w.of_client().claims(over_udp, port) == 1);
            if (port != strange) BOOST_TEST(w.of_client().claims(over_udp, strange) == 0);
            socket->close();
            BOOST_TEST(w.of_client().claims(over_udp, port) == 0);
        }
        co_return;
    }(*this));
}

BOOST_FIXTURE_TEST_CASE(the_host_resolves_neighbors_and_no_arp_is_said, shared_world) {
    client_.follow_unknown_neighbor(first);
    run(connect_to_an_unknown_neighbor(*this));
    BOOST_TEST(client_.ip().neighbors().statistics().resolved >= 2u);
    BOOST_TEST(server_.statistics().unknown_protocol == 0u);
    BOOST_TEST(server_.ip().neighbors().statistics().replies_sent == 0u);
}

BOOST_FIXTURE_TEST_CASE(connections_follow_the_hosts_routes, shared_world) {
    const ipv4 stale_gateway(10, 0, 0, 50);
    const ip_prefix to_server(first, 32);
    client_.follow_neighbor(stale_gateway, mac_address(0x02'00'00'00'00'50), true); // nobody is there
    run([](shared_world& w, ipv4 gateway, ip_prefix destination) -> task<> {
        socket_suite::ends both = co_await socket_suite::connected(w);
        const std::vector<route> detour{{destination, gateway}};
        static_cast<network_stack&>(w.client()).follow_routes(detour);
        co_await both.client.write(std::string_view{"by way of nobody"});
        const std::errc silence = co_await socket_suite::error_of(
            [&] { return both.server.read(socket_suite::soon(std::chrono::milliseconds{100})); });
        BOOST_TEST(silence == std::errc::timed_out);
        static_cast<network_stack&>(w.client()).follow_routes({});
        buffer data = co_await both.server.read(socket_suite::soon(std::chrono::seconds{10}));
        BOOST_TEST(data.text() == "by way of nobody"); // sent again, straight
    }(*this, stale_gateway, to_server));
}

BOOST_FIXTURE_TEST_CASE(the_hosts_gateway_may_be_beyond_its_own_network, shared_world) {
    const ipv4 far(198, 51, 100, 1), gateway(172, 31, 1, 1);
    BOOST_TEST(server_.follow_routes(std::vector<route>{{ip_prefix(ipv4::any(), 0), gateway}}) == 1u);
    BOOST_TEST((server_.ip().routes().find(far).kind == hop_kind::unreachable));
    BOOST_TEST(server_.follow_routes(std::vector<route>{{ip_prefix(ipv4::any(), 0), gateway, true}}) == 0u);
    BOOST_TEST((server_.ip().routes().find(far) == next_hop{hop_kind::unicast, gateway}));
}

BOOST_FIXTURE_TEST_CASE(the_hosts_own_network_may_be_behind_a_gateway, shared_world) { // neighbours that are kept apart
    const ipv4 neighbor(10, 0, 0, 77), gateway(10, 0, 0, 9);
    BOOST_TEST((server_.ip().routes().find(neighbor) == next_hop{hop_kind::unicast, neighbor}));
    const std::vector<route> told{{ip_prefix(gateway, 32), ipv4::any()}, {ip_prefix(ipv4(10, 0, 0, 0), 24), gateway}};
    BOOST_TEST(server_.follow_routes(told) == 0u);
    BOOST_TEST((server_.ip().routes().find(neighbor) == next_hop{hop_kind::unicast, gateway}));
}

BOOST_FIXTURE_TEST_CASE(routes_that_say_nothing_new_change_nothing, shared_ipv6_world) {
    std::vector<route> four{{ip_prefix(ipv4::any(), 0), second}};
    std::vector<ipv6_route> six_routes{{ipv6_prefix(), six(second)}, {ipv6_prefix(six(first), 64), ipv6::any()}};
    ipv6_routes& table6 = server_.ip().six()->routes();
    server_.follow_routes(four, six_routes);
    const auto learn = [&] { // goes with other routes
        server_.ip().routes().redirects().learn(clock.now(), ipv4(198, 51, 100, 1), nobody, second);
    };
    const auto learnt = [&] { return !server_.ip().routes().redirects().empty(); };
    learn();
    std::uint32_t before = table6.generation();
    four.push_back({ip_prefix(ipv4(172, 16, 0, 0), 16), ipv4(203, 0, 113, 1)}); // left out
    BOOST_TEST(server_.follow_routes(four, six_routes) == 1u);
    BOOST_TEST((learnt() && table6.generation() == before));
    four.back().gateway = nobody;
    BOOST_TEST(server_.follow_routes(four, six_routes) == 0u);
    BOOST_TEST((!learnt() && table6.generation() == before));
    learn();
    six_routes.pop_back();
    server_.follow_routes(four, six_routes);
    BOOST_TEST((learnt() && table6.generation() != before));
}

BOOST_FIXTURE_TEST_CASE(a_table_full_of_the_hosts_routes_keeps_the_default_route, shared_world) {
    std::vector<route> many;
    for (std::uint32_t i = 0; i < route_table::max_routes; ++i)
        many.push_back({ip_prefix(ipv4(ipv4(172, 16, 0, 0).value() + i), 32), ipv4::any()});
    many.push_back({ip_prefix(ipv4::any(), 0), second});
    server_.follow_routes(many);
    BOOST_TEST((server_.ip().routes().find(ipv4(198, 51, 100, 1)) == next_hop{hop_kind::unicast, second}));
    BOOST_TEST((server_.ip().routes().find(ipv4(172, 16, 0, 1)) == next_hop{hop_kind::unicast, ipv4(172, 16, 0, 1)}));
    BOOST_TEST(server_.ip().routes().refused() == 2u); // it has the link's own besides
}

BOOST_FIXTURE_TEST_CASE(a_neighbor_that_changes_its_mac_is_followed_at_once, shared_world) {
    run([](shared_world& w) -> task<> {
        socket_suite::ends both = co_await socket_suite::connected(w);
        auto& client = static_cast<network_stack&>(w.client());
        for (int i = 0; i < 3; ++i) { // within the time in which a cache of our own would refuse a rival
            client.follow_neighbor(w.first, mac_address(0x02'00'00'00'00'51), true);
            BOOST_TEST((client.ip().neighbors().find(w.first)->mac() == mac_address(0x02'00'00'00'00'51)));
            w.introduce();
            co_await both.client.write(std::string_view{"here"});
            buffer data = co_await both.server.read(socket_suite::soon(std::chrono::seconds{10}));
            BOOST_TEST(data.text() == "here");
        }
        client.follow_permanent_neighbor(w.first, static_cast<network_stack&>(w.server()).device().mac());
        BOOST_TEST((client.ip().neighbors().find(w.first)->state() == neighbor_state::permanent));
    }(*this));
}

BOOST_FIXTURE_TEST_CASE(over_ipv6_ports_and_flows_are_claimed_of_its_address, shared_ipv6_world) {
    run([](shared_ipv6_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        BOOST_TEST(w.of_server().claims(over_tcp, 7) == 1);
        tcp_stream client = co_await socket_suite::dial(w, listener.local_address());
        tcp_stream server = co_await listener.accept();
        BOOST_TEST((w.of_server().claimed_at == std::vector<net_address>(2, w.server_address()))); // the listener's, its connection's
        BOOST_TEST((w.of_client().last_flow == flow_name(w.client_address(), w.server_address(), client.local_address().port, 7)));
        co_await client.write(std::string_view{"over six"});
        buffer data = co_await server.read();
        BOOST_TEST(data.text() == "over six");
        udp_socket socket = socket_suite::bind_udp_client(w);
        BOOST_TEST(w.of_client().claims(over_udp, socket.local_address().port) == 1);
    }(*this));
    BOOST_TEST(of_server().claims(over_tcp, 7) == 0);
    BOOST_TEST((of_server().released_at == of_server().claimed_at));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(a_port_of_both_families_that_the_host_has_given_away_is_refused_and_free_afterwards, shared_ipv6_world) {
    of_server().forbidden = 80;
    run([](shared_ipv6_world& w) -> task<> {
        w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
        BOOST_CHECK_THROW(tcp_listener::bind({ipv6::any(), 80}), std::system_error);
        w.of_server().forbidden = 0;
        for (int i = 0; i < 2; ++i) {
            tcp_listener listener = tcp_listener::bind({ipv6::any(), 80});
            BOOST_TEST(w.of_server().claimed_at.back().is_any_of_both());
            listener.close();
        }
        co_return;
    }(*this));
    BOOST_TEST(of_server().claims(over_tcp, 80) == 0);
}

BOOST_FIXTURE_TEST_CASE(sockets_for_ipv6_alone_leave_the_hosts_port_of_ipv4_alone, shared_ipv6_world) {
    run([](shared_ipv6_world& w) -> task<> {
        w.loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(&w.server());
        tcp_listener listener = tcp_listener::bind({ipv6::any(), 80}, {.ipv6_only = true});
        udp_socket socket = udp_socket::bind({ipv6::any(), 80}, {.ipv6_only = true});
        for (const net_address& at : w.of_server().claimed_at) {
            BOOST_TEST(!at.is_v4());
            BOOST_TEST(!at.is_any_of_both());
        }
        co_return;
    }(*this));
    BOOST_TEST(of_server().claimed_at.size() == 2u);
    BOOST_TEST((of_server().released_at == of_server().claimed_at));
}

BOOST_FIXTURE_TEST_CASE(over_ipv6_the_host_resolves_neighbors_and_nothing_is_said, shared_ipv6_world) {
    client_.follow_unknown_neighbor(six(first));
    run(connect_to_an_unknown_neighbor(*this));
    // Nothing but TCP has crossed the cable: no solicitation, no report of groups, no probe for an address.
    BOOST_TEST(server_.statistics().received == server_.statistics().tcp_segments_in());
    BOOST_TEST(client_.statistics().received == client_.statistics().tcp_segments_in());
    BOOST_TEST(server_.ip().six()->addresses().all().size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(over_ipv6_a_router_of_the_hosts_that_does_not_answer_is_left_for_the_next, shared_ipv6_world) {
    const ipv6 silent = *ipv6::parse("fe80::1"), other = *ipv6::parse("fe80::2"), far = *ipv6::parse("2001:db8:ffff::1");
    const std::vector<ipv6_route> routes{
        {ipv6_prefix(), silent}, {ipv6_prefix(), other}, {ipv6_prefix(*ipv6::parse("2001:db8::"), 64), ipv6::any()}};
    client_.follow_routes({}, routes);
    BOOST_TEST((client_.ip().six()->routes().find(far).address == silent));
    run([](shared_ipv6_world& w, ipv6 to) -> task<> {
        udp_socket socket = socket_suite::bind_udp_client(w);
        const std::array<std::byte, 8> question{};
        co_await socket.send_to(byte_span(question), socket_address(to, 9));
        co_await sleep_for(std::chrono::seconds{15});
    }(*this, far));
    BOOST_TEST(!of_client().asked.empty()); // and the host found nobody
    BOOST_TEST((client_.ip().six()->routes().find(far).address == other));
}

BOOST_FIXTURE_TEST_CASE(over_ipv6_connections_follow_the_hosts_routes, shared_ipv6_world) {
    const ipv6 gateway = six(ipv4(10, 0, 0, 50));
    client_.follow_neighbor(gateway, mac_address(0x02'00'00'00'00'50), true); // nobody is there
    run([](shared_ipv6_world& w, ipv6 silent) -> task<> {
        socket_suite::ends both = co_await socket_suite::connected(w);
        const ipv6_route link{ipv6_prefix(*ipv6::parse("2001:db8::"), 64), ipv6::any()};
        const std::vector<ipv6_route> detour{{ipv6_prefix(w.server_address().v6(), 128), silent}, link}, straight{link};
        w.client_stack().follow_routes({}, detour);
        co_await both.client.write(std::string_view{"by way of nobody"});
        const std::errc silence = co_await socket_suite::error_of(
            [&] { return both.server.read(socket_suite::soon(std::chrono::milliseconds{100})); });
        BOOST_TEST(silence == std::errc::timed_out);
        w.client_stack().follow_routes({}, straight);
        buffer data = co_await both.server.read(socket_suite::soon(std::chrono::seconds{10}));
        BOOST_TEST(data.text() == "by way of nobody"); // sent again, straight
    }(*this, gateway));
}

BOOST_AUTO_TEST_SUITE_END()
