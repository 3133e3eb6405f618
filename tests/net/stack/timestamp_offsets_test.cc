// What our timestamps tell (RFC 7323 5.4, 7.1): not how long we have been up, another clock to each host, one that goes on to the same.
#include "stack_world.hh"

#include <corewire/net/stack/tcp_listen_socket.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

std::vector<std::uint32_t> offsets_of(network_stack& stack) {
    std::vector<std::uint32_t> all;
    stack.tcp().for_each_connection([&](const tcp_connection& c) { all.push_back(c.tcb.timestamp_offset()); });
    return all;
}

/// What the server's only connection has heard of the client's clock, less the clock that both have.
std::uint32_t heard_offset(stack_world& w) {
    std::uint32_t heard = 0;
    w.server().tcp().for_each_connection([&](const tcp_connection& c) { heard = c.tcb.last_timestamp(); });
    return heard - tcp::timestamp_echo::clock(w.clock.now(), 0);
}

task<> opens_to_two_hosts(stack_world& w) {
    tcp_listener listener = listen(w);
    std::optional<std::errc> unanswered;
    task_group waiting{"dial"};
    waiting.spawn(note_error(unanswered, [&] { return dial(w, w.silent_address(), soon(std::chrono::seconds{1})); }));
    tcp_stream client = co_await dial(w, listener.local_address());
    const std::vector<std::uint32_t> offsets = offsets_of(w.client());
    BOOST_TEST_REQUIRE(offsets.size() == 2u);
    BOOST_TEST(offsets[0] != offsets[1]);
    tcp_stream server = co_await listener.accept();
    // Of two ends whose clocks are the same here, each has its own; and what is on the wire is not the time.
    const std::uint32_t heard = heard_offset(w);
    BOOST_TEST((heard + 1 != 0 && heard != 0));
    co_await waiting.join();
}

task<> opens_twice_to_one_host(stack_world& w) {
    tcp_listener listener = listen(w);
    std::vector<std::uint32_t> heard;
    for (int i = 0; i < 2; ++i) {
        tcp_stream client = co_await dial(w, listener.local_address());
        tcp_stream server = co_await listener.accept();
        co_await server.close(soon(std::chrono::seconds{10}));
        client = {};
        BOOST_TEST_REQUIRE(!offsets_of(w.client()).empty());
        heard.push_back(offsets_of(w.client()).front());
        co_await sleep_for(std::chrono::minutes{3}); // TIME-WAIT is over
    }
    BOOST_TEST(heard[0] == heard[1]);
}

task<> opens_by_a_cookie(stack_world& w) {
    auto backend = std::make_unique<tcp_listen_socket>(w.server().tcp(), at_server(w, 7), listen_options{});
    backend->set_cookies(tcp_listen_socket::cookie_use::always);
    tcp_listener listener{std::move(backend)};
    tcp_stream client = co_await dial(w, listener.local_address());
    tcp_stream server = co_await listener.accept();
    BOOST_TEST(w.server().statistics().tcp_cookies_accepted == 1u);
    const tcp_information seen = server.info();
    BOOST_TEST((seen.timestamps && seen.sack && seen.window_scaling));
    BOOST_TEST(seen.send_scale == client.info().receive_scale);
    co_await client.write(std::string_view{"behind a cookie"});
    const buffer heard = co_await server.read();
    BOOST_TEST(heard.text() == "behind a cookie");
}

} // namespace

BOOST_AUTO_TEST_SUITE(timestamp_offsets)

BOOST_FIXTURE_TEST_CASE(each_host_sees_another_clock, stack_world) { run(opens_to_two_hosts(*this)); }
BOOST_FIXTURE_TEST_CASE(the_next_connection_to_a_host_finds_the_clock_of_the_last, stack_world) { run(opens_twice_to_one_host(*this)); }
BOOST_FIXTURE_TEST_CASE(a_cookie_tells_its_terms_as_before, stack_world) { run(opens_by_a_cookie(*this)); }

BOOST_AUTO_TEST_SUITE_END()
