// What is remembered, for how long, and what makes room.
#include <corewire/net/resolve/dns_cache.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

const time_point t0{100s};
dns_answer answer(duration lifetime) { return {.outcome = dns_outcome::answer, .addresses = {ipv4(192, 0, 2, 1)}, .lifetime = lifetime}; }

} // namespace

BOOST_AUTO_TEST_SUITE(dns_cache)

BOOST_AUTO_TEST_CASE(an_answer_lives_as_long_as_it_says) {
    corewire::dns_cache c(4);
    c.keep(t0, "a.example", dns_type::a, answer(10s));
    BOOST_TEST(c.find(t0 + 10s - 1ns, "A.Example.", dns_type::a) != nullptr);
    BOOST_TEST(c.find(t0, "a.example", dns_type::aaaa) == nullptr);
    BOOST_TEST(c.find(t0 + 10s, "a.example", dns_type::a) == nullptr);
    BOOST_TEST(c.size() == 0);
}

BOOST_AUTO_TEST_CASE(what_has_no_lifetime_is_not_kept) {
    corewire::dns_cache c(4), none(0);
    c.keep(t0, "a", dns_type::a, answer(0s));
    none.keep(t0, "a", dns_type::a, answer(10s));
    BOOST_TEST(c.size() + none.size() == 0);
}

BOOST_AUTO_TEST_CASE(the_one_used_longest_ago_makes_room) {
    corewire::dns_cache c(2);
    c.keep(t0, "a", dns_type::a, answer(10s));
    c.keep(t0, "b", dns_type::a, answer(10s));
    BOOST_TEST(c.find(t0, "a", dns_type::a) != nullptr);
    c.keep(t0, "c", dns_type::a, answer(10s));
    BOOST_TEST(c.size() == 2);
    BOOST_TEST(c.find(t0, "a", dns_type::a) != nullptr);
    BOOST_TEST(c.find(t0, "b", dns_type::a) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_new_answer_takes_the_old_ones_place) {
    corewire::dns_cache c(2);
    c.keep(t0, "a", dns_type::a, answer(10s));
    c.keep(t0 + 5s, "a", dns_type::a, answer(10s));
    BOOST_TEST(c.size() == 1);
    BOOST_TEST(c.find(t0 + 14s, "a", dns_type::a) != nullptr);
    c.forget_all();
    BOOST_TEST(c.find(t0 + 14s, "a", dns_type::a) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
