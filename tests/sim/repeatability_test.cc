// The same seed, the same packets: also where many connections have to do something at the same moment.
#include "two_hosts.hh"

#include <tests/net/resolve/name_server.hh>

#include <corewire/net/resolve/resolver.hh>
#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/retry.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <optional>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

constexpr unsigned connections = 16, runs = 6;

task<> idle_until_the_end(tcp_stream peer) {
    while (auto data = co_await peer.read()) {}
}
task<> serve(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    for (;;) {
        tcp_stream peer = co_await listener.accept();
        spawn(idle_until_the_end(std::move(peer)));
    }
}
task<> connect_and_wait(socket_address to) {
    const tcp_stream peer = co_await tcp_stream::connect(to);
    event never_set;
    co_await never_set.wait();
}

struct world_of_two : two_hosts {
    world_of_two() : two_hosts({.latency = 1ms}, 11) {}
};

std::uint64_t digest_of_a_stop() {
    world_of_two w;
    w.server.spawn([] { return serve(7); });
    const socket_address to{w.server.address(), 7};
    for (unsigned i = 0; i < connections; ++i) w.client.spawn([to] { return connect_and_wait(to); });
    w.world.after(1s, [&] { w.server.request_stop(); });
    w.world.run_for(10s);
    return w.world.digest();
}

/// The listener closes while its connections wait for the third segment of their handshakes.
std::uint64_t digest_of_a_listener_that_closes() {
    world_of_two w;
    std::optional<tcp_listener> listener;
    const auto listen = [&]() -> task<> {
        listener.emplace(tcp_listener::bind({ipv4::any(), 7}));
        co_return;
    };
    w.world.run(w.server, listen);
    w.cable.drop_if(sim_link::direction::backward, [](byte_span frame, std::uint64_t) {
        return frame.size() > 47 && (std::to_integer<unsigned>(frame[47]) & 0x12) == 0x10; // ACK without SYN
    });
    const socket_address to{w.server.address(), 7};
    for (unsigned i = 0; i < connections; ++i) w.client.spawn([to] { return connect_and_wait(to); });
    const auto close = [&]() -> task<> {
        co_await sleep_for(100ms);
        listener.reset();
    };
    w.world.run(w.server, close);
    w.world.run_for(10s);
    return w.world.digest();
}

/// Clients that try again whenever the server crashes, by the usual policy: its pauses are drawn.
std::uint64_t digest_of_retries() {
    world_of_two w;
    w.server.spawn([] { return serve(7); });
    const socket_address to{w.server.address(), 7};
    const auto chat = [to]() -> task<> {
        auto peer = co_await tcp_stream::connect(to);
        for (;;) {
            co_await peer.write("hello");
            co_await sleep_for(100ms);
        }
    };
    const auto persistent = [&]() -> task<> { co_await retry({.attempts = 20, .first = 50ms}, chat); };
    for (unsigned i = 0; i < 4; ++i) w.client.spawn(persistent);
    for (const duration at : {1s, 3s}) w.world.after(at, [&] { w.server.power_off(); });
    for (const duration at : {2s, 4s}) {
        w.world.after(at, [&] {
            w.server.power_on();
            w.server.spawn([] { return serve(7); });
        });
    }
    w.world.run_for(10s);
    return w.world.digest();
}

std::uint64_t digest_of_questions() {
    test::name_world w;
    w.first.zone[{"www.example.com", dns_type::a}] = {.addresses = {ipv4(192, 0, 2, 1)}};
    const auto ask = [&]() -> task<> {
        resolver names(w.config);
        static_cast<void>(co_await names.resolve("www.example.com", address_family::v4));
    };
    w.world.run(w.client, ask);
    return w.world.digest();
}

} // namespace

BOOST_AUTO_TEST_SUITE(repeatability)

BOOST_AUTO_TEST_CASE(sessions_that_a_stop_ends_end_in_the_same_order) {
    const std::uint64_t once = digest_of_a_stop();
    for (unsigned i = 1; i < runs; ++i) BOOST_TEST(digest_of_a_stop() == once);
}

BOOST_AUTO_TEST_CASE(handshakes_that_a_closing_listener_resets_are_reset_in_the_same_order) {
    const std::uint64_t once = digest_of_a_listener_that_closes();
    for (unsigned i = 1; i < runs; ++i) BOOST_TEST(digest_of_a_listener_that_closes() == once);
}

BOOST_AUTO_TEST_CASE(what_the_framework_draws_for_a_service_it_draws_from_the_seed) {
    BOOST_TEST(digest_of_retries() == digest_of_retries());
    BOOST_TEST(digest_of_questions() == digest_of_questions());
}

BOOST_AUTO_TEST_SUITE_END()
