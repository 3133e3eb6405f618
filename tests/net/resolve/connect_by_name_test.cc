// Happy Eyeballs (RFC 8305): addresses that are silent, refuse or are of a family that is not there cost little.
#include <tests/net/resolve/name_server.hh>

#include <corewire/net/resolve/connect_by_name.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

struct made {
    std::error_code why{};
    socket_address peer{};
    duration took{0};
};

task<> greeter(std::uint16_t port) {
    auto listener = tcp_listener::bind({ipv4::any(), port});
    std::vector<tcp_stream> peers;
    for (;;) peers.push_back(co_await listener.accept());
}

task<made> go(resolver& names, std::string name, connect_by_name_options options, wait_limits limits) {
    made out;
    const time_point begin = reactor::current().now();
    try {
        auto stream = co_await connect_by_name(names, std::move(name), 80, options, limits);
        out.peer = stream.peer_address();
    } catch (const std::system_error& e) {
        out.why = e.code();
    }
    out.took = reactor::current().now() - begin;
    co_return out;
}

/// The second name server's host is the one that can be reached, on port 80; nobody has 10.0.200.1.
struct race_world : name_world {
    race_world() : names(config, 3) {
        second_host.spawn([] { return greeter(80); });
    }
    made connect(const std::string& name, duration patience = 0s, connect_by_name_options options = {}) {
        return world.run(client, [&, name, patience, options] {
            return go(names, name, options, {.deadline = patience > 0s ? client.now() + patience : never});
        });
    }
    void serve(dns_reply a, dns_reply aaaa = {}) {
        first.zone[{"www.example.com", dns_type::a}] = std::move(a);
        first.zone[{"www.example.com", dns_type::aaaa}] = std::move(aaaa);
    }
    resolver names;
    const ipv4 silent{10, 0, 200, 1};
    const ip_address unreachable = *ipv6::parse("2001:db8::1");
};

} // namespace

BOOST_AUTO_TEST_SUITE(connect_by_name)

BOOST_FIXTURE_TEST_CASE(connects_to_what_the_name_stands_for, race_world) {
    serve({.addresses = {second_host.address()}});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(second_host.address(), 80)));
    BOOST_TEST((m.took < 100ms));
}

BOOST_FIXTURE_TEST_CASE(an_address_in_text_needs_no_server, race_world) {
    const made m = connect(wire::to_string(second_host.address()));
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST(first.asked == 0);
}

BOOST_FIXTURE_TEST_CASE(a_silent_address_costs_a_quarter_of_a_second, race_world) {
    serve({.addresses = {silent, second_host.address()}});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.took >= 250ms && m.took < 300ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(one_that_refuses_costs_a_round_trip, race_world) {
    serve({.addresses = {first_host.address(), second_host.address()}}); // nobody listens on the first one's port 80
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.took < 50ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(a_family_that_is_not_there_costs_nothing, race_world) {
    serve({.addresses = {second_host.address()}}, {.addresses = {unreachable}});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.took < 100ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(a_late_answer_about_ipv6_is_waited_for_a_moment_only, race_world) {
    serve({.addresses = {second_host.address()}}, {.delay = 1s});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.took >= 50ms && m.took < 100ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(when_all_fail_the_last_reason_is_told, race_world) {
    serve({.addresses = {first_host.address(), first_host.address()}});
    BOOST_CHECK(connect("www.example.com").why == std::errc::connection_refused);
    BOOST_CHECK(connect("nobody.example").why == resolve_error::no_such_name);
}

BOOST_FIXTURE_TEST_CASE(a_deadline_ends_it_and_leaves_nothing, race_world) {
    serve({.addresses = {silent, silent}});
    const made m = connect("www.example.com", 400ms);
    BOOST_CHECK(m.why == std::errc::timed_out);
    BOOST_TEST((m.took == 400ms));
    world.run_for(10s);
    BOOST_TEST(client.stack().tcp().connections() == 0);
}

BOOST_FIXTURE_TEST_CASE(only_the_family_that_is_wanted_is_asked_for, race_world) {
    serve({.addresses = {second_host.address()}});
    const made m = connect("www.example.com", 0s, {.family = address_family::v4});
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST(first.asked == 1);
}

BOOST_AUTO_TEST_SUITE_END()
