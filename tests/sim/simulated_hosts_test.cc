// The simulator: services unchanged, virtual time, the same run from the same seed; stops, crashes, frozen hosts, clocks that jump.
#include "two_hosts.hh"

#include <corewire/net/sim/simulation.hh>
#include <corewire/reactor/shard/shard_local.hh>
#include <corewire/reactor/shard/sharded.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/sleep.hh>

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/udp_socket.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

task<> echo_server(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    try {
        for (;;) {
            tcp_stream peer = co_await listener.accept({.stop = this_shard::stopping()});
            spawn(echo(std::move(peer)));
        }
    } catch (const std::system_error& e) {
        if (e.code() != std::errc::operation_canceled) throw;
    }
}

/// Round trips of `size` bytes; how long all of them took by the client's clock.
task<duration> round_trips(socket_address to, unsigned count, std::uint32_t size) {
    auto peer = co_await tcp_stream::connect(to, {.no_delay = true});
    const time_point begin = reactor::current().now();
    const std::string out(size, 'x');
    std::vector<std::byte> in(size);
    for (unsigned i = 0; i < count; ++i) {
        co_await peer.write(out);
        const std::size_t got = co_await peer.read_exactly(in);
        if (got != size) throw std::runtime_error("the stream ended early");
    }
    const duration took = reactor::current().now() - begin;
    co_await peer.close();
    co_return took;
}

std::uint64_t digest_of_a_storm(std::uint64_t seed) {
    two_hosts w({.latency = 1ms, .bits_per_second = 100'000'000, .loss = .02, .duplicate = .02, .corrupt = .02, .reorder = .05}, seed);
    w.server.spawn([] { return echo_server(7); });
    w.world.run(w.client, [&] { return round_trips(w.at(7), 20, 20'000); });
    return w.world.digest();
}

} // namespace

BOOST_AUTO_TEST_SUITE(simulated_hosts)

BOOST_AUTO_TEST_CASE(a_round_trip_takes_what_the_cable_says) {
    two_hosts w({.latency = 10ms});
    w.server.spawn([] { return echo_server(7); });
    const duration took = w.world.run(w.client, [&] { return round_trips(w.at(7), 10, 100); });
    BOOST_TEST(took.count() == duration(200ms).count());
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run_and_another_does_not) {
    const auto once = digest_of_a_storm(42);
    BOOST_TEST(once == digest_of_a_storm(42));
    BOOST_TEST(once != digest_of_a_storm(43));
}

BOOST_AUTO_TEST_CASE(hosts_reach_each_other_through_switches) {
    simulation world;
    sim_switch& left = world.add_switch();
    sim_switch& right = world.add_switch();
    world.connect(left, right, {.latency = 1ms});
    for (int i = 0; i < 6; ++i) world.connect(world.add_host("h" + std::to_string(i)), i < 3 ? left : right, {.latency = 100us});
    sim_host& server = world.host(0);
    server.spawn([] { return echo_server(7); });
    for (std::size_t i = 1; i < 6; ++i) {
        const duration took =
            world.run(world.host(i), [&] { return round_trips({server.address(), 7}, 1, 10); });
        BOOST_TEST(took.count() == duration(i < 3 ? 400us : 2400us).count());
    }
}

task<> datagram_echo(udp_socket& socket) {
    for (;;) {
        auto d = co_await socket.receive_from();
        co_await socket.send_to(std::move(d.data), d.from);
    }
}
task<> datagram_server() {
    auto socket = udp_socket::bind({ipv4::any(), 9});
    co_await datagram_echo(socket);
}
task<std::uint32_t> datagram_client(socket_address to) {
    static constexpr std::array<char, 5> hello{'h', 'e', 'l', 'l', 'o'};
    auto socket = udp_socket::bind({ipv4::any(), 0});
    co_await socket.send_to(std::as_bytes(std::span(hello)), to);
    auto back = co_await socket.receive_from();
    co_return back.data.size();
}

BOOST_AUTO_TEST_CASE(datagrams_travel_too) {
    two_hosts w;
    w.server.spawn([] { return datagram_server(); });
    BOOST_TEST(w.world.run(w.client, [&] { return datagram_client(w.at(9)); }) == 5u);
}

BOOST_AUTO_TEST_CASE(an_hour_passes_in_a_moment) {
    two_hosts w;
    w.world.run(w.client, []() -> task<> { co_await sleep_for(1h - 1s); });
    BOOST_TEST(w.world.elapsed().count() == duration(1h - 1s).count());
}

BOOST_AUTO_TEST_CASE(a_task_that_never_ends_is_named_at_the_limit) {
    two_hosts w;
    w.server.spawn([] { return echo_server(7); });
    const auto wait_for_ever = []() -> task<> {
        corewire::event nothing;
        co_await nothing.wait();
    };
    BOOST_CHECK_EXCEPTION(w.world.run(w.client, wait_for_ever, 10s), sim_stalled, [](const sim_stalled& e) {
        return std::string(e.what()).find("client has not ended") != std::string::npos;
    });
    BOOST_TEST(w.world.elapsed().count() == duration(10s).count());
}

BOOST_AUTO_TEST_CASE(what_the_body_throws_comes_out_of_run) {
    two_hosts w;
    BOOST_CHECK_EXCEPTION(w.world.run(w.client, [&] { return round_trips(w.at(7), 1, 1); }), std::system_error,
                          [](const std::system_error& e) { return e.code() == std::errc::connection_refused; });
}

BOOST_AUTO_TEST_CASE(a_stop_ends_the_service_as_sigterm_does) {
    two_hosts w({.latency = 5ms});
    w.server.spawn([] { return echo_server(7); });
    w.world.run(w.client, [&] { return round_trips(w.at(7), 3, 100); });
    BOOST_TEST(w.server.shard().tasks() > 0u);
    w.server.request_stop();
    BOOST_TEST(w.world.run_until([&] { return w.server.shard().tasks() == 0; }, 10s));
    BOOST_TEST(w.server.shard().failed() == 0u);
}

BOOST_AUTO_TEST_CASE(a_peer_that_crashed_resets_its_old_connections_and_serves_new_ones) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return echo_server(7); });
    std::uint64_t before = 0, resets = 0;
    w.cable.drop_if(sim_link::direction::forward, [&](byte_span frame, std::uint64_t) {
        const bool ends = frame.size() > 47 && (std::to_integer<unsigned>(frame[47]) & 0x05) != 0; // FIN, RST
        if (before != 0 && ends) {
            BOOST_TEST(w.server.nic().statistics().received_packets > before); // it was asked
            ++resets;
        }
        return false;
    });
    w.world.after(50ms, [&] {
        before = w.server.nic().statistics().received_packets;
        w.server.crash();
        w.server.spawn([] { return echo_server(7); });
    });
    BOOST_CHECK_EXCEPTION(w.world.run(w.client, [&] { return round_trips(w.at(7), 1000, 100); }), std::system_error,
                          [](const std::system_error& e) { return e.code() == std::errc::connection_reset; });
    BOOST_TEST(resets == 1u);
    BOOST_TEST(w.world.run(w.client, [&] { return round_trips(w.at(7), 1, 100); }).count() == duration(2ms).count());
}

BOOST_AUTO_TEST_CASE(a_frozen_host_answers_when_it_thaws) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return echo_server(7); });
    w.world.after(50ms, [&] { w.server.freeze(w.world.now() + 500ms); });
    const duration took = w.world.run(w.client, [&] { return round_trips(w.at(7), 100, 100); });
    BOOST_TEST((took > 690ms && took < 900ms));
}

BOOST_AUTO_TEST_CASE(a_clock_that_jumps_wakes_who_sleeps_and_breaks_nothing) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return echo_server(7); });
    w.world.after(50ms, [&] { w.server.jump_clock(1h); });
    w.world.after(60ms, [&] { w.client.jump_clock(20s); });
    const duration took = w.world.run(w.client, [&] { return round_trips(w.at(7), 100, 100); });
    BOOST_TEST((took >= 20s + 200ms && took < 22s));
    w.world.after(1s, [&] { w.client.jump_clock(1h); });
    const time_point begin = w.world.now();
    w.world.run(w.client, []() -> task<> { co_await sleep_for(1h); });
    BOOST_TEST((w.world.now() - begin).count() == duration(1s).count());
}

BOOST_AUTO_TEST_CASE(a_partition_is_survived_when_it_heals) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return echo_server(7); });
    w.world.after(20ms, [&] { w.cable.cut(true); });
    w.world.after(5s, [&] { w.cable.cut(false); });
    const duration took = w.world.run(w.client, [&] { return round_trips(w.at(7), 100, 100); });
    BOOST_TEST((took > 5s && took < 12s));
}

task<> always_busy() {
    for (;;) co_await yield();
}

BOOST_AUTO_TEST_CASE(a_host_that_is_always_busy_does_not_stop_time) {
    two_hosts w({.latency = 1ms});
    w.world.on_turn({});
    w.client.spawn([] { return always_busy(); });
    w.world.run_for(1ms);
    BOOST_TEST(w.world.elapsed().count() == duration(1ms).count());
}

struct tally {
    int calls = 0;
    task<> stop() { co_return; }
};

task<int> asks_its_shard() {
    static shard_local<tally> mine;
    mine->calls += 1;
    sharded<tally> everywhere;
    co_await everywhere.start();
    auto call = submit_to(0, [] { return 40; });
    const int forty = co_await call;
    co_await everywhere.stop();
    co_return forty + mine->calls + static_cast<int>(this_shard::count());
}

BOOST_AUTO_TEST_CASE(what_asks_for_its_shard_finds_one_and_hosts_share_nothing) {
    two_hosts w;
    BOOST_TEST(w.world.run(w.server, [] { return asks_its_shard(); }) == 42);
    BOOST_TEST(w.world.run(w.client, [] { return asks_its_shard(); }) == 42);
    BOOST_TEST(reactor::current_or_null() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_world_may_end_in_the_middle_of_anything) {
    for (const duration d : {0ns, duration(500us), duration(1500us), duration(3ms), duration(50ms)}) {
        two_hosts w({.latency = 1ms, .bits_per_second = 10'000'000, .loss = .1});
        w.server.spawn([] { return echo_server(7); });
        for (int i = 0; i < 3; ++i) {
            w.client.spawn([to = w.at(7)]() -> task<> { static_cast<void>(co_await round_trips(to, 100, 5'000)); });
        }
        w.world.run_for(d);
        BOOST_TEST(w.client.shard().tasks() == 3u);
    }
}

BOOST_AUTO_TEST_CASE(hosts_of_one_vlan_talk_through_faults_and_those_of_another_hear_nothing) { // IEEE 802.1Q
    simulation world({.seed = 5});
    const auto host = [&](const char* name, std::uint16_t vlan) -> sim_host& {
        sim_host_options o;
        o.stack.vlan = vlan;
        return world.add_host(name, o);
    };
    sim_host &server = host("server", 7), &client = host("client", 7), &stranger = host("stranger", 8), &plain = host("plain", 0);
    sim_switch& between = world.add_switch();
    const sim_link_options faults{.latency = 100us, .loss = .02, .duplicate = .02, .corrupt = .02, .reorder = .05};
    for (sim_host* h : {&server, &client, &stranger, &plain}) world.connect(*h, between, faults);
    world.on_turn([](sim_host& h) { h.stack().check_invariants(); });
    server.spawn([] { return echo_server(7); });
    world.run(client, [&] { return round_trips({server.address(), 7}, 20, 20'000); });
    for (sim_host* h : {&stranger, &plain}) {
        const auto refused = [&]() -> task<> {
            bool unreachable = false;
            try {
                co_await tcp_stream::connect({server.address(), 7});
            } catch (const std::system_error& e) {
                unreachable = e.code() == std::errc::host_unreachable || e.code() == std::errc::timed_out;
            }
            BOOST_TEST(unreachable);
        };
        world.run(*h, refused);
    }
    BOOST_TEST(plain.stack().statistics().other_vlan > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
