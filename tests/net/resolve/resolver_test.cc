// Names to addresses in a simulated network: servers that are silent, refuse, lie, or have much to say.
#include <tests/net/resolve/name_server.hh>

#include <corewire/net/resolve/resolver.hh>
#include <corewire/reactor/task/when_all.hh>

#include <boost/test/unit_test.hpp>

#include <set>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

using addresses = std::vector<ip_address>;
const ip_address v4 = ipv4(192, 0, 2, 1), other_v4 = ipv4(192, 0, 2, 2), v6 = *ipv6::parse("2001:db8::1");
const name_server::question www_a{"www.example.com", dns_type::a}, www_aaaa{"www.example.com", dns_type::aaaa};

struct asked {
    addresses found;
    std::error_code why{};
    duration took{0};
};

task<asked> ask(corewire::resolver& names, std::string name, address_family family, wait_limits limits) {
    asked out;
    const time_point begin = reactor::current().now();
    try {
        out.found = co_await names.resolve(std::move(name), family, limits);
    } catch (const std::system_error& e) {
        out.why = e.code();
    }
    out.took = reactor::current().now() - begin;
    co_return out;
}

/// At every ephemeral port.
task<> spray(ipv4 to) {
    auto socket = udp_socket::bind({ipv4::any(), 7000});
    const std::vector<std::byte> junk(50);
    for (unsigned port = 49'152; port <= 65'535; ++port) {
        const socket_address at{to, static_cast<std::uint16_t>(port)};
        co_await socket.send_to(byte_span(junk), at);
    }
}

/// The network says where names are asked for, as DHCP would.
struct network_word : socket_provider {
    static void say(learned_names names) {
        auto& provider = *static_cast<socket_provider*>(reactor::current().attached(reactor::attachment::network));
        (provider.*&network_word::learn)(std::move(names));
    }
};

struct lookup_world : name_world {
    corewire::resolver& names() {
        if (!made_) made_.emplace(config, 11);
        return *made_;
    }
    asked resolve(const std::string& name, address_family family = address_family::v4, duration patience = 0s) {
        return world.run(client, [&, name, family, patience] {
            return ask(names(), name, family, {.deadline = patience > 0s ? client.now() + patience : never});
        });
    }

private:
    std::optional<corewire::resolver> made_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(resolver)

BOOST_FIXTURE_TEST_CASE(gives_all_addresses_with_ipv6_first, lookup_world) {
    first.zone[www_a] = {.addresses = {v4, other_v4}};
    first.zone[www_aaaa] = {.addresses = {v6}};
    BOOST_TEST((resolve("www.example.com", address_family::any).found == addresses{v6, v4, other_v4}));
    BOOST_TEST((resolve("WWW.example.com.", address_family::v6).found == addresses{v6}));
    BOOST_TEST(first.asked == 2);
    BOOST_TEST(second.asked == 0);
}

BOOST_FIXTURE_TEST_CASE(addresses_the_own_table_and_localhost_need_no_server, lookup_world) {
    config.hosts = {{"printer", v4}, {"Printer", v6}};
    BOOST_TEST((resolve("192.0.2.2").found == addresses{other_v4}));
    BOOST_TEST((resolve("2001:db8::1", address_family::any).found == addresses{v6}));
    BOOST_TEST((resolve("PRINTER.", address_family::any).found == addresses{v6, v4}));
    BOOST_TEST((resolve("localhost").found == addresses{ipv4(127, 0, 0, 1)}));
    BOOST_TEST((resolve("a.localhost", address_family::v6).found == addresses{ipv6::loopback()}));
    BOOST_CHECK(resolve("192.0.2.2", address_family::v6).why == resolve_error::no_address);
    BOOST_TEST(first.asked == 0);
    config.hosts = {{"www.example.com", v4}}; // of the other family the servers may know more
    first.zone[www_aaaa] = {.addresses = {v6}};
    corewire::resolver again(config, 12);
    const auto six = world.run(client, [&] { return ask(again, "www.example.com", address_family::v6, {}); });
    BOOST_TEST((six.found == addresses{v6}));
    const auto all = world.run(client, [&] { return ask(again, "www.example.com", address_family::any, {}); });
    BOOST_TEST((all.found == addresses{v4}));
}

BOOST_FIXTURE_TEST_CASE(an_answer_of_one_family_is_enough, lookup_world) {
    first.zone[www_a] = {.addresses = {v4}};
    first.zone[www_aaaa] = {.silent = true};
    second.zone[www_aaaa] = {.code = 2};
    BOOST_TEST((resolve("www.example.com", address_family::any).found == addresses{v4}));
}

BOOST_FIXTURE_TEST_CASE(the_next_server_is_asked_when_one_is_silent, lookup_world) {
    first.zone[www_a] = {.silent = true};
    second.zone[www_a] = {.addresses = {v4}};
    const asked a = resolve("www.example.com");
    BOOST_TEST((a.found == addresses{v4}));
    BOOST_TEST((a.took >= 2s && a.took < 2100ms), a.took.count());
    BOOST_TEST(names().statistics().silent == 1);
}

BOOST_FIXTURE_TEST_CASE(the_next_server_is_asked_at_once_when_one_refuses, lookup_world) {
    first.zone[www_a] = {.code = 5};
    second.zone[www_a] = {.addresses = {v4}};
    const asked a = resolve("www.example.com");
    BOOST_TEST((a.found == addresses{v4}));
    BOOST_TEST((a.took < 100ms));
    BOOST_TEST(names().statistics().unusable == 1);
}

BOOST_FIXTURE_TEST_CASE(who_refers_to_others_has_not_said_that_there_is_none, lookup_world) { // RFC 2308 2.2.1
    first.zone[www_a] = {.referral = true};
    second.zone[www_a] = {.addresses = {v4}};
    BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
    BOOST_TEST(second.asked == 1);
}

BOOST_FIXTURE_TEST_CASE(a_server_whose_port_is_closed_is_passed_over, lookup_world) {
    config.servers[0].port = 5353;
    second.zone[www_a] = {.addresses = {v4}};
    const asked a = resolve("www.example.com");
    BOOST_TEST((a.found == addresses{v4}));
    BOOST_TEST((a.took < 100ms)); // ECONNREFUSED by ICMP
}

BOOST_FIXTURE_TEST_CASE(all_servers_are_asked_as_often_as_configured_and_no_more, lookup_world) {
    first.zone[www_a] = second.zone[www_a] = {.silent = true};
    const asked a = resolve("www.example.com");
    BOOST_CHECK(a.why == resolve_error::try_again);
    BOOST_TEST(first.asked == 2);
    BOOST_TEST(second.asked == 2);
    BOOST_TEST((a.took >= 8s && a.took < 8100ms), a.took.count());
}

BOOST_FIXTURE_TEST_CASE(what_is_longer_than_a_datagram_comes_by_tcp, lookup_world) {
    const addresses many(60, v6);
    first.zone[www_aaaa] = {.truncated = true};
    first.zone_by_tcp[www_aaaa] = {.addresses = many};
    BOOST_TEST((resolve("www.example.com", address_family::v6).found == many));
    BOOST_TEST(names().statistics().by_tcp == 1);
}

BOOST_FIXTURE_TEST_CASE(what_is_truncated_by_tcp_too_is_unusable, lookup_world) {
    first.zone[www_a] = first.zone_by_tcp[www_a] = {.truncated = true};
    second.zone[www_a] = {.addresses = {v4}};
    BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
}

BOOST_FIXTURE_TEST_CASE(lies_are_not_believed, lookup_world) {
    first.zone[www_a] = {.addresses = {v4}};
    first.also_send = [](byte_span q) {
        const auto lie = dns_message_of(q, {.addresses = {other_v4}});
        auto wrong_number = lie, wrong_name = lie, garbage = lie;
        wrong_number[0] ^= std::byte{1};
        wrong_name[13] = std::byte{'x'};
        garbage.resize(5);
        return std::vector{wrong_number, wrong_name, garbage, std::vector<std::byte>{std::byte{0}}};
    };
    BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
    BOOST_TEST(names().statistics().not_ours == 4);
}

BOOST_FIXTURE_TEST_CASE(a_flood_of_lies_ends_the_question_and_not_the_resolver, lookup_world) {
    first.also_send = [](byte_span q) {
        auto lie = dns_message_of(q, {.addresses = {other_v4}});
        lie[0] ^= std::byte{1};
        return std::vector(100, lie);
    };
    second.zone[www_a] = {.addresses = {v4}};
    BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
    BOOST_TEST(names().statistics().not_ours == 32);
}

BOOST_FIXTURE_TEST_CASE(a_datagram_from_somebody_else_is_not_seen, lookup_world) {
    first.zone[www_a] = {.addresses = {v4}, .delay = 1s};
    second_host.spawn([this] { return spray(client.address()); });
    BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
    BOOST_TEST(names().statistics().not_ours == 0);
}

BOOST_FIXTURE_TEST_CASE(numbers_and_ports_are_spread_over_all_there_are, lookup_world) { // RFC 5452 9.2
    constexpr int questions = 64;
    for (int i = 0; i < questions; ++i) resolve("host" + std::to_string(i) + ".example");
    for (const std::vector<std::uint16_t>* drawn : {&first.numbers, &first.ports}) {
        BOOST_REQUIRE(drawn->size() == questions);
        std::set<std::uint16_t> different(drawn->begin(), drawn->end()), steps;
        for (int i = 1; i < questions; ++i) steps.insert(static_cast<std::uint16_t>((*drawn)[i] - (*drawn)[i - 1]));
        BOOST_TEST(different.size() >= 60u);
        BOOST_TEST(steps.size() >= 60u); // nor does one follow from the one before
        const int range = drawn == &first.ports ? 65'536 - 49'152 : 65'536;
        BOOST_TEST(*different.rbegin() - *different.begin() > range * 3 / 4);
    }
    corewire::resolver other(config, 12);
    const std::uint16_t before = first.numbers.front();
    world.run(client, [&] { return ask(other, "host0.example", address_family::v4, {}); });
    BOOST_TEST(first.numbers.back() != before); // another seed, other numbers
}

BOOST_FIXTURE_TEST_CASE(no_name_and_no_address_are_different_errors, lookup_world) {
    first.zone[{"empty.example", dns_type::a}] = {};
    BOOST_CHECK(resolve("empty.example").why == resolve_error::no_address);
    BOOST_CHECK(resolve("nobody.example").why == resolve_error::no_such_name);
    BOOST_TEST(make_error_code(resolve_error::no_such_name).message() == "Name or service not known");
    BOOST_TEST(second.asked == 0);
}

BOOST_FIXTURE_TEST_CASE(short_names_are_tried_with_the_search_list, lookup_world) {
    config.search = {"a.example", "b.example"};
    first.zone[{"host.b.example", dns_type::a}] = {.addresses = {v4}};
    first.zone[{"x.y", dns_type::a}] = {.addresses = {other_v4}};
    BOOST_TEST((resolve("host").found == addresses{v4}));
    BOOST_TEST(first.seen.front().first == "host.a.example");
    BOOST_TEST((resolve("x.y").found == addresses{other_v4}));
    BOOST_TEST(first.seen.back().first == "x.y"); // dots enough: itself first
    BOOST_CHECK(resolve("host.").why == resolve_error::no_such_name);
    BOOST_TEST(first.seen.back().first == "host"); // and only itself
}

BOOST_FIXTURE_TEST_CASE(a_domain_whose_servers_refuse_does_not_end_the_search, lookup_world) {
    config.search = {"lame.example", "b.example"};
    for (name_server* s : {&first, &second}) {
        s->zone[{"host.lame.example", dns_type::a}] = s->zone[{"none.lame.example", dns_type::a}] = {.code = 2};
        s->zone[{"host.lame.example", dns_type::aaaa}] = {.code = 5};
    }
    first.zone[{"host.b.example", dns_type::a}] = {.addresses = {v4}};
    BOOST_TEST((resolve("host").found == addresses{v4}));
    BOOST_TEST((resolve("host", address_family::any).found == addresses{v4}));
    BOOST_CHECK(resolve("none").why == resolve_error::try_again); // nobody knows whether there is one
    BOOST_TEST(first.seen.back().first == "none");
}

BOOST_FIXTURE_TEST_CASE(silence_ends_the_search, lookup_world) { // each name more would take as long
    config.search = {"a.example", "b.example"};
    for (name_server* s : {&first, &second}) s->zone[{"host.a.example", dns_type::a}] = {.silent = true};
    first.zone[{"host.b.example", dns_type::a}] = {.addresses = {v4}};
    BOOST_CHECK(resolve("host").why == resolve_error::try_again);
}

BOOST_FIXTURE_TEST_CASE(a_family_that_could_not_be_asked_for_is_not_told_as_none, lookup_world) {
    config.search = {"a.example"};
    for (name_server* s : {&first, &second}) {
        s->zone[www_a] = {.addresses = {}};
        s->zone[www_aaaa] = {.silent = true};
        s->zone[{"six.example.com", dns_type::a}] = {.silent = true};
    }
    first.zone[{"www.example.com.a.example", dns_type::a}] = {.addresses = {other_v4}};
    BOOST_CHECK(resolve("www.example.com", address_family::any).why == resolve_error::try_again);
    BOOST_CHECK(resolve("six.example.com", address_family::any).why == resolve_error::try_again);
}

BOOST_FIXTURE_TEST_CASE(what_can_be_no_name_is_not_asked_for, lookup_world) {
    for (const std::string& bad : {std::string(), std::string(64, 'a'), std::string(300, 'a'), std::string("a\0b", 3), std::string("a..b")})
        BOOST_CHECK(resolve(bad).why == resolve_error::no_such_name);
    BOOST_TEST(first.asked == 0);
}

BOOST_FIXTURE_TEST_CASE(without_servers_there_is_nobody_to_ask, lookup_world) {
    config.servers.clear();
    BOOST_CHECK(resolve("www.example.com").why == resolve_error::no_servers);
}

BOOST_FIXTURE_TEST_CASE(answers_are_remembered_for_their_time, lookup_world) {
    first.zone[www_a] = {.addresses = {v4}, .ttl = 60};
    first.zone[{"nobody.example", dns_type::a}] = {.code = 3, .negative_ttl = 30};
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
        BOOST_CHECK(resolve("nobody.example").why == resolve_error::no_such_name);
    }
    BOOST_TEST(first.asked == 2);
    BOOST_TEST(names().statistics().from_cache == 4);
    world.run_for(31s);
    resolve("nobody.example");
    resolve("www.example.com");
    BOOST_TEST(first.asked == 3);
    world.run_for(30s);
    resolve("www.example.com");
    BOOST_TEST(first.asked == 4);
}

BOOST_FIXTURE_TEST_CASE(many_who_ask_the_same_at_once_ask_once, lookup_world) { // RFC 5452 5
    first.zone[www_a] = {.addresses = {v4}, .ttl = 0}; // which is not remembered
    const auto many = [&](const std::string& name) {
        return world.run(client, [&] {
            std::vector<task<asked>> all;
            const std::string the_same = "WWW" + name.substr(3) + ".";
            for (int i = 0; i < 50; ++i) all.push_back(ask(names(), i % 2 == 0 ? name : the_same, address_family::v4, {}));
            return when_all(std::move(all));
        });
    };
    for (const asked& a : many("www.example.com")) BOOST_TEST((a.found == addresses{v4}));
    BOOST_TEST(first.asked == 1);
    BOOST_TEST(names().statistics().joined == 49);
    for (const asked& a : many("www.example.com")) BOOST_TEST((a.found == addresses{v4})); // no answer is given twice
    BOOST_TEST(first.asked == 2);
    first.zone[{"www.silent.com", dns_type::a}] = second.zone[{"www.silent.com", dns_type::a}] = {.silent = true};
    for (const asked& a : many("www.silent.com")) BOOST_CHECK(a.why == resolve_error::try_again); // nor any failure asked for again
    BOOST_TEST(first.asked == 2 + config.attempts);
}

BOOST_FIXTURE_TEST_CASE(who_joins_a_question_asks_it_when_the_asker_has_gone, lookup_world) {
    first.zone[www_a] = {.addresses = {v4}, .delay = 300ms};
    const auto all = world.run(client, [&] {
        std::vector<task<asked>> three;
        three.push_back(ask(names(), "www.example.com", address_family::v4, {.deadline = client.now() + 100ms}));
        three.push_back(ask(names(), "www.example.com", address_family::v4, {}));
        three.push_back(ask(names(), "www.example.com", address_family::v4, {.deadline = client.now() + 200ms}));
        return when_all(std::move(three));
    });
    BOOST_CHECK(all[0].why == std::errc::timed_out);
    BOOST_TEST((all[1].found == addresses{v4}));
    BOOST_CHECK(all[2].why == std::errc::timed_out);
    BOOST_TEST((all[2].took == 200ms));
    BOOST_TEST(first.asked == 2);
}

BOOST_FIXTURE_TEST_CASE(what_a_server_of_another_network_says_is_not_kept, lookup_world) {
    const std::string name = "www.example.com";
    config.follow_network = true;
    config.servers = {first.address()};
    first.zone[www_a] = {.addresses = {v4}, .delay = 300ms};
    second.zone[www_a] = {.addresses = {other_v4}};
    const auto later = [&](duration after, address_family family) -> task<asked> {
        co_await sleep_for(after);
        network_word::say({.servers = {second.address()}});
        asked out = co_await ask(names(), name, family, {});
        co_return out;
    };
    const auto all = world.run(client, [&] {
        std::vector<task<asked>> both;
        both.push_back(ask(names(), name, address_family::v4, {}));
        both.push_back(later(100ms, address_family::v4));
        return when_all(std::move(both));
    });
    BOOST_TEST((all[0].found == addresses{v4})); // it asked there
    BOOST_TEST((all[1].found == addresses{other_v4})); // and nobody joins that question
    BOOST_TEST((resolve(name).found == addresses{other_v4}));
    BOOST_TEST(names().statistics().from_cache == 1u);
    const auto more = [&]() -> task<asked> { // the network has one server more
        network_word::say({.servers = {first.address(), second.address()}});
        asked out = co_await ask(names(), name, address_family::v4, {});
        co_return out;
    };
    BOOST_TEST((world.run(client, more).found == addresses{other_v4}));
    BOOST_TEST(names().statistics().from_cache == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_stop_ends_a_question, lookup_world) { // it is no silence, after which others would be asked
    first.zone[www_a] = second.zone[www_a] = {.silent = true};
    const auto stopping = [&]() -> task<asked> {
        co_await sleep_for(100ms);
        static_cast<socket_provider*>(reactor::current().attached(reactor::attachment::network))->end_waits(ended_waits::for_any_peer);
        co_return asked{};
    };
    const auto all = world.run(client, [&] {
        std::vector<task<asked>> both;
        both.push_back(ask(names(), "www.example.com", address_family::v4, {}));
        both.push_back(stopping());
        return when_all(std::move(both));
    });
    BOOST_CHECK(all[0].why == std::errc::operation_canceled);
    BOOST_TEST((all[0].took == 100ms));
    BOOST_TEST(first.asked + second.asked == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_server_that_knows_no_edns_is_asked_without, lookup_world) { // RFC 6891 7
    first.zone[www_a] = {.addresses = {v4}};
    for (const unsigned code : {1u, 4u}) {
        for (const bool header_alone : {false, true}) {
            first.to_edns = dns_reply{.code = code, .header_alone = header_alone};
            const unsigned before = first.asked;
            BOOST_TEST((resolve("www.example.com").found == addresses{v4}));
            BOOST_TEST(first.asked == before + 2);
            names().cache().forget_all();
        }
    }
    first.zone[www_a] = {.code = 1}; // whatever it is asked: the other one is
    second.zone[www_a] = {.addresses = {other_v4}};
    BOOST_TEST((resolve("www.example.com").found == addresses{other_v4}));
    BOOST_TEST(first.asked == 10);
}

BOOST_FIXTURE_TEST_CASE(a_deadline_ends_it, lookup_world) {
    first.zone[www_a] = {.silent = true};
    const asked a = resolve("www.example.com", address_family::v4, 500ms);
    BOOST_CHECK(a.why == std::errc::timed_out);
    BOOST_TEST((a.took == 500ms));
    first.zone[www_a] = {.addresses = {v4}};
    BOOST_TEST((resolve("www.example.com").found == addresses{v4})); // its place among the questions is free again
}

BOOST_AUTO_TEST_SUITE_END()
