// A stack without an address gets one from a DHCP server at the other end of the cable, uses it, and loses it.
#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/resolve/resolver.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/stack/dhcp_link.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/wire/arp.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/reactor/task/task_group.hh>
#include <tests/net/dhcp/scripted_server.hh>
#include <tests/support/virtual_clock.hh>

using namespace corewire;
using namespace corewire::dhcp_test;
using type = dhcp_message_type;

namespace {

struct notes : dhcp_follower {
    std::vector<std::pair<std::uint32_t, ipv4>> expected;
    std::vector<std::optional<ipv4>> leases;
    void on_expected(std::uint32_t transaction, ipv4 address) noexcept override { expected.emplace_back(transaction, address); }
    void on_lease6(const dhcp6_lease&) noexcept override {}
    void on_lease(const dhcp_lease* lease) noexcept override {
        leases.push_back(lease == nullptr ? std::nullopt : std::optional(lease->address.address()));
    }
};

struct server_end {
    explicit server_end(bool with_ipv6 = false) {
        net.connect(*nic, *end);
        stack_config config;
        config.address = ip_prefix(ipv4::any(), 32);
        config.dhcp.emplace().follower = &told;
        config.dhcp->client.start_delay = duration{0};
        config.seed = 5;
        if (with_ipv6) config.ipv6.emplace().duplicate_probes = 0;
        mac = nic->mac();
        stack = std::make_unique<network_stack>(loop, std::move(nic), config);
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
    }
    void pass(duration d) {
        const time_point until = clock.now() + d;
        while (clock.now() < until) {
            const duration step = std::min<duration>(until - clock.now(), d > 10s ? duration{1s} : duration{1ms});
            clock.advance(step);
            net.advance_to(net.now() + step);
            for (int i = 0; i < 4; ++i) loop.poll_once();
            for (packet got; end->receive({&got, 1}) != 0; got = {}) take(got);
        }
    }
    void take(const packet& got) {
        bytes f(got.head.bytes().begin(), got.head.bytes().end());
        f.insert(f.end(), got.body.bytes().begin(), got.body.bytes().end());
        frames.push_back(f);
        wire::arp_view question;
        if (load_be16(f.data() + 12) == 0x0806 && wire::arp_view::parse(byte_span(f).subspan(14), question) == wire::parse_error::none &&
            wire::arp_packet::from(question).target_ip == server_address)
            say({wire::arp_operation::reply, end->mac(), server_address, mac, stack->address()});
        wire::ipv4_view ip;
        wire::udp_view udp;
        if (load_be16(f.data() + 12) != 0x0800 || wire::ipv4_view::parse(byte_span(f).subspan(14), ip) != wire::parse_error::none) return;
        if (wire::udp_view::parse(ip.payload(), udp) != wire::parse_error::none || udp.destination_port() != 67)
            return;
        BOOST_TEST((ip.checksum_ok() && udp.has_checksum() && udp.checksum_ok(ip.source(), ip.destination())));
        BOOST_TEST(udp.source_port() == 68u);
        asked = load_be32(udp.payload().data() + 4);
        asked_from = ip.source();
        asked_to = ip.destination();
        asked_type = static_cast<type>(load_u8(udp.payload().data() + 242));
    }
    void send(const bytes& payload, ipv4 to, mac_address to_mac = mac_address::broadcast(), std::uint16_t port = 68) {
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = to_mac, .source = end->mac(), .type = wire::ether_type::ipv4}.emit({p.head.append(14), 14});
        const auto udp_size = static_cast<std::uint16_t>(8 + payload.size());
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + udp_size),
                          .protocol = wire::ip_protocol::udp,
                          .source = server_address,
                          .destination = to}
            .emit({p.head.append(20), 20});
        wire::udp_header{.source_port = 67, .destination_port = port, .length = udp_size}.emit({p.head.append(8), 8});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(payload.size())), payload.data(), payload.size());
        end->transmit({&p, 1});
        pass(3ms);
    }
    void send_tcp(std::uint16_t from, wire::tcp_flags flags, std::uint32_t seq, std::uint32_t ack) {
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = mac, .source = end->mac(), .type = wire::ether_type::ipv4}.emit({p.head.append(14), 14});
        wire::ipv4_header{.total_length = 40, .protocol = wire::ip_protocol::tcp, .source = server_address, .destination = given}.emit(
            {p.head.append(20), 20});
        std::byte* const at = p.head.append(20);
        const auto emit = [&](std::uint16_t sum) {
            wire::tcp_header{.source_port = from, .destination_port = 80, .sequence = seq, .acknowledgment = ack, .flags = flags,
                             .window = 1000, .checksum = sum}
                .emit({at, 20});
        };
        emit(0);
        emit(wire::pseudo_header_sum(server_address, given, wire::ip_protocol::tcp, 20).add({at, 20}).checksum());
        end->transmit({&p, 1});
        pass(3ms);
    }
    /// The TCP segment in a frame.
    static std::optional<wire::tcp_header> segment(const bytes& f) {
        wire::ipv4_view ip;
        wire::tcp_view tcp;
        if (load_be16(f.data() + 12) != 0x0800) return {};
        if (wire::ipv4_view::parse(byte_span(f).subspan(14), ip) != wire::parse_error::none) return {};
        if (ip.protocol() != wire::ip_protocol::tcp || wire::tcp_view::parse(ip.payload(), tcp) != wire::parse_error::none) return {};
        return wire::tcp_header::from(tcp);
    }
    void arp(const wire::arp_packet& a) {
        say(a);
        pass(3ms);
    }
    void say(const wire::arp_packet& a) {
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = mac, .source = end->mac(), .type = wire::ether_type::arp}.emit({p.head.append(14), 14});
        a.emit({p.head.append(wire::arp_packet::size), wire::arp_packet::size});
        end->transmit({&p, 1});
    }
    std::vector<option> options{address(54, server_address), address(1, ipv4(255, 255, 255, 0)), word(51, 3600), address(3, server_address),
                                half(26, 1400), address(6, ipv4(192, 0, 2, 53)), raw(15, {'e', 'x', '.', 'o', 'r', 'g'})};
    bytes answer(type what) {
        return reply(what, asked, given, what == type::nak ? std::vector{address(54, server_address)} : options, mac);
    }
    void acquire() {
        pass(3ms);
        send(answer(type::offer), ipv4::broadcast());
        send(answer(type::ack), ipv4::broadcast());
        pass(1100ms);
    }

    virtual_clock clock;
    reactor loop{{.clock = &clock}};
    sim_network net;
    std::unique_ptr<sim_port> nic = net.make_port(mac_address(2, 0, 0, 0, 0, 1)), end = net.make_port(mac_address(2, 0, 0, 0, 0, 2));
    notes told;
    std::unique_ptr<network_stack> stack;
    mac_address mac;
    reactor::scope here{loop};
    std::vector<bytes> frames;
    std::uint32_t asked = 0;
    ipv4 asked_from, asked_to;
    type asked_type = type::none;
};

struct server_end_of_both_families : server_end {
    server_end_of_both_families() : server_end(true) {}
};

/// Waits for what `call` starts, and notes how that ends.
template <typename Call>
task<> note(std::optional<std::errc>& out, Call call) {
    try {
        auto waiting = call();
        co_await waiting;
        out = std::errc{};
    } catch (const std::system_error& error) {
        out = static_cast<std::errc>(error.code().value());
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(dhcp_stack)

BOOST_FIXTURE_TEST_CASE(the_lease_becomes_the_address_the_routes_the_mtu_and_the_name_servers, server_end) {
    pass(3ms);
    BOOST_TEST((asked_type == type::discover && asked_from.is_any() && asked_to.is_broadcast()));
    BOOST_TEST(stack->address().is_any());
    send(answer(type::offer), ipv4::broadcast());
    BOOST_TEST((asked_type == type::request));
    send(answer(type::ack), given, mac); // a server may send to the address that is not ours yet
    BOOST_TEST(stack->address().is_any());
    pass(1100ms);
    BOOST_TEST((stack->address() == given));
    BOOST_TEST((stack->ip().routes().find(ipv4(8, 8, 8, 8)) == next_hop{hop_kind::unicast, server_address}));
    BOOST_TEST((stack->ip().routes().find(ipv4(192, 0, 2, 9)) == next_hop{hop_kind::unicast, ipv4(192, 0, 2, 9)}));
    BOOST_TEST(stack->ip().mtu() == 1400u);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), ipv4(8, 8, 8, 8)) == 1400u);
    BOOST_REQUIRE(stack->names().servers.size() == 1u);
    BOOST_TEST((stack->names().servers[0] == socket_address(ipv4(192, 0, 2, 53), 53)));
    BOOST_TEST((stack->names().search == std::vector<std::string>{"ex.org"}));
    BOOST_REQUIRE(told.leases.size() == 1u);
    BOOST_TEST((told.leases[0] == given));
    bool announced = false, probed = false;
    for (const bytes& f : frames) {
        wire::arp_view a;
        if (load_be16(f.data() + 12) != 0x0806 || wire::arp_view::parse(byte_span(f).subspan(14), a) != wire::parse_error::none) continue;
        const wire::arp_packet packet = wire::arp_packet::from(a);
        announced |= packet.sender_ip == given && packet.target_ip == given;
        probed |= packet.sender_ip.is_any() && packet.target_ip == given;
    }
    BOOST_TEST((probed && announced)); // RFC 5227 2.1.1, 2.3
}

BOOST_FIXTURE_TEST_CASE(a_gateway_outside_of_the_leases_own_network_is_a_neighbour_where_a_route_says_so, server_end) { // RFC 3442
    const ipv4 gateway(203, 0, 113, 1);
    options = {address(54, server_address), address(1, ipv4::broadcast()), word(51, 3600),
               raw(121, {32, 203, 0, 113, 1, 0, 0, 0, 0, 0, 203, 0, 113, 1})};
    acquire();
    BOOST_TEST((stack->ip().routes().find(ipv4(8, 8, 8, 8)) == next_hop{hop_kind::unicast, gateway}));
    udp_socket socket = udp_socket::bind({given, 500});
    std::optional<std::errc> sent;
    const bytes payload(4);
    task_group sending{"sending"};
    sending.spawn(note(sent, [&] { return socket.send_to(byte_span(payload), socket_address(ipv4(8, 8, 8, 8), 53)); }));
    pass(3ms);
    frames.clear();
    arp({wire::arp_operation::reply, end->mac(), gateway, mac, given});
    const auto to_beyond = [](const bytes& f) {
        return load_be16(f.data() + 12) == 0x0800 && ipv4::load(f.data() + 14 + 16) == ipv4(8, 8, 8, 8);
    };
    BOOST_REQUIRE((std::ranges::count_if(frames, to_beyond) == 1));
    BOOST_TEST((mac_address::load(frames.back().data()) == end->mac()));
    frames.clear();
    arp(wire::arp_packet::request(end->mac(), gateway, given));
    BOOST_REQUIRE(frames.size() == 1u);
    BOOST_TEST(load_be16(frames[0].data() + 12) == 0x0806);
}

BOOST_FIXTURE_TEST_CASE(the_router_of_a_lease_of_one_address_is_on_the_link, server_end) { // as RFC 3442's routes would have it
    const ipv4 router(203, 0, 113, 1);
    options = {address(54, server_address), address(1, ipv4::broadcast()), word(51, 3600), address(3, router)};
    acquire();
    for (const ipv4 to : {router, ipv4(8, 8, 8, 8)})
        BOOST_TEST((stack->ip().routes().find(to) == next_hop{hop_kind::unicast, router}));
    BOOST_TEST((stack->ip().routes().routes().size() == 3u)); // our own address, the router, everything else
    arp(wire::arp_packet::request(end->mac(), router, given));
    BOOST_REQUIRE(!frames.empty());
    BOOST_TEST(load_be16(frames.back().data() + 12) == 0x0806);
}

BOOST_FIXTURE_TEST_CASE(whoever_steers_frames_knows_what_to_expect_before_it_comes, server_end) {
    pass(3ms);
    BOOST_REQUIRE(!told.expected.empty());
    BOOST_TEST((told.expected.back() == std::pair(asked, ipv4::any())));
    send(answer(type::offer), ipv4::broadcast());
    send(answer(type::ack), ipv4::broadcast());
    BOOST_TEST((told.expected.back().second == given)); // while it is looked at whether somebody has it
    pass(1100ms);
    BOOST_TEST((told.expected.back().second == given));
}

BOOST_FIXTURE_TEST_CASE(an_address_that_somebody_has_is_not_taken, server_end) {
    pass(3ms);
    send(answer(type::offer), ipv4::broadcast());
    send(answer(type::ack), ipv4::broadcast());
    arp({wire::arp_operation::reply, end->mac(), given, mac, ipv4::any()});
    BOOST_TEST((asked_type == type::decline));
    pass(2s);
    BOOST_TEST(stack->address().is_any());
    BOOST_TEST(told.leases.empty());
    BOOST_TEST((told.expected.back().second.is_any()));
}

BOOST_FIXTURE_TEST_CASE(an_address_is_not_taken_before_its_questions_have_left, server_end) {
    pass(3ms);
    send(answer(type::offer), ipv4::broadcast());
    send(answer(type::ack), ipv4::broadcast());
    frame_pool& pool = stack->device().pool();
    std::vector<buffer> held;
    while (pool.free_count != 0) held.push_back(pool.allocate_buffer());
    pass(1100ms);
    BOOST_TEST(stack->address().is_any());
    held.clear();
    frames.clear();
    pass(510ms); // the second of two is asked now
    BOOST_TEST(frames.size() == 1u);
    BOOST_TEST(stack->address().is_any());
    pass(500ms);
    BOOST_TEST((stack->address() == given));
}

BOOST_FIXTURE_TEST_CASE(nothing_else_is_heard_without_an_address, server_end) {
    pass(3ms);
    const std::uint64_t before = stack->statistics().not_for_us;
    const std::size_t said = frames.size();
    send(bytes(40), ipv4::broadcast(), mac_address::broadcast(), 69);
    send(bytes(40), given, mac, 7);
    BOOST_TEST(stack->statistics().not_for_us == before + 2);
    BOOST_TEST(frames.size() == said);
}

BOOST_FIXTURE_TEST_CASE(a_renewal_is_unicast_and_its_answer_comes_through, server_end) {
    acquire();
    pass(1850s);
    BOOST_TEST((asked_type == type::request && asked_from == given && asked_to == server_address));
    send(answer(type::ack), given, mac);
    BOOST_TEST(stack->dhcp()->client().statistics().renewals == 1u);
    BOOST_TEST(told.leases.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(who_used_an_address_that_is_gone_hears_of_it, server_end) {
    acquire();
    std::optional<std::errc> connected, in_vain, patient, sent;
    udp_socket at_it = udp_socket::bind({given, 500}), anywhere = udp_socket::bind({ipv4::any(), 501});
    const bytes payload(4);
    stop_source stop;
    task_group waiting{"waiting"};
    const socket_address server(server_address, 80);
    waiting.spawn(note(connected, [&] { return tcp_stream::connect(server); }));
    waiting.spawn(note(in_vain, [&] { return at_it.receive_from(); }));
    waiting.spawn(note(patient, [&] { return anywhere.receive_from({.stop = stop.token()}); }));
    pass(5ms);
    stack->follow_lease(nullptr);
    pass(5ms);
    BOOST_TEST(stack->address().is_any());
    BOOST_TEST((connected == std::errc::connection_aborted));
    BOOST_TEST((in_vain == std::errc::network_down));
    BOOST_TEST(!patient.has_value()); // another address may come
    BOOST_TEST(!stack->ip().reachable(ipv4(8, 8, 8, 8)));
    BOOST_TEST(stack->ip().mtu() == 1500u);
    BOOST_TEST(stack->names().servers.empty());
    BOOST_TEST(stack->tcp().connections() == 0u);
    waiting.spawn(note(sent, [&] { return at_it.send_to(byte_span(payload), socket_address(ipv4(192, 0, 2, 9), 9)); }));
    pass(5ms);
    BOOST_TEST((sent == std::errc::network_unreachable));
    std::optional<std::errc> late;
    waiting.spawn(note(late, [&] { return at_it.receive_from(); }));
    pass(5ms);
    BOOST_TEST((late == std::errc::network_down)); // who asks now hears it, too
    frames.clear();
    for (const ipv4 all : {ipv4(239, 1, 1, 1), ipv4::broadcast()}) { // nothing leaves from 0.0.0.0 (RFC 1122 3.2.1.3)
        std::optional<std::errc> refused;
        const socket_address to(all, 9);
        waiting.spawn(note(refused, [&] { return anywhere.send_to(byte_span(payload), to); }));
        pass(5ms);
        BOOST_TEST((refused == std::errc::network_unreachable));
    }
    for (const bytes& f : frames) {
        wire::ipv4_view ip;
        if (load_be16(f.data() + 12) != 0x0800 || wire::ipv4_view::parse(byte_span(f).subspan(14), ip) != wire::parse_error::none) continue;
        BOOST_TEST(load_be16(ip.payload().data() + 2) == 67); // DHCP alone
    }
    stop.request_stop();
    pass(5ms);
    BOOST_TEST((patient == std::errc::operation_canceled));
}

BOOST_FIXTURE_TEST_CASE(all_peers_hear_at_once_that_an_address_is_gone, server_end) {
    acquire();
    tcp_listener listener = tcp_listener::bind({ipv4::any(), 80});
    constexpr std::uint16_t peers = 9; // more than may wait for a neighbour
    for (std::uint16_t port = 1000; port < 1000 + peers; ++port) {
        frames.clear();
        send_tcp(port, wire::tcp_flags::syn, 1, 0);
        for (const bytes& f : frames)
            if (const auto answer = segment(f)) send_tcp(port, wire::tcp_flags::ack, 2, answer->sequence + 1);
    }
    BOOST_TEST(stack->tcp().connections() == peers);
    frames.clear();
    stack->follow_lease(nullptr);
    pass(5s);
    std::size_t resets = 0;
    for (const bytes& f : frames) {
        const auto said = segment(f);
        resets += said && has(said->flags, wire::tcp_flags::rst);
        BOOST_TEST(load_be16(f.data() + 12) != 0x0806);
    }
    BOOST_TEST(resets == peers);
}

BOOST_FIXTURE_TEST_CASE(what_was_known_of_neighbours_goes_with_the_address, server_end) { // RFC 2131 4.4.5, RFC 5227 1.1
    acquire();
    const ipv4 silent(192, 0, 2, 9);
    udp_socket socket = udp_socket::bind({ipv4::any(), 500});
    const bytes payload(4);
    std::optional<std::errc> sent;
    task_group waiting{"waiting"};
    const socket_address there(silent, 9);
    waiting.spawn(note(sent, [&] { return socket.send_to(byte_span(payload), there); }));
    pass(5ms);
    BOOST_TEST(stack->ip().neighbors().waiting_packets() == 1u);
    stack->follow_lease(nullptr);
    BOOST_TEST(stack->ip().neighbors().waiting_packets() == 0u);
    BOOST_TEST(stack->ip().neighbors().size() == 0u);
    frames.clear();
    pass(5s);
    for (const bytes& f : frames) BOOST_TEST(load_be16(f.data() + 12) != 0x0806);
}

/// RFC 2132 5.1, RFC 8200 5
BOOST_FIXTURE_TEST_CASE(the_mtu_of_a_lease_is_the_interfaces_and_ipv6_has_its_least, server_end_of_both_families) {
    const net_address six(*ipv6::parse("fe80::1"));
    acquire();
    BOOST_TEST(stack->ip().link_mtu(six) == 1400u);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), six) == 1400u);
    stack->follow_lease(nullptr);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), six) == 1500u);
    dhcp_lease small;
    small.address = ip_prefix(given, 24);
    small.mtu = 576;
    stack->follow_lease(&small);
    BOOST_TEST(stack->ip().mtu() == 576u);
    BOOST_TEST(stack->ip().link_mtu(six) == 1280u);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), six) == 1280u);
}

BOOST_FIXTURE_TEST_CASE(a_refused_renewal_takes_the_address_away, server_end) {
    acquire();
    pass(1850s);
    BOOST_TEST((asked_type == type::request));
    send(answer(type::nak), given, mac);
    BOOST_TEST(stack->address().is_any());
    BOOST_TEST((told.leases.size() == 2u && !told.leases[1]));
    BOOST_TEST((asked_type == type::discover && asked_from.is_any()));
}

BOOST_FIXTURE_TEST_CASE(the_address_is_given_back_at_the_end_though_nobody_answers_arp_any_more, server_end) {
    acquire();
    stack->release_lease();
    pass(3ms);
    BOOST_TEST((asked_type == type::release && asked_from == given && asked_to == server_address));
}

BOOST_FIXTURE_TEST_CASE(names_are_asked_for_where_the_network_says, server_end) {
    resolver_config config{.servers = {socket_address(ipv4(192, 0, 2, 99), 53)}, .follow_network = true};
    resolver names(config, 7);
    auto asking = [](resolver& r) -> task<> {
        try {
            co_await r.resolve("host", address_family::v4, {.deadline = reactor::current().now() + 1s});
        } catch (const std::system_error&) {
        }
    };
    loop.root_group().spawn(asking(names));
    pass(2s);
    const dns_answer known{.outcome = dns_outcome::answer, .addresses = {ipv4(192, 0, 2, 1)}, .lifetime = 1h};
    names.cache().keep(loop.now(), "kept", dns_type::a, known);
    acquire();
    loop.root_group().spawn(asking(names));
    frames.clear();
    pass(10ms);
    BOOST_TEST(names.cache().size() == 0u); // what others have said of names may not hold here
    bool asked_there = false, asked_elsewhere = false;
    for (const bytes& f : frames) {
        wire::arp_view a;
        if (load_be16(f.data() + 12) != 0x0806 || wire::arp_view::parse(byte_span(f).subspan(14), a) != wire::parse_error::none) continue;
        asked_there |= wire::arp_packet::from(a).target_ip == ipv4(192, 0, 2, 53);
        asked_elsewhere |= wire::arp_packet::from(a).target_ip == ipv4(192, 0, 2, 99);
    }
    BOOST_TEST((asked_there && !asked_elsewhere));
    pass(2s);
    loop.root_group().destroy_all();
}

BOOST_AUTO_TEST_SUITE_END()
