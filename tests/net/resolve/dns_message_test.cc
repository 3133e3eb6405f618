// Questions and answers as bytes: what is made, what is believed, what is refused.
#include <tests/fuzz/dns_target.hh>
#include <tests/net/resolve/name_server.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

const dns_question www{"www.example.com", dns_type::a, 0x1234};
const ip_address one = ipv4(192, 0, 2, 1), two = ipv4(192, 0, 2, 2);

std::vector<std::byte> answer(const dns_reply& r, const dns_question& q = www) { return dns_message_of(encode_dns_question(q), r); }
dns_outcome outcome_of(std::vector<std::byte> message) { return decode_dns_answer(message, www).outcome; }

} // namespace

BOOST_AUTO_TEST_SUITE(dns_message)

BOOST_AUTO_TEST_CASE(a_question_asks_for_recursion_and_says_what_fits) {
    const auto q = encode_dns_question(www);
    BOOST_REQUIRE(q.size() == 12 + 17 + 4 + 11);
    BOOST_TEST(load_be16(q.data()) == 0x1234);
    BOOST_TEST(load_be16(q.data() + 2) == 0x0100);
    BOOST_TEST(load_be16(q.data() + 4) == 1);
    BOOST_TEST(load_be16(q.data() + 10) == 1); // OPT
    BOOST_TEST(name_in(q) == "www.example.com");
    BOOST_TEST(load_be16(q.data() + 12 + 17) == 1);
    BOOST_TEST(load_be16(q.data() + q.size() - 8) == dns_max_datagram); // its class: the size
}

BOOST_AUTO_TEST_CASE(what_can_not_be_a_name_is_not_asked) {
    const std::string label(63, 'a');
    BOOST_TEST(!encode_dns_question({label + ".example", dns_type::a, 1}).empty());
    for (const std::string& bad : {std::string(), label + "a.example", std::string("a..b"), std::string("a\0b", 3),
                                   label + '.' + label + '.' + label + '.' + label + ".example"})
        BOOST_TEST(encode_dns_question({bad, dns_type::a, 1}).empty(), bad);
}

BOOST_AUTO_TEST_CASE(an_answer_gives_addresses_and_the_least_lifetime) {
    const dns_answer a = decode_dns_answer(answer({.addresses = {one, two}, .ttl = 77}), www);
    BOOST_CHECK(a.outcome == dns_outcome::answer);
    BOOST_TEST((a.addresses == std::vector{one, two}));
    BOOST_TEST((a.lifetime == 77s));

    const dns_question six{"www.example.com", dns_type::aaaa, 9};
    const ip_address v6 = *ipv6::parse("2001:db8::1");
    const dns_answer b = decode_dns_answer(answer({.addresses = {v6}, .ttl = 0x7fffffff}, six), six);
    BOOST_TEST((b.addresses == std::vector{v6}));
    BOOST_TEST((b.lifetime == 24h));
}

BOOST_AUTO_TEST_CASE(addresses_beyond_the_bound_are_left_out) {
    const dns_answer a = decode_dns_answer(answer({.addresses = std::vector<ip_address>(100, one)}), www);
    BOOST_TEST(a.addresses.size() == dns_max_addresses);
}

BOOST_AUTO_TEST_CASE(that_there_is_none_lives_as_long_as_the_zone_says) {
    const dns_answer none = decode_dns_answer(answer({.code = 3, .negative_ttl = 60}), www);
    BOOST_CHECK(none.outcome == dns_outcome::no_such_name);
    BOOST_TEST((none.lifetime == 60s));
    const dns_answer empty = decode_dns_answer(answer({.negative_ttl = 1'000'000}), www);
    BOOST_CHECK(empty.outcome == dns_outcome::no_data);
    BOOST_TEST((empty.lifetime == 5min));
    BOOST_TEST((decode_dns_answer(answer({.code = 3, .negative_ttl = 0x80000000}), www).lifetime == 0s)); // RFC 2181 8
    BOOST_TEST((decode_dns_answer(answer({.code = 3}), www).lifetime == 0s)); // no SOA: not to be remembered (RFC 2308 5)
}

BOOST_AUTO_TEST_CASE(case_and_a_last_dot_make_no_other_name) {
    auto m = answer({.addresses = {one}});
    m[13] = std::byte{'W'};
    BOOST_CHECK(outcome_of(m) == dns_outcome::answer);
    BOOST_CHECK(decode_dns_answer(m, {"www.example.com.", dns_type::a, 0x1234}).outcome == dns_outcome::answer);
}

BOOST_AUTO_TEST_CASE(what_answers_another_question_is_not_ours) {
    const auto good = answer({.addresses = {one}});
    const auto changed = [&good](std::size_t at, unsigned to) {
        auto m = good;
        m[at] = static_cast<std::byte>(to);
        return outcome_of(m);
    };
    BOOST_CHECK(changed(1, 0x35) == dns_outcome::not_ours);      // its number
    BOOST_CHECK(changed(2, 0x01) == dns_outcome::not_ours);      // a question
    BOOST_CHECK(changed(2, 0xa1) == dns_outcome::not_ours);      // another operation
    BOOST_CHECK(changed(5, 2) == dns_outcome::not_ours);         // two questions
    BOOST_CHECK(changed(13, 'x') == dns_outcome::not_ours);      // another name
    BOOST_CHECK(changed(12 + 17 + 1, 28) == dns_outcome::not_ours); // another type
    BOOST_CHECK(changed(12 + 17 + 3, 3) == dns_outcome::not_ours);  // another class
}

BOOST_AUTO_TEST_CASE(refusals_and_truncation_are_told_apart) {
    BOOST_CHECK(outcome_of(answer({.truncated = true})) == dns_outcome::truncated);
    for (const unsigned code : {2u, 5u, 15u}) BOOST_CHECK(outcome_of(answer({.code = code})) == dns_outcome::unusable);
    for (const unsigned code : {1u, 4u}) { // FORMERR, NOTIMP: it may be EDNS that it doesn't know
        dns_question asked = www;
        BOOST_CHECK(decode_dns_answer(answer({.code = code}), asked).outcome == dns_outcome::no_edns);
        BOOST_CHECK(decode_dns_answer(answer({.code = code, .header_alone = true}), asked).outcome == dns_outcome::no_edns);
        asked.edns = false;
        BOOST_CHECK(decode_dns_answer(answer({.code = code}), asked).outcome == dns_outcome::unusable);
        BOOST_CHECK(decode_dns_answer(answer({.code = code, .header_alone = true}), asked).outcome == dns_outcome::unusable);
    }
    BOOST_CHECK(outcome_of(answer({.code = 2, .header_alone = true})) == dns_outcome::not_ours);
}

BOOST_AUTO_TEST_CASE(messages_cut_anywhere_are_harmless) {
    for (const dns_reply& r : {dns_reply{.addresses = {one, two}}, dns_reply{.code = 3, .negative_ttl = 60}}) {
        const auto whole = answer(r);
        for (std::size_t n = 0; n < whole.size(); ++n) {
            const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)); // a block of its own for ASan
            const dns_answer a = decode_dns_answer(cut, www);
            BOOST_TEST((a.outcome != dns_outcome::answer), "cut to " << n);
            BOOST_TEST((a.lifetime == 0s));
        }
    }
}

BOOST_AUTO_TEST_CASE(names_that_point_at_themselves_end) {
    auto m = answer({.addresses = {one}});
    const std::size_t at = 12 + 21; // the answer's name
    for (const unsigned to : {unsigned(at), unsigned(at + 1), 0x3fffu}) {
        m[at] = static_cast<std::byte>(0xc0 | to >> 8);
        m[at + 1] = static_cast<std::byte>(to);
        BOOST_CHECK(outcome_of(m) != dns_outcome::answer);
    }
    auto q = answer({.addresses = {one}});
    q[12] = std::byte{0xc0};
    q[13] = std::byte{12};
    BOOST_CHECK(outcome_of(q) == dns_outcome::not_ours);
}

BOOST_AUTO_TEST_CASE(messages_changed_at_random_are_harmless) {
    random_generator random(35);
    const auto with_addresses = answer({.addresses = {one, two}}), with_nothing = answer({.negative_ttl = 60});
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> m = random.below(2) == 0 ? with_addresses : with_nothing;
        for (std::uint64_t n = random.below(4) + 1; n > 0; --n) m[random.below(m.size())] = static_cast<std::byte>(random.next());
        m.resize(random.below(8) == 0 ? random.below(m.size()) : m.size());
        m.insert(m.begin(), std::byte{0});
        m.shrink_to_fit();
        dns_fuzz::answer(m);
    }
}

BOOST_AUTO_TEST_SUITE_END()
