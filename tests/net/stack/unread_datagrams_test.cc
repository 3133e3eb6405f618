// Sockets that nobody reads: whatever is sent to them, the frames that everybody else needs are there.
#include "ipv6_link.hh"
#include "stack_world.hh"

#include <corewire/net/wire/udp.hh>

using namespace corewire;
using namespace corewire::socket_suite;
using namespace std::chrono_literals;

namespace {

task<> others_are_served(stack_world& w, std::size_t size) {
    udp_socket unread = bind_udp_server(w), read = bind_udp_server(w), client = bind_udp_client(w);
    const std::vector<std::byte> data(size, std::byte{'x'});
    const socket_address to_unread = at_server(w, unread.local_address().port), to_read = at_server(w, read.local_address().port);
    for (int i = 0; i < 1100; ++i) { // each end has 512 frames
        co_await client.send_to(byte_span{data}, to_unread);
        if (i % 16 == 0) co_await some_turns();
    }
    co_await some_turns();
    BOOST_TEST(w.server().udp().demux().statistics().dropped_total_full != 0u);
    for (int i = 0; i < 100; ++i) {
        co_await client.send_to(byte_span{data}, to_read);
        const datagram heard = co_await read.receive_from(soon(1s));
        BOOST_TEST(heard.data.size() == size);
    }
    ends both = co_await connected(w);
    for (int i = 0; i < 100; ++i) {
        co_await both.client.write(byte_span{data}, soon(1s));
        for (std::size_t got = 0; got < size;) {
            const buffer some = co_await both.server.read(soon(1s));
            got += some.size();
        }
    }
    co_await both.client.close();
}

struct fragments_in : ipv6_link {
    fragments_in() {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        stack->ip().neighbors().set_permanent(peer4, end->mac());
    }
    static constexpr ipv4 us4{10, 0, 0, 1}, peer4{10, 0, 0, 2};
    /// Bytes [from, from + size) of a datagram to a port, whose checksum is absent.
    void piece(std::uint16_t port, std::uint16_t id, std::size_t from, std::size_t size, std::size_t whole) {
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = stack->device().mac(), .source = end->mac(), .type = wire::ether_type::ipv4}.emit(
            {p.head.append(14), 14});
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + size),
                          .identification = id,
                          .dont_fragment = false,
                          .more_fragments = from + size < whole,
                          .fragment_offset = static_cast<std::uint16_t>(from),
                          .protocol = wire::ip_protocol::udp,
                          .source = peer4,
                          .destination = us4}
            .emit({p.head.append(20), 20});
        std::byte* const at = p.head.append(static_cast<std::uint32_t>(size));
        std::memset(at, 'x', size);
        if (from == 0) wire::udp_header{4000, port, static_cast<std::uint16_t>(whole), 0}.emit({at, 8});
        end->transmit({&p, 1});
        pass(1ms);
    }
    void datagram_of_pieces(std::uint16_t port, std::uint16_t id, std::size_t whole) {
        const std::size_t step = std::min<std::size_t>(1400, whole / 16 * 8);
        for (std::size_t at = 0; at < whole; at += step) piece(port, id, at, std::min(step, whole - at), whole);
    }
    std::uint64_t delivered() { return stack->udp().demux().statistics().delivered; }
};

task<> read_all(udp_socket& s, std::vector<std::size_t>& sizes) {
    for (;;) sizes.push_back((co_await s.receive_from()).data.size());
}

} // namespace

BOOST_AUTO_TEST_SUITE(unread_datagrams)

BOOST_AUTO_TEST_CASE(a_queue_without_a_reader_leaves_both_ends_of_a_wire_their_frames) {
    for (const bool hand_over : {false, true}) { // copied and lent, and as they are
        for (const std::size_t size : {64u, 1000u}) {
            stack_world w({.frames = 512, .vouch_for_checksums = false, .hand_over = hand_over});
            w.run(others_are_served(w, size));
        }
    }
}

BOOST_FIXTURE_TEST_CASE(a_queue_without_a_reader_leaves_its_port_frames, fragments_in) {
    udp_socket unread = udp_socket::bind({ipv6::any(), 7}), read = udp_socket::bind({ipv6::any(), 8});
    task_group group{"reader"};
    std::vector<std::size_t> got;
    group.spawn(read_all(read, got));
    const frame_pool& pool = stack->device().pool();
    for (std::uint32_t i = 0; i < pool.count(); ++i) piece(7, 0, 0, 100, 100);
    BOOST_TEST(pool.free_count == 128u);
    piece(8, 0, 0, 100, 100);
    BOOST_TEST(got == std::vector<std::size_t>{92}, boost::test_tools::per_element());
    introduce();
    send(icmp(wire::icmpv6_header::echo_request(7, 9), peer, us), peer, us, wire::ip_protocol::icmpv6);
    BOOST_TEST(heard().size() == 1u);
    group.destroy_all();
}

BOOST_FIXTURE_TEST_CASE(datagrams_of_pieces_that_nobody_reads_leave_others_what_they_are_put_together_in, fragments_in) {
    udp_socket unread = udp_socket::bind({ipv6::any(), 7}), read = udp_socket::bind({ipv6::any(), 8});
    task_group group{"reader"};
    std::vector<std::size_t> got;
    group.spawn(read_all(read, got));
    std::uint16_t id = 0;
    for (const std::size_t size : {64u, 4000u}) { // one that fits into a frame, and one that does not
        for (int i = 0; i < 40; ++i) datagram_of_pieces(7, ++id, size);
        BOOST_TEST(delivered() == (size == 64 ? 40u : 51u)); // of the long ones as many as are not for those who read
        for (int i = 0; i < 3; ++i) {
            datagram_of_pieces(8, ++id, size);
            BOOST_TEST(got == std::vector<std::size_t>{size - 8}, boost::test_tools::per_element());
            got.clear();
        }
        BOOST_TEST(stack->fragments().statistics().no_frame == 0u);
        if (size == 64) BOOST_TEST(delivered() == 43u);
    }
    group.destroy_all();
}

BOOST_FIXTURE_TEST_CASE(pieces_without_the_rest_do_not_hold_up_who_sends_long_datagrams, fragments_in) {
    udp_socket sender = udp_socket::bind({ipv6::any(), 7});
    for (std::uint16_t id = 1; id <= 20; ++id) piece(8, id, 0, 1400, 4000);
    BOOST_TEST(stack->fragments().size() == 16u);
    frames();
    const std::vector<std::byte> data(3000, std::byte{'y'});
    auto sending = [](udp_socket& from, byte_span what) -> task<> { co_await from.send_to(what, {peer4, 4000}); };
    task_group group{"sender"};
    group.spawn(sending(sender, data));
    pass(1ms);
    BOOST_TEST(frames().size() == 3u);
    group.destroy_all();
}

BOOST_AUTO_TEST_SUITE_END()
