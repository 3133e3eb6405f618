// What listeners count and what is kept beside the table of connections: always what there is, and nothing when all is over.
#include "stack_world.hh"

#include <corewire/net/stack/tcp_listen_socket.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

tcp_listen_socket& only_listener(network_stack& stack) {
    tcp_listen_socket* found = nullptr;
    stack.tcp().for_each_listener([&](tcp_listen_socket& each) { found = &each; });
    BOOST_REQUIRE(found != nullptr);
    return *found;
}

/// Three come, one is accepted, one resets before, one stays.
task<> they_come_and_go(stack_world& w) {
    tcp_listener listener = listen(w);
    tcp_listen_socket& counts = only_listener(w.server());
    counts.save_syns(tcp_listen_socket::syn_headers::from_ip);
    {
        tcp_stream first = co_await dial(w, listener.local_address());
        tcp_stream second = co_await dial(w, listener.local_address());
        tcp_stream third = co_await dial(w, listener.local_address());
        co_await sleep_for(std::chrono::milliseconds{10});
        BOOST_TEST(counts.ready() == 3u);
        BOOST_TEST(counts.half_open() == 0u);
        w.server().check_invariants();
        tcp_stream accepted = co_await listener.accept();
        second.abort();
        co_await sleep_for(std::chrono::milliseconds{10});
        w.server().check_invariants();
        const tcp_layer::remains now = w.server().tcp().what_remains();
        BOOST_TEST(now.listeners == 1u);
        BOOST_TEST(now.saved_syns == now.connections + now.over);
        BOOST_TEST(now.parameter_users != 0u);
    }
    listener.close();
}

} // namespace

BOOST_AUTO_TEST_SUITE(tcp_invariants)

BOOST_AUTO_TEST_CASE(a_stack_whose_connections_are_over_has_nothing_left_of_them) {
    for (const tcp::personality habits : {tcp::personality::standard, tcp::personality::linux_, tcp::personality::freebsd}) {
        stack_config config;
        config.tcp.habits = habits;
        config.tcp.time_wait = std::chrono::seconds{1};
        stack_world w({.vouch_for_checksums = false}, config);
        w.run(they_come_and_go(w));
        BOOST_TEST(w.server().tcp().what_remains().sum() == 0u);
        BOOST_TEST(w.client().tcp().what_remains().sum() == 0u);
    }
}

BOOST_AUTO_TEST_CASE(a_listener_at_all_addresses_of_both_families_is_seen_once) {
    stack_config config;
    config.ipv6.emplace().duplicate_probes = 0;
    stack_world w({.vouch_for_checksums = false}, config);
    const auto of_both = w.server().listen({ipv6::any(), 7}, {}), of_ipv6 = w.server().listen({ipv6::any(), 8}, {});
    BOOST_TEST(w.server().tcp().what_remains().listeners == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
