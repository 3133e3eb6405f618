// Datagrams that leave in pieces, and those that wait for room: beside connections that would take all of it, through a port that
// takes a few packets a turn.
#include "stack_world.hh"

#include <corewire/net/port/wrap/wrapped_port.hh>

#include <algorithm>
#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;
using namespace std::chrono_literals;

namespace {

/// Takes so many packets between two polls, as a NIC does that is slower than we.
class slow_port final : public wrapped_port {
public:
    slow_port(std::unique_ptr<port> inner, std::size_t each) : wrapped_port(std::move(inner)), each_(each) {}
    std::size_t receive(std::span<packet> out) override {
        left_ = each_;
        return wrapped_port::receive(out);
    }
    std::size_t transmit(std::span<packet> burst) override {
        const std::size_t n = wrapped_port::transmit(burst.first(std::min(left_, burst.size())));
        left_ -= n;
        return n;
    }

private:
    std::size_t each_, left_ = 0;
};

/// The client's port is slow.
class slow_world : public stack_world {
public:
    explicit slow_world(std::size_t each, const wire_options& wire = {.vouch_for_checksums = false})
        : slow_world(wire_link::make(wire), each) {}
    net_address server_at(bool over_six) const { return over_six ? net_address(six(first)) : net_address(first); }
    /// A socket of the client's or the server's, of either family.
    udp_socket bind(network_stack& host, std::uint16_t port = 0) {
        loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(&host);
        return udp_socket::bind({ipv6::any(), port});
    }

private:
    slow_world(wire_link::ends ends, std::size_t each)
        : stack_world(std::move(ends.first), std::make_unique<slow_port>(std::move(ends.second), each), both_families()) {}
    static stack_config both_families() {
        stack_config config;
        config.ipv6.emplace().duplicate_probes = 0;
        return config;
    }
};

struct sender {
    udp_socket socket;
    std::size_t sent = 0;
    bool ended = false;
};

task<> send_many(sender& from, socket_address to, std::size_t size, std::size_t count, duration each = 1s) {
    const std::vector<std::byte> data(size, std::byte{'x'});
    while (from.sent != count) {
        const wait_limits limits{.deadline = reactor::current().now() + each};
        co_await from.socket.send_to(byte_span{data}, to, limits);
        ++from.sent;
    }
    from.ended = true;
}

task<> send_until_cancelled(sender& from, socket_address to) {
    const std::errc why = co_await error_of([&] { return send_many(from, to, 60'000, 1); });
    BOOST_TEST(why == std::errc::operation_canceled);
}

task<> count_datagrams(udp_socket& at, std::size_t size, std::size_t& whole) {
    for (;;) {
        const datagram d = co_await at.receive_from();
        whole += d.data.size() == size ? 1u : 0u;
    }
}

task<> write_for_ever(tcp_stream& to) {
    const std::vector<std::byte> data(64 * 1024);
    for (;;) co_await to.write(byte_span{data});
}

task<> read_for_ever(tcp_stream& from, std::uint64_t& bytes) {
    for (;;) bytes += (co_await from.read()).size();
}

/// Connections that have always more to send than the client's port takes.
struct crowd {
    static constexpr std::size_t connections = 8;
    std::vector<ends> streams;
    std::uint64_t bytes = 0;
    task_group group{"crowd"};

    task<> start(slow_world& w) {
        for (std::size_t i = 0; i < connections; ++i) streams.push_back(co_await connected(w));
        for (ends& each : streams) {
            group.spawn(write_for_ever(each.client));
            group.spawn(read_for_ever(each.server, bytes));
        }
        while (w.client().output_queue().waiting() < 200) co_await yield();
    }
    void end() {
        group.destroy_all();
        for (ends& each : streams) each.client.abort();
        streams.clear();
    }
};

/// One datagram whole: the neighbour is known from then on.
task<> send_the_first(slow_world& w, sender& by, std::size_t size, bool over_six, const std::size_t& whole) {
    by.socket = w.bind(w.client());
    co_await send_many(by, {w.server_at(over_six), 7}, size, 1);
    while (whole != 1) co_await yield();
}

/// Sends beside a crowd; no send may wait for a second, and connections go on as fast as ever, or nearly half so.
task<> beside_connections(slow_world& w, std::size_t each, std::size_t size, std::size_t senders, std::size_t count, bool over_six) {
    task_group group{"datagrams"};
    udp_socket server = w.bind(w.server(), 7);
    std::size_t whole = 0;
    group.spawn(count_datagrams(server, size, whole));
    std::vector<sender> all(senders);
    co_await send_the_first(w, all[0], size, over_six, whole);
    all[0] = {};
    whole = 0;
    crowd others;
    co_await others.start(w);
    const std::uint64_t before = others.bytes;
    const time_point start = w.clock.now();
    for (sender& one : all) {
        one.socket = w.bind(w.client());
        group.spawn(send_many(one, {w.server_at(over_six), 7}, size, count));
    }
    const auto ended = [&] { return std::ranges::all_of(all, [](const sender& one) { return one.ended; }); };
    std::size_t turns = 0;
    for (; !ended() && turns < 200'000; ++turns) co_await yield();
    BOOST_TEST(ended());
    BOOST_TEST((w.clock.now() - start < 1s));
    const std::uint64_t packets = (others.bytes - before) / 1448;
    BOOST_TEST_MESSAGE(turns << " turns, " << packets << " packets of connections");
    if (turns > 500) BOOST_TEST(packets * 10 >= turns * each * 4);
    co_await sleep_for(10ms);
    BOOST_TEST(whole == senders * count);
    BOOST_TEST(w.client().statistics().egress_full == 0u);
    group.destroy_all();
    others.end();
}

task<> all_of_many_arrive(slow_world& w, bool over_six) {
    constexpr std::size_t count = 20, size = 60'000;
    task_group group{"datagrams"};
    udp_socket server = w.bind(w.server(), 7);
    std::size_t whole = 0;
    group.spawn(count_datagrams(server, size, whole));
    std::vector<sender> all(count);
    co_await send_the_first(w, all[0], size, over_six, whole);
    for (std::size_t i = 1; i < count; ++i) {
        all[i].socket = w.bind(w.client());
        group.spawn(send_many(all[i], {w.server_at(over_six), 7}, size, 1));
    }
    for (int i = 0; i < 10'000 && whole != count; ++i) co_await yield();
    BOOST_TEST(whole == count);
    BOOST_TEST(w.client().statistics().egress_full == 0u);
    BOOST_TEST(w.client().output_queue().dropped() == 0u);
    BOOST_TEST(w.client().output_queue().kept() == 0u);
    group.destroy_all();
}

/// A sender whose pieces find no room leaves: nobody keeps room for it any more.
task<> leaves_what_was_kept(slow_world& w) {
    crowd others;
    co_await others.start(w);
    task_group group{"datagrams"};
    sender one{w.bind(w.client())};
    group.spawn(send_until_cancelled(one, {w.server_at(false), 7}));
    while (w.client().output_queue().kept() == 0) co_await yield();
    one.socket.close();
    co_await some_turns();
    BOOST_TEST(w.client().output_queue().kept() == 0u);
    group.destroy_all();
    others.end();
}

} // namespace

BOOST_AUTO_TEST_SUITE(long_datagrams)

BOOST_AUTO_TEST_CASE(every_piece_finds_room_or_none_leaves) {
    for (const bool over_six : {false, true}) {
        slow_world w(10);
        w.run(all_of_many_arrive(w, over_six));
    }
}

BOOST_AUTO_TEST_CASE(datagrams_and_connections_share_a_port_that_is_too_slow_for_both) {
    for (const bool over_six : {false, true}) {
        for (const std::size_t senders : {1u, 50u}) {
            slow_world w(8);
            w.run(beside_connections(w, 8, 64, senders, 100, over_six));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_datagram_in_pieces_finds_room_beside_connections) {
    for (const bool over_six : {false, true}) {
        for (const std::size_t senders : {1u, 10u}) {
            slow_world w(8);
            w.run(beside_connections(w, 8, 60'000, senders, 10, over_six));
        }
    }
}

BOOST_AUTO_TEST_CASE(room_that_is_kept_for_a_datagram_goes_back_with_its_sender) {
    slow_world w(8);
    w.run(leaves_what_was_kept(w));
}

// ---- the end of a stack ----

BOOST_AUTO_TEST_CASE(pieces_that_still_wait_when_a_stack_ends_are_let_go_before_their_memory) {
    for (const bool known : {false, true}) { // behind a neighbour that does not answer; behind a port that takes nothing
        virtual_clock clock;
        reactor loop{{.clock = &clock}};
        reactor::scope here(loop);
        wire_link::ends ends = wire_link::make();
        stack_config config;
        config.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
        config.seed = 1;
        auto stack = std::make_unique<network_stack>(loop, std::make_unique<slow_port>(std::move(ends.first), 0), config);
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        if (known) stack->ip().neighbors().set_permanent(ipv4(10, 0, 0, 2), mac_address(2, 0, 0, 0, 0, 2));
        sender one{udp_socket::bind({ipv4::any(), 7})};
        task_group group{"sender"};
        group.spawn(send_many(one, {ipv4(10, 0, 0, 2), 7}, 3000, 1));
        for (int i = 0; i < 4; ++i) loop.poll_once();
        BOOST_TEST(one.ended);
        group.destroy_all();
        one.socket = {};
        stack.reset();
    }
}

BOOST_AUTO_TEST_CASE(what_a_stack_has_lent_to_the_far_end_of_a_wire_outlives_it) {
    for (const bool hand_over : {false, true}) {
        virtual_clock clock;
        reactor loop{{.clock = &clock}};
        reactor::scope here(loop);
        wire_link::ends ends = wire_link::make({.vouch_for_checksums = false, .hand_over = hand_over});
        stack_config config;
        config.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
        config.seed = 1;
        auto stack = std::make_unique<network_stack>(loop, std::move(ends.first), config);
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        stack->ip().neighbors().set_permanent(ipv4(10, 0, 0, 2), ends.second->mac());
        sender one{udp_socket::bind({ipv4::any(), 7})};
        task_group group{"sender"};
        group.spawn(send_many(one, {ipv4(10, 0, 0, 2), 7}, 3000, 1));
        for (int i = 0; i < 4; ++i) loop.poll_once();
        BOOST_TEST(one.ended);
        group.destroy_all();
        one.socket = {};
        stack.reset();
        std::size_t text = 0;
        for (packet p; ends.second->receive({&p, 1}) != 0; p = {})
            for (const byte_span piece : {p.head.bytes(), p.body.bytes()})
                text += static_cast<std::size_t>(std::ranges::count(piece, std::byte{'x'}));
        BOOST_TEST(text >= 3000u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
