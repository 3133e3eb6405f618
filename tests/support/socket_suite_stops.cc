// A program is asked to stop (orderly_stop): which waits end at once, which when the grace is over, which never.
#include <corewire/net/socket/orderly_stop.hh>
#include <tests/support/socket_suite.hh>

#include <vector>

namespace corewire::socket_suite {

namespace {

using namespace std::chrono_literals;

/// Waits until `done()`, and says how long that took.
template <typename Condition>
task<duration> time_until(Condition done) {
    const time_point began = reactor::current().now();
    while (!done()) co_await sleep_for(1ms);
    co_return reactor::current().now() - began;
}

/// Reads until something ends that, and notes what.
task<> serve(tcp_stream peer, std::vector<std::errc>& endings) {
    std::errc why{};
    try {
        for (;;) {
            buffer data = co_await peer.read();
            if (!data) break;
            co_await peer.write(std::move(data));
        }
    } catch (const std::system_error& e) {
        why = static_cast<std::errc>(e.code().value());
    }
    endings.push_back(why);
}

/// A server's one session, and its client.
struct session {
    tcp_listener listener;
    tcp_stream client;
    std::vector<std::errc> endings;
    task_group tasks{"session"};
};
task<> begin(world& w, session& s) {
    s.listener = listen(w);
    s.client = co_await dial(w, s.listener.local_address());
    tcp_stream peer = co_await s.listener.accept();
    s.tasks.spawn(serve(std::move(peer), s.endings));
}

} // namespace

task<> a_stop_ends_a_hundred_idle_sessions(world& w) {
    tcp_listener listener = listen(w);
    task_group sessions{"sessions"};
    std::vector<std::errc> endings;
    std::vector<tcp_stream> clients;
    for (int i = 0; i < 100; ++i) {
        clients.push_back(co_await dial(w, listener.local_address()));
        tcp_stream peer = co_await listener.accept();
        sessions.spawn(serve(std::move(peer), endings));
    }
    std::optional<std::errc> accepting;
    task_group others{"accept"};
    others.spawn(note_error(accepting, [&] { return listener.accept(); }));
    orderly_stop stop(w.loop(), w.server());
    stop.begin(30s);
    const duration took = co_await time_until([&] { return sessions.size() + others.size() == 0; });
    BOOST_TEST(took.count() < duration(500ms).count());
    BOOST_TEST(accepting == std::errc::operation_canceled);
    BOOST_REQUIRE_EQUAL(endings.size(), 100u);
    for (const std::errc why : endings) BOOST_TEST(why == std::errc::operation_canceled);
    for (tcp_stream& client : clients) { // the peers see an orderly end
        buffer end = co_await client.read(soon(10s));
        BOOST_TEST(end.empty());
    }
}

task<> a_stop_lets_a_talking_peer_finish(world& w) {
    session s;
    co_await begin(w, s);
    orderly_stop stop(w.loop(), w.server());
    stop.begin(60s);
    // More often than a connection counts as quiet, and for longer than that.
    for (int i = 0; i < 40; ++i) {
        co_await s.client.write(std::string_view{"still talking"});
        buffer answer = co_await s.client.read();
        BOOST_REQUIRE_EQUAL(answer.text(), "still talking");
        co_await sleep_for(orderly_stop::quiet / 10);
    }
    BOOST_TEST(s.tasks.size() == 1u);
    s.client.shutdown();
    co_await s.tasks.join();
    BOOST_REQUIRE_EQUAL(s.endings.size(), 1u);
    BOOST_TEST(s.endings.front() == std::errc{}); // by the end of the stream
}

task<> a_stop_ends_a_talking_peer_after_the_grace(world& w) {
    session s;
    co_await begin(w, s);
    orderly_stop stop(w.loop(), w.server());
    stop.begin(200ms);
    const time_point began = reactor::current().now();
    while (s.tasks.size() != 0) {
        const std::errc sent = co_await error_of([&] { return s.client.write(std::string_view{"on and on"}); });
        if (sent != std::errc{}) break;
        co_await sleep_for(5ms);
    }
    co_await s.tasks.join();
    BOOST_TEST((reactor::current().now() - began).count() >= duration(200ms).count());
    BOOST_REQUIRE_EQUAL(s.endings.size(), 1u);
    BOOST_TEST(s.endings.front() == std::errc::operation_canceled);
}

task<> a_stop_gives_unacknowledged_bytes_their_time(world& w) {
    ends both = co_await connected(w);
    co_await fill(both.server); // the client does not read: nothing more is acknowledged
    std::optional<std::errc> reading;
    task_group waiting{"reader"};
    waiting.spawn(note_error(reading, [&] { return both.server.read(); }));
    orderly_stop stop(w.loop(), w.server());
    stop.begin(1s);
    co_await sleep_for(4 * orderly_stop::quiet);
    BOOST_TEST(!reading.has_value());
    co_await waiting.join();
    BOOST_TEST(reading == std::errc::operation_canceled);
    both.server.abort();
}

task<> a_stop_leaves_who_waits_for_an_answer_the_grace(world& w) {
    ends both = co_await connected(w);
    std::optional<std::errc> reading;
    task_group waiting{"reader"};
    waiting.spawn(note_error(reading, [&] { return both.client.read(); }));
    orderly_stop stop(w.loop(), w.client());
    stop.begin(1s);
    co_await sleep_for(4 * orderly_stop::quiet);
    BOOST_TEST(!reading.has_value());
    co_await waiting.join();
    BOOST_TEST(reading == std::errc::operation_canceled);
}

task<> a_stop_ends_waits_for_readiness_and_handshakes(world& w) {
    ends both = co_await connected(w);
    std::optional<std::errc> readable, connecting;
    task_group waiting{"waiting"};
    const socket_address silent = w.silent_address();
    waiting.spawn(note_error(readable, [&] { return both.server.wait_readable(); }));
    waiting.spawn(note_error(connecting, [&] { return dial(w, silent); }));
    orderly_stop servers(w.loop(), w.server());
    orderly_stop clients(w.loop(), w.client());
    servers.begin(300ms);
    clients.begin(300ms);
    co_await time_until([&] { return readable.has_value(); });
    BOOST_TEST(!connecting.has_value());
    co_await waiting.join();
    BOOST_TEST(readable == std::errc::operation_canceled);
    BOOST_TEST(connecting == std::errc::operation_canceled);
}

task<> a_stop_ends_waits_for_datagrams(world& w) {
    udp_socket server = bind_udp_server(w);
    {
        udp_socket unused = bind_udp_client(w);
    }
    udp_socket client = udp_socket::connect(at_server(w, server.local_address().port));
    std::optional<std::errc> serving, asking;
    task_group waiting{"waiting"};
    waiting.spawn(note_error(serving, [&] { return server.receive_from(); }));
    waiting.spawn(note_error(asking, [&] { return client.receive_from(); }));
    orderly_stop servers(w.loop(), w.server());
    orderly_stop clients(w.loop(), w.client());
    servers.begin(300ms);
    clients.begin(300ms);
    const duration took = co_await time_until([&] { return serving.has_value(); });
    BOOST_TEST(took.count() < duration(100ms).count());
    BOOST_TEST(!asking.has_value()); // it waits for an answer
    co_await waiting.join();
    BOOST_TEST(serving == std::errc::operation_canceled);
    BOOST_TEST(asking == std::errc::operation_canceled);
}

} // namespace corewire::socket_suite
