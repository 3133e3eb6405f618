// IPv6 fragments through the stack: put together in any order, refused when they are not as they must be, cut when a datagram is
// longer than the path takes.
#include "ipv6_link.hh"

#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/reactor/task/task_group.hh>

#include <algorithm>
#include <map>
#include <numeric>

using namespace corewire;
using namespace std::chrono_literals;
using wire::icmpv6_type;
using wire::ip_protocol;

namespace {

struct fragment_link : ipv6_link {
    fragment_link() {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        socket = udp_socket::bind({us, 7});
        introduce();
    }
    ~fragment_link() { group.destroy_all(); }

    /// Bytes [from, to) of a datagram, in a fragment.
    void piece(const bytes& datagram, std::size_t from, std::size_t to, std::uint32_t id = 1, ip_protocol protocol = ip_protocol::udp) {
        bytes b(8 + to - from);
        b[0] = static_cast<std::byte>(protocol);
        store_be16(b.data() + 2, static_cast<std::uint16_t>(from | (to < datagram.size() ? 1 : 0)));
        store_be32(b.data() + 4, id);
        std::copy(datagram.begin() + static_cast<std::ptrdiff_t>(from), datagram.begin() + static_cast<std::ptrdiff_t>(to), b.begin() + 8);
        send(b, peer, us, ip_protocol::ipv6_fragment);
    }
    bytes datagram(std::size_t payload) const {
        bytes d(8 + payload);
        for (std::size_t i = 8; i < d.size(); ++i) d[i] = static_cast<std::byte>(i * 7);
        wire::udp_header{4000, 7, static_cast<std::uint16_t>(d.size()), 0}.emit(d);
        wire::store_udp_checksum(d, peer, us);
        return d;
    }
    static task<> receive(fragment_link& w) {
        for (;;) {
            corewire::datagram d = co_await w.socket.receive_from();
            w.received.push_back(d.data.size());
        }
    }
    static task<> send_out(fragment_link& w, std::size_t size) {
        const std::vector<std::byte> data(size, std::byte{'x'});
        const socket_address to(w.peer, 4000);
        co_await w.socket.send_to(byte_span{data}, to);
    }
    std::vector<std::size_t> got() {
        if (group.size() == 0) group.spawn(receive(*this));
        pass(1ms);
        return std::exchange(received, {});
    }
    task_group group{"fragments"};
    udp_socket socket;
    std::vector<std::size_t> received;
};

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_fragments)

BOOST_FIXTURE_TEST_CASE(fragments_in_any_order_make_one_datagram, fragment_link) { // RFC 8200 4.5
    const bytes d = datagram(4000);
    std::vector<std::size_t> order{0, 1, 2};
    std::uint32_t id = 1;
    do {
        for (const std::size_t i : order) piece(d, i * 1400, std::min<std::size_t>(d.size(), (i + 1) * 1400), id);
        ++id;
        BOOST_TEST(got() == std::vector<std::size_t>{4000}, boost::test_tools::per_element());
    } while (std::next_permutation(order.begin(), order.end()));
    BOOST_TEST(heard().empty());
    BOOST_TEST(stack->fragments().size() == 0u);
}

BOOST_FIXTURE_TEST_CASE(what_the_first_fragment_says_is_behind_them_counts, fragment_link) { // RFC 8200 4.5
    const bytes d = datagram(2000);
    piece(d, 1200, d.size(), 1, ip_protocol::tcp);
    piece(d, 0, 1200, 1, ip_protocol::udp);
    piece(d, 0, 1200, 2, ip_protocol::udp);
    piece(d, 1200, d.size(), 2, ip_protocol::tcp);
    const std::vector<std::size_t> both{2000, 2000};
    BOOST_TEST(got() == both, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(the_longest_datagram_fits, fragment_link) { // RFC 8200 4.5: 65,535 bytes behind the IPv6 header
    const bytes d = datagram(65'527);
    for (std::size_t at = 0; at < d.size(); at += 1448) piece(d, at, std::min(d.size(), at + 1448));
    BOOST_TEST(got() == std::vector<std::size_t>{65'527}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(an_overlap_kills_the_datagram, fragment_link) { // RFC 8200 4.5, RFC 5722 4
    const bytes d = datagram(2000);
    piece(d, 0, 1200);
    piece(d, 1192, d.size());
    piece(d, 1200, d.size());
    BOOST_TEST(got().empty());
    BOOST_TEST(stack->fragments().statistics().overlaps == 1u);
    piece(d, 0, 1200); // all of it once more: what comes of that datagram later dies as well
    piece(d, 1200, d.size());
    BOOST_TEST(got().empty());
    BOOST_TEST(stack->fragments().statistics().posthumous == 3u);
    BOOST_TEST(stack->fragments().size() == 0u);
    piece(d, 0, 1200, 2);
    piece(d, 1200, d.size(), 2);
    BOOST_TEST(got().size() == 1u);
    pass(31s);
    for (const auto& packet : heard()) // silently (RFC 5722 4)
        BOOST_TEST((view(packet).next_header() != ip_protocol::icmpv6 || icmp_of(packet).type() != icmpv6_type::time_exceeded));
    introduce();
    piece(d, 0, 1200);
    piece(d, 1200, d.size());
    BOOST_TEST(got().size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_first_fragment_without_all_headers_is_told, fragment_link) { // RFC 7112 5, RFC 8200 4.5
    const auto first = [&](std::uint8_t next, bytes content) {
        bytes b(8);
        b[0] = static_cast<std::byte>(next);
        store_be16(b.data() + 2, 1); // more follow
        store_be32(b.data() + 4, 77);
        b.insert(b.end(), content.begin(), content.end());
        send(b, peer, us, ip_protocol::ipv6_fragment);
        const auto said = heard();
        if (said.empty()) return false;
        BOOST_REQUIRE(said.size() == 1u);
        const auto m = icmp_of(said[0]);
        BOOST_TEST((m.type() == icmpv6_type::parameter_problem && m.code() == 3 && m.pointer() == 0u));
        return true;
    };
    constexpr std::uint8_t tcp = 6, udp = 17, options = 60, icmp = 58, unknown = 200;
    const auto header = [](std::uint8_t next, std::size_t and_more) {
        bytes b(8 + and_more);
        b[0] = static_cast<std::byte>(next);
        b[2] = std::byte{1}; // PadN fills it
        b[3] = std::byte{4};
        return b;
    };
    BOOST_TEST(first(udp, {}));
    BOOST_TEST(first(tcp, bytes(16)));
    bytes long_header(24);
    long_header[12] = std::byte{0x80}; // 32 bytes
    BOOST_TEST(first(tcp, long_header));
    BOOST_TEST(first(options, header(udp, 0)));
    BOOST_TEST(first(options, header(tcp, 16)));
    bytes far = header(udp, 8);
    far[1] = std::byte{9}; // an extension header that is longer than the fragment
    BOOST_TEST(first(options, far));
    BOOST_TEST(first(unknown, {}));
    BOOST_TEST(stack->statistics().ipv6_fragments_refused == 7u);
    BOOST_TEST(stack->fragments().statistics().fragments == 0u);

    BOOST_TEST(!first(options, header(udp, 8)));
    BOOST_TEST(!first(options, header(59, 0)));
    BOOST_TEST(!first(icmp, bytes(8)));
    BOOST_TEST(!first(unknown, bytes(8)));
    long_header.resize(32);
    BOOST_TEST(!first(tcp, long_header));
    BOOST_TEST(stack->statistics().ipv6_fragments_refused == 7u);
}

BOOST_FIXTURE_TEST_CASE(identifications_and_hosts_are_kept_apart, fragment_link) {
    const bytes d = datagram(2000);
    piece(d, 0, 1200, 1);
    piece(d, 1200, d.size(), 2);
    BOOST_TEST(got().empty());
    piece(d, 1200, d.size(), 1);
    BOOST_TEST(got().size() == 1u);
    BOOST_TEST(stack->fragments().size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(wrong_lengths_are_told, fragment_link) { // RFC 8200 4.5
    const bytes d = datagram(2000);
    piece(d, 0, 1201); // not the last, and no multiple of 8
    auto said = heard();
    BOOST_REQUIRE(said.size() == 1u);
    auto problem = icmp_of(said[0]);
    BOOST_TEST((problem.type() == icmpv6_type::parameter_problem && problem.code() == 0 && problem.pointer() == 4u));
    bytes far(8 + 16);
    far[0] = std::byte{17};
    store_be16(far.data() + 2, 0xfff8);
    send(far, peer, us, ip_protocol::ipv6_fragment); // beyond 65,535 bytes
    said = heard();
    BOOST_REQUIRE(said.size() == 1u);
    problem = icmp_of(said[0]);
    BOOST_TEST((problem.type() == icmpv6_type::parameter_problem && problem.code() == 0 && problem.pointer() == 42u));
    BOOST_TEST(stack->statistics().ipv6_fragments_refused == 2u);
    BOOST_TEST(stack->fragments().size() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_datagram_that_takes_too_long_is_told_if_its_start_was_there, fragment_link) { // RFC 8200 4.5
    const bytes d = datagram(2000);
    piece(d, 0, 1200, 1);
    piece(d, 1200, d.size(), 2);
    pass(31s);
    int told = 0;
    for (const auto& packet : heard()) {
        if (view(packet).next_header() != ip_protocol::icmpv6) continue;
        const auto m = icmp_of(packet);
        if (m.type() != icmpv6_type::time_exceeded) continue; // the neighbour is asked for, too
        BOOST_TEST(m.code() == 1);
        ++told;
    }
    // The neighbour has been forgotten meanwhile, or not: the answer goes when it is there.
    send(message(wire::neighbor_advertisement{false, true, true, peer, end->mac()}, peer, us), peer, us, ip_protocol::icmpv6, 255);
    for (const auto& packet : heard()) told += icmp_of(packet).type() == icmpv6_type::time_exceeded ? 1 : 0;
    BOOST_TEST(told == 1);
    BOOST_TEST(stack->fragments().size() == 0u);
}

BOOST_FIXTURE_TEST_CASE(neighbour_discovery_in_fragments_is_ignored, fragment_link) { // RFC 6980 5
    const bytes ns = message(wire::neighbor_solicitation{us, end->mac()}, peer, us);
    for (const std::size_t from : {std::size_t{0}, std::size_t{24}}) {
        const std::size_t to = from == 0 ? 24 : ns.size();
        bytes b(8 + to - from);
        b[0] = std::byte{58};
        store_be16(b.data() + 2, static_cast<std::uint16_t>(from | (to < ns.size() ? 1 : 0)));
        std::copy(ns.begin() + static_cast<std::ptrdiff_t>(from), ns.begin() + static_cast<std::ptrdiff_t>(to), b.begin() + 8);
        send(b, peer, us, ip_protocol::ipv6_fragment, 255);
    }
    BOOST_TEST(heard().empty());
    BOOST_TEST(stack->statistics().ipv6_fragments_refused == 1u);
}

BOOST_FIXTURE_TEST_CASE(neighbour_discovery_in_a_fragment_that_is_all_is_ignored, fragment_link) { // RFC 6980 5, RFC 6946
    const auto in_one = [](const bytes& message) {
        bytes b(8);
        b[0] = std::byte{58};
        b.insert(b.end(), message.begin(), message.end());
        return b;
    };
    const mac_address other(0x02'00'00'00'00'77);
    send(in_one(message(wire::neighbor_solicitation{us, end->mac()}, peer, us)), peer, us, ip_protocol::ipv6_fragment, 255);
    const bytes na = message(wire::neighbor_advertisement{false, false, true, peer, other}, peer, us);
    send(in_one(na), peer, us, ip_protocol::ipv6_fragment, 255);
    BOOST_TEST(heard().empty());
    BOOST_TEST((stack->ip().six()->neighbors().find(peer)->mac() == end->mac()));
    BOOST_TEST(stack->statistics().ipv6_fragments_refused == 2u);
    send(in_one(icmp(wire::icmpv6_header::echo_request(7, 9), peer, us)), peer, us, ip_protocol::ipv6_fragment);
    BOOST_TEST(heard().size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_long_datagram_leaves_in_fragments_that_fit, fragment_link) { // RFC 8200 4.5, 5
    group.spawn(send_out(*this, 4000));
    pass(1ms);
    const auto sent = heard();
    BOOST_REQUIRE(sent.size() == 3u);
    bytes whole(4008);
    std::uint32_t id = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
        const wire::ipv6_chain chain = wire::walk_extensions(sent[i]);
        BOOST_REQUIRE((chain.verdict == wire::ipv6_chain_verdict::good && chain.fragment && chain.protocol == ip_protocol::udp));
        BOOST_TEST(sent[i].size() <= 1500u);
        BOOST_TEST(chain.more_fragments == (i != 2));
        BOOST_TEST((i == 0 || chain.identification == id));
        id = chain.identification;
        std::copy(sent[i].begin() + chain.offset, sent[i].end(), whole.begin() + chain.fragment_offset);
    }
    BOOST_TEST(wire::pseudo_header_sum(us, peer, ip_protocol::udp, whole.size()).add(whole).verifies());
}

BOOST_FIXTURE_TEST_CASE(as_many_bytes_leave_as_come_in, fragment_link) { // RFC 8200 4.5: 65,535 behind the IPv6 header
    group.spawn(send_out(*this, 65'527));
    pass(1ms);
    const auto sent = heard();
    BOOST_REQUIRE(!sent.empty());
    const wire::ipv6_chain last = wire::walk_extensions(sent.back());
    BOOST_TEST(last.fragment_offset + (sent.back().size() - last.offset) == 65'535u);
    const std::vector<std::byte> one_more(65'528);
    const socket_address to(peer, 4000);
    std::errc why{};
    group.spawn([](udp_socket& s, const std::vector<std::byte>& data, socket_address at, std::errc& error) -> task<> {
        try {
            co_await s.send_to(byte_span{data}, at);
        } catch (const std::system_error& e) {
            error = static_cast<std::errc>(e.code().value());
        }
    }(socket, one_more, to, why));
    pass(1ms);
    BOOST_TEST((why == std::errc::message_size));
}

BOOST_FIXTURE_TEST_CASE(identifications_tell_nothing_of_those_that_follow, fragment_link) { // RFC 7739 5.2
    // The fast generator is linear: its state follows from eleven of them, and with it all that come. Of the stack's seed it would say:
    random_generator fast(1 ^ 0x66726167);
    std::vector<std::uint32_t> known;
    for (int i = 0; i < 64; ++i) known.push_back(static_cast<std::uint32_t>(fast.next()));
    std::vector<std::uint32_t> seen;
    for (int i = 0; i < 8; ++i) {
        group.spawn(send_out(*this, 4000));
        pass(1ms);
        for (const bytes& each : heard()) {
            const wire::ipv6_chain chain = wire::walk_extensions(each);
            if (chain.fragment && chain.fragment_offset == 0) seen.push_back(chain.identification);
        }
    }
    BOOST_REQUIRE(seen.size() == 8u);
    for (std::size_t i = 0; i < seen.size(); ++i)
        for (std::size_t j = i + 1; j < seen.size(); ++j) BOOST_TEST(seen[i] != seen[j]);
    for (const std::uint32_t id : seen) BOOST_TEST(std::count(known.begin(), known.end(), id) == 0);
}

BOOST_FIXTURE_TEST_CASE(what_a_connection_finds_of_the_path_counts_for_datagrams, fragment_link) { // RFC 8201 5.2
    group.spawn(send_out(*this, 1400));
    pass(1ms);
    BOOST_TEST(heard().size() == 1u); // the socket knows the way now
    stack->ip().path_mtus().lower(clock.now(), peer, 1300);
    group.spawn(send_out(*this, 1400));
    pass(1ms);
    BOOST_TEST(heard().size() == 2u);
    clock.advance(10min);
    pass(1ms);
    introduce();
    group.spawn(send_out(*this, 1400));
    pass(1ms);
    BOOST_TEST(heard().size() == 1u); // forgotten (RFC 8201 5.3)
}

BOOST_FIXTURE_TEST_CASE(an_echo_request_of_fragments_is_answered_in_fragments, fragment_link) { // RFC 4443 4.2
    for (const std::size_t size : {2000u, 4000u, 60'000u}) {
        bytes text(size);
        for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<std::byte>(i * 7);
        const bytes request = icmp(wire::icmpv6_header::echo_request(7, 9), peer, us, text);
        for (std::size_t from = 0; from < request.size(); from += 1400)
            piece(request, from, std::min<std::size_t>(request.size(), from + 1400), static_cast<std::uint32_t>(size), ip_protocol::icmpv6);
        bytes reply;
        for (const bytes& fragment : heard()) {
            BOOST_REQUIRE((view(fragment).next_header() == ip_protocol::ipv6_fragment && load_u8(fragment.data() + 40) == 58));
            BOOST_TEST((load_be16(fragment.data() + 42) & 0xfff8u) == reply.size());
            reply.insert(reply.end(), fragment.begin() + 48, fragment.end());
        }
        BOOST_REQUIRE(reply.size() == request.size());
        BOOST_TEST(load_u8(reply.data()) == 129);
        BOOST_TEST(wire::pseudo_header_sum(us, peer, ip_protocol::icmpv6, reply.size()).add(reply).verifies());
        BOOST_TEST(std::equal(reply.begin() + 4, reply.end(), request.begin() + 4));
    }
    BOOST_TEST(stack->statistics().no_frame == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
