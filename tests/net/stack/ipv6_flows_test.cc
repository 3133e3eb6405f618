// TCP over IPv6 against a bare peer: what its segments look like, and what ICMPv6 errors do to it.
#include "ipv6_link.hh"

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/reactor/task/task_group.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::icmpv6_type;
using wire::ip_protocol;
using wire::tcp_flags;

namespace {

struct tcp_link : ipv6_link {
    tcp_link() {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        introduce();
    }
    ~tcp_link() { group.destroy_all(); }
    static wire::tcp_view tcp_of(const bytes& packet) {
        const wire::ipv6_view ip = view(packet);
        wire::tcp_view t;
        BOOST_REQUIRE((ip.next_header() == ip_protocol::tcp));
        BOOST_REQUIRE((wire::tcp_view::parse(ip.payload(), t) == wire::parse_error::none));
        wire::internet_sum sum = wire::pseudo_header_sum(ip.source(), ip.destination(), ip_protocol::tcp, ip.payload().size());
        BOOST_TEST(sum.add(ip.payload()).verifies());
        return t;
    }
    void segment(std::uint16_t to_port, std::uint32_t seq, std::uint32_t ack, tcp_flags flags) {
        bytes b(20);
        wire::tcp_header{.source_port = 7, .destination_port = to_port, .sequence = seq, .acknowledgment = ack, .flags = flags,
                         .window = 65'535}
            .emit(b);
        wire::store_tcp_checksum(b, peer, us);
        send(b, peer, us, ip_protocol::tcp);
    }
    /// Connects to the peer, who answers.
    void connect() {
        group.spawn(dial(*this));
        pass(1ms);
        const auto syn = heard();
        BOOST_REQUIRE(syn.size() == 1u);
        const auto t = tcp_of(syn[0]);
        port = t.source_port();
        wire::tcp_options options;
        BOOST_REQUIRE((wire::tcp_options::parse(t.options(), options) == wire::parse_error::none));
        BOOST_TEST(options.mss == 1440);
        BOOST_TEST((view(syn[0]).flow_label() != 0 && view(syn[0]).hop_limit() == 64));
        next = t.sequence() + 1;
        // With an MSS of 1440, or nothing would be too big.
        bytes b(24);
        wire::tcp_header{.source_port = 7, .destination_port = port, .sequence = 1000, .acknowledgment = next,
                         .flags = tcp_flags::syn | tcp_flags::ack, .window = 65'535}
            .emit(b, 4);
        store_be32(b.data() + 20, 0x020405a0);
        wire::store_tcp_checksum(b, peer, us);
        send(b, peer, us, ip_protocol::tcp);
        heard();
    }
    static task<> dial(tcp_link& w) {
        const socket_address to(w.peer, 7);
        tcp_stream made = co_await tcp_stream::connect(to);
        w.stream = std::move(made);
    }
    static task<> write(tcp_link& w, std::size_t size) {
        const std::vector<std::byte> data(size, std::byte{'x'});
        co_await w.stream.write(byte_span{data});
    }
    /// An error of a router's about `packet` of ours.
    void error(wire::icmpv6_header h, const bytes& packet) {
        const ipv6 router = a6("2001:db8::99");
        send(icmp(h, router, us, byte_span(packet).first(std::min<std::size_t>(packet.size(), 1000))), router, us, ip_protocol::icmpv6);
    }
    task_group group{"flows"};
    tcp_stream stream;
    std::uint16_t port = 0;
    std::uint32_t next = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_flows)

BOOST_FIXTURE_TEST_CASE(a_packet_that_is_too_big_is_sent_again_in_smaller_ones, tcp_link) { // RFC 8201 4, 5.1
    connect();
    group.spawn(write(*this, 1440));
    pass(1ms);
    const auto first = heard();
    BOOST_REQUIRE(first.size() == 1u);
    BOOST_TEST(first[0].size() == 1500u);
    error(wire::icmpv6_header::packet_too_big(1400), first[0]);
    pass(1ms);
    const auto again = heard();
    BOOST_REQUIRE(again.size() >= 1u);
    BOOST_TEST(again[0].size() == 1400u);
    BOOST_TEST(tcp_of(again[0]).sequence() == next);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), peer) == 1400u);
}

BOOST_FIXTURE_TEST_CASE(a_report_below_1280_bytes_is_not_believed, tcp_link) { // RFC 8201 4
    connect();
    group.spawn(write(*this, 1440));
    pass(1ms);
    const auto first = heard();
    BOOST_REQUIRE(first.size() == 1u);
    for (const std::uint32_t mtu : {0u, 600u, 1279u}) error(wire::icmpv6_header::packet_too_big(mtu), first[0]);
    BOOST_TEST(heard().empty());
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), peer) == 1500u);
    BOOST_TEST(stack->six()->icmp().statistics().errors_too_small == 3u);
    error(wire::icmpv6_header::packet_too_big(1280), first[0]);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), peer) == 1280u);
}

BOOST_FIXTURE_TEST_CASE(a_connection_outlives_that_nobody_answers_for_its_peer_for_a_while, tcp_link) { // RFC 4861 7.2.2
    connect();
    stack->ip().six()->neighbors().remove(peer);
    group.spawn(write(*this, 100));
    pass(3500ms); // asked three times, and given up
    BOOST_TEST(stack->ip().six()->neighbors().statistics().failed == 1u);
    BOOST_TEST(stack->ip().six()->neighbors().waiting_packets() == 0u);
    BOOST_TEST(stack->tcp().connections() == 1u);
    introduce();
    pass(10s);
    const auto sent = heard();
    BOOST_REQUIRE(!sent.empty());
    BOOST_TEST(tcp_of(sent[0]).sequence() == next);
}

BOOST_FIXTURE_TEST_CASE(who_has_come_to_a_listener_outlives_it_too, tcp_link) {
    tcp_listener listener = tcp_listener::bind({ipv6::any(), 9});
    stack->ip().six()->neighbors().remove(peer);
    segment(9, 5, 0, tcp_flags::syn);
    pass(3500ms);
    BOOST_TEST(stack->ip().six()->neighbors().statistics().failed == 1u);
    BOOST_TEST(stack->tcp().connections() == 1u);
}

BOOST_FIXTURE_TEST_CASE(an_error_about_bytes_that_are_not_in_flight_is_not_believed, tcp_link) { // RFC 5927 4.1, 7
    connect();
    group.spawn(write(*this, 1440));
    pass(1ms);
    auto forged = heard();
    BOOST_REQUIRE(forged.size() == 1u);
    store_be32(forged[0].data() + 44, next + 0x1000'0000);
    error(wire::icmpv6_header::packet_too_big(1300), forged[0]);
    error({icmpv6_type::unreachable, 4, 0}, forged[0]);
    BOOST_TEST(stack->ip().path_mtu_to(clock.now(), peer) == 1500u);
    BOOST_TEST(stack->tcp().connections() == 1u);
}

namespace {

/// Whether the next hop is asked if it is there, while what is sent over it is not answered.
bool is_doubted(tcp_link& w) {
    w.connect();
    w.pass(2s);
    w.heard();
    w.group.spawn(tcp_link::write(w, 1000));
    w.pass(5s); // it would count as reachable for thirty seconds
    for (const ipv6_link::bytes& packet : w.heard()) {
        if (w.view(packet).next_header() != ip_protocol::icmpv6) continue;
        if (w.icmp_of(packet).type() == icmpv6_type::neighbor_solicitation && w.view(packet).destination() == w.peer) return true;
    }
    return false;
}

} // namespace

BOOST_FIXTURE_TEST_CASE(a_router_is_doubted_when_it_brings_nothing_and_there_is_another, tcp_link) { // RFC 9293 3.8.3 (MUST-20)
    for (const ipv6& router : {peer, a6("2001:db8::77")}) stack->ip().six()->routes().add_router(router);
    BOOST_TEST(is_doubted(*this));
}

BOOST_FIXTURE_TEST_CASE(a_router_without_another_in_its_place_is_not_doubted, tcp_link) { // it would be given up before its link comes back
    stack->ip().six()->routes().add_router(peer);
    BOOST_TEST(!is_doubted(*this));
}

BOOST_FIXTURE_TEST_CASE(an_error_of_unknown_type_is_told_to_whom_it_is_about, tcp_link) { // RFC 4443 2.4 (a)
    connect();
    group.spawn(write(*this, 1000));
    pass(1ms);
    const auto first = heard();
    BOOST_REQUIRE(first.size() == 1u);
    bool softly = false;
    const auto look = [&](const tcp_connection& c) {
        softly |= c.tcb.soft_error() != std::errc{} && c.tcb.state() == tcp::tcp_state::established;
    };
    error({static_cast<wire::icmpv6_type>(100), 7, 0}, first[0]);
    stack->tcp().for_each_connection(look);
    BOOST_TEST(softly);
}

BOOST_FIXTURE_TEST_CASE(a_connect_that_is_refused_by_icmpv6_ends, tcp_link) {
    group.spawn(dial(*this));
    pass(1ms);
    const auto syn = heard();
    BOOST_REQUIRE(syn.size() == 1u);
    error({icmpv6_type::unreachable, 4, 0}, syn[0]);
    pass(1ms);
    BOOST_TEST(stack->tcp().connections() == 0u);
    BOOST_TEST(group.failed() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_segment_of_no_connection_is_reset, tcp_link) { // RFC 9293 3.10.7.1
    segment(9, 5, 77, tcp_flags::ack);
    const auto reset = heard();
    BOOST_REQUIRE(reset.size() == 1u);
    BOOST_TEST((tcp_of(reset[0]).flags() == tcp_flags::rst && tcp_of(reset[0]).sequence() == 77u));
}

BOOST_FIXTURE_TEST_CASE(a_full_backlog_is_answered_by_cookies_that_come_home, tcp_link) { // RFC 4987 3.6
    auto listener = stack->listen({ipv6::any(), 9}, {.backlog = 1});
    for (std::uint16_t from = 100; from < 103; ++from) {
        bytes b(20);
        wire::tcp_header{.source_port = from, .destination_port = 9, .sequence = 5, .flags = tcp_flags::syn, .window = 65'535}.emit(b);
        wire::store_tcp_checksum(b, peer, us);
        send(b, peer, us, ip_protocol::tcp);
    }
    const auto answers = heard();
    BOOST_REQUIRE(answers.size() == 3u);
    BOOST_TEST(stack->tcp().connections() == 1u);
    BOOST_TEST(stack->statistics().tcp_cookies_sent == 2u);
    const auto cookie = tcp_of(answers[2]);
    bytes b(20);
    wire::tcp_header{.source_port = 102, .destination_port = 9, .sequence = 6, .acknowledgment = cookie.sequence() + 1,
                     .flags = tcp_flags::ack, .window = 65'535}
        .emit(b);
    wire::store_tcp_checksum(b, peer, us);
    send(b, peer, us, ip_protocol::tcp);
    BOOST_TEST(stack->statistics().tcp_cookies_accepted == 1u);
    BOOST_TEST(stack->tcp().connections() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
