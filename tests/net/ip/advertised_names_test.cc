// Name servers and search domains of router advertisements (RFC 8106): the newest first, for their time, few of them.
#include <corewire/net/ip/advertised_names.hh>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;
using bytes = std::vector<std::byte>;
using texts = std::vector<std::string>;

namespace {

const time_point start = time_point{} + 1h;

std::string server(unsigned n) { return "2001:db8::" + std::to_string(n); }

/// [ type | length in units of 8 bytes | 0 0 | lifetime | `data`, filled up ]
bytes option(unsigned type, std::uint32_t lifetime, const bytes& data) {
    bytes out(8);
    store_be32(out.data() + 4, lifetime);
    out.insert(out.end(), data.begin(), data.end());
    out.resize((out.size() + 7) / 8 * 8);
    out[0] = static_cast<std::byte>(type);
    out[1] = static_cast<std::byte>(out.size() / 8);
    return out;
}

bytes labels(const std::string& name) {
    bytes out;
    for (std::size_t at = 0; at < name.size();) {
        const std::size_t end = std::min(name.find('.', at), name.size());
        out.push_back(static_cast<std::byte>(end - at));
        for (; at < end; ++at) out.push_back(static_cast<std::byte>(name[at]));
        ++at;
    }
    out.push_back({});
    return out;
}

struct routers {
    corewire::advertised_names names;
    time_point now = start;

    void say_servers(std::uint32_t lifetime, const texts& addresses) {
        bytes data;
        for (const std::string& each : addresses) {
            bytes one(16);
            ipv6::parse(each)->store(one.data());
            data.insert(data.end(), one.begin(), one.end());
        }
        names.on_advertisement(now, option(25, lifetime, data));
    }
    void say_domains(std::uint32_t lifetime, const texts& domains) {
        bytes data;
        for (const std::string& each : domains) {
            const bytes one = labels(each);
            data.insert(data.end(), one.begin(), one.end());
        }
        names.on_advertisement(now, option(31, lifetime, data));
    }
    texts servers() const {
        texts out;
        for (const auto& each : names.servers()) out.push_back(to_string(each.value));
        return out;
    }
    texts domains() const {
        texts out;
        for (const auto& each : names.domains()) out.emplace_back(each.value.items.data(), each.value.count);
        return out;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(advertised_names)

BOOST_FIXTURE_TEST_CASE(servers_come_in_their_options_order_and_the_newest_first, routers) { // RFC 8106 6.2 (d)
    say_servers(600, {server(1), server(2)});
    BOOST_TEST((servers() == texts{server(1), server(2)}));
    say_servers(600, {server(3), server(2)});
    BOOST_TEST((servers() == texts{server(3), server(1), server(2)}));
    BOOST_TEST(names.generation() == 3u);
}

BOOST_FIXTURE_TEST_CASE(a_server_lasts_as_long_as_was_said_last, routers) { // (b), (c)
    say_servers(600, {server(1), server(2)});
    BOOST_TEST((names.next_timeout() == start + 600s));
    now = start + 300s;
    say_servers(600, {server(1)});
    const std::uint32_t before = names.generation();
    names.on_timer(start + 599s);
    BOOST_TEST(names.generation() == before);
    names.on_timer(start + 600s);
    BOOST_TEST((servers() == texts{server(1)} && names.generation() == before + 1));
    say_servers(0, {server(1), server(3)}); // it is none any more; and of one that was none nothing is known
    BOOST_TEST((servers().empty() && names.next_timeout() == never));
    say_servers(UINT32_MAX, {server(4)});
    names.on_timer(start + 8'760h);
    BOOST_TEST((servers() == texts{server(4)}));
}

BOOST_FIXTURE_TEST_CASE(a_full_list_loses_what_would_end_first, routers) { // (d)
    const auto some = [](unsigned from, unsigned to) {
        texts out;
        for (unsigned n = from; n <= to; ++n) out.push_back(server(n));
        return out;
    };
    say_servers(600, some(1, 2));
    say_servers(60, {server(3)});
    say_servers(600, some(4, 9));
    texts expected = some(4, 9);
    expected.insert(expected.end(), {server(1), server(2)});
    BOOST_TEST((servers() == expected));
    say_servers(60, {server(2), server(20)}); // what an option has said does not make room for the rest of it
    BOOST_TEST((servers().front() == server(20) && servers().back() == server(2) && servers().size() == 8u));
    say_servers(10, some(31, 39)); // one option has room for the whole list, and no more
    BOOST_TEST((servers() == some(31, 38)));
    BOOST_TEST(names.ignored() == 1u);
    for (unsigned n = 100; n < 200; ++n) say_servers(600, {server(n)});
    BOOST_TEST((servers().size() == corewire::advertised_names::max_servers && servers()[0] == server(199)));
}

BOOST_FIXTURE_TEST_CASE(what_is_no_server_is_left_out, routers) {
    say_servers(600, {"::", "ff02::1", "::1", "::ffff:192.0.2.1", "fe80::1", server(1)}); // a socket address has no zone
    BOOST_TEST((servers() == texts{server(1)}));
    BOOST_TEST(names.ignored() == 5u);
    names.on_advertisement(now, option(25, 600, {}));                                   // 5.3.1: no address,
    names.on_advertisement(now, option(25, 600, bytes(8)));                             // half of one,
    names.on_advertisement(now, option(25, 600, bytes(24, std::byte{0x20})));           // and one and a half
    BOOST_TEST((servers() == texts{server(1)}));
    BOOST_TEST(names.ignored() == 8u);
    names.on_advertisement(now, bytes{std::byte{25}, {}, {}, {}, {}, {}, {}, {}}); // an option of no length: nothing is read
    BOOST_TEST(names.ignored() == 8u);
}

BOOST_FIXTURE_TEST_CASE(domains_are_kept_as_servers_are, routers) { // 5.2
    say_domains(600, {"corp.example", "example"});
    BOOST_TEST((domains() == texts{"corp.example", "example"}));
    BOOST_TEST((names.next_timeout() == start + 600s));
    say_domains(900, {"lab.example", "example"});
    BOOST_TEST((domains() == texts{"lab.example", "corp.example", "example"}));
    names.on_timer(start + 600s);
    BOOST_TEST((domains() == texts{"lab.example", "example"}));
    say_domains(0, {"lab.example"});
    BOOST_TEST((domains() == texts{"example"}));
    say_domains(600, {"a", "b", "c", "d", "e", "f", "g", "h", "i"});
    BOOST_TEST((domains() == texts{"a", "b", "c", "d", "e", "f", "g", "h"}));
    BOOST_TEST(names.ignored() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_name_that_no_host_has_ends_its_option, routers) {
    const bytes good = labels("one.example");
    const auto say = [&](const bytes& bad) {
        bytes data = good;
        data.insert(data.end(), bad.begin(), bad.end());
        say_domains(0, {"one.example"});
        names.on_advertisement(now, option(31, 600, data));
        return domains();
    };
    const std::uint64_t before = names.ignored();
    const std::string most = std::string(63, 'x') + '.' + std::string(63, 'y') + '.' + std::string(63, 'z') + '.';
    for (const bytes& bad : {bytes{std::byte{5}, std::byte{'a'}},                        // cut
                             bytes{std::byte{0xc0}, std::byte{0x0c}},                    // compressed
                             labels("a b"), labels("semi;colon"), labels(most + std::string(62, 'w'))}) // 254 characters
        BOOST_TEST((say(bad) == texts{"one.example"}));
    BOOST_TEST(names.ignored() == before + 5);
    BOOST_TEST((say(labels(most + std::string(61, 'w'))).size() == 2u)); // 253
}

BOOST_AUTO_TEST_SUITE_END()
