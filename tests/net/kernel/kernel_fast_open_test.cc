// Fast Open of the kernel's sockets: its SYN waits for the first write, and for nobody else.
// ctest: root=yes
#include "kernel_world.hh"

#include <corewire/net/socket/tcp_information.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

const tcp_options_set fast{.fast_open = true};

/// Where Fast Open may be used both ways.
struct fast_namespace {
    explicit fast_namespace(bool slowly) {
        ns.check("sysctl -qw net.ipv4.tcp_fastopen=3");
        // The answer to a SYN comes later, or no shutdown(2) would find it missing. A kernel without tbf has less to show.
        if (slowly) ns.run("tc qdisc add dev lo root tbf rate 16kbit burst 200 latency 2s");
    }
    test::network_namespace ns;
    test::network_namespace::scope inside{ns};
};
struct fast_world : private fast_namespace, kernel_world {
    explicit fast_world(bool slowly) : fast_namespace(slowly) {}
};

wait_limits patiently() { return soon(std::chrono::seconds{5}); }

/// A stream to a server whose cookie is known: its SYN has not left yet.
task<tcp_stream> open_fast(world& w, tcp_listener& listener) {
    {
        tcp_stream client = co_await dial(w, listener.local_address(), {}, fast);
        tcp_stream server = co_await listener.accept();
    }
    tcp_stream opened = co_await dial(w, listener.local_address(), {}, fast);
    BOOST_TEST((opened.info().state == tcp_state::syn_sent));
    co_return opened;
}

task<> hears_the_first_word(world& w, bool by_wait_readable) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    tcp_stream client = co_await open_fast(w, listener);
    std::optional<std::errc> why;
    task_group waiting{"reader"};
    if (by_wait_readable) waiting.spawn(note_error(why, [&] { return client.wait_readable(patiently()); }));
    else waiting.spawn(note_error(why, [&] { return client.read(patiently()); }));
    tcp_stream server;
    try {
        server = co_await listener.accept(patiently());
        co_await server.write(std::string_view{"welcome"});
    } catch (const std::system_error& e) {
        BOOST_ERROR(e.what());
    }
    co_await waiting.join();
    BOOST_TEST(why == std::errc{});
}

task<> closes_towards_a_closed_port(world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    tcp_stream client = co_await open_fast(w, listener);
    listener.close();
    co_await some_turns();
    const std::errc why = co_await error_of([&] { return client.close(patiently()); });
    BOOST_TEST(why == std::errc::connection_refused);
}

task<> nothing_written_is_lost(world& w, bool by_close) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    tcp_stream client = co_await open_fast(w, listener);
    co_await client.write(std::string_view{"question"});
    if (by_close) co_await client.close(patiently());
    else client = {};
    tcp_stream server = co_await listener.accept(patiently());
    std::string heard;
    for (;;) {
        buffer data = co_await server.read(patiently());
        if (!data) break;
        heard += data.text();
    }
    BOOST_TEST(heard == "question");
}

task<> an_empty_connection_ends(world& w) {
    tcp_listener listener = listen(w, 0, {.fast_open = 4});
    tcp_stream client = co_await open_fast(w, listener);
    co_await client.close(patiently());
    tcp_stream server = co_await listener.accept(patiently());
    buffer end = co_await server.read(patiently());
    BOOST_TEST(end.empty());
}

void in_own_namespace(task<> (*body)(world&), bool slowly = false) {
    if (!test::have_root()) return;
    fast_world w(slowly);
    w.run(body(w));
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_fast_open)

BOOST_AUTO_TEST_CASE(a_reader_does_not_wait_for_a_write_that_never_comes) {
    in_own_namespace([](world& w) { return hears_the_first_word(w, false); });
}
BOOST_AUTO_TEST_CASE(nor_does_who_waits_until_it_is_readable) {
    in_own_namespace([](world& w) { return hears_the_first_word(w, true); });
}
BOOST_AUTO_TEST_CASE(a_close_fails_where_nobody_listens_any_more) {
    in_own_namespace([](world& w) { return closes_towards_a_closed_port(w); });
}
BOOST_AUTO_TEST_CASE(a_close_waits_for_the_handshake) {
    in_own_namespace([](world& w) { return nothing_written_is_lost(w, true); }, true);
}
BOOST_AUTO_TEST_CASE(a_stream_that_is_let_go_finishes_its_handshake) {
    in_own_namespace([](world& w) { return nothing_written_is_lost(w, false); }, true);
}
BOOST_AUTO_TEST_CASE(a_close_without_a_write_opens_and_ends) {
    in_own_namespace([](world& w) { return an_empty_connection_ends(w); });
}

BOOST_AUTO_TEST_SUITE_END()
