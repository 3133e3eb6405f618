// MLDv2's host part: changes, answers to queries, bounds.
#include <corewire/net/ip/mld.hh>

#include <boost/test/unit_test.hpp>

#include <map>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }
const ipv6 one = *ipv6::parse("ff02::1:ff00:1"), two = *ipv6::parse("ff02::1:ff00:2");

/// Group to record type, of the report that is due.
std::map<std::string, int> report(mld_listener& mld, duration now) {
    std::vector<std::byte> out(mld_listener::max_report);
    const std::size_t size = mld.poll_report(at(now), out);
    std::map<std::string, int> records;
    if (size == 0) return records;
    BOOST_TEST(load_u8(out.data()) == 143);
    BOOST_TEST(size == 8u + 20u * load_be16(out.data() + 6));
    for (std::size_t i = 8; i < size; i += 20) {
        BOOST_TEST(load_be16(out.data() + i + 2) == 0);
        records[to_string(ipv6::load(out.data() + i + 4))] = load_u8(out.data() + i);
    }
    return records;
}
using records = std::map<std::string, int>;

} // namespace

BOOST_AUTO_TEST_SUITE(mld_listener)

BOOST_AUTO_TEST_CASE(a_group_is_told_twice_and_so_is_its_end) { // RFC 3810 6.1
    corewire::mld_listener mld(7);
    mld.follow(at(0s), std::vector{one, two, ipv6::all_nodes()});
    BOOST_TEST(mld.groups() == 2u); // ff02::1 is never told (6)
    BOOST_TEST((report(mld, 0s) == records{{"ff02::1:ff00:1", 4}, {"ff02::1:ff00:2", 4}}));
    BOOST_TEST((mld.next_timeout() <= at(1s)));
    report(mld, 1s);
    BOOST_TEST((mld.next_timeout() == never));
    mld.follow(at(5s), std::vector{two});
    BOOST_TEST((report(mld, 5s) == records{{"ff02::1:ff00:1", 3}}));
    BOOST_TEST((report(mld, 6s) == records{{"ff02::1:ff00:1", 3}}));
    BOOST_TEST((mld.next_timeout() == never));
    BOOST_TEST(mld.groups() == 1u);
}

BOOST_AUTO_TEST_CASE(queries_are_answered_within_their_time) { // RFC 3810 6.2
    corewire::mld_listener mld(7);
    mld.follow(at(0s), std::vector{one, two});
    report(mld, 0s);
    report(mld, 1s);
    mld.on_query(at(10s), ipv6::any(), 3s);
    BOOST_TEST((mld.next_timeout() >= at(10s) && mld.next_timeout() <= at(13s)));
    BOOST_TEST((report(mld, 13s) == records{{"ff02::1:ff00:1", 2}, {"ff02::1:ff00:2", 2}}));
    mld.on_query(at(20s), one, 3s);
    BOOST_TEST((report(mld, 23s) == records{{"ff02::1:ff00:1", 2}}));
    mld.on_query(at(30s), *ipv6::parse("ff02::77"), 3s);
    BOOST_TEST((mld.next_timeout() == never));
    BOOST_TEST((mld_response_time(1000) == 1s));
    BOOST_TEST((mld_response_time(0x8000) == 32'768ms)); // 5.1.3: mantissa and exponent
}

BOOST_AUTO_TEST_CASE(more_groups_than_there_is_room_for_are_counted) {
    corewire::mld_listener mld(7);
    std::vector<ipv6> many;
    for (std::uint64_t i = 1; i <= corewire::mld_listener::max_groups + 3; ++i)
        many.push_back(wire::with_identifier(*ipv6::parse("ff02::"), i << 8));
    mld.follow(at(0s), many);
    BOOST_TEST(mld.groups() == corewire::mld_listener::max_groups);
    BOOST_TEST(mld.refused() == 3u);
    BOOST_TEST(report(mld, 0s).size() == corewire::mld_listener::max_groups);
}

BOOST_AUTO_TEST_SUITE_END()
