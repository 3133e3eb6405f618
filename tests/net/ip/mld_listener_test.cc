// MLD's host part: changes, answers to queries, bounds, routers of version 1.
#include <corewire/net/ip/mld.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }
const ipv6 one = *ipv6::parse("ff02::1:ff00:1"), two = *ipv6::parse("ff02::1:ff00:2"), three = *ipv6::parse("ff02::3");

/// Group to record type, of the report that is due.
std::map<std::string, int> report(mld_listener& mld, duration now) {
    std::vector<std::byte> out(mld_listener::max_report);
    const mld_report told = mld.poll_report(at(now), out);
    const std::size_t size = told.size;
    std::map<std::string, int> records;
    if (size == 0) return records;
    BOOST_TEST((told.destination == *ipv6::parse("ff02::16")));
    BOOST_TEST(load_u8(out.data()) == 143);
    BOOST_TEST(size == 8u + 20u * load_be16(out.data() + 6));
    for (std::size_t i = 8; i < size; i += 20) {
        BOOST_TEST(load_be16(out.data() + i + 2) == 0);
        records[to_string(ipv6::load(out.data() + i + 4))] = load_u8(out.data() + i);
    }
    return records;
}
using records = std::map<std::string, int>;
constexpr std::size_t version_1 = 24, version_2 = 28; ///< bytes of a query

/// Each message of version 1 that is due: its type, its destination and the group it is about.
std::vector<std::string> old_reports(mld_listener& mld, duration now) {
    std::vector<std::string> told;
    std::vector<std::byte> out(mld_listener::max_report);
    for (mld_report r; (r = mld.poll_report(at(now), out)).size != 0;) {
        BOOST_TEST(r.size == 24u);
        BOOST_TEST(load_be16(out.data() + 4) == 0); // the delay is a router's to name
        told.push_back(std::to_string(load_u8(out.data())) + " " + to_string(r.destination) + " " + to_string(ipv6::load(out.data() + 8)));
    }
    std::sort(told.begin(), told.end());
    return told;
}
using lines = std::vector<std::string>;

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
    mld.on_query(at(10s), ipv6::any(), 3000, version_2);
    BOOST_TEST((mld.next_timeout() >= at(10s) && mld.next_timeout() <= at(13s)));
    BOOST_TEST((report(mld, 13s) == records{{"ff02::1:ff00:1", 2}, {"ff02::1:ff00:2", 2}}));
    mld.on_query(at(20s), one, 3000, version_2);
    BOOST_TEST((report(mld, 23s) == records{{"ff02::1:ff00:1", 2}}));
    mld.on_query(at(30s), *ipv6::parse("ff02::77"), 3000, version_2);
    BOOST_TEST((mld.next_timeout() == never));
    for (const std::size_t nobodys : {23u, 25u, 27u}) mld.on_query(at(31s), one, 3000, nobodys); // 8.1
    BOOST_TEST((mld.next_timeout() == never));
    BOOST_TEST((mld_response_time(1000) == 1s));
    duration least = 1h, most = 0s; // not all at once
    for (int i = 0; i < 16; ++i) {
        mld.on_query(at(40s), one, 3000, version_2);
        least = std::min(least, mld.next_timeout() - at(40s));
        most = std::max(most, mld.next_timeout() - at(40s));
        report(mld, 43s);
    }
    BOOST_TEST((least < 1s && most > 2s));
    mld.on_query(at(50s), ipv6::any(), 3000, version_2);
    for (int i = 0; i < 16; ++i) { // the sooner of two answers is both
        const time_point due = mld.next_timeout();
        mld.on_query(at(50s), ipv6::any(), 30'000, version_2);
        BOOST_TEST((mld.next_timeout() <= due));
    }
    mld.follow(at(50s), std::vector{two});
    mld.follow(at(50s), std::vector{one, two}); // what is told of a change is an answer, too
    BOOST_TEST((report(mld, 50s).at("ff02::1:ff00:1") == 4));
    BOOST_TEST((report(mld, 51s).at("ff02::1:ff00:1") == 4));
    BOOST_TEST(!report(mld, 53s).contains("ff02::1:ff00:1"));
    BOOST_TEST((mld.next_timeout() == never));
    BOOST_TEST((mld_response_time(0x8000) == 32'768ms)); // 5.1.3: mantissa and exponent
    BOOST_TEST((mld_response_time(0x9234) == 74'560ms));
    BOOST_TEST((mld_response_time(0xffff) == 8'387'584ms));
}

BOOST_AUTO_TEST_CASE(a_router_of_version_1_is_told_in_its_own_words) { // RFC 3810 8.2.1, RFC 2710 4
    corewire::mld_listener mld(7);
    mld.follow(at(0s), std::vector{one, two});
    report(mld, 0s); // and is still to be told once more
    mld.on_query(at(1ms), ipv6::any(), 40'000, version_1);
    BOOST_TEST(mld.version_1(at(1ms)));
    BOOST_TEST((mld.next_timeout() > at(1s))); // what was pending is not: 40 s are no code with an exponent in version 1
    BOOST_TEST((mld.next_timeout() <= at(40'001ms)));
    BOOST_TEST(old_reports(mld, 41s) == (lines{"131 ff02::1:ff00:1 ff02::1:ff00:1", "131 ff02::1:ff00:2 ff02::1:ff00:2"}),
               boost::test_tools::per_element());
    BOOST_TEST((mld.next_timeout() == never));

    mld.on_query(at(50s), one, 3000, version_2); // one of version 2 beside it changes nothing
    BOOST_TEST(old_reports(mld, 53s) == lines{"131 ff02::1:ff00:1 ff02::1:ff00:1"}, boost::test_tools::per_element());

    mld.follow(at(60s), std::vector{one, two, three});
    BOOST_TEST(old_reports(mld, 60s) == lines{"131 ff02::3 ff02::3"}, boost::test_tools::per_element());
    BOOST_TEST(old_reports(mld, 70s) == lines{"131 ff02::3 ff02::3"}, boost::test_tools::per_element()); // RFC 2710 7.10
    BOOST_TEST((mld.next_timeout() == never));

    mld.follow(at(80s), std::vector{one, two});
    BOOST_TEST(old_reports(mld, 80s) == lines{"132 ff02::2 ff02::3"}, boost::test_tools::per_element());
    BOOST_TEST((mld.next_timeout() == never));
    BOOST_TEST(mld.groups() == 2u);
}

BOOST_AUTO_TEST_CASE(in_version_1_what_somebody_else_has_told_is_not_told_again) { // RFC 2710 4
    corewire::mld_listener mld(7);
    mld.follow(at(0s), std::vector{one, two});
    mld.on_query(at(1s), ipv6::any(), 1000, version_1);
    mld.on_report(at(1s), one);
    BOOST_TEST(old_reports(mld, 2s) == lines{"131 ff02::1:ff00:2 ff02::1:ff00:2"}, boost::test_tools::per_element());
    mld.follow(at(3s), std::vector<ipv6>{}); // of `one` somebody else told last
    BOOST_TEST(old_reports(mld, 3s) == lines{"132 ff02::2 ff02::1:ff00:2"}, boost::test_tools::per_element());
    BOOST_TEST(mld.groups() == 0u);

    corewire::mld_listener other(7); // in version 2 everybody tells for himself
    other.follow(at(0s), std::vector{one});
    other.on_report(at(0s), one);
    BOOST_TEST(report(other, 0s).size() == 1u);
}

BOOST_AUTO_TEST_CASE(without_a_router_of_version_1_for_260_seconds_version_2_is_spoken_again) { // RFC 3810 9.12
    corewire::mld_listener mld(7);
    mld.follow(at(0s), std::vector{one});
    mld.on_query(at(10s), one, 1000, version_1);
    old_reports(mld, 11s);
    mld.follow(at(260s), std::vector{one, two});
    BOOST_TEST(old_reports(mld, 260s) == lines{"131 ff02::1:ff00:2 ff02::1:ff00:2"}, boost::test_tools::per_element());
    BOOST_TEST(mld.version_1(at(270s - 1ns)));
    BOOST_TEST(!mld.version_1(at(270s)));
    BOOST_TEST(report(mld, 270s).empty()); // what was pending is cancelled
    BOOST_TEST((mld.next_timeout() == never));
    mld.on_query(at(280s), ipv6::any(), 1000, version_2);
    BOOST_TEST((report(mld, 281s) == records{{"ff02::1:ff00:1", 2}, {"ff02::1:ff00:2", 2}}));
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

BOOST_AUTO_TEST_CASE(groups_that_are_left_make_room) {
    const auto groups = [](unsigned from) {
        std::vector<ipv6> out;
        for (unsigned i = 100; i < 132; ++i) out.push_back(*ipv6::parse("ff05::" + std::to_string(from + i)));
        return out;
    };
    corewire::mld_listener mld(7);
    mld.follow(at(0s), groups(0));
    BOOST_TEST(report(mld, 0s).size() == 32u);
    mld.follow(at(10ms), groups(16)); // the first half goes
    BOOST_TEST(mld.refused() == 0u);
    BOOST_TEST(mld.groups() == 32u);
    const records told = report(mld, 10ms);
    const std::vector<ipv6> now = groups(16);
    for (const ipv6& each : std::span(now).last(16))
        BOOST_TEST((told.count(to_string(each)) == 1u && told.at(to_string(each)) == 4));
}

BOOST_AUTO_TEST_CASE(all_groups_are_told_anew_but_those_that_have_ended) { // RFC 3590 4
    corewire::mld_listener mld(7);
    mld.follow(at(0s), std::vector{one, two});
    report(mld, 0s);
    report(mld, 1s);
    mld.follow(at(2s), std::vector{one});
    report(mld, 2s);
    mld.tell_anew(at(2s));
    BOOST_TEST((report(mld, 2s) == records{{"ff02::1:ff00:1", 4}}));
    BOOST_TEST((report(mld, 3s) == records{{"ff02::1:ff00:1", 4}, {"ff02::1:ff00:2", 3}}));
    BOOST_TEST((mld.next_timeout() == never));
}

BOOST_AUTO_TEST_SUITE_END()
