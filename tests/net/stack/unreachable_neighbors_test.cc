// Nobody on the link answers for an address: who has sent there hears of it (RFC 4861 7.2.2), by ARP and by neighbour discovery alike.
#include "stack_world.hh"

using namespace corewire;
using namespace std::chrono_literals;

namespace {

stack_config both_families() {
    stack_config config;
    config.ipv6.emplace().duplicate_probes = 0;
    return config;
}

struct lonely_world : stack_world {
    lonely_world() : stack_world(wire_options{.vouch_for_checksums = false}, both_families()) {}
    socket_address absent(bool v6, std::uint16_t port = 7) { return {v6 ? net_address(six(nobody)) : net_address(nobody), port}; }
    const neighbor_statistics& asked(bool v6) {
        return v6 ? client_.ip().six()->neighbors().statistics() : client_.ip().neighbors().statistics();
    }
};

/// What connect() throws; nothing: it came to be.
task<std::errc> dial(socket_address to) {
    try {
        tcp_stream made = co_await tcp_stream::connect(to);
    } catch (const std::system_error& e) {
        co_return static_cast<std::errc>(e.code().value());
    }
    co_return std::errc{};
}

task<> dial_nobody(lonely_world& w, bool v6) {
    const time_point begun = w.clock.now();
    const std::errc first = co_await dial(w.absent(v6));
    const time_point ended = w.clock.now();
    BOOST_TEST((first == std::errc::host_unreachable));
    BOOST_TEST((ended - begun >= 3s && ended - begun < 3100ms));
    BOOST_TEST(w.asked(v6).requests_sent == 3u);
    const std::errc second = co_await dial(w.absent(v6)); // known already
    BOOST_TEST((second == std::errc::host_unreachable));
    BOOST_TEST((w.clock.now() - ended < 10ms));
    BOOST_TEST(w.asked(v6).requests_sent == 3u);
}

task<> say_to_nobody(lonely_world& w, bool v6) {
    udp_socket connected = udp_socket::connect(w.absent(v6)), bound = udp_socket::bind({ipv6::any(), 8});
    const std::string_view word = "anybody?";
    co_await connected.send(std::as_bytes(std::span(word)));
    co_await bound.send_to(std::as_bytes(std::span(word)), w.absent(v6));
    const time_point begun = w.clock.now();
    std::errc told{};
    try {
        const datagram d = co_await connected.receive_from();
    } catch (const std::system_error& e) {
        told = static_cast<std::errc>(e.code().value());
    }
    BOOST_TEST((told == std::errc::host_unreachable));
    BOOST_TEST((w.clock.now() - begun >= 2900ms && w.clock.now() - begun < 3100ms));
    told = {};
    try { // several destinations: it could not tell which was meant
        const datagram d = co_await bound.receive_from({.deadline = w.clock.now() + 10s});
    } catch (const std::system_error& e) {
        told = static_cast<std::errc>(e.code().value());
    }
    BOOST_TEST((told == std::errc::timed_out));
    BOOST_TEST(w.asked(v6).unreachable_dropped == 2u);
}

/// The first of two routers is silent.
task<> dial_over_the_second_router(lonely_world& w) {
    const ipv6 far = *ipv6::parse("2001:db8:ffff::1"), silent = *ipv6::parse("2001:db8::98"), good = w.six(w.first);
    ipv6_output& out = *w.client().ip().six();
    static_cast<void>(out.routes().add_router(silent));
    static_cast<void>(out.routes().add_router(good));
    BOOST_TEST((out.route(far).address == silent));
    const time_point begun = w.clock.now();
    std::errc why{};
    try {
        tcp_stream made = co_await tcp_stream::connect({far, 7}, {}, {.deadline = begun + 20s});
    } catch (const std::system_error& e) {
        why = static_cast<std::errc>(e.code().value());
    }
    BOOST_TEST((out.route(far).address == good));
    BOOST_TEST((why == std::errc::timed_out)); // not unreachable: it was tried over the other
    const neighbor* const other = out.neighbors().find(good);
    BOOST_TEST((other != nullptr && other->valid()));
}

} // namespace

BOOST_AUTO_TEST_SUITE(unreachable_neighbors)

BOOST_AUTO_TEST_CASE(a_connect_ends_when_nobody_answers_for_the_address) {
    for (const bool v6 : {false, true}) {
        lonely_world w;
        w.run(dial_nobody(w, v6));
    }
}

BOOST_AUTO_TEST_CASE(a_connected_datagram_socket_hears_that_nobody_is_there) {
    for (const bool v6 : {false, true}) {
        lonely_world w;
        w.run(say_to_nobody(w, v6));
    }
}

BOOST_FIXTURE_TEST_CASE(a_connect_goes_on_over_another_router, lonely_world) { // RFC 4861 7.3.3
    run(dial_over_the_second_router(*this));
}

BOOST_AUTO_TEST_SUITE_END()
