// What RFC 9293 3.9 demands at TCP's two sides: of OPEN, which has addresses, and of IP below, which has them, a class of service and hops.
#include "ipv6_link.hh"

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>
#include <corewire/reactor/task/task_group.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;
using wire::tcp_flags;

namespace {

const ipv4 us4(10, 0, 0, 1), peer4(10, 0, 0, 2);

struct segment {
    net_address from, to;
    std::uint8_t hops, service;
    wire::tcp_header header;
    bool has_mss;
    std::uint16_t mss;
    std::size_t text;
};

struct interfaces : ipv6_link {
    interfaces() {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        stack->ip().neighbors().set_permanent(peer4, end->mac());
        introduce();
    }
    ~interfaces() { group.destroy_all(); }

    /// A segment without text to port 7, from port `port`.
    void say(const net_address& from, const net_address& to, tcp_flags flags, std::uint32_t seq = 1000, std::uint32_t ack = 0,
             std::uint16_t port = 50'000, std::uint16_t to_port = 7, byte_span ip_options = {}) {
        const bool names_size = said_mss != 0 && (flags & tcp_flags::syn) != tcp_flags::none;
        const std::uint32_t size = names_size ? 24 : 20;
        bytes b(size);
        wire::tcp_header{.source_port = port, .destination_port = to_port, .sequence = seq, .acknowledgment = ack, .flags = flags,
                         .window = 65'535}
            .emit(b, size - 20);
        if (names_size) store_be32(b.data() + 20, 0x0204'0000u | said_mss);
        if (!to.is_v4()) {
            wire::store_tcp_checksum(b, from.v6(), to.v6());
            return send(b, from.v6(), to.v6(), ip_protocol::tcp);
        }
        wire::store_tcp_checksum(b, from.v4(), to.v4());
        const ipv4 at = to.v4();
        const bool all = at.is_broadcast() || at == ipv4(10, 0, 0, 255);
        packet p;
        p.head = end->pool().allocate_buffer();
        const mac_address mac = all ? mac_address::broadcast() : at.is_multicast() ? mac_address::of_multicast(at) : stack->device().mac();
        wire::ethernet_header{.destination = mac, .source = end->mac(), .type = wire::ether_type::ipv4}.emit({p.head.append(14), 14});
        const auto ip_size = static_cast<std::uint32_t>(20 + ip_options.size());
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(ip_size + size), .protocol = ip_protocol::tcp, .source = from.v4(),
                          .destination = at}
            .emit({p.head.append(ip_size), ip_size}, ip_options);
        std::memcpy(p.head.append(size), b.data(), size);
        end->transmit({&p, 1});
        pass(1ms);
    }
    /// The TCP segments that have come from the stack since the last call.
    std::vector<segment> said() {
        std::vector<segment> out;
        for (const bytes& f : frames()) {
            segment s{};
            byte_span tcp;
            if (wire::ipv4_view ip; load_be16(f.data() + 12) == 0x0800) {
                BOOST_REQUIRE((wire::ipv4_view::parse(byte_span(f).subspan(14), ip) == wire::parse_error::none));
                if (ip.protocol() != ip_protocol::tcp) continue;
                s.from = ip.source(), s.to = ip.destination(), s.hops = ip.ttl(), s.service = load_u8(f.data() + 15);
                tcp = ip.payload();
            } else if (load_be16(f.data() + 12) == 0x86dd) {
                wire::ipv6_view six;
                BOOST_REQUIRE((wire::ipv6_view::parse(byte_span(f).subspan(14), six) == wire::parse_error::none));
                if (six.next_header() != ip_protocol::tcp) continue;
                s.from = six.source(), s.to = six.destination(), s.hops = six.hop_limit(), s.service = six.traffic_class();
                tcp = byte_span(f).subspan(54);
            } else {
                continue;
            }
            wire::tcp_view v;
            BOOST_REQUIRE((wire::tcp_view::parse(tcp, v) == wire::parse_error::none));
            wire::tcp_options options;
            BOOST_REQUIRE((wire::tcp_options::parse(v.options(), options) == wire::parse_error::none));
            s.header = wire::tcp_header::from(v);
            s.has_mss = options.has_mss();
            s.mss = options.mss;
            s.text = v.payload().size();
            out.push_back(s);
        }
        return out;
    }
    static task<> accept_all(interfaces& w) {
        for (;;) {
            tcp_stream made = co_await w.listener.accept();
            w.streams.push_back(std::move(made));
        }
    }
    void listen(const tcp_options_set& options = {}) {
        listener = tcp_listener::bind({ipv6::any(), 7}, {.stream = options});
        group.spawn(accept_all(*this));
        pass(1ms);
        said();
    }
    static task<> dial(interfaces& w, socket_address to, tcp_options_set options, socket_address local, std::error_code& why) {
        try {
            tcp_stream made = co_await tcp_stream::connect(to, options, {}, local);
            w.streams.push_back(std::move(made));
        } catch (const std::system_error& e) {
            why = e.code();
        }
    }
    std::error_code connect(const net_address& to, const tcp_options_set& options = {}, socket_address local = {ipv4::any(), 0}) {
        std::error_code why;
        group.spawn(dial(*this, {to, 7}, options, local, why));
        pass(2ms);
        return why;
    }
    /// The handshake is ended for the SYN that was said last.
    void answer(const segment& syn) {
        say(syn.to, syn.from, tcp_flags::syn | tcp_flags::ack, 5000, syn.header.sequence + 1, 7, syn.header.source_port);
    }
    /// The SYN is answered, and much is written: the text of the largest segment that comes.
    std::size_t largest_segment(const segment& syn) {
        answer(syn);
        BOOST_REQUIRE(!streams.empty());
        return largest_segment_of(streams.back());
    }
    std::size_t largest_segment_of(tcp_stream& s) {
        group.spawn(write_much(s));
        pass(1ms);
        std::size_t most = 0;
        for (const segment& each : said()) most = std::max(most, each.text);
        return most;
    }
    static task<> write_much(tcp_stream& s) {
        const std::string text(8000, 't');
        co_await s.write(std::string_view{text});
    }
    /// Of those, the SYNs and SYN-ACKs: others may be sent again at any time.
    std::vector<segment> said_syns() {
        std::vector<segment> out = said();
        std::erase_if(out, [](const segment& each) { return (each.header.flags & tcp_flags::syn) == tcp_flags::none; });
        return out;
    }
    std::uint16_t said_mss = 0; ///< in our SYNs and SYN-ACKs; 0: none
    task_group group{"interfaces"};
    tcp_listener listener;
    std::vector<tcp_stream> streams;
};

task<> write_text(tcp_stream& s) {
    const std::string_view text = "text";
    co_await s.write(text);
}

} // namespace

BOOST_AUTO_TEST_SUITE(tcp_interfaces)

BOOST_FIXTURE_TEST_CASE(who_speaks_to_all_is_not_heard, interfaces) { // RFC 9293 3.9.2.3, MUST-57
    listen();
    for (const ipv4 to : {ipv4(10, 0, 0, 255), ipv4::broadcast(), ipv4::all_hosts()})
        for (const tcp_flags flags : {tcp_flags::syn, tcp_flags::ack}) say(peer4, to, flags);
    for (const tcp_flags flags : {tcp_flags::syn, tcp_flags::ack}) say(peer, ipv6::all_nodes(), flags);
    BOOST_TEST(said().empty()); // no SYN-ACK, no reset
    BOOST_TEST(stack->tcp().connections() == 0u);
}

BOOST_FIXTURE_TEST_CASE(who_speaks_in_the_name_of_nobody_is_not_heard, interfaces) { // RFC 9293 3.9.2.3, MUST-63
    listen();
    for (const ipv4 from : {ipv4(10, 0, 0, 255), ipv4::broadcast(), ipv4(224, 0, 0, 1), ipv4::any(), ipv4(127, 0, 0, 1), us4})
        say(from, us4, tcp_flags::syn);
    for (const char* from : {"ff02::1", "::1", "::", "2001:db8::1"}) say(a6(from), us, tcp_flags::syn);
    BOOST_TEST(said().empty());
    BOOST_TEST(stack->tcp().connections() == 0u);
}

BOOST_FIXTURE_TEST_CASE(no_connection_is_opened_to_all, interfaces) { // RFC 9293 3.9.1.1, MUST-46
    for (const ipv4 to : {ipv4(10, 0, 0, 255), ipv4::broadcast(), ipv4(239, 1, 1, 1)}) BOOST_TEST(static_cast<bool>(connect(to)));
    BOOST_TEST(static_cast<bool>(connect(a6("ff02::1"))));
    BOOST_TEST(said().empty());
    BOOST_TEST(stack->tcp().connections() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_listener_is_beside_those_that_it_has_opened, interfaces) { // RFC 9293 3.9.1.1, MUST-41, MUST-42
    listen();
    say(peer4, us4, tcp_flags::syn, 1000, 0, 50'000);
    const auto first = said();
    BOOST_REQUIRE(first.size() == 1u);
    say(peer4, us4, tcp_flags::syn, 2000, 0, 50'001); // while that handshake is open
    const auto second = said();
    BOOST_REQUIRE(second.size() == 1u);
    BOOST_TEST((second[0].header.acknowledgment == 2001u));
    BOOST_CHECK_THROW(tcp_listener::bind({ipv6::any(), 7}), std::system_error); // and another one is refused, which changes neither
    say(peer4, us4, tcp_flags::ack, 1001, first[0].header.sequence + 1, 50'000);
    say(peer4, us4, tcp_flags::ack, 2001, second[0].header.sequence + 1, 50'001);
    BOOST_TEST(streams.size() == 2u);
}

BOOST_FIXTURE_TEST_CASE(who_listens_at_one_address_is_found_before_who_listens_at_all, interfaces) { // RFC 9293 3.9.1.1
    struct service {
        socket_address at;
        tcp_listener listener = tcp_listener::bind(at);
        unsigned accepted = 0;
        task_group group{"accept"};
        explicit service(socket_address where) : at(where) { group.spawn(accept_all(*this)); }
        ~service() { group.destroy_all(); }
        static task<> accept_all(service& s) {
            for (;;) {
                tcp_stream made = co_await s.listener.accept();
                made.abort();
                ++s.accepted;
            }
        }
    };
    const ipv6 link_local = stack->ip().six()->addresses().all()[0].address;
    BOOST_REQUIRE((link_local.is_link_local() && us4 == stack->address()));
    std::uint16_t from_port = 50'000;
    const auto call = [&](const net_address& to) { // true: somebody listens there
        const net_address from = to.is_v4() ? net_address(peer4) : to.v6().is_link_local() ? net_address(peer_local) : net_address(peer);
        said();
        say(from, to, tcp_flags::syn, 1000, 0, ++from_port);
        const auto out = said();
        BOOST_REQUIRE(out.size() == 1u);
        if ((out[0].header.flags & tcp_flags::rst) != tcp_flags::none) return false;
        say(from, to, tcp_flags::ack, 1001, out[0].header.sequence + 1, from_port);
        return true;
    };
    const auto is_taken = [](const socket_address& at) {
        try {
            static_cast<void>(tcp_listener::bind(at));
            return false;
        } catch (const std::system_error& e) {
            return e.code() == std::errc::address_in_use;
        }
    };
    send(message(wire::neighbor_solicitation{link_local, end->mac()}, peer_local, link_local.solicited_node()), peer_local,
         link_local.solicited_node(), ip_protocol::icmpv6, 255); // the peer's other address is known
    std::optional<service> all, four, six, link;
    link.emplace(socket_address(link_local, 7));
    BOOST_TEST((!call(us) && !call(us4) && call(link_local)));
    all.emplace(socket_address(ipv6::any(), 7)); // whichever was there first
    four.emplace(socket_address(us4, 7));
    six.emplace(socket_address(us, 7));
    for (const socket_address& at : {all->at, four->at, six->at, link->at, socket_address(ipv4::any(), 7)}) BOOST_TEST(is_taken(at));
    for (const net_address& to : {net_address(us), net_address(us4), net_address(link_local)}) BOOST_TEST(call(to));
    BOOST_TEST((all->accepted == 0 && four->accepted == 1 && six->accepted == 1 && link->accepted == 2));
    six.reset();
    four.reset();
    BOOST_TEST((call(us) && call(us4) && call(link_local)));
    BOOST_TEST((all->accepted == 2 && link->accepted == 3));
    all.reset();
    BOOST_TEST((!call(us) && !call(us4) && call(link_local)));
    all.emplace(socket_address(ipv4::any(), 7)); // of IPv4 alone
    BOOST_TEST((all->listener.local_address() == socket_address(us4, 7)));
    BOOST_TEST((!call(us) && call(us4)));
    BOOST_TEST(!is_taken(socket_address(us, 7)));
}

BOOST_FIXTURE_TEST_CASE(a_handshake_that_is_reset_leaves_the_listener_as_it_was, interfaces) { // RFC 9293 3.10.7.4, MUST-11
    listen();
    say(peer4, us4, tcp_flags::syn);
    BOOST_TEST(said().size() == 1u);
    say(peer4, us4, tcp_flags::rst, 1001);
    BOOST_TEST(stack->tcp().connections() == 0u);
    say(peer4, us4, tcp_flags::syn, 3000);
    const auto again = said();
    BOOST_REQUIRE(again.size() == 1u);
    say(peer4, us4, tcp_flags::ack, 3001, again[0].header.sequence + 1);
    BOOST_TEST(streams.size() == 1u); // nobody is told of the other
}

BOOST_FIXTURE_TEST_CASE(a_connection_has_one_address_which_it_is_given_or_ip_chooses, interfaces) { // MUST-43, MUST-44, MUST-45
    const std::error_code why = connect(peer, {}, {us, 1234}); // OPEN's local address
    BOOST_TEST(!why);
    auto out = said();
    BOOST_REQUIRE(out.size() == 1u);
    BOOST_TEST((out[0].from == net_address(us) && out[0].header.source_port == 1234));
    connect(peer);
    out = said();
    BOOST_REQUIRE(out.size() == 1u);
    BOOST_TEST((out[0].from == net_address(us) && out[0].from == net_address(stack->ip().six()->source_for(peer))));
    answer(out[0]);
    group.spawn(write_text(streams.at(0)));
    pass(2s); // and again, as nobody answers
    out = said();
    BOOST_TEST(out.size() >= 3u);
    unsigned others = 0;
    for (const segment& s : out)
        if (s.header.source_port != 1234) others += s.from != net_address(us);
    BOOST_TEST(others == 0u);
    BOOST_TEST((connect(peer, {}, {a6("2001:db8::77"), 0}) == std::errc::address_not_available)); // none of ours
}

BOOST_FIXTURE_TEST_CASE(class_of_service_and_hops_are_the_applications_to_say, interfaces) { // RFC 9293 3.9.2, MUST-48, MUST-49
    tcp_options_set marked;
    marked.hops = 9;
    marked.traffic_class = 0xbb; // ECN's bits are the connection's
    for (const net_address& to : {net_address(peer4), net_address(peer)}) {
        connect(to);
        auto out = said();
        BOOST_REQUIRE(out.size() == 1u);
        BOOST_TEST((out[0].hops == 64 && out[0].service == 0));
        connect(to, marked);
        out = said();
        BOOST_REQUIRE(out.size() == 1u);
        BOOST_TEST((out[0].hops == 9 && out[0].service == 0xb8));
        answer(out[0]);
        BOOST_REQUIRE(!streams.empty());
        BOOST_TEST((streams.back().options().hops == 9 && streams.back().options().traffic_class == 0xb8));
        tcp_options_set other = streams.back().options();
        other.hops = 77;
        other.traffic_class = 0x20;
        streams.back().set_options(other); // SHLD-21: from now on
        said();
        group.spawn(write_text(streams.back()));
        pass(1ms);
        out = said();
        BOOST_REQUIRE(out.size() == 1u);
        BOOST_TEST((out[0].hops == 77 && out[0].service == 0x20 && out[0].text == 4u));
        other.hops = other.traffic_class = 0;
        streams.back().set_options(other);
        pass(1s);
        out = said();
        BOOST_REQUIRE(!out.empty());
        BOOST_TEST((out.back().hops == 64 && out.back().service == 0));
        group.destroy_all();
        streams.clear();
        pass(1ms);
        said();
    }
    listen(marked); // those that a listener accepts have its own
    say(peer4, us4, tcp_flags::syn);
    const auto out = said();
    BOOST_REQUIRE(out.size() == 1u);
    BOOST_TEST((out[0].hops == 9 && out[0].service == 0xb8));
}

BOOST_AUTO_TEST_CASE(cookies_are_marked_as_their_listener_wants_it) { // as with net.ipv4.tcp_syncookies: GTSM (RFC 5082) sees no other TTL
    interfaces w;
    tcp_options_set marked;
    marked.hops = 255;
    marked.traffic_class = 0xc0;
    w.listener = tcp_listener::bind({ipv6::any(), 7}, {.backlog = 1, .stream = marked});
    w.group.spawn(interfaces::accept_all(w));
    for (const bool six : {false, true}) {
        const net_address from = six ? net_address(w.peer) : net_address(peer4), to = six ? net_address(w.us) : net_address(us4);
        for (std::uint16_t port = 50'000; port < 50'010; ++port) w.say(from, to, tcp_flags::syn, 1000, 0, port);
        const auto out = w.said();
        BOOST_TEST(out.size() > 5u);
        for (const segment& s : out) BOOST_TEST((s.hops == 255 && s.service == 0xc0));
    }
    BOOST_TEST(w.stack->statistics().tcp_cookies_sent > 10u);
}

BOOST_FIXTURE_TEST_CASE(options_of_ip_that_nobody_knows_are_ignored, interfaces) { // RFC 9293 3.9.2.1, MUST-50
    listen();
    const bytes unknown = {std::byte{0x5e}, std::byte{4}, std::byte{1}, std::byte{2}}; // of the class for experiments (RFC 4727 3)
    say(peer4, us4, tcp_flags::syn, 1000, 0, 50'000, 7, unknown);
    const auto out = said();
    BOOST_REQUIRE(out.size() == 1u);
    BOOST_TEST((out[0].header.flags == (tcp_flags::syn | tcp_flags::ack)));
}

BOOST_FIXTURE_TEST_CASE(what_icmp_says_of_a_living_connection_is_told, interfaces) { // RFC 9293 3.9.1.8, MUST-47
    connect(peer);
    auto out = said();
    BOOST_REQUIRE(out.size() == 1u);
    answer(out[0]);
    group.spawn(write_text(streams.at(0)));
    pass(1ms);
    bytes quoted;
    for (const bytes& f : frames())
        if (load_be16(f.data() + 12) == 0x86dd && load_u8(f.data() + 20) == 6) quoted.assign(f.begin() + 14, f.end());
    BOOST_REQUIRE(!quoted.empty());
    BOOST_TEST((streams[0].info().soft_error == std::errc{}));
    const ipv6 router = a6("2001:db8::99");
    send(icmp({wire::icmpv6_type::unreachable, 0, 0}, router, us, quoted), router, us, ip_protocol::icmpv6); // no route
    BOOST_TEST((streams[0].info().soft_error != std::errc{}));
    BOOST_TEST((streams[0].info().state == tcp::tcp_state::established));
}

BOOST_FIXTURE_TEST_CASE(a_segment_size_is_said_in_syns_alone, interfaces) { // RFC 9293 3.7.1, MUST-65, MUST-67
    connect(peer4);
    auto out = said();
    BOOST_REQUIRE(out.size() == 1u);
    BOOST_TEST(out[0].has_mss);
    answer(out[0]);
    group.spawn(write_text(streams.at(0)));
    pass(1s);
    out = said();
    BOOST_TEST(out.size() > 2u);
    for (const segment& s : out) BOOST_TEST(!s.has_mss);
}

BOOST_FIXTURE_TEST_CASE(the_size_that_is_said_is_the_links_and_the_size_that_is_sent_the_paths, interfaces) { // MUST-67, MUST-16
    said_mss = 1460;
    for (const net_address& to : {net_address(peer4), net_address(peer)}) {
        const unsigned headers = to.is_v4() ? 40 : 60;
        for (const unsigned path : {1500u, 1400u}) {
            stack->ip().path_mtus().lower(clock.now(), to, path);
            connect(to);
            const auto out = said_syns();
            BOOST_REQUIRE(out.size() == 1u);
            BOOST_TEST(out[0].mss == 1500 - headers);
            BOOST_TEST(largest_segment(out[0]) == path - headers);
        }
    }
    streams.clear();
    pass(1ms);
    listener = tcp_listener::bind({ipv6::any(), 7}, {.backlog = 1});
    group.spawn(accept_all(*this));
    said();
    for (const bool six : {false, true}) {
        const net_address from = six ? net_address(peer) : net_address(peer4), to = six ? net_address(us) : net_address(us4);
        const std::uint64_t cookies = stack->statistics().tcp_cookies_sent;
        for (std::uint16_t port = 50'000; port < 50'004; ++port) say(from, to, tcp_flags::syn, 1000, 0, port);
        const auto out = said_syns();
        BOOST_REQUIRE(out.size() == 4u);
        for (const segment& s : out) BOOST_TEST(s.mss == 1500 - (six ? 60 : 40));
        BOOST_TEST(stack->statistics().tcp_cookies_sent > cookies); // they say the same
        for (const segment& s : out) { // a connection of either kind sends what the path carries
            say(from, to, tcp_flags::ack, 1001, s.header.sequence + 1, s.header.destination_port);
            BOOST_REQUIRE(!streams.empty());
            BOOST_TEST(largest_segment_of(streams.back()) <= 1400u - (six ? 60 : 40));
        }
    }
}

BOOST_FIXTURE_TEST_CASE(who_names_no_size_gets_the_least_that_every_host_takes, interfaces) { // RFC 9293 3.7.1, MUST-15
    for (const bool six : {false, true}) {
        const net_address from = six ? net_address(peer) : net_address(peer4), to = six ? net_address(us) : net_address(us4);
        const std::size_t least = six ? 1220 : 536;
        connect(from);
        const auto syn = said_syns();
        BOOST_REQUIRE(syn.size() == 1u);
        BOOST_TEST(largest_segment(syn[0]) == least);
        streams.clear();
        pass(1ms);
        said();
        listener = tcp_listener::bind({ipv6::any(), 7}, {.backlog = 1});
        task_group accepting{"accept"};
        accepting.spawn(accept_all(*this));
        for (std::uint16_t port = 50'000; port < 50'003; ++port) say(from, to, tcp_flags::syn, 1000, 0, port); // the others get cookies
        for (const segment& s : said_syns()) {
            say(from, to, tcp_flags::ack, 1001, s.header.sequence + 1, s.header.destination_port);
            BOOST_REQUIRE(!streams.empty());
            BOOST_TEST(largest_segment_of(streams.back()) <= least); // a cookie remembers sizes of its table only
        }
        accepting.destroy_all();
        listener = {};
    }
}

namespace {

/// In shared mode: what the host's routes and its interface say of sizes.
struct sized_interfaces : interfaces {
    sized_interfaces() { said_mss = 1460; }
    void tell(const route_sizes& sizes) {
        const route four[] = {{ip_prefix(ipv4(10, 0, 0, 0), 24), ipv4::any(), false, false, sizes}};
        const ipv6_route six[] = {{ipv6_prefix(a6("2001:db8::"), 64), ipv6::any(), false, false, sizes}};
        BOOST_TEST(stack->follow_routes(four, six) == 0u);
    }
    segment dial_to(const net_address& to) {
        connect(to);
        const auto out = said_syns();
        BOOST_REQUIRE(out.size() == 1u);
        return out[0];
    }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(a_route_says_how_much_goes_its_way_and_how_much_may_come, sized_interfaces) { // RTAX_MTU, RTAX_ADVMSS
    for (const net_address& to : {net_address(peer4), net_address(peer)}) {
        const unsigned headers = to.is_v4() ? 40 : 60;
        tell({.mtu = 1300});
        segment syn = dial_to(to);
        BOOST_TEST(syn.mss == 1500 - headers); // what the link brings
        BOOST_TEST(largest_segment(syn) == 1300 - headers);
        tell({.segment = 1000});
        syn = dial_to(to);
        BOOST_TEST(syn.mss == 1000);
        BOOST_TEST(largest_segment(syn) == 1500 - headers);
        tell({});
        syn = dial_to(to);
        BOOST_TEST(syn.mss == 1500 - headers);
        BOOST_TEST(largest_segment(syn) == 1500 - headers);
        tell({.mtu = 1290}); // of those that stand, too
        const std::size_t most = largest_segment_of(streams.back());
        BOOST_TEST((most > 1000 && most <= 1290 - headers));
        tell({.mtu = 9000}); // no more than the link takes
        BOOST_TEST(stack->ip().path_mtu_to(clock.now(), to) == 1500u);
    }
}

BOOST_FIXTURE_TEST_CASE(a_routes_mtu_is_made_less_by_reports, sized_interfaces) { // locked or not: our packets cannot be cut
    for (const net_address& to : {net_address(peer4), net_address(peer)}) {
        tell({.mtu = 1400});
        const segment syn = dial_to(to);
        BOOST_TEST(largest_segment(syn) == 1400u - (to.is_v4() ? 40 : 60));
        const flow_name flow(syn.from, syn.to, syn.header.source_port, 7);
        stack->tcp().on_path_mtu(clock.now(), flow, 1300, tcp::seq_number{syn.header.sequence + 1}); // as a router said it
        pass(500ms); // a time-out, which proves it (RFC 5927 7.2)
        BOOST_TEST(streams.back().info().path_mtu == 1300u);
        BOOST_TEST(stack->ip().path_mtu_to(clock.now(), to) == 1300u);
    }
}

BOOST_FIXTURE_TEST_CASE(a_route_that_takes_next_to_nothing_makes_no_segment_larger, sized_interfaces) { // `mtu 20`: no room for the headers
    for (const net_address& to : {net_address(peer4), net_address(peer)}) {
        for (const std::uint16_t mtu : {1, 39, 40, 67}) {
            tell({.mtu = mtu});
            BOOST_TEST(stack->ip().path_mtu_to(clock.now(), to) == (to.is_v4() ? 68u : 1280u));
            BOOST_TEST(largest_segment(dial_to(to)) <= (to.is_v4() ? 100u : 1220u));
        }
    }
}

BOOST_FIXTURE_TEST_CASE(an_interface_that_takes_less_than_before_is_sent_less, sized_interfaces) { // IFLA_MTU
    for (const net_address& to : {net_address(peer4), net_address(peer)}) {
        const unsigned headers = to.is_v4() ? 40 : 60;
        stack->follow_link_mtu(1500);
        const segment before = dial_to(to);
        BOOST_TEST(largest_segment(before) == 1500 - headers);
        stack->follow_link_mtu(1350);
        const std::size_t most = largest_segment_of(streams.back());
        BOOST_TEST((most > 1000 && most <= 1350 - headers));
        const segment after = dial_to(to);
        BOOST_TEST(after.mss == 1350 - headers);
        BOOST_TEST(largest_segment(after) == 1350 - headers);
        stack->follow_link_mtu(1000);
        BOOST_TEST(stack->ip().path_mtu_to(clock.now(), to) == (to.is_v4() ? 1000u : 1280u)); // RFC 8200 5
        stack->follow_link_mtu(9000); // the frames are as large as they were made
        BOOST_TEST(stack->ip().path_mtu_to(clock.now(), to) == 1500u);
        BOOST_TEST(dial_to(to).mss == 1500 - headers);
    }
}

BOOST_AUTO_TEST_SUITE_END()
