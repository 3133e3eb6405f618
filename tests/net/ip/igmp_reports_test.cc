// What the routers hear of our groups.
#include <corewire/net/ip/igmp.hh>
#include <corewire/net/wire/checksum.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

time_point at(duration d) { return from_ns(1'000'000'000'000) + d; }
const ipv4 feed(239, 1, 2, 3);

struct bench {
    igmp_host host{42};
    std::vector<igmp_report> until(duration end) {
        std::vector<igmp_report> out;
        while (host.next_timeout() <= at(end)) {
            const time_point now = host.next_timeout();
            for (igmp_report m; host.poll_transmit(now, m);) out.push_back(m);
        }
        return out;
    }
    void query(duration now, ipv4 group, std::uint8_t code, std::size_t size = 12) {
        std::vector<std::byte> q(size);
        q[0] = std::byte{0x11};
        q[1] = std::byte{code};
        group.store(q.data() + 4);
        store_be16(q.data() + 2, wire::internet_checksum(q));
        host.input(at(now), q);
    }
};

void check(const igmp_report& m, std::uint8_t type, std::uint8_t record, ipv4 destination) {
    BOOST_TEST(wire::checksum_ok(byte_span(m.bytes).first(m.size)));
    BOOST_TEST(load_u8(m.bytes.data()) == type);
    BOOST_TEST((m.destination == destination));
    if (type == 0x22) {
        BOOST_TEST(load_u8(m.bytes.data() + 8) == record);
        BOOST_TEST((ipv4::load(m.bytes.data() + 12) == feed));
    } else {
        BOOST_TEST((ipv4::load(m.bytes.data() + 4) == feed));
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(igmp_reports)

BOOST_AUTO_TEST_CASE(joining_and_leaving_are_each_told_twice) {
    bench b;
    b.host.on_join(at(0s), feed);
    const auto joined = b.until(10s);
    BOOST_REQUIRE_EQUAL(joined.size(), 2u);
    for (const auto& m : joined) check(m, 0x22, 4, ipv4::igmp_v3_routers());
    b.host.on_leave(at(10s), feed);
    const auto left = b.until(20s);
    BOOST_REQUIRE_EQUAL(left.size(), 2u);
    for (const auto& m : left) check(m, 0x22, 3, ipv4::igmp_v3_routers());
    BOOST_TEST((b.host.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(a_query_is_answered_within_the_time_it_allows) {
    bench b;
    b.host.on_join(at(0s), feed);
    b.until(5s);
    b.query(10s, ipv4::any(), 100); // 10 s
    BOOST_TEST((b.host.next_timeout() <= at(20s)));
    const auto out = b.until(20s);
    BOOST_REQUIRE_EQUAL(out.size(), 1u);
    check(out[0], 0x22, 2, ipv4::igmp_v3_routers());
    b.query(30s, ipv4(239, 9, 9, 9), 10); // another group
    BOOST_TEST((b.host.next_timeout() == never));
    b.query(30s, feed, 10);
    BOOST_TEST((b.host.next_timeout() <= at(31s)));
}

BOOST_AUTO_TEST_CASE(answers_are_spread_over_the_time_that_a_query_allows) { // RFC 3376 4.1.1, 5.2
    struct row {
        std::uint8_t code;
        duration allowed;
    };
    for (const row& r : {row{100, 10s}, row{0x8f, 24'800ms}, row{0xff, 3'174'400ms}}) { // from 128 on with mantissa and exponent
        bench b;
        b.host.on_join(at(0s), feed);
        b.until(5s);
        duration least = r.allowed, most = 0s, now = 10s;
        for (int i = 0; i < 100; ++i, now += r.allowed) {
            b.query(now, ipv4::any(), r.code);
            least = std::min(least, b.host.next_timeout() - at(now));
            most = std::max(most, b.host.next_timeout() - at(now));
            BOOST_TEST(b.until(now + r.allowed).size() == 1u);
        }
        BOOST_TEST((least < r.allowed / 20 && most > r.allowed * 19 / 20));
    }
}

BOOST_AUTO_TEST_CASE(of_two_answers_the_sooner_one_is_both) { // RFC 3376 5.2, rule 1
    bench b;
    b.host.on_join(at(0s), feed);
    b.until(5s);
    b.query(10s, ipv4::any(), 10);
    for (int i = 0; i < 16; ++i) {
        const time_point due = b.host.next_timeout();
        b.query(10s, feed, 0x8f);
        BOOST_TEST((b.host.next_timeout() <= due));
    }
    BOOST_TEST(b.until(60s).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_change_is_told_again_at_random_within_a_second) { // RFC 3376 5.1, 8.11
    bench b;
    const auto gap = [&](duration now) {
        igmp_report first;
        BOOST_REQUIRE(b.host.poll_transmit(at(now), first));
        const duration wait = b.host.next_timeout() - at(now);
        BOOST_TEST(b.until(now + 1s).size() == 1u);
        return wait;
    };
    for (const bool leaves : {false, true}) {
        duration least = 1s, most = 0s;
        for (int i = 0; i < 50; ++i) {
            const duration now = 10s * (i + 1);
            b.host.on_join(at(now), feed);
            duration wait = gap(now);
            if (leaves) b.host.on_leave(at(now + 5s), feed), wait = gap(now + 5s);
            least = std::min(least, wait);
            most = std::max(most, wait);
        }
        BOOST_TEST((least < 100ms && most > 900ms && most <= 1s));
    }
}

BOOST_AUTO_TEST_CASE(a_router_of_version_2_is_spoken_to_in_its_own_version) {
    bench b;
    b.query(0s, ipv4::any(), 100, 8);
    b.host.on_join(at(1s), feed);
    auto out = b.until(5s);
    BOOST_REQUIRE_EQUAL(out.size(), 2u);
    check(out[0], 0x16, 0, feed);
    b.host.on_leave(at(6s), feed);
    out = b.until(10s);
    BOOST_REQUIRE_EQUAL(out.size(), 1u);
    check(out[0], 0x17, 0, ipv4::all_routers());
    b.host.on_join(at(261s), feed); // it has not been heard for long enough
    out = b.until(270s);
    check(out[0], 0x22, 4, ipv4::igmp_v3_routers());
}

BOOST_AUTO_TEST_CASE(a_query_between_the_lengths_of_two_versions_is_of_none) { // RFC 3376 7.1
    bench b;
    b.host.on_join(at(0s), feed);
    b.until(5s);
    for (const std::size_t size : {9u, 10u, 11u}) b.query(5s, ipv4::any(), 10, size);
    BOOST_TEST(b.host.malformed() == 3u);
    BOOST_TEST((b.host.next_timeout() == never));
    b.host.on_leave(at(6s), feed);
    for (const auto& m : b.until(10s)) check(m, 0x22, 3, ipv4::igmp_v3_routers()); // nor was version 2 heard
}

BOOST_AUTO_TEST_CASE(with_another_version_what_is_pending_is_cancelled) { // RFC 3376 7.2.1
    bench b;
    igmp_report m;
    b.host.on_join(at(0s), feed);
    BOOST_REQUIRE(b.host.poll_transmit(at(0s), m));
    b.query(500ms, ipv4(239, 9, 9, 9), 10, 8); // version 2, about another group
    BOOST_TEST((b.host.next_timeout() == never));
    b.host.on_leave(at(1s), feed);
    b.query(1s, ipv4(239, 9, 9, 9), 10);
    BOOST_REQUIRE(b.host.poll_transmit(at(1s), m)); // of which nothing was told yet
    check(m, 0x17, 0, ipv4::all_routers());
    const duration last = 260'500ms - 1ns;
    b.host.on_join(at(last), feed);
    BOOST_REQUIRE(b.host.poll_transmit(at(last), m));
    check(m, 0x16, 0, feed);
    BOOST_TEST(b.until(400s).empty()); // version 2 is over before it would have been told again
    BOOST_TEST((b.host.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(all_hosts_is_never_reported_and_bad_messages_are_counted) {
    bench b;
    b.host.on_join(at(0s), ipv4::all_hosts());
    BOOST_TEST((b.host.next_timeout() == never));
    b.host.on_join(at(0s), feed);
    b.until(5s);
    const std::byte shorter[4] = {};
    b.host.input(at(6s), shorter);
    std::byte wrong_sum[8] = {std::byte{0x11}};
    b.host.input(at(6s), wrong_sum);
    b.query(6s, ipv4(10, 0, 0, 1), 10); // a query about no group
    std::byte of_a_source[12] = {std::byte{0x11}, std::byte{10}}; // which is not there
    store_be16(of_a_source + 10, 1);
    store_be16(of_a_source + 2, wire::internet_checksum(of_a_source));
    b.host.input(at(6s), of_a_source);
    BOOST_TEST(b.host.malformed() == 4u);
    BOOST_TEST((b.host.next_timeout() == never));
}

BOOST_AUTO_TEST_CASE(groups_are_bounded) {
    bench b;
    for (std::uint32_t i = 0; i < 70; ++i) b.host.on_join(at(0s), ipv4(0xef000000 + i));
    BOOST_TEST(b.host.refused() == 6u);
    BOOST_TEST(b.until(10s).size() == 128u);
}

BOOST_AUTO_TEST_CASE(a_group_that_is_left_makes_room) {
    bench b;
    for (std::uint32_t i = 0; i < multicast_filter::max_groups; ++i) b.host.on_join(at(0s), ipv4(0xef02'0000u + i));
    b.until(10s);
    b.host.on_leave(at(10s), ipv4(0xef02'0005u));
    igmp_report left;
    BOOST_REQUIRE(b.host.poll_transmit(at(10s), left));
    b.host.on_join(at(10s), feed); // its end is to be told once more
    BOOST_TEST(b.host.refused() == 0u);
    const auto told = b.until(20s);
    BOOST_REQUIRE_EQUAL(told.size(), 2u);
    for (const auto& m : told) check(m, 0x22, 4, ipv4::igmp_v3_routers());
}

BOOST_AUTO_TEST_SUITE_END()
