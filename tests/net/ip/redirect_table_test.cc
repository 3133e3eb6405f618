// The destination cache of redirects: the last word counts, bounded in number and time, forgotten with its hop and its router.
#include <corewire/net/ip/redirects.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

const time_point start = time_point{} + 1h;
net_address host(unsigned n) { return ipv4(198, 51, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)); }
const net_address gateway = ipv4(10, 0, 0, 254), better = ipv4(10, 0, 0, 253), best = ipv4(10, 0, 0, 252);

} // namespace

BOOST_AUTO_TEST_SUITE(redirect_table)

BOOST_AUTO_TEST_CASE(the_last_word_on_a_destination_counts) {
    corewire::redirect_table t;
    BOOST_TEST((t.empty() && !t.find(host(1))));
    t.learn(start, host(1), better, gateway);
    t.learn(start, host(2), better, gateway);
    t.learn(start, host(1), best, better);
    BOOST_TEST((t.find(host(1)) == best && t.find(host(2)) == better && !t.find(host(3))));
    const net_address six = *ipv6::parse("2001:db8::1"), next = *ipv6::parse("fe80::1");
    t.learn(start, six, next, *ipv6::parse("fe80::2"));
    BOOST_TEST((t.find(six) == next));
}

BOOST_AUTO_TEST_CASE(each_lasts_ten_minutes_unless_it_is_said_again) {
    corewire::redirect_table t;
    t.learn(start, host(1), better, gateway);
    t.learn(start, host(2), better, gateway);
    BOOST_TEST((t.next_timeout() == start + corewire::redirect_table::lifetime));
    t.learn(start + 5min, host(2), better, gateway);
    BOOST_TEST(!t.on_timer(start + 9min));
    BOOST_TEST(t.on_timer(start + 10min));
    BOOST_TEST((!t.find(host(1)) && t.find(host(2)) == better));
    BOOST_TEST(t.on_timer(start + 15min));
    BOOST_TEST((t.empty() && t.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(a_hop_that_is_silent_and_a_router_that_is_none_take_theirs_with_them) {
    corewire::redirect_table t;
    t.learn(start, host(1), better, gateway);
    t.learn(start, host(2), best, better);
    t.learn(start, host(3), best, gateway);
    BOOST_TEST(t.forget(better));
    BOOST_TEST((!t.find(host(1)) && !t.find(host(2)) && t.find(host(3)) == best));
    BOOST_TEST(!t.forget(better));
    BOOST_TEST(t.forget(gateway));
    BOOST_TEST(t.empty());
}

BOOST_AUTO_TEST_CASE(the_oldest_gives_way) {
    corewire::redirect_table t;
    for (unsigned i = 0; i < corewire::redirect_table::max_redirects; ++i) t.learn(start + i * 1s, host(i), better, gateway);
    BOOST_TEST(t.evicted() == 0u);
    t.learn(start + 2min, host(1000), best, gateway);
    BOOST_TEST(t.evicted() == 1u);
    BOOST_TEST((!t.find(host(0)) && t.find(host(1)) == better && t.find(host(1000)) == best));
}

BOOST_AUTO_TEST_SUITE_END()
