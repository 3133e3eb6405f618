// What the soak has found, each as a scenario of its own.
#include <corewire/net/sim/simulation.hh>

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

struct two_hosts {
    explicit two_hosts(const sim_link_options& link, const sim_host_options& server_options = {})
        : server(world.add_host("server", server_options)), client(world.add_host("client")),
          cable(world.connect(client, server, link)) {}
    socket_address at(std::uint16_t port) { return {server.address(), port}; }
    simulation world{{.seed = 1}};
    sim_host& server;
    sim_host& client;
    sim_link& cable; ///< forward: from the client
};

task<std::errc> outcome_of(task<> what) {
    try {
        co_await what;
    } catch (const std::system_error& e) {
        co_return static_cast<std::errc>(e.code().value());
    }
    co_return std::errc{};
}

task<> read_to_the_end(tcp_stream peer) {
    while (auto data = co_await peer.read()) {}
}
task<> discard(std::uint16_t port, listen_options options) {
    auto listener = tcp_listener::bind({ipv4::any(), port}, options);
    for (;;) {
        tcp_stream peer = co_await listener.accept();
        spawn(read_to_the_end(std::move(peer)));
    }
}

task<> send(socket_address to, std::size_t bytes) {
    auto peer = co_await tcp_stream::connect(to);
    const std::string text(bytes, 'x');
    co_await peer.write(text);
    co_await peer.close();
}

/// Reads to the end, closes its own side, and asks only later whether all was acknowledged.
task<std::errc> close_late() {
    auto listener = tcp_listener::bind({ipv4::any(), 7});
    tcp_stream peer = co_await listener.accept();
    while (auto data = co_await peer.read()) {}
    peer.shutdown();
    co_await sleep_for(100ms);
    const std::errc how = co_await outcome_of(peer.close());
    co_return how;
}

task<> close_and_abort(socket_address to) {
    auto peer = co_await tcp_stream::connect(to);
    peer.shutdown();
    co_await sleep_for(500us);
    peer.abort();
}

} // namespace

BOOST_AUTO_TEST_SUITE(found_by_soak)

BOOST_AUTO_TEST_CASE(a_close_after_a_reset_in_last_ack_fails_and_does_not_wait_for_ever) {
    two_hosts w({.latency = 1ms});
    w.client.spawn([&] { return close_and_abort(w.at(7)); });
    BOOST_TEST((w.world.run(w.server, [] { return close_late(); }, 10s) == std::errc::connection_reset));
}

BOOST_AUTO_TEST_CASE(a_cookies_connection_survives_that_its_first_segment_is_lost) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return discard(7, {.backlog = 1}); });
    bool lost = false;
    w.cable.drop_if(sim_link::direction::forward, [&lost](byte_span frame, std::uint64_t) {
        return frame.size() > 1'000 && !std::exchange(lost, true);
    });
    w.client.spawn([&] { return send(w.at(7), 1); }); // takes the whole backlog for a round trip
    w.world.run(w.client, [&] { return send(w.at(7), 5'000); });
    BOOST_TEST(w.server.stack().statistics().tcp_cookies_accepted == 1u);
    BOOST_TEST(w.server.stack().statistics().tcp_resets_sent == 0u);
    BOOST_TEST(lost);
}

BOOST_AUTO_TEST_SUITE_END()
