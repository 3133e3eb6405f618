// The endpoint over our own stack, on a virtual clock: answers, limits and deadlines.
#include <corewire/apps/runtime/inspection/exposition_server.hh>
#include <corewire/net/stack/stack_metrics.hh>
#include <corewire/net/stack/tcp_census.hh>
#include <tests/net/stack/stack_world.hh>
#include <tests/support/starved_listener.hh>

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

struct inspected : stack_world {
    using stack_world::loop_;

    inspected() {
        reactor::scope here(loop_);
        loop_.attached(reactor::attachment::metrics) = &registry;
        group.counter("test_answer_total", "The answer.", answer);
        census.register_metrics(group);
        publisher.add(census);
        endpoint.register_metrics(group);
        endpoint.start(tcp_listener(server_.listen({first, 9100}, {})));
    }
    ~inspected() override {
        reactor::scope here(loop_);
        loop_.attached(reactor::attachment::metrics) = nullptr;
    }

    std::uint64_t answer = 42;
    metrics_page page{"test", "wire", 1, ""};
    metric_registry registry{page, 0, "shard=\"0\""};
    metric_publisher publisher{loop_, registry, {.interval = 3600s, .idle_interval = 3600s}};
    tcp_census census{server_.tcp()};
    metric_group group{&registry};
    exposition_server endpoint{page, [this] { return std::vector{&publisher}; }, {.max_connections = 4}};
};

std::string get(std::string_view path, std::string_view fields = "Connection: close\r\n") {
    return fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n{}\r\n", path, fields);
}

task<> read_all(tcp_stream& peer, std::string& out) {
    while (auto data = co_await peer.read()) out += data.text();
}

/// Sends `text` and reads to the end.
task<> ask(std::string text, std::string& out) {
    tcp_stream peer = co_await tcp_stream::connect({stack_world::first, 9100});
    co_await peer.write(text);
    co_await read_all(peer, out);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(exposition_server, inspected)

BOOST_AUTO_TEST_CASE(a_scrape_has_the_counts_of_this_moment) {
    std::string said;
    run(ask(get("/metrics"), said));
    BOOST_TEST(said.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: "));
    BOOST_TEST(said.find("# HELP test_answer_total The answer.\n# TYPE test_answer_total counter\n"
                         "test_answer_total{shard=\"0\"} 42\n") != said.npos);
    BOOST_TEST(said.find("corewire_tcp_connections{shard=\"0\",state=\"ESTABLISHED\"} 1\n") != said.npos);
    BOOST_TEST(said.find("corewire_scrape_duration_seconds_count{shard=\"0\"} 0\n") != said.npos);
    const std::size_t body = said.find("\r\n\r\n") + 4;
    BOOST_TEST(said.find(fmt::format("Content-Length: {}\r\n", said.size() - body)) != said.npos);
    ++answer;
    said.clear();
    run(ask(get("/metrics"), said));
    BOOST_TEST(said.find("test_answer_total{shard=\"0\"} 43\n") != said.npos);
    BOOST_TEST(said.find("corewire_scrape_duration_seconds_count{shard=\"0\"} 1\n") != said.npos);
    BOOST_TEST(endpoint.statistics().scrapes == 2u);
    settle();
}

BOOST_AUTO_TEST_CASE(a_series_that_comes_later_is_in_the_next_scrape_and_one_that_goes_is_not) {
    std::string said;
    run(ask(get("/metrics"), said));
    BOOST_TEST(said.find("test_later") == said.npos);
    std::uint64_t later = 5;
    {
        metric_group another(&registry);
        another.gauge("test_later", "Comes later.", later);
        run(ask(get("/metrics"), said));
        BOOST_TEST(said.find("test_later{shard=\"0\"} 5\n") != said.npos);
    }
    said.clear();
    run(ask(get("/metrics"), said));
    BOOST_TEST(said.find("test_later") == said.npos);
    settle();
}

BOOST_AUTO_TEST_CASE(one_connection_may_ask_many_times) {
    std::string said;
    run(ask(get("/", "") + "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n" + get("/nothing", "") +
                "PUT / HTTP/1.1\r\nHost: a\r\n\r\n" + get("/metrics"),
            said));
    std::size_t at = 0;
    for (const char* expected : {"200 OK", "200 OK", "404 Not Found", "405 Method Not Allowed", "200 OK"}) {
        at = said.find(std::string("HTTP/1.1 ") + expected, at);
        BOOST_REQUIRE(at != said.npos);
        at += 10;
    }
    BOOST_TEST(said.find("Allow: GET, HEAD\r\n") != said.npos);
    BOOST_TEST(said.find("test_answer_total{") == said.rfind("test_answer_total{")); // HEAD has no body
    BOOST_TEST(endpoint.statistics().refused == 2u);
    settle();
}

BOOST_AUTO_TEST_CASE(a_bad_request_is_answered_and_the_connection_closed) {
    std::string said;
    run(ask("NONSENSE\r\n\r\n" + get("/metrics"), said));
    BOOST_TEST(said.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    BOOST_TEST(said.find("200 OK") == said.npos);
    said.clear();
    run(ask("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x'), said));
    BOOST_TEST(said.starts_with("HTTP/1.1 431 "));
    BOOST_TEST(endpoint.statistics().refused == 2u);
    settle();
}

BOOST_AUTO_TEST_CASE(a_head_that_never_ends_is_cut_off_in_time) {
    run([](inspected& w) -> task<> {
        tcp_stream peer = co_await tcp_stream::connect({stack_world::first, 9100});
        const time_point begun = w.loop_.now();
        try {
            for (;;) { // a byte a second
                co_await peer.write(std::string_view("x"));
                co_await sleep_for(1s);
            }
        } catch (const std::system_error&) {
        }
        BOOST_TEST((w.loop_.now() - begun) / 1s <= 7);
        BOOST_TEST(w.endpoint.statistics().timed_out == 1u);
    }(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(a_connection_that_says_nothing_is_closed_in_time) {
    run([](inspected& w) -> task<> {
        tcp_stream peer = co_await tcp_stream::connect({stack_world::first, 9100});
        const time_point begun = w.loop_.now();
        try {
            co_await peer.read();
        } catch (const std::system_error&) {
        }
        BOOST_TEST((w.loop_.now() - begun) / 1s == 90);
        BOOST_TEST(w.endpoint.statistics().timed_out == 1u);
        BOOST_TEST(w.endpoint.statistics().connections == 0u);
    }(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(connections_beyond_the_limit_are_told_so) {
    run([](inspected& w) -> task<> {
        std::vector<tcp_stream> held;
        for (int i = 0; i < 4; ++i) held.push_back(co_await tcp_stream::connect({stack_world::first, 9100}));
        std::string said;
        co_await ask(get("/metrics"), said);
        BOOST_TEST(said.starts_with("HTTP/1.1 503 "));
        BOOST_TEST(w.endpoint.statistics().turned_away == 1u);
        held.clear();
        co_await sleep_for(1s);
        said.clear();
        co_await ask(get("/metrics"), said);
        BOOST_TEST(said.starts_with("HTTP/1.1 200 "));
    }(*this));
    settle();
}

/// To be told "too many connections" takes a connection, for as long as the peer likes it to.
BOOST_AUTO_TEST_CASE(connections_beyond_twice_the_limit_are_reset) {
    run([](inspected& w) -> task<> {
        std::vector<tcp_stream> held;
        for (int i = 0; i < 40; ++i) held.push_back(co_await tcp_stream::connect({stack_world::first, 9100}));
        co_await sleep_for(10ms);
        BOOST_TEST(w.endpoint.statistics().connections == 8u);
        BOOST_TEST(w.endpoint.statistics().turned_away == 36u);
        bool reset = false;
        try {
            co_await held.back().read();
        } catch (const std::system_error& e) {
            reset = e.code() == std::errc::connection_reset;
        }
        BOOST_TEST(reset);
        held.clear();
        co_await sleep_for(1s);
        std::string said;
        co_await ask(get("/metrics"), said);
        BOOST_TEST(said.starts_with("HTTP/1.1 200 "));
    }(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(scrapes_go_on_when_there_are_descriptors_and_memory_again) {
    corewire::exposition_server starved(page, [this] { return std::vector{&publisher}; });
    {
        reactor::scope here(loop_);
        auto listener = std::make_unique<starved_listener>(server_.listen({first, 9101}, {}), out_of_everything);
        starved.start(tcp_listener(std::move(listener)));
    }
    run([](corewire::exposition_server& poor) -> task<> {
        tcp_stream peer = co_await tcp_stream::connect({stack_world::first, 9101});
        co_await peer.write(get("/metrics"));
        const buffer said = co_await peer.read({.deadline = reactor::current().now() + 5s});
        BOOST_TEST(said.text().starts_with("HTTP/1.1 200 "));
        BOOST_TEST(poor.statistics().accepts_failed == 4u);
        peer.abort();
        poor.stop();
        co_await sleep_for(1s);
        BOOST_TEST(poor.statistics().connections == 0u);
    }(starved));
    settle();
}

BOOST_AUTO_TEST_CASE(a_peer_that_does_not_read_is_given_up) {
    metric_group many(&registry);
    for (int i = 0; i < 12'000; ++i)
        many.counter("test_many_total", "Many, so that the page is larger than what fits on the way to the peer.", answer,
                     metric_label("number", fmt::format("{:0>100}", i)));
    run([](inspected& w) -> task<> {
        tcp_stream peer = co_await tcp_stream::connect({stack_world::first, 9100}, {.receive_buffer = 4096});
        co_await peer.write(get("/metrics"));
        co_await sleep_for(30s);
        BOOST_TEST(w.endpoint.statistics().timed_out == 1u);
        BOOST_TEST(w.endpoint.statistics().connections == 0u);
        peer.abort();
    }(*this));
    settle();
}

BOOST_AUTO_TEST_CASE(a_stop_ends_idle_connections_and_the_listener) {
    run([](inspected& w) -> task<> {
        tcp_stream peer = co_await tcp_stream::connect({stack_world::first, 9100});
        co_await sleep_for(10ms);
        w.endpoint.stop();
        co_await sleep_for(10ms);
        BOOST_TEST(w.endpoint.statistics().connections == 0u);
        std::errc why{};
        try {
            tcp_stream late = co_await tcp_stream::connect({stack_world::first, 9100});
        } catch (const std::system_error& e) {
            why = static_cast<std::errc>(e.code().value());
        }
        BOOST_TEST((why == std::errc::connection_refused));
    }(*this));
    settle();
}

BOOST_AUTO_TEST_SUITE_END()
