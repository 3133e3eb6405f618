// Two shards with one address: fragments meet on the first, and what they make goes to the shard that owns the flow.
#include "two_shards.hh"

#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/reactor/task/task_group.hh>

#include <algorithm>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;

namespace {

struct two_shards : two_shards_link {
    explicit two_shards(std::uint32_t mtu = 1500) : two_shards_link(mtu) {
        for (unsigned i = 0; i < 2; ++i) {
            use(i);
            sockets[i] = udp_socket::bind({ipv6::any(), 7});
            group.spawn(receive(*this, i));
        }
        pass(1ms);
        said();
    }
    ~two_shards() {
        group.destroy_all();
        for (udp_socket& s : sockets) s = {};
    }

    static task<> receive(two_shards& w, unsigned shard) {
        for (;;) {
            corewire::datagram d = co_await w.sockets[shard].receive_from();
            w.got[shard].push_back(d.data.size());
            if (!std::equal(d.data.bytes().begin(), d.data.bytes().end(), text(d.data.size()).begin())) w.got[shard].push_back(0);
        }
    }
    static bytes text(std::size_t size) {
        bytes t(size);
        for (std::size_t i = 0; i < size; ++i) t[i] = static_cast<std::byte>(i * 7 + i / 256);
        return t;
    }
    /// A port of the peer's whose flow to our port 7 is this shard's.
    std::uint16_t port_of(unsigned shard, bool six, std::uint16_t ours = 7) const {
        for (std::uint16_t p = 4000;; ++p) {
            const flow_name flow = six ? flow_name(us, peer, ours, p) : flow_name(us4, peer4, ours, p);
            if (first->owner(flow) == shard) return p;
        }
    }
    /// In one piece, to the first shard's port.
    void send_whole(const bytes& transport, ip_protocol protocol, bool six) {
        if (six) send(transport, peer, us, protocol);
        else send4(transport, protocol);
    }
    void send_whole_datagram(std::uint16_t from, std::uint16_t to, std::size_t size, bool six) {
        bytes d(8);
        const bytes t = text(size);
        d.insert(d.end(), t.begin(), t.end());
        wire::udp_header{from, to, static_cast<std::uint16_t>(d.size()), 0}.emit(d);
        if (six) wire::store_udp_checksum(d, peer, us);
        else wire::store_udp_checksum(d, peer4, us4);
        send_whole(d, ip_protocol::udp, six);
    }
    /// Whether the second shard has answered an acknowledgement of nothing with a reset.
    bool second_shard_resets(bool six) {
        bytes s(20);
        wire::tcp_header{.source_port = port_of(1, six), .destination_port = 7, .sequence = 1, .acknowledgment = 1,
                         .flags = wire::tcp_flags::ack, .window = 65'535}
            .emit(s);
        if (six) wire::store_tcp_checksum(s, peer, us);
        else wire::store_tcp_checksum(s, peer4, us4);
        said();
        send_whole(s, ip_protocol::tcp, six);
        return said() == std::pair<std::size_t, std::size_t>{0, 1};
    }
    /// `transport` in pieces of 1,400 bytes, or of two pieces, to the first shard's port.
    void send_pieces(const bytes& transport, ip_protocol protocol, bool six) {
        ++id;
        const std::size_t step = transport.size() > 1400 ? 1400 : 24;
        for (std::size_t at = 0; at < transport.size(); at += step) {
            const std::size_t upto = std::min(transport.size(), at + step);
            const bool more = upto < transport.size();
            const byte_span piece = byte_span(transport).subspan(at, upto - at);
            if (six) send6(piece, to6, protocol, at, more);
            else send4(piece, protocol, at, more);
        }
        pass(1ms);
    }
    void send_datagram(std::uint16_t port, std::size_t size, bool six) {
        bytes d(8);
        const bytes t = text(size);
        d.insert(d.end(), t.begin(), t.end());
        wire::udp_header{port, 7, static_cast<std::uint16_t>(d.size()), 0}.emit(d);
        if (six) wire::store_udp_checksum(d, peer, to6);
        else wire::store_udp_checksum(d, peer4, us4);
        send_pieces(d, ip_protocol::udp, six);
    }
    /// How many frames each shard has sent since the last call.
    std::pair<std::size_t, std::size_t> said() {
        std::pair<std::size_t, std::size_t> n{frames().size(), 0};
        for (packet p; other_end->receive({&p, 1}) != 0; p = {}) ++n.second;
        return n;
    }

    udp_socket sockets[2];
    std::vector<std::size_t> got[2];
    ipv6 to6 = us; ///< where what is sent over IPv6 goes
    task_group group{"two shards"};
};

struct two_shards_of_a_jumbo_link : two_shards {
    two_shards_of_a_jumbo_link() : two_shards(4000) {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(steered_fragments)

BOOST_FIXTURE_TEST_CASE(a_datagram_of_fragments_comes_to_the_shard_of_its_flow, two_shards) {
    for (const bool six : {false, true}) {
        const std::size_t largest = six ? 65'527 : 65'507;
        for (const unsigned shard : {0u, 1u}) {
            for (const std::size_t size : {std::size_t{100}, std::size_t{4000}, largest}) {
                send_datagram(port_of(shard, six), size, six);
                BOOST_TEST(got[shard] == std::vector<std::size_t>{size}, boost::test_tools::per_element());
                BOOST_TEST(got[1 - shard].empty());
                got[0].clear(), got[1].clear();
            }
        }
        BOOST_TEST(stack->statistics().handed_over == (six ? 6u : 3u));
    }
    BOOST_TEST((said() == std::pair<std::size_t, std::size_t>{0, 0})); // nobody is told that there was nobody
    BOOST_TEST(stack->fragments().size() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_segment_of_fragments_is_answered_by_the_shard_of_its_connection, two_shards) { // RFC 9293 3.10.7.1
    for (const bool six : {false, true}) {
        for (const unsigned shard : {0u, 1u}) {
            bytes s(20 + 60);
            wire::tcp_header{.source_port = port_of(shard, six), .destination_port = 7, .sequence = 1, .acknowledgment = 1,
                             .flags = wire::tcp_flags::ack, .window = 65'535}
                .emit(s);
            if (six) wire::store_tcp_checksum(s, peer, us);
            else wire::store_tcp_checksum(s, peer4, us4);
            send_pieces(s, ip_protocol::tcp, six);
            const auto [by_first, by_second] = said();
            BOOST_TEST(by_first == (shard == 0 ? 1u : 0u)); // a reset of another shard's connection would have ended it
            BOOST_TEST(by_second == (shard == 0 ? 0u : 1u));
        }
    }
}

BOOST_FIXTURE_TEST_CASE(a_groups_datagram_of_fragments_comes_to_the_members_of_every_shard, two_shards) {
    to6 = a6("ff05::4300");
    for (const unsigned members : {1u, 2u}) { // first of the other shard alone, which no frame comes to by itself
        sockets[2 - members].join(to6);
        for (const std::size_t size : {100u, 4000u}) {
            send_datagram(4000, size, true);
            BOOST_TEST(got[1] == std::vector<std::size_t>{size}, boost::test_tools::per_element());
            BOOST_TEST(got[0].size() == members - 1);
            got[0].clear(), got[1].clear();
        }
        bytes d(8 + 8 + 10); // behind an options header that pads
        d[0] = static_cast<std::byte>(ip_protocol::udp);
        d[2] = std::byte{1};
        d[3] = std::byte{4};
        const bytes t = text(10);
        std::copy(t.begin(), t.end(), d.begin() + 16);
        const mutable_byte_span udp = mutable_byte_span(d).subspan(8);
        wire::udp_header{4000, 7, static_cast<std::uint16_t>(udp.size()), 0}.emit(udp);
        wire::store_udp_checksum(udp, peer, to6);
        send(d, peer, to6, ip_protocol::ipv6_destination);
        BOOST_TEST(got[1] == std::vector<std::size_t>{10}, boost::test_tools::per_element());
        BOOST_TEST(got[0].size() == members - 1);
        got[0].clear(), got[1].clear();
    }
}

BOOST_FIXTURE_TEST_CASE(a_groups_long_datagram_comes_to_members_of_every_shard_of_a_jumbo_link, two_shards_of_a_jumbo_link) {
    to6 = a6("ff05::4300");
    sockets[1].join(to6);
    frame_pool large(1, 8192);
    packet p;
    p.head = large.allocate_buffer();
    bytes d(8);
    const bytes t = text(3000);
    d.insert(d.end(), t.begin(), t.end());
    wire::udp_header{4000, 7, static_cast<std::uint16_t>(d.size()), 0}.emit(d);
    wire::store_udp_checksum(d, peer, to6);
    wire::ethernet_header{.destination = wire::multicast_mac(to6), .source = end->mac(), .type = wire::ether_type::ipv6}.emit(
        {p.head.append(14), 14});
    wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(d.size()), .next_header = ip_protocol::udp, .source = peer,
                      .destination = to6}
        .emit({p.head.append(40), 40});
    std::memcpy(p.head.append(static_cast<std::uint32_t>(d.size())), d.data(), d.size());
    first->share_with_all(p);
    pass(1ms);
    BOOST_TEST(got[1] == std::vector<std::size_t>{3000}, boost::test_tools::per_element());
    BOOST_TEST(first->dropped() == 0u);
}

// ---- queues that nobody reads, and the frames of other shards ----

BOOST_FIXTURE_TEST_CASE(a_queue_without_a_reader_leaves_its_shard_frames_of_the_wire, two_shards) {
    for (const bool six : {false, true}) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(other.get());
        udp_socket unread = udp_socket::bind({ipv6::any(), 9}); // of the second shard
        const std::uint16_t from = port_of(1, six, 9);
        for (int i = 0; i < 1200; ++i) send_whole_datagram(from, 9, 64, six); // the wire has 1,024 frames
        BOOST_TEST(other->udp().demux().statistics().dropped_total_full != 0u);
        BOOST_TEST(second_shard_resets(six));
        send_whole_datagram(port_of(1, six), 7, 64, six); // and who reads goes on hearing
        BOOST_TEST(got[1] == std::vector<std::size_t>{64}, boost::test_tools::per_element());
        got[1].clear();
    }
}

BOOST_FIXTURE_TEST_CASE(a_queue_without_a_reader_leaves_another_shard_the_frames_of_its_port, two_shards) {
    loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(other.get());
    udp_socket unread = udp_socket::bind({ipv6::any(), 9}); // of the second shard
    const frame_pool& pool = stack->device().pool();
    const std::uint32_t before = pool.free_count;
    for (const bool six : {false, true}) {
        const std::uint16_t from = port_of(1, six, 9);
        for (int i = 0; i < 2200; ++i) send_whole_datagram(from, 9, 1000, six);
        send_whole_datagram(port_of(1, six), 7, 1000, six); // who reads goes on hearing
        BOOST_TEST(got[1] == std::vector<std::size_t>{1000}, boost::test_tools::per_element());
        got[1].clear();
    }
    BOOST_TEST(pool.free_count == 128u);
    BOOST_TEST(other->udp().demux().statistics().dropped_total_full != 0u);
    unread = {};
    pass(1ms);
    BOOST_TEST(pool.free_count == before);
}

BOOST_FIXTURE_TEST_CASE(a_shard_that_is_short_of_frames_lends_none, two_shards) {
    frame_pool& pool = stack->device().pool();
    std::vector<buffer> held;
    while (pool.free_count > 97) held.push_back(pool.allocate_buffer());
    for (const bool six : {false, true}) {
        const std::uint64_t handed_over = stack->statistics().handed_over, dropped = first->dropped();
        const std::uint16_t from = port_of(1, six);
        held.push_back(pool.allocate_buffer());
        send_whole_datagram(from, 7, 1000, six); // it has the 96th
        BOOST_TEST(got[1].empty());
        BOOST_TEST(stack->statistics().handed_over == handed_over);
        BOOST_TEST(first->dropped() == dropped + 1);
        send_whole_datagram(from, 7, 64, six); // this one need not be lent
        BOOST_TEST(got[1] == std::vector<std::size_t>{64}, boost::test_tools::per_element());
        BOOST_TEST(stack->statistics().handed_over == handed_over + 1);
        BOOST_TEST(second_shard_resets(six));
        held.pop_back();
        held.pop_back();
        held.pop_back();
        send_whole_datagram(from, 7, 1000, six);
        BOOST_TEST(got[1].back() == 1000u);
        got[1].clear();
        while (pool.free_count > 97) held.push_back(pool.allocate_buffer());
    }
}

BOOST_AUTO_TEST_SUITE_END()
