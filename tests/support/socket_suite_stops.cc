// A program is asked to stop (orderly_stop): which waits end at once, which when the grace is over, which never.
#include <corewire/net/socket/orderly_stop.hh>
#include <tests/support/socket_suite.hh>

#include <algorithm>
#include <string>
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

/// What a wait ends with, and when.
struct ending {
    std::optional<std::errc> why;
    time_point at{};
    duration after(time_point began) const { return at - began; }
};
template <typename Make>
task<> note_ending(ending& into, Make make) {
    const std::errc why = co_await error_of(std::move(make));
    into = {why, reactor::current().now()};
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

/// What went wrong while two talked, if anything, and the longest time between two words.
struct talk {
    std::string wrong;
    duration silence{};
};
/// On a real clock our thread may not run for so long that the connection of a talking peer is quiet: then nothing is said by how the
/// talk went, and it is held again. What is wrong with the last one.
template <typename Hold>
task<std::string> hold(Hold again) {
    talk last;
    for (int tries = 0; tries < 20; ++tries) {
        last = co_await again();
        if (last.wrong.empty() || last.silence <= orderly_stop::quiet / 2) break;
    }
    co_return last.wrong;
}

/// Notes how long nobody has said anything.
class silence {
public:
    void broken() noexcept {
        const time_point now = reactor::current().now();
        longest_ = std::max(longest_, now - last_);
        last_ = now;
    }
    duration longest() const noexcept { return longest_; }

private:
    time_point last_ = reactor::current().now();
    duration longest_{};
};

task<bool> says_and_hears(tcp_stream& client, std::string_view words) {
    try {
        co_await client.write(words);
        buffer answer = co_await client.read();
        co_return answer.text() == words;
    } catch (const std::system_error&) {
        co_return false;
    }
}

/// More often than a connection counts as quiet, and for longer than that.
task<talk> talk_and_finish(world& w) {
    session s;
    co_await begin(w, s);
    orderly_stop stop(w.loop(), w.server());
    stop.begin(60s);
    silence quiet;
    bool goes_on = true;
    for (int i = 0; i < 40 && goes_on; ++i) {
        goes_on = co_await says_and_hears(s.client, "still talking");
        quiet.broken();
        co_await sleep_for(orderly_stop::quiet / 10);
    }
    goes_on = goes_on && s.tasks.size() == 1u;
    quiet.broken();
    if (goes_on) s.client.shutdown();
    else s.client.abort();
    co_await s.tasks.join();
    talk result{.wrong = {}, .silence = quiet.longest()};
    if (!goes_on) result.wrong = "the session ended while the peer talked";
    else if (s.endings != std::vector{std::errc{}}) result.wrong = "the session did not end by the end of the stream";
    co_return result;
}

task<talk> talk_on_and_on(world& w) {
    session s;
    co_await begin(w, s);
    orderly_stop stop(w.loop(), w.server());
    const time_point began = reactor::current().now();
    stop.begin(200ms);
    silence quiet;
    while (s.tasks.size() != 0) {
        const std::errc sent = co_await error_of([&] { return s.client.write(std::string_view{"on and on"}); });
        quiet.broken();
        if (sent != std::errc{}) break;
        co_await sleep_for(5ms);
    }
    co_await s.tasks.join();
    quiet.broken();
    talk result{.wrong = {}, .silence = quiet.longest()};
    if (reactor::current().now() - began < 200ms) result.wrong = "the session ended before the grace was over";
    else if (s.endings != std::vector{std::errc::operation_canceled}) result.wrong = "the session was not cancelled";
    co_return result;
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
    BOOST_TEST(took.count() < duration(500ms + w.lateness()).count());
    BOOST_TEST(accepting == std::errc::operation_canceled);
    BOOST_REQUIRE_EQUAL(endings.size(), 100u);
    for (const std::errc why : endings) BOOST_TEST(why == std::errc::operation_canceled);
    for (tcp_stream& client : clients) { // the peers see an orderly end
        buffer end = co_await client.read(soon(10s));
        BOOST_TEST(end.empty());
    }
}

task<> a_stop_lets_a_talking_peer_finish(world& w) {
    const std::string wrong = co_await hold([&] { return talk_and_finish(w); });
    BOOST_TEST(wrong == "");
}

task<> a_stop_ends_a_talking_peer_after_the_grace(world& w) {
    const std::string wrong = co_await hold([&] { return talk_on_and_on(w); });
    BOOST_TEST(wrong == "");
}

task<> a_stop_gives_unacknowledged_bytes_their_time(world& w) {
    ends both = co_await connected(w);
    co_await fill(both.server); // the client does not read: nothing more is acknowledged
    ending reading;
    task_group waiting{"reader"};
    waiting.spawn(note_ending(reading, [&] { return both.server.read(); }));
    orderly_stop stop(w.loop(), w.server());
    const time_point began = reactor::current().now();
    stop.begin(1s); // much longer than a connection must be quiet
    co_await waiting.join();
    BOOST_TEST(reading.why == std::errc::operation_canceled);
    BOOST_TEST(reading.after(began).count() >= duration(1s).count());
    both.server.abort();
}

task<> a_stop_leaves_who_waits_for_an_answer_the_grace(world& w) {
    ends both = co_await connected(w);
    ending reading;
    task_group waiting{"reader"};
    waiting.spawn(note_ending(reading, [&] { return both.client.read(); }));
    orderly_stop stop(w.loop(), w.client());
    const time_point began = reactor::current().now();
    stop.begin(1s);
    co_await waiting.join();
    BOOST_TEST(reading.why == std::errc::operation_canceled);
    BOOST_TEST(reading.after(began).count() >= duration(1s).count());
}

task<> a_stop_ends_waits_for_readiness_and_handshakes(world& w) {
    ends both = co_await connected(w);
    ending readable, connecting;
    task_group waiting{"waiting"};
    const socket_address silent = w.silent_address();
    waiting.spawn(note_ending(readable, [&] { return both.server.wait_readable(); }));
    waiting.spawn(note_ending(connecting, [&] { return dial(w, silent); }));
    orderly_stop servers(w.loop(), w.server());
    orderly_stop clients(w.loop(), w.client());
    const time_point began = reactor::current().now();
    servers.begin(30s);
    clients.begin(300ms);
    co_await waiting.join();
    BOOST_TEST(readable.why == std::errc::operation_canceled);
    BOOST_TEST(readable.after(began).count() < duration(300ms + w.lateness()).count());
    BOOST_TEST(connecting.why == std::errc::operation_canceled);
    BOOST_TEST(connecting.after(began).count() >= duration(300ms).count());
}

task<> a_stop_ends_waits_for_datagrams(world& w) {
    udp_socket server = bind_udp_server(w);
    {
        udp_socket unused = bind_udp_client(w);
    }
    udp_socket client = udp_socket::connect(at_server(w, server.local_address().port));
    ending serving, asking;
    task_group waiting{"waiting"};
    waiting.spawn(note_ending(serving, [&] { return server.receive_from(); }));
    waiting.spawn(note_ending(asking, [&] { return client.receive_from(); }));
    orderly_stop servers(w.loop(), w.server());
    orderly_stop clients(w.loop(), w.client());
    const time_point began = reactor::current().now();
    servers.begin(30s);
    clients.begin(300ms);
    co_await waiting.join();
    BOOST_TEST(serving.why == std::errc::operation_canceled);
    BOOST_TEST(serving.after(began).count() < duration(100ms + w.lateness()).count());
    BOOST_TEST(asking.why == std::errc::operation_canceled);
    BOOST_TEST(asking.after(began).count() >= duration(300ms).count()); // it waits for an answer
}

} // namespace corewire::socket_suite
