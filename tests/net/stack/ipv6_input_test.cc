// What the stack does with IPv6 packets, one by one: whose it takes, what it says to them, what it must not say.
#include "ipv6_link.hh"

#include "tests/reactor/log/log_fixture.hh"

#include <algorithm>

using namespace corewire;
using namespace std::chrono_literals;
using wire::icmpv6_header;
using wire::icmpv6_type;
using wire::ip_protocol;

BOOST_AUTO_TEST_SUITE(ipv6_input)

BOOST_AUTO_TEST_CASE(an_echo_request_is_answered_with_the_same_bytes) { // RFC 4443 4.2
    ipv6_link w;
    w.introduce();
    const ipv6_link::bytes payload(100, std::byte{'p'});
    w.send(w.icmp(icmpv6_header::echo_request(7, 9), w.peer, w.us, payload), w.peer, w.us, ip_protocol::icmpv6);
    const auto replies = w.heard();
    BOOST_REQUIRE(replies.size() == 1u);
    const auto reply = w.icmp_of(replies[0]);
    BOOST_TEST((reply.type() == icmpv6_type::echo_reply && reply.identifier() == 7 && reply.sequence() == 9));
    BOOST_TEST((w.view(replies[0]).source() == w.us && w.view(replies[0]).destination() == w.peer));
    BOOST_TEST(std::equal(reply.payload().begin(), reply.payload().end(), payload.begin(), payload.end()));
}

BOOST_AUTO_TEST_CASE(an_unknown_neighbour_is_asked_for_before_it_is_answered) {
    ipv6_link w;
    w.send(w.icmp(icmpv6_header::echo_request(7, 9), w.peer, w.us), w.peer, w.us, ip_protocol::icmpv6);
    const auto question = w.heard();
    BOOST_REQUIRE(question.size() == 1u);
    const auto ns = w.icmp_of(question[0]);
    BOOST_TEST((ns.type() == icmpv6_type::neighbor_solicitation));
    BOOST_TEST(w.view(question[0]).hop_limit() == 255);
    BOOST_TEST((w.view(question[0]).destination() == w.peer.solicited_node() && w.view(question[0]).source() == w.us));
    wire::neighbor_solicitation asked;
    BOOST_REQUIRE((wire::neighbor_solicitation::parse(ns, asked) == wire::parse_error::none));
    BOOST_TEST((asked.target == w.peer && asked.source_mac == w.stack->device().mac())); // RFC 4861 4.3: MUST say who asks
    w.send(w.message(wire::neighbor_advertisement{false, true, true, w.peer, w.end->mac()}, w.peer, w.us), w.peer, w.us,
           ip_protocol::icmpv6, 255);
    const auto answer = w.heard();
    BOOST_REQUIRE(answer.size() == 1u);
    BOOST_TEST((w.icmp_of(answer[0]).type() == icmpv6_type::echo_reply));
}

BOOST_AUTO_TEST_CASE(solicitations_are_answered_and_invalid_ones_are_not) { // RFC 4861 7.1.1, 7.2.4
    ipv6_link w;
    const auto good = w.message(wire::neighbor_solicitation{w.us, w.end->mac()}, w.peer, w.our_group);
    w.send(good, w.peer, w.our_group, ip_protocol::icmpv6, 255);
    auto said = w.heard();
    BOOST_REQUIRE(said.size() == 1u);
    wire::neighbor_advertisement na;
    BOOST_REQUIRE((wire::neighbor_advertisement::parse(w.icmp_of(said[0]), na) == wire::parse_error::none));
    BOOST_TEST((na.solicited && na.override && !na.router && na.target == w.us && na.target_mac == w.stack->device().mac()));
    BOOST_TEST(w.view(said[0]).hop_limit() == 255);
    BOOST_TEST((w.view(said[0]).source() == w.us && w.view(said[0]).destination() == w.peer));

    w.send(good, w.peer, w.our_group, ip_protocol::icmpv6, 254); // through a router
    auto damaged = good;
    damaged[2] ^= std::byte{1};
    w.send(damaged, w.peer, w.our_group, ip_protocol::icmpv6, 255); // checksum
    auto no_length = good;
    no_length[25] = std::byte{0}; // an option of no length
    store_be16(no_length.data() + 2, 0);
    store_be16(no_length.data() + 2,
               wire::pseudo_header_sum(w.peer, w.our_group, ip_protocol::icmpv6, no_length.size()).add(no_length).checksum());
    w.send(no_length, w.peer, w.our_group, ip_protocol::icmpv6, 255);
    const ipv6 nobody = ipv6::any();
    w.send(w.message(wire::neighbor_solicitation{w.us, w.end->mac()}, nobody, w.our_group), nobody, w.our_group, ip_protocol::icmpv6,
           255); // from :: with a link-layer address
    w.send(w.message(wire::neighbor_solicitation{w.us, {}}, nobody, w.us), nobody, w.us, ip_protocol::icmpv6, 255); // from :: to one host
    BOOST_TEST(w.heard().empty());
    BOOST_TEST(w.stack->statistics().ipv6_discovery_invalid == 4u);
    BOOST_TEST(w.stack->six()->icmp().statistics().bad_checksum == 1u);
    w.send(w.message(wire::neighbor_solicitation{w.peer, w.end->mac()}, w.peer, w.our_group), w.peer, w.our_group, ip_protocol::icmpv6,
           255); // about somebody else
    BOOST_TEST(w.heard().empty());
}

BOOST_AUTO_TEST_CASE(no_solicited_advertisement_goes_to_a_group) { // RFC 4861 7.1.2
    ipv6_link w;
    w.introduce();
    const ipv6 all = ipv6::all_nodes();
    w.send(w.message(wire::neighbor_advertisement{false, true, true, w.peer, mac_address(0x02'00'00'00'00'77)}, w.peer, all), w.peer, all,
           ip_protocol::icmpv6, 255);
    BOOST_TEST(w.stack->statistics().ipv6_discovery_invalid == 1u);
    BOOST_TEST((w.stack->ip().six()->neighbors().find(w.peer)->mac() == w.end->mac()));
}

BOOST_AUTO_TEST_CASE(a_closed_udp_port_is_told_and_quotes_the_packet) { // RFC 4443 3.1
    ipv6_link w;
    w.introduce();
    ipv6_link::bytes datagram(8 + 20, std::byte{0});
    wire::udp_header{4000, 9, 28, 0}.emit(datagram);
    wire::store_udp_checksum(datagram, w.peer, w.us);
    w.send(datagram, w.peer, w.us, ip_protocol::udp);
    const auto said = w.heard();
    BOOST_REQUIRE(said.size() == 1u);
    const auto error = w.icmp_of(said[0]);
    BOOST_TEST((error.type() == icmpv6_type::unreachable && error.code() == 4));
    BOOST_TEST(error.payload().size() == 40u + 28u);
    BOOST_TEST(std::equal(datagram.begin(), datagram.end(), error.payload().begin() + 40));
    wire::udp_header{4000, 9, 28, 0}.emit(datagram); // RFC 8200 8.1: without a checksum it is dropped
    w.send(datagram, w.peer, w.us, ip_protocol::udp);
    BOOST_TEST(w.heard().empty());
    BOOST_TEST(w.stack->udp().demux().statistics().bad_checksum == 1u);
}

BOOST_AUTO_TEST_CASE(an_error_is_never_longer_than_1280_bytes) { // RFC 4443 2.4 (c)
    ipv6_link w;
    w.introduce();
    ipv6_link::bytes datagram(1'400, std::byte{1});
    wire::udp_header{4000, 9, 1'400, 0}.emit(datagram);
    wire::store_udp_checksum(datagram, w.peer, w.us);
    w.send(datagram, w.peer, w.us, ip_protocol::udp);
    const auto said = w.heard();
    BOOST_REQUIRE(said.size() == 1u);
    BOOST_TEST(said[0].size() == 1280u);
    w.icmp_of(said[0]);
}

BOOST_AUTO_TEST_CASE(headers_that_we_do_not_know_are_told_where_they_stand) { // RFC 8200 4, 4.2, RFC 4443 3.4
    ipv6_link w;
    w.introduce();
    w.send(ipv6_link::bytes(8), w.peer, w.us, static_cast<ip_protocol>(200));
    auto said = w.heard();
    BOOST_REQUIRE(said.size() == 1u);
    auto problem = w.icmp_of(said[0]);
    BOOST_TEST((problem.type() == icmpv6_type::parameter_problem && problem.code() == 1 && problem.pointer() == 6u));
    const ipv6_link::bytes options{std::byte{6}, std::byte{0}, std::byte{0x9e}, std::byte{4}, {}, {}, {}, {}};
    w.send(options, w.peer, ipv6::all_nodes(), ip_protocol::ipv6_destination); // type 10: told to groups, too
    said = w.heard();
    BOOST_REQUIRE(said.size() == 1u);
    problem = w.icmp_of(said[0]);
    BOOST_TEST((problem.type() == icmpv6_type::parameter_problem && problem.code() == 2 && problem.pointer() == 42u));
    auto quiet = options;
    quiet[2] = std::byte{0xde}; // type 11: not to groups
    w.send(quiet, w.peer, ipv6::all_nodes(), ip_protocol::ipv6_destination);
    quiet[2] = std::byte{0x5e}; // type 01: to nobody
    w.send(quiet, w.peer, w.us, ip_protocol::ipv6_destination);
    w.send({}, w.peer, w.us, ip_protocol::ipv6_no_next);
    BOOST_TEST(w.heard().empty());
}

BOOST_AUTO_TEST_CASE(no_error_is_told_about_an_error_or_to_a_group_or_without_end) { // RFC 4443 2.4 (e), (f)
    stack_config few;
    few.icmp.error_burst = few.icmp.error_burst_each = 3;
    few.icmp.errors_a_second = few.icmp.errors_a_second_each = 1;
    ipv6_link w(0, few);
    w.introduce();
    const auto nonsense = w.icmp({icmpv6_type::parameter_problem, 0, 0}, w.peer, w.us);
    w.send(nonsense, w.peer, w.us, ip_protocol::icmpv6);
    w.send(ipv6_link::bytes(8), w.peer, ipv6::all_nodes(), static_cast<ip_protocol>(200));
    w.send(ipv6_link::bytes(8), w.peer, w.us, static_cast<ip_protocol>(200), 64, mac_address::broadcast());
    BOOST_TEST(w.heard().empty());
    for (int i = 0; i < 100; ++i) w.send(ipv6_link::bytes(8), w.peer, w.us, static_cast<ip_protocol>(200));
    const std::size_t told = w.heard().size(); // it is drawn what each takes of the three
    BOOST_TEST((told >= 2u && told <= 10u));
    BOOST_TEST(w.stack->six()->icmp().statistics().rate_limited == 100 - told);
}

BOOST_AUTO_TEST_CASE(no_error_is_told_about_an_error_behind_other_headers) { // RFC 4443 2.4 (e.1), (e.2)
    ipv6_link w;
    w.introduce();
    ipv6_link::bytes quoted(48);
    wire::ipv6_header{.payload_length = 8, .next_header = ip_protocol::udp, .source = w.us, .destination = w.peer}.emit(quoted);
    const auto offer = [&](const icmpv6_header& message) {
        ipv6_link::bytes options{std::byte{58}, {}, std::byte{0xc1}, std::byte{4}, {}, {}, {}, {}}; // nobody knows that: told
        ipv6_link::bytes route{std::byte{58}, {}, {}, std::byte{1}, {}, {}, {}, {}};                // which goes on: told
        ipv6_link::bytes first{std::byte{60}, {}, {}, std::byte{1}, {}, {}, {}, {}};                // of a length that is wrong: told
        const auto carried = w.icmp(message, w.peer, w.us, quoted);
        first.insert(first.end(), options.begin(), options.end());
        first.insert(first.end(), carried.begin(), carried.end());
        first.push_back({});
        options.insert(options.end(), carried.begin(), carried.end());
        route.insert(route.end(), carried.begin(), carried.end());
        w.send(options, w.peer, w.us, ip_protocol::ipv6_destination);
        w.send(route, w.peer, w.us, ip_protocol::ipv6_routing);
        w.send(first, w.peer, w.us, ip_protocol::ipv6_fragment);
        return w.heard().size();
    };
    BOOST_TEST(offer({icmpv6_type::unreachable, 4, 0}) == 0u);
    BOOST_TEST(offer({icmpv6_type::redirect, 0, 0}) == 0u);
    BOOST_TEST(offer(icmpv6_header::echo_request(7, 9)) == 3u);
}

BOOST_AUTO_TEST_CASE(addresses_that_stand_on_no_wire_are_martians) { // RFC 4291 2.5.3, 2.7, RFC 4942 2.2
    ipv6_link w;
    w.introduce();
    for (const char* from : {"::1", "ff02::1", "::ffff:10.0.0.2", "2001:db8::1"}) {
        const ipv6 source = w.a6(from);
        w.send(w.icmp(icmpv6_header::echo_request(1, 1), source, w.us), source, w.us, ip_protocol::icmpv6);
    }
    for (const char* to : {"::1", "::ffff:10.0.0.1"})
        w.send(w.icmp(icmpv6_header::echo_request(1, 1), w.peer, w.a6(to)), w.peer, w.a6(to), ip_protocol::icmpv6);
    BOOST_TEST(w.stack->statistics().martian == 6u);
    const ipv6 other = w.a6("2001:db8::77");
    w.send(w.icmp(icmpv6_header::echo_request(1, 1), w.peer, other), w.peer, other, ip_protocol::icmpv6);
    BOOST_TEST(w.stack->statistics().not_for_us == 1u);
    BOOST_TEST(w.heard().empty());
}

BOOST_AUTO_TEST_CASE(a_packet_that_is_shorter_than_it_says_is_dropped) {
    ipv6_link w;
    packet p;
    p.head = w.end->pool().allocate_buffer();
    wire::ethernet_header{.destination = w.stack->device().mac(), .source = w.end->mac(), .type = wire::ether_type::ipv6}.emit(
        {p.head.append(14), 14});
    const wire::ipv6_header ip{.payload_length = 100, .next_header = ip_protocol::udp, .source = w.peer, .destination = w.us};
    ip.emit({p.head.append(40), 40});
    p.head.append(99);
    w.end->transmit({&p, 1});
    w.pass(1ms);
    BOOST_TEST(w.stack->statistics().malformed_ip == 1u);
}

BOOST_AUTO_TEST_CASE(without_frames_no_address_counts_as_asked_for_and_nothing_is_tried_without_pause) {
    ipv6_link w(1);
    std::vector<buffer> held;
    for (buffer b = w.stack->device().pool().allocate_buffer(); !b.empty() || b.underlying_frame() != nullptr;
         b = w.stack->device().pool().allocate_buffer())
        held.push_back(std::move(b));
    w.pass(3s);
    BOOST_TEST(w.stack->statistics().no_frame < 100u);
    const auto& addresses = w.stack->ip().six()->addresses();
    BOOST_TEST(!addresses.is_ours(w.us));
    w.heard();
    held.clear();
    w.pass(1100ms);
    std::size_t probes = 0;
    for (const auto& packet : w.heard()) probes += w.view(packet).source().is_any();
    BOOST_TEST(probes == addresses.all().size());
    w.pass(1s);
    BOOST_TEST(addresses.is_ours(w.us));
}

BOOST_AUTO_TEST_CASE(an_address_is_asked_for_before_it_is_used) { // RFC 4862 5.4
    ipv6_link w(1);
    w.stack->ip().six()->neighbors().set_permanent(w.peer, w.end->mac()); // an answer would find its way
    w.send(w.icmp(icmpv6_header::echo_request(1, 1), w.peer, w.us), w.peer, w.us, ip_protocol::icmpv6);
    w.pass(1s);
    int probes = 0;
    for (const auto& packet : w.heard()) {
        wire::neighbor_solicitation ns;
        BOOST_REQUIRE((wire::neighbor_solicitation::parse(w.icmp_of(packet), ns) == wire::parse_error::none));
        BOOST_TEST((w.view(packet).source().is_any() && w.view(packet).hop_limit() == 255 && !ns.source_mac));
        BOOST_TEST((w.view(packet).destination() == ns.target.solicited_node()));
        probes += ns.target == w.us || ns.target.is_link_local() ? 1 : 0;
    }
    BOOST_TEST(probes == 2); // the link-local address, and the configured one
    w.pass(1s);
    w.introduce();
    w.send(w.icmp(icmpv6_header::echo_request(1, 1), w.peer, w.us), w.peer, w.us, ip_protocol::icmpv6);
    BOOST_TEST(w.heard().size() == 1u);
}

BOOST_AUTO_TEST_CASE(who_asks_without_its_mac_is_asked_for_it_and_answered) { // RFC 4861 7.2.4
    ipv6_link w;
    w.send(w.message(wire::neighbor_solicitation{w.us, {}}, w.peer, w.us), w.peer, w.us, ip_protocol::icmpv6, 255);
    const auto question = w.heard();
    BOOST_REQUIRE(question.size() == 1u);
    BOOST_TEST((w.icmp_of(question[0]).type() == icmpv6_type::neighbor_solicitation && w.view(question[0]).source() == w.us));
    w.send(w.message(wire::neighbor_advertisement{false, true, true, w.peer, w.end->mac()}, w.peer, w.us), w.peer, w.us,
           ip_protocol::icmpv6, 255);
    const auto answer = w.heard();
    BOOST_REQUIRE(answer.size() == 1u);
    wire::neighbor_advertisement na;
    BOOST_REQUIRE((wire::neighbor_advertisement::parse(w.icmp_of(answer[0]), na) == wire::parse_error::none));
    BOOST_TEST((na.solicited && na.target == w.us && na.target_mac == w.stack->device().mac()));
    BOOST_TEST((w.view(answer[0]).source() == w.us && w.view(answer[0]).destination() == w.peer && w.view(answer[0]).hop_limit() == 255));
}

BOOST_AUTO_TEST_CASE(a_flood_of_those_who_ask_without_their_mac_has_us_ask_for_few) {
    ipv6_link w;
    for (std::uint64_t i = 0; i < 100; ++i) {
        const ipv6 stranger = wire::with_identifier(w.peer, 0x1000 + i);
        w.send(w.message(wire::neighbor_solicitation{w.us, {}}, stranger, w.us), stranger, w.us, ip_protocol::icmpv6, 255);
    }
    const std::size_t asked = w.heard().size();
    BOOST_TEST((asked >= 20u && asked <= 32u)); // 20, and 100 a second, in 100 ms
}

BOOST_AUTO_TEST_CASE(an_address_that_another_host_has_or_asks_for_stays_unused) { // RFC 4862 5.4.3, 5.4.4
    for (const bool by_question : {false, true}) {
        ipv6_link w(1);
        const ipv6 all = ipv6::all_nodes(), nobody = ipv6::any();
        if (by_question) {
            w.send(w.message(wire::neighbor_solicitation{w.us, {}}, nobody, w.our_group), nobody, w.our_group, ip_protocol::icmpv6, 255);
        } else {
            w.send(w.message(wire::neighbor_advertisement{false, false, true, w.us, w.end->mac()}, w.us, all), w.us, all,
                   ip_protocol::icmpv6, 255);
        }
        w.pass(3s);
        w.heard();
        w.introduce();
        w.send(w.icmp(icmpv6_header::echo_request(1, 1), w.peer, w.us), w.peer, w.us, ip_protocol::icmpv6);
        BOOST_TEST(w.heard().empty());
        BOOST_TEST(w.stack->ip().six()->addresses().conflicts() == 1u);
    }
}

BOOST_AUTO_TEST_CASE(who_looks_for_an_address_that_is_not_ours_yet_hears_nothing_and_is_no_rival) { // RFC 4862 5.4, 5.4.3
    ipv6_link w(1);
    for (const ipv6& to : {w.our_group, w.us})
        w.send(w.message(wire::neighbor_solicitation{w.us, w.end->mac()}, w.peer, to), w.peer, to, ip_protocol::icmpv6, 255);
    for (const auto& packet : w.heard()) BOOST_TEST(w.view(packet).source().is_any()); // our own questions
    BOOST_TEST(w.stack->ip().six()->addresses().conflicts() == 0u);
    w.pass(3s);
    BOOST_TEST(w.stack->ip().six()->addresses().is_ours(w.us));
    w.heard();
    w.send(w.message(wire::neighbor_solicitation{w.us, w.end->mac()}, w.peer, w.our_group), w.peer, w.our_group, ip_protocol::icmpv6, 255);
    BOOST_TEST(w.heard().size() == 1u); // it is now
}

BOOST_AUTO_TEST_CASE(who_advertises_an_address_that_we_use_is_counted_and_told_and_we_keep_it) { // RFC 4862 5.4.4 leaves open what to do
    kept_log log(2);
    ipv6_link w;
    shard_log ours(log.writer, log.writer.ring(1), w.loop);
    const ipv6_addresses& addresses = w.stack->ip().six()->addresses();
    const auto advertise = [&](const ipv6& target, const ipv6& from, const mac_address& mac) {
        w.send(w.message(wire::neighbor_advertisement{false, false, true, target, mac}, from, ipv6::all_nodes()), from, ipv6::all_nodes(),
               ip_protocol::icmpv6, 255);
    };
    const auto told = [&] {
        return std::ranges::count_if(log.messages(), [&](const std::string& line) {
            const bool of_us = line.find("another host has our address " + to_string(w.us)) != line.npos;
            return of_us && line.find(to_string(w.end->mac())) != line.npos;
        });
    };
    advertise(w.us, w.us, w.end->mac()); // as one does who has it, too
    BOOST_TEST(addresses.conflicts() == 1u);
    BOOST_TEST(told() == 1);
    advertise(w.us, w.peer, w.end->mac());
    BOOST_TEST(addresses.conflicts() == 2u);
    BOOST_TEST(w.stack->statistics().martian == 0u);
    advertise(w.us, w.us, w.stack->device().mac()); // our own, which a switch has sent back
    BOOST_TEST(addresses.conflicts() == 2u);
    BOOST_TEST(addresses.is_ours(w.us));

    // Nothing else is taken from an address of ours.
    const std::uint64_t martian = w.stack->statistics().martian, invalid = w.stack->statistics().ipv6_discovery_invalid;
    w.heard();
    w.send(w.icmp(icmpv6_header::echo_request(1, 1), w.us, w.us), w.us, w.us, ip_protocol::icmpv6);
    w.send(w.message(wire::neighbor_solicitation{w.us, w.end->mac()}, w.us, w.our_group), w.us, w.our_group, ip_protocol::icmpv6, 255);
    BOOST_TEST(w.stack->statistics().martian == martian + 2);
    advertise(w.peer, w.us, w.end->mac());
    BOOST_TEST(w.stack->statistics().ipv6_discovery_invalid == invalid + 1);
    BOOST_TEST(w.heard().empty());
    BOOST_TEST(addresses.conflicts() == 2u);
}

BOOST_AUTO_TEST_CASE(without_ipv6_its_packets_are_unknown) {
    virtual_clock clock;
    reactor loop({.clock = &clock});
    sim_network net;
    auto nic = net.make_port(mac_address(2, 0, 0, 0, 0, 1)), end = net.make_port(mac_address(2, 0, 0, 0, 0, 2));
    net.connect(*nic, *end);
    stack_config config;
    config.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
    config.seed = 1;
    network_stack stack(loop, std::move(nic), config);
    packet p;
    p.head = end->pool().allocate_buffer();
    const wire::ethernet_header link{.destination = stack.device().mac(), .source = end->mac(), .type = wire::ether_type::ipv6};
    link.emit({p.head.append(14), 14});
    p.head.append(46);
    end->transmit({&p, 1});
    net.advance_to(net.now() + 1ms);
    loop.poll_once();
    BOOST_TEST(stack.statistics().unknown_protocol == 1u);
    BOOST_CHECK_THROW(stack.listen({ipv6::any(), 7}, {}), std::system_error);
    BOOST_CHECK_THROW(stack.connect({*ipv6::parse("2001:db8::2"), 7}, {}, {}), std::system_error);
    BOOST_CHECK_THROW(stack.bind_udp({ipv6::any(), 7}, {}), std::system_error);
}

BOOST_AUTO_TEST_SUITE_END()
