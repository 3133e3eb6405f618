// The simulator's time: what a host's code finds when it looks at the clock, and that nothing holds it up.
#include "two_hosts.hh"

#include <corewire/net/sim/sim_flow.hh>
#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

#include <stdexcept>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

task<> accepts_one(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    const tcp_stream peer = co_await listener.accept();
}

task<> connects(socket_address to) { const tcp_stream peer = co_await tcp_stream::connect(to); }

} // namespace

BOOST_AUTO_TEST_SUITE(simulated_time)

BOOST_AUTO_TEST_CASE(a_task_that_is_spawned_after_a_quiet_time_sleeps_from_now_on) {
    two_hosts w;
    w.world.run_for(10s);
    duration ended{};
    w.client.spawn([&]() -> task<> {
        co_await sleep_for(5s);
        ended = w.world.elapsed();
    });
    w.world.run_for(20s);
    BOOST_TEST(ended.count() == duration(15s).count());
}

BOOST_AUTO_TEST_CASE(a_connect_that_is_planned_for_later_has_its_whole_deadline) {
    two_hosts w({.latency = 10ms});
    w.server.spawn([] { return accepts_one(7); });
    bool connected = false;
    const auto connect = [&]() -> task<> {
        const tcp_stream peer = co_await tcp_stream::connect(w.at(7), {}, {.deadline = reactor::current().now() + 5s});
        connected = true;
    };
    w.world.after(60s, [&] { w.client.spawn(connect); });
    w.world.run_for(70s);
    BOOST_TEST(connected);
    BOOST_TEST(w.client.shard().failed() == 0u);
}

BOOST_AUTO_TEST_CASE(a_frozen_host_goes_on_when_it_thaws_though_nobody_calls_it) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return accepts_one(7); });
    w.world.run_for(1s); // announcements
    w.client.freeze(w.world.now() + 500ms);
    w.world.run(w.client, [&] { return connects(w.at(7)); });
    BOOST_TEST(w.world.elapsed().count() == duration(1s + 500ms + 4ms).count()); // ARP, then the handshake
    unsigned turns = 0;
    const auto busy = [&]() -> task<> {
        for (;;) {
            ++turns;
            co_await yield();
        }
    };
    w.client.spawn(busy);
    w.client.freeze(w.world.now() + 1ms);
    w.world.run_for(1ms);
    const unsigned frozen = turns;
    w.world.run_for(10us);
    BOOST_TEST(frozen < 1'002u);
    BOOST_TEST(turns > 2'000u);
}

BOOST_AUTO_TEST_CASE(a_host_that_crashes_is_frozen_no_longer) {
    two_hosts w({.latency = 1ms});
    w.client.freeze(w.world.now() + 1h);
    w.client.crash();
    w.server.spawn([] { return accepts_one(7); });
    w.world.run(w.client, [&] { return connects(w.at(7)); });
    BOOST_TEST((w.world.elapsed() < 1s));
}

BOOST_AUTO_TEST_CASE(a_cable_without_latency_does_not_stop_time) { // it would not end
    two_hosts w({.latency = 0ns});
    sim_flow flow(w.client, w.server, 7);
    w.world.run_for(20us);
    BOOST_TEST(w.world.elapsed().count() == duration(20us).count());
    BOOST_TEST(flow.delivered() > 0u);
}

BOOST_AUTO_TEST_CASE(waiting_for_ever_for_what_cannot_happen_leaves_the_clocks_as_they_are) {
    two_hosts w({.latency = 1ms});
    w.world.after(duration::max(), [] { BOOST_ERROR("for ever has passed"); });
    BOOST_TEST(!w.world.run_until([] { return false; }, duration::max()));
    w.server.spawn([] { return accepts_one(7); });
    w.world.run(w.client, [&] { return connects(w.at(7)); });
    BOOST_TEST((w.world.elapsed() < 1h));
}

BOOST_AUTO_TEST_CASE(large_frames_travel_where_the_world_has_room_for_them) {
    const sim_host_options jumbo{.nic = {.mtu = 9000}};
    simulation small;
    BOOST_CHECK_THROW(small.add_host("large", jumbo), std::invalid_argument);
    simulation world({.frames = 1024, .frame_size = 16384});
    sim_host& from = world.add_host("from", jumbo);
    sim_host& to = world.add_host("to", jumbo);
    world.connect(from, to, {.latency = 1ms});
    sim_flow flow(from, to, 7, {.bytes = 1'000'000});
    BOOST_TEST(world.run_until([&] { return flow.ended(); }, 10s));
    BOOST_TEST(flow.delivered() == 1'000'000u);
}

BOOST_AUTO_TEST_SUITE_END()
