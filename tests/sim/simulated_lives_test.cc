// What befalls simulated hosts and the tasks on them: stops, crashes, and the lives after.
#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

task<> echo(tcp_stream peer) {
    while (auto data = co_await peer.read()) co_await peer.write(std::move(data));
}
/// As docs/SIMULATOR.md's: it does not know of stops.
task<> serve(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    for (;;) {
        tcp_stream peer = co_await listener.accept();
        spawn(echo(std::move(peer)));
    }
}

struct two_hosts {
    explicit two_hosts(const sim_link_options& link = {}) : cable(world.connect(server, client, link)) {}
    socket_address at(std::uint16_t port) { return {server.address(), port}; }
    simulation world;
    sim_host& server = world.add_host("server");
    sim_host& client = world.add_host("client");
    sim_link& cable;
};

/// Fifty round trips, and then it waits for the server to end the connection.
task<> chat(socket_address to) {
    try {
        auto peer = co_await tcp_stream::connect(to, {.no_delay = true});
        std::array<std::byte, 10> bytes{};
        for (unsigned i = 0; i < 50; ++i) {
            co_await peer.write(byte_span(bytes));
            if (co_await peer.read_exactly(bytes) != bytes.size()) co_return;
        }
        co_await peer.read();
    } catch (const std::system_error&) {
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(simulated_lives)

BOOST_AUTO_TEST_CASE(a_stop_in_the_moment_in_which_a_packet_arrives_is_a_good_end) {
    for (duration at = 49ms; at <= 53ms; at += 500us) {
        two_hosts w({.latency = 1ms});
        w.server.spawn([] { return serve(7); });
        w.client.spawn([to = w.at(7)] { return chat(to); });
        w.world.after(at, [&] { w.server.request_stop(); });
        BOOST_TEST(w.world.run_until([&] { return w.server.shard().tasks() == 0; }, 10s));
        BOOST_TEST(w.server.shard().failed() == 0u, "stopped at " << at.count() << " ns");
    }
}

BOOST_AUTO_TEST_SUITE_END()
