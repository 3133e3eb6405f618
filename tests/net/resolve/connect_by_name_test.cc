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
    void serve(dns_reply a, dns_reply aaaa = {}, const std::string& name = "www.example.com") {
        first.zone[{name, dns_type::a}] = std::move(a);
        first.zone[{name, dns_type::aaaa}] = std::move(aaaa);
    }
    /// By both servers: a failure of the first has the second asked.
    void serve_twice(const dns_reply& a, const dns_reply& aaaa, const std::string& name) {
        for (name_server* each : {&first, &second}) {
            each->zone[{name, dns_type::a}] = a;
            each->zone[{name, dns_type::aaaa}] = aaaa;
        }
    }
    resolver names;
    const ipv4 silent{10, 0, 200, 1};
    const ip_address unreachable = *ipv6::parse("2001:db8::1");
};

/// Short names mean two domains.
struct searching_world : race_world {
    searching_world() { config.search = {"corp.example", "example.net"}; }
    made search(const std::string& name) {
        resolver with_list(config, 3);
        return world.run(client, [&] { return go(with_list, name, {}, {}); });
    }
};

task<> counting_greeter(ip_address at, unsigned& accepted) {
    socket_address here;
    here.address = at;
    here.port = 80;
    auto listener = tcp_listener::bind(here, {.fast_open = 8});
    std::vector<tcp_stream> peers;
    for (;; ++accepted) peers.push_back(co_await listener.accept());
}

/// A client with both families, a server near it with both, and one with IPv6 behind a cable of its own.
struct both_families_world : race_world {
    both_families_world()
        : client6(add("client6", "2001:db8::1")), near(add("near", "2001:db8::2")), far(add("far", "2001:db8::3")),
          far_link(world.connect(far, sw, {.latency = 1ms})), near4(near.address()) {
        for (sim_host* h : {&client6, &near}) world.connect(*h, sw, {.latency = 1ms});
        near.spawn([this] { return counting_greeter(near4, accepted4); });
        near.spawn([this] { return counting_greeter(near6, accepted6); });
        far.spawn([this] { return counting_greeter(far6, accepted6); });
    }
    sim_host& add(const char* name, const char* address) {
        sim_host_options o;
        o.stack.ipv6.emplace();
        o.stack.ipv6->address = ipv6_prefix(*ipv6::parse(address), 64);
        o.stack.ipv6->duplicate_probes = 0;
        return world.add_host(name, o);
    }
    made connect(const std::string& name, connect_by_name_options options = {}) {
        return world.run(client6, [&, name, options] { return go(names, name, options, {}); });
    }
    unsigned accepted4 = 0, accepted6 = 0;
    sim_host &client6, &near, &far;
    sim_link& far_link;
    const ipv4 near4;
    const ipv6 near6 = *ipv6::parse("2001:db8::2"), far6 = *ipv6::parse("2001:db8::3");
    const ipv6 nobody6 = *ipv6::parse("2001:db8::dead"), elsewhere6 = *ipv6::parse("2001:db8:ffff::1");
};

/// Has no memory for anything.
struct provider_without_memory : socket_provider {
    std::unique_ptr<listener_backend> listen(const socket_address&, const listen_options&) override { throw std::bad_alloc(); }
    std::unique_ptr<tcp_backend> connect(const socket_address&, const socket_address&, const tcp_options_set&) override {
        throw std::bad_alloc();
    }
    bool start_connected(tcp_backend&, plain_operation&) noexcept override { return true; }
    void cancel_connected(tcp_backend&, socket_operation&) noexcept override {}
    std::unique_ptr<udp_backend> bind_udp(const socket_address&, const udp_options&) override { throw std::bad_alloc(); }
    std::optional<chosen_source> source_for(const net_address&) const override { throw std::bad_alloc(); }
    std::string describe() const override { return "nothing"; }
    void end_waits(ended_waits) noexcept override {}
};

template <typename Failure>
task<> note_failure(resolver& names, std::string name, connect_by_name_options options, bool& told) {
    try {
        co_await connect_by_name(names, std::move(name), 80, options);
    } catch (const Failure&) {
        told = true;
    }
}

/// Whether connecting over `provider`, or over none, ends with a Failure within a few turns.
template <typename Failure>
bool fails_with(socket_provider* provider, std::string name, connect_by_name_options options = {}) {
    reactor loop;
    reactor::scope here(loop);
    loop.attached(reactor::attachment::network) = provider;
    resolver_config config;
    config.hosts = {{"twin.example", ipv4(192, 0, 2, 1)}, {"twin.example", ipv4(192, 0, 2, 2)}};
    resolver names(config, 3);
    bool told = false;
    task_group tasks{"connecting"};
    tasks.spawn(note_failure<Failure>(names, std::move(name), options, told));
    for (int turns = 0; turns < 100 && tasks.size() != 0; ++turns) loop.poll_once();
    tasks.destroy_all();
    return told;
}

constexpr unsigned server_failure = 2; ///< RCODE (RFC 1035 4.1.1)

} // namespace

BOOST_AUTO_TEST_SUITE(connect_by_name)

BOOST_AUTO_TEST_CASE(a_shard_without_a_network_is_told) {
    BOOST_TEST(fails_with<std::logic_error>(nullptr, "192.0.2.1"));
    BOOST_TEST(fails_with<std::logic_error>(nullptr, "twin.example"));
}

BOOST_AUTO_TEST_CASE(want_of_memory_is_told) {
    provider_without_memory none;
    BOOST_TEST(fails_with<std::bad_alloc>(&none, "192.0.2.1"));                                    // to connect
    BOOST_TEST(fails_with<std::bad_alloc>(&none, "twin.example", {.family = address_family::v4})); // to order what was found
}

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

BOOST_FIXTURE_TEST_CASE(the_next_address_waits_ten_milliseconds_at_least, race_world) { // RFC 8305 5 (MUST NOT be less)
    serve({.addresses = {silent, silent, silent, silent, silent, second_host.address()}});
    const made m = connect("www.example.com", 0s, {.attempt_delay = 0s});
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.took >= 50ms && m.took < 100ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(ten_milliseconds_lie_between_those_that_refuse, race_world) { // the same, however soon one has failed
    const ip_address refuses = first_host.address();
    serve({.addresses = {refuses, refuses, refuses, refuses, refuses, second_host.address()}});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.took >= 50ms && m.took < 100ms), m.took.count());
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

BOOST_FIXTURE_TEST_CASE(where_ipv6_works_it_comes_first, both_families_world) { // RFC 8305 4, RFC 6724 6
    serve({.addresses = {near4}}, {.addresses = {near6}});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(net_address(near6), 80)));
    BOOST_TEST((m.took < 50ms), m.took.count());
    world.run_for(5s);
    BOOST_TEST(accepted4 == 0u); // the other family was not bothered
}

BOOST_FIXTURE_TEST_CASE(an_answer_about_ipv6_within_the_moment_comes_first_all_the_same, both_families_world) { // RFC 8305 3
    // A's comes after 2 ms, and 50 ms later what there is is tried.
    serve({.addresses = {near4}}, {.addresses = {near6}, .delay = 45ms});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(net_address(near6), 80)));
    BOOST_TEST((m.took >= 45ms && m.took < 60ms), m.took.count()); // tried as soon as it was there
    world.run_for(5s);
    BOOST_TEST(accepted4 == 0u);
}

BOOST_FIXTURE_TEST_CASE(an_answer_about_ipv6_behind_the_moment_is_one_more_to_try, both_families_world) { // RFC 8305 3
    const ip_address silent4 = ipv4(10, 0, 200, 1);
    serve({.addresses = {near4}}, {.addresses = {near6}, .delay = 100ms});
    made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80))); // it was tried, and answered
    BOOST_TEST((m.took >= 50ms && m.took < 90ms), m.took.count());
    serve({.addresses = {silent4, silent4, near4}}, {.addresses = {near6}, .delay = 100ms}, "other.example.com");
    m = connect("other.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(net_address(near6), 80))); // the other family's turn
    BOOST_TEST((m.took >= 300ms && m.took < 330ms), m.took.count()); // a quarter of a second after the first
}

BOOST_FIXTURE_TEST_CASE(a_question_about_ipv4_that_fails_is_nothing_to_one_about_ipv6, both_families_world) { // RFC 8305 3
    const dns_reply failures[] = {{.code = server_failure}, {.silent = true}};
    for (const dns_reply& failure : failures) {
        const std::string name = failure.silent ? "silent.example.com" : "failing.example.com";
        serve_twice(failure, {.addresses = {near6}, .delay = 20ms}, name);
        const made m = connect(name);
        BOOST_TEST(!m.why, m.why.message());
        BOOST_TEST((m.peer == socket_address(net_address(near6), 80)));
        BOOST_TEST((m.took >= 20ms && m.took < 50ms), m.took.count());
        serve_twice(failure, {}, "none." + name); // and no IPv6
        BOOST_CHECK(connect("none." + name).why == resolve_error::try_again); // not that there is no address
    }
}

BOOST_FIXTURE_TEST_CASE(a_question_about_ipv6_that_fails_holds_ipv4_up_no_longer, both_families_world) { // RFC 8305 3
    serve_twice({.addresses = {near4}}, {.code = server_failure}, "www.example.com");
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80)));
    BOOST_TEST((m.took < 40ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(where_ipv6_is_broken_it_costs_a_quarter_of_a_second, both_families_world) {
    serve({.addresses = {near4}}, {.addresses = {nobody6}}); // on our link, and nobody has it
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80)));
    BOOST_TEST((m.took >= 250ms && m.took < 300ms), m.took.count());
    world.run_for(10s);
    BOOST_TEST(client6.stack().tcp().connections() == 1u); // the winner's, whose peer has not closed; the other attempt was dropped
}

BOOST_FIXTURE_TEST_CASE(where_no_route_leads_to_ipv6_it_costs_nothing, both_families_world) { // RFC 6724 6, rule 1
    serve({.addresses = {near4}}, {.addresses = {elsewhere6}});
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80)));
    BOOST_TEST((m.took < 50ms), m.took.count());
    BOOST_TEST(client6.stack().statistics().no_route == 0u); // it was not even tried
}

BOOST_FIXTURE_TEST_CASE(what_no_route_leads_to_comes_last, both_families_world) { // RFC 6724 6, rule 1
    serve({.addresses = {near4}}, {.addresses = {elsewhere6, near6}});
    const auto order = world.run(client6, [&] { return names.resolve("www.example.com"); });
    BOOST_TEST((order == std::vector<ip_address>{near6, near4, elsewhere6}));
}

BOOST_FIXTURE_TEST_CASE(an_ipv6_that_is_slower_wins_when_it_answers_in_time_and_loses_when_not, both_families_world) { // RFC 8305 5
    serve({.addresses = {near4}}, {.addresses = {far6}});
    connect("www.example.com"); // the neighbour is known from now on
    far_link.configure({.latency = 90ms});
    made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(net_address(far6), 80)));
    far_link.configure({.latency = 200ms});
    m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80)));
    BOOST_TEST((m.took >= 250ms && m.took < 300ms), m.took.count());
    world.run_for(10s);
    BOOST_TEST(accepted6 == 2u);
    BOOST_TEST(client6.stack().tcp().connections() == 3u); // the winners', whose peers have not closed
}

BOOST_FIXTURE_TEST_CASE(fast_open_does_not_make_a_silent_address_win, both_families_world) { // RFC 8305 5, RFC 7413 4.2.1
    connect_by_name_options early;
    early.stream.fast_open = true;
    connect("2001:db8::3", early); // gives a cookie
    far_link.configure({.latency = 400ms});
    made m = connect("2001:db8::3", early); // the only one
    BOOST_TEST((m.took < 1ms), m.took.count());
    serve({.addresses = {near4}}, {.addresses = {far6}});
    m = connect("www.example.com", early);
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80)));
    BOOST_TEST((m.took >= 250ms && m.took < 300ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(the_families_take_turns, both_families_world) { // RFC 8305 4
    const ip_address silent4 = ipv4(10, 0, 200, 1);
    const auto silent6 = [](int n) { return ip_address(*ipv6::parse("2001:db8::dea" + std::to_string(n))); };
    serve({.addresses = {silent4, near4}}, {.addresses = {silent6(1), silent6(2), silent6(3)}}); // v6, v4, v6, the good one
    const made m = connect("www.example.com");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(near4, 80)));
    BOOST_TEST((m.took >= 750ms && m.took < 800ms), m.took.count());
}

BOOST_FIXTURE_TEST_CASE(the_search_list_never_mixes_two_hosts, searching_world) {
    first.zone[{"db.corp.example", dns_type::aaaa}] = {.addresses = {unreachable}};
    first.zone[{"db.corp.example", dns_type::a}] = {}; // there is none
    first.zone[{"db.example.net", dns_type::a}] = {.addresses = {second_host.address()}};
    const made m = search("db");
    BOOST_TEST(m.why, "connected to another host of that name");
    for (const auto& [name, type] : first.seen) BOOST_TEST(name == "db.corp.example");
}

BOOST_FIXTURE_TEST_CASE(the_search_goes_on_where_a_candidate_has_no_address_of_either_family, searching_world) {
    first.zone[{"db.corp.example", dns_type::aaaa}] = {.delay = 20ms}; // there is none
    first.zone[{"db.example.net", dns_type::a}] = {.addresses = {second_host.address()}};
    const made m = search("db");
    BOOST_TEST(!m.why, m.why.message());
    BOOST_TEST((m.peer == socket_address(second_host.address(), 80)));
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
