// What befalls simulated hosts and the tasks on them: stops, crashes, and the lives after.
#include "two_hosts.hh"

#include <corewire/net/port/wrap/tracing_port.hh>
#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/loop/scheduling_group.hh>
#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

/// As docs/SIMULATOR.md's: it does not know of stops.
task<> serve(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    for (;;) {
        tcp_stream peer = co_await listener.accept();
        spawn(echo(std::move(peer)));
    }
}

/// One that does.
task<> serve_until_the_stop(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    for (;;) {
        tcp_stream peer = co_await listener.accept({.stop = this_shard::stopping()});
        spawn(echo(std::move(peer)));
    }
}

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

task<std::string> ask(socket_address to) {
    auto peer = co_await tcp_stream::connect(to);
    const std::string out = "hello";
    co_await peer.write(out);
    std::vector<std::byte> in(out.size());
    const std::size_t n = co_await peer.read_exactly(in);
    co_await peer.close();
    co_return std::string(reinterpret_cast<const char*>(in.data()), n);
}
/// For one answer, on a connection that is there already when `asked` is set.
task<std::errc> waits_for_an_answer(socket_address to, event& asked) {
    try {
        auto peer = co_await tcp_stream::connect(to);
        co_await asked.wait();
        co_await peer.write("hello");
        co_await peer.read();
    } catch (const std::system_error& e) {
        co_return static_cast<std::errc>(e.code().value());
    }
    co_return std::errc{};
}

/// What a task may stand in when its host crashes.
task<> reads(socket_address to, time_point deadline) {
    auto peer = co_await tcp_stream::connect(to);
    co_await peer.read({.deadline = deadline});
}
task<> receives(time_point deadline) {
    auto socket = udp_socket::bind({ipv4::any(), 9});
    co_await socket.receive_from({.deadline = deadline});
}
task<> sleeps() { co_await sleep_for(1h); }

/// Its tasks end when asked to, or not.
task<> in_a_group_of_its_own(std::uint16_t port) {
    const scheduling_group batch = reactor::current().make_scheduling_group("batch", 100);
    co_await switch_to(batch);
    auto serving = serve(port);
    co_await serving;
}
task<> deaf_to_stops() {
    for (;;) co_await sleep_for(10ms);
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

BOOST_AUTO_TEST_CASE(a_stop_in_the_middle_of_a_handshake_ends_it) {
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_}) {
        for (duration at{}; at <= 6ms; at += 500us) { // in one of them the handshake's last segment waits in the ring
            simulation world;
            sim_host_options like;
            like.stack.tcp.habits = habits;
            sim_host& server = world.add_host("server", like);
            sim_host& client = world.add_host("client");
            world.connect(server, client, {.latency = 1ms});
            server.spawn([] { return serve_until_the_stop(7); });
            client.spawn([to = socket_address(server.address(), 7)] { return chat(to); });
            world.after(at, [&] { server.request_stop(); });
            BOOST_TEST(world.run_until([&] { return server.shard().deserted() && client.shard().deserted(); }, 1min));
            BOOST_TEST(server.failed() == 0u);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_crash_of_the_host_that_run_is_on_ends_run) {
    const auto until = [](two_hosts& w, duration d) { return d == duration::max() ? never : w.client.now() + d; };
    for (const duration deadline : {duration::max(), duration(2s)}) {
        for (int what = 0; what < 3; ++what) {
            two_hosts w({.latency = 1ms});
            w.server.spawn([] { return serve(7); });
            w.world.after(1s, [&] { w.client.crash(); });
            const auto body = [&]() -> task<> {
                if (what == 0) return reads(w.at(7), until(w, deadline));
                return what == 1 ? receives(until(w, deadline)) : sleeps();
            };
            BOOST_CHECK_EXCEPTION(w.world.run(w.client, body), sim_stalled, [](const sim_stalled& e) {
                return std::string(e.what()).find("the host crashed under the task on client") != std::string::npos;
            });
            BOOST_TEST(w.world.elapsed().count() == duration(1s).count());
            BOOST_TEST(w.client.shard().tasks() == 0u);
            w.world.run_for(5s);
            BOOST_TEST(w.world.run(w.client, [to = w.at(7)] { return ask(to); }) == "hello");
        }
    }
}

BOOST_AUTO_TEST_CASE(a_host_that_was_stopped_serves_again_after_a_crash) {
    two_hosts w({.latency = 1ms});
    for (int life = 0; life < 3; ++life) {
        w.server.spawn([] { return serve_until_the_stop(7); });
        BOOST_TEST(w.world.run(w.client, [to = w.at(7)] { return ask(to); }) == "hello");
        w.server.request_stop();
        BOOST_TEST(w.world.run_until([&] { return w.server.shard().tasks() == 0; }, 10s));
        w.server.crash();
    }
    BOOST_TEST(w.server.failed() == 0u);
}

BOOST_AUTO_TEST_CASE(what_a_body_has_captured_goes_with_it) { // and not with the host
    simulation world{{.seed = 3}};
    sim_host& host = world.add_host("host");
    const auto kept = std::make_shared<int>(1);
    host.spawn([kept]() -> task<> { co_return; });
    world.run_for(1ms);
    BOOST_TEST(kept.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_stream_may_be_captured_by_what_outlives_its_host) { // of which the address sanitizer would tell
    simulation world{{.seed = 3}};
    sim_host &server = world.add_host("server"), &client = world.add_host("client");
    world.connect(server, client);
    const socket_address at{server.address(), 7};
    server.spawn([] { return serve(7); });
    auto stream = std::make_shared<tcp_stream>();
    client.spawn([stream, at]() -> task<> {
        tcp_stream made = co_await tcp_stream::connect(at);
        *stream = std::move(made);
        co_await stream->read(); // which nobody answers
    });
    world.run_for(1s);
    world.at(client.now() + 1h, [stream] {}); // never comes
    world.on_turn([stream](sim_host&) {});
    stream.reset();
}

BOOST_AUTO_TEST_CASE(what_belongs_to_the_reactor_goes_with_a_crash) {
    two_hosts w({.latency = 1ms});
    for (int life = 0; life < 3; ++life) {
        w.server.spawn([] { return in_a_group_of_its_own(7); });
        BOOST_TEST(w.world.run(w.client, [to = w.at(7)] { return ask(to); }) == "hello");
        w.server.crash();
    }
    BOOST_TEST(w.server.failed() == 0u);
}

BOOST_AUTO_TEST_CASE(tasks_that_ignore_a_stop_are_abandoned_after_five_seconds) {
    two_hosts w;
    w.server.spawn([] { return deaf_to_stops(); });
    w.world.run_for(1s);
    w.server.request_stop();
    BOOST_TEST(w.world.run_until([&] { return w.server.shard().tasks() == 0; }, 10s));
    BOOST_TEST(w.world.elapsed().count() == duration(6s).count());
}

BOOST_AUTO_TEST_CASE(a_host_that_was_stopped_lets_the_world_rest) { // it would not end
    two_hosts w;
    w.server.spawn([] { return serve(7); });
    w.server.spawn([] { return deaf_to_stops(); });
    w.server.request_stop();
    BOOST_TEST(!w.world.run_until([] { return false; }, duration::max()));
    BOOST_TEST((w.world.elapsed() < 1h));
}

BOOST_AUTO_TEST_CASE(a_host_without_power_says_nothing_and_hears_nothing) {
    two_hosts w({.latency = 1ms});
    w.server.spawn([] { return serve(7); });
    event asked;
    std::optional<std::errc> end;
    const auto waits = [&]() -> task<> { end = co_await waits_for_an_answer(w.at(7), asked); };
    w.client.spawn(waits);
    w.world.run_for(1s);
    const auto sent = [&] { return w.cable.statistics(sim_link::direction::forward).sent; };
    const std::uint64_t before = sent();
    w.server.power_off();
    BOOST_TEST(!w.server.is_on());
    w.world.run_for(5s);
    const auto set = [&]() -> task<> {
        asked.set();
        co_return;
    };
    w.world.run(w.client, set);
    w.world.run_for(5s);
    BOOST_TEST(sent() == before);
    BOOST_TEST(w.server.nic().statistics().receive_no_buffer > 2u); // and retransmissions
    BOOST_TEST(!end.has_value());
    BOOST_TEST(w.world.describe().find("server: off") != std::string::npos);
    w.server.power_on();
    w.server.spawn([] { return serve(7); });
    BOOST_TEST(w.world.run_until([&] { return end.has_value(); }, 60s)); // the next retransmission is reset
    BOOST_TEST((end == std::errc::connection_reset));
    BOOST_TEST(w.world.run(w.client, [to = w.at(7)] { return ask(to); }) == "hello");
}

BOOST_AUTO_TEST_CASE(what_is_round_a_nic_sees_all_lives_of_its_host) {
    simulation world;
    unsigned made = 0, lines = 0;
    sim_host_options o;
    o.wrap = [&](std::unique_ptr<port> nic) -> std::unique_ptr<port> {
        ++made;
        return std::make_unique<tracing_port>(std::move(nic), world.network(), [&](std::string_view) { ++lines; });
    };
    sim_host& server = world.add_host("server", o);
    sim_host& client = world.add_host("client");
    world.connect(server, client);
    for (int life = 0; life < 3; ++life) {
        const unsigned before = lines;
        server.spawn([] { return serve(7); });
        BOOST_TEST(world.run(client, [&] { return ask({server.address(), 7}); }) == "hello");
        BOOST_TEST(lines > before + 5);
        server.crash();
    }
    BOOST_TEST(made == 1u);
}

BOOST_AUTO_TEST_CASE(a_simulated_host_has_no_helper_threads_and_says_so) {
    two_hosts w;
    const auto blocks = []() -> task<> {
        auto call = run_blocking([] {});
        co_await call;
    };
    BOOST_CHECK_EXCEPTION(w.world.run(w.client, blocks), std::system_error,
                          [](const std::system_error& e) { return e.code() == std::errc::not_supported; });
}

BOOST_AUTO_TEST_CASE(tasks_that_failed_are_told_of_when_the_world_stalls) {
    two_hosts w;
    w.server.spawn([] { return serve(7); });
    w.server.spawn([] { return serve(7); }); // EADDRINUSE
    BOOST_TEST(w.server.failed() == 1u);
    BOOST_CHECK_EXCEPTION(w.world.run(w.client, [] { return sleeps(); }, 1s), sim_stalled, [](const sim_stalled& e) {
        return std::string(e.what()).find("1 tasks failed") != std::string::npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
