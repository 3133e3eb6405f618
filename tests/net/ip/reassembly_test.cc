// Fragments put together: in any order, once each, and never at an attacker's pleasure.
#include "tests/net/ip/datagrams.hh"
#include "tests/support/test_seed.hh"

#include <corewire/net/ip/reassembly.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

struct bench {
    frame_pool pool{256};
    frame_pool large;
    reassembler r;
    explicit bench(reassembly_options o = {}, std::uint32_t frames = 64) : large(frames, reassembler::frame_size), r(large, o) {}

    packet piece(byte_span payload, std::uint16_t offset, bool more, std::uint16_t id = 1, ipv4 from = peer,
                 wire::ip_protocol protocol = wire::ip_protocol::udp, byte_span options = {}) {
        return datagram(pool, {.identification = id, .dont_fragment = false, .more_fragments = more,
                               .fragment_offset = offset, .protocol = protocol, .source = from, .destination = us},
                        payload, options);
    }
    buffer add(const packet& p, duration now = 0s) {
        buffer whole = r.add(at(now), view(p), p);
        r.check_invariants();
        return whole;
    }
    buffer add(byte_span payload, std::uint16_t offset, bool more, std::uint16_t id = 1, duration now = 0s) {
        return add(piece(payload, offset, more, id), now);
    }
};

/// The same of IPv6.
struct bench6 : bench {
    using bench::bench;
    const ipv6 from = *ipv6::parse("2001:db8::2"), to = *ipv6::parse("2001:db8::1");
    std::uint8_t traffic_class = 0;

    buffer add(byte_span payload, std::uint16_t offset, bool more, std::uint32_t id = 1, duration now = 0s) {
        packet p;
        p.head = pool.allocate_buffer();
        const auto size = static_cast<std::uint32_t>(payload.size());
        wire::ipv6_header{.traffic_class = traffic_class, .payload_length = static_cast<std::uint16_t>(8 + size),
                          .next_header = wire::ip_protocol::ipv6_fragment, .source = from, .destination = to}
            .emit({p.head.append(40), 40});
        std::byte* const header = p.head.append(8);
        store_be32(header, 17u << 24 | offset | (more ? 1u : 0u));
        store_be32(header + 4, id);
        if (size != 0) std::memcpy(p.head.append(size), payload.data(), size);
        wire::ipv6_view ip;
        BOOST_REQUIRE((wire::ipv6_view::parse(p.head.bytes(), ip) == wire::parse_error::none));
        buffer whole = r.add(at(now), ip, wire::walk_extensions(p.head.bytes()), 0, p.head.size(), p);
        r.check_invariants();
        return whole;
    }
};

byte_span part(const std::vector<std::byte>& v, std::size_t from, std::size_t size) { return byte_span(v).subspan(from, size); }

} // namespace

BOOST_AUTO_TEST_SUITE(reassembly)

BOOST_AUTO_TEST_CASE(two_fragments_make_a_datagram_with_a_good_header) {
    bench b;
    const auto data = pattern(2000);
    BOOST_TEST(b.add(part(data, 0, 1480), 0, true).empty());
    const buffer whole = b.add(part(data, 1480, 520), 1480, false);
    wire::ipv4_view ip;
    BOOST_REQUIRE((wire::ipv4_view::parse(whole.bytes(), ip) == wire::parse_error::none));
    BOOST_TEST(ip.checksum_ok());
    BOOST_TEST(!ip.is_fragment());
    BOOST_TEST(ip.total_length() == 2020u);
    BOOST_TEST((ip.source() == peer));
    BOOST_TEST(same(ip.payload(), data));
    BOOST_TEST(b.r.size() == 0u);
    BOOST_TEST(b.r.statistics().completed == 1u);
}

BOOST_AUTO_TEST_CASE(any_order_and_any_cut_give_the_same_datagram) {
    const std::uint64_t seed = testing::test_seed();
    BOOST_TEST_CONTEXT("seed " << seed) {
        random_generator random(seed);
        for (int round = 0; round < 200; ++round) {
            bench b({}, 1);
            const auto data = pattern(1 + random.below(20'000), static_cast<unsigned>(round));
            struct cut { std::size_t from, size; };
            std::vector<cut> cuts;
            for (std::size_t from = 0; from < data.size();) {
                const std::size_t size = std::min<std::size_t>(8 * (1 + random.below(180)), data.size() - from);
                cuts.push_back({from, size});
                from += size;
            }
            if (data.size() < 8) continue; // shorter than a UDP header
            for (std::size_t i = cuts.size(); i > 1; --i) std::swap(cuts[i - 1], cuts[random.below(i)]);
            buffer whole;
            for (std::size_t i = 0; i < cuts.size(); ++i) {
                BOOST_TEST(whole.empty());
                const bool more = cuts[i].from + cuts[i].size < data.size();
                whole = b.add(part(data, cuts[i].from, cuts[i].size), static_cast<std::uint16_t>(cuts[i].from), more);
                if (whole.empty() && random.chance(0.2)) { // sent twice
                    BOOST_TEST(b.add(part(data, cuts[i].from, cuts[i].size), static_cast<std::uint16_t>(cuts[i].from), more).empty());
                }
            }
            wire::ipv4_view ip;
            BOOST_REQUIRE((wire::ipv4_view::parse(whole.bytes(), ip) == wire::parse_error::none));
            BOOST_REQUIRE(same(ip.payload(), data));
            whole = {};
            BOOST_REQUIRE(b.large.free_count == 1u);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_fragment_in_two_pieces_of_memory_is_taken_whole) {
    bench b;
    const auto data = pattern(1000);
    packet p = datagram(b.pool, {.identification = 1, .dont_fragment = false, .more_fragments = true,
                                 .protocol = wire::ip_protocol::udp, .source = peer, .destination = us},
                        part(data, 0, 800), {}, 100);
    BOOST_TEST(b.add(p).empty());
    const buffer whole = b.add(part(data, 800, 200), 800, false);
    BOOST_TEST(same(whole.bytes().subspan(20), data));
}

BOOST_AUTO_TEST_CASE(options_of_the_first_fragment_are_kept) {
    bench b;
    const auto data = pattern(16);
    BOOST_TEST(b.add(part(data, 8, 8), 8, false).empty());
    const buffer whole = b.add(b.piece(part(data, 0, 8), 0, true, 1, peer, wire::ip_protocol::udp, wire::ipv4_router_alert));
    wire::ipv4_view ip;
    BOOST_REQUIRE((wire::ipv4_view::parse(whole.bytes(), ip) == wire::parse_error::none));
    BOOST_TEST(ip.header_size() == 24u);
    BOOST_TEST(ip.checksum_ok());
    BOOST_TEST(same(ip.payload(), data));
}

BOOST_AUTO_TEST_CASE(datagrams_with_another_source_protocol_or_identification_do_not_mix) {
    bench b;
    const auto data = pattern(64);
    BOOST_TEST(b.add(b.piece(part(data, 0, 32), 0, true, 1)).empty());
    BOOST_TEST(b.add(b.piece(part(data, 32, 32), 32, false, 2)).empty());
    BOOST_TEST(b.add(b.piece(part(data, 32, 32), 32, false, 1, ipv4(10, 0, 0, 3))).empty());
    BOOST_TEST(b.add(b.piece(part(data, 32, 32), 32, false, 1, peer, wire::ip_protocol::icmp)).empty());
    BOOST_TEST(b.r.size() == 4u);
    BOOST_TEST(!b.add(b.piece(part(data, 32, 32), 32, false, 1)).empty());
}

BOOST_AUTO_TEST_CASE(the_longest_datagram_fits_and_one_byte_more_does_not) {
    bench b({}, 1);
    const auto data = pattern(65'536);
    std::size_t from = 0;
    for (; from + 1480 < 65'515; from += 1480) BOOST_TEST(b.add(part(data, from, 1480), static_cast<std::uint16_t>(from), true).empty());
    BOOST_TEST(b.add(part(data, from, 65'516 - from), static_cast<std::uint16_t>(from), false).empty()); // 65,536 with its header
    BOOST_TEST(b.r.statistics().too_long == 1u);
    const buffer whole = b.add(part(data, from, 65'515 - from), static_cast<std::uint16_t>(from), false);
    BOOST_TEST(whole.size() == 65'535u);
    BOOST_TEST(same(whole.bytes().subspan(20), part(data, 0, 65'515)));
}

BOOST_AUTO_TEST_CASE(a_ping_of_death_is_counted_and_holds_nothing) {
    bench b;
    const auto data = pattern(1480);
    BOOST_TEST(b.add(b.piece(data, 65'528, false, 1, peer, wire::ip_protocol::icmp)).empty());
    BOOST_TEST(b.r.statistics().too_long == 1u);
    BOOST_TEST(b.add(b.piece(part(data, 0, 4), 65'512, false, 2)).empty()); // one byte too many
    BOOST_TEST(b.r.statistics().too_long == 2u);
    BOOST_TEST(b.r.size() == 0u);
    b.add(b.piece(part(data, 0, 3), 65'512, false, 3)); // 65,535 with the header
    BOOST_TEST(b.r.statistics().too_long == 2u);
    BOOST_TEST(b.r.size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_exact_duplicate_is_ignored) {
    bench b;
    const auto data = pattern(64);
    b.add(part(data, 0, 32), 0, true);
    b.add(part(data, 0, 32), 0, true);
    b.add(part(data, 8, 16), 8, true); // a part of what is there, same bytes
    BOOST_TEST(b.r.statistics().duplicates == 2u);
    BOOST_TEST(!b.add(part(data, 32, 32), 32, false).empty());
}

BOOST_AUTO_TEST_CASE(any_other_overlap_kills_the_datagram) {
    struct attack { std::uint16_t offset; std::uint16_t size; unsigned salt; };
    for (const attack a : {attack{0, 64, 1},    // the same place, other bytes
                           attack{32, 64, 0},   // across the end of what is there
                           attack{16, 16, 9},   // teardrop: inside, other bytes
                           attack{0, 128, 0}}) { // round it
        bench b;
        const auto data = pattern(256);
        b.add(part(data, 0, 64), 0, true);
        auto evil = pattern(256, a.salt);
        BOOST_TEST(b.add(part(evil, a.offset, a.size), a.offset, true).empty());
        BOOST_TEST(b.r.statistics().overlaps == 1u);
        BOOST_TEST(b.r.size() == 0u);
        BOOST_TEST(b.large.free_count == 64u);
    }
}

BOOST_AUTO_TEST_CASE(of_ipv6_what_comes_after_an_overlap_dies_too_until_its_time_is_over) { // RFC 5722 4
    bench6 b;
    const auto data = pattern(128);
    b.add(part(data, 0, 64), 0, true);
    b.add(part(data, 32, 64), 32, true, 1, 10s);
    BOOST_TEST(b.r.statistics().overlaps == 1u);
    BOOST_TEST(b.r.size() == 0u);
    BOOST_TEST(b.large.free_count == 64u); // its name is kept, and nothing else
    b.add(part(data, 0, 64), 0, true, 1, 11s);
    BOOST_TEST(b.add(part(data, 64, 64), 64, false, 1, 30s - 1ns).empty());
    BOOST_TEST(b.r.statistics().posthumous == 2u);
    b.add(part(data, 0, 64), 0, true, 2, 12s);
    BOOST_TEST(same(b.add(part(data, 64, 64), 64, false, 2, 12s).bytes().subspan(40), data));
    BOOST_TEST((b.r.next_timeout() == at(30s)));
    expired_datagram out;
    BOOST_TEST(!b.r.expire(at(30s), out)); // silently
    BOOST_TEST((b.r.next_timeout() == never));
    BOOST_TEST(b.r.statistics().timed_out == 0u);
    b.add(part(data, 0, 64), 0, true, 1, 30s);
    BOOST_TEST(!b.add(part(data, 64, 64), 64, false, 1, 30s).empty());

    b.add(part(data, 64, 64), 64, false, 5, 40s); // two ends: no better
    b.add(part(data, 8, 32), 8, false, 5, 40s);
    BOOST_TEST(b.r.statistics().inconsistent == 1u);
    b.add(part(data, 0, 64), 0, true, 5, 70s); // late, and nobody has called expire()
    BOOST_TEST(b.r.size() == 1u);
    BOOST_TEST(b.r.statistics().timed_out == 0u);
}

BOOST_AUTO_TEST_CASE(a_flood_of_overlaps_is_bounded_and_the_newest_win) {
    bench6 b({.max_datagrams = 8}, 2);
    const auto data = pattern(128);
    for (std::uint32_t id = 0; id < 100; ++id) {
        b.add(part(data, 0, 64), 0, true, id);
        b.add(part(data, 32, 64), 32, true, id);
        BOOST_TEST(b.large.free_count == 2u);
    }
    BOOST_TEST(b.r.statistics().overlaps == 100u);
    BOOST_TEST(b.r.statistics().evicted == 0u); // nothing of value
    for (std::uint32_t id = 100; id < 104; ++id) b.add(part(data, 0, 64), 0, true, id);
    BOOST_TEST(b.r.size() == 2u); // as many as there are frames
    BOOST_TEST(!b.add(part(data, 64, 64), 64, false, 103).empty());
}

BOOST_AUTO_TEST_CASE(two_ends_or_bytes_beyond_the_end_kill_the_datagram) {
    const auto data = pattern(256);
    {
        bench b;
        b.add(part(data, 64, 32), 64, false);
        BOOST_TEST(b.add(part(data, 128, 32), 128, false).empty());
        BOOST_TEST(b.r.statistics().inconsistent == 1u);
        BOOST_TEST(b.r.size() == 0u);
    }
    {
        bench b;
        b.add(part(data, 64, 32), 64, false);
        BOOST_TEST(b.add(part(data, 96, 32), 96, true).empty());
        BOOST_TEST(b.r.statistics().inconsistent == 1u);
    }
    {
        bench b;
        b.add(part(data, 128, 32), 128, true);
        BOOST_TEST(b.add(part(data, 64, 32), 64, false).empty());
        BOOST_TEST(b.r.statistics().inconsistent == 1u);
    }
}

BOOST_AUTO_TEST_CASE(a_shorter_last_fragment_under_the_same_block_is_no_duplicate) {
    bench b;
    const auto data = pattern(64);
    b.add(part(data, 32, 12), 32, false); // ends at 44
    BOOST_TEST(b.add(part(data, 32, 10), 32, false).empty()); // ends at 42
    BOOST_TEST(b.r.statistics().inconsistent == 1u);
    BOOST_TEST(b.r.size() == 0u);
}

BOOST_AUTO_TEST_CASE(tiny_and_malformed_fragments_are_refused) {
    bench b;
    const auto data = pattern(64);
    b.add(b.piece(part(data, 0, 16), 0, true, 1, peer, wire::ip_protocol::tcp)); // no whole TCP header
    b.add(b.piece(part(data, 8, 16), 8, true, 1, peer, wire::ip_protocol::tcp)); // begins inside one
    b.add(b.piece(part(data, 8, 24), 8, true, 1, peer, wire::ip_protocol::tcp)); // however much it brings
    BOOST_TEST(b.r.statistics().tiny == 3u);
    b.add(part(data, 0, 13), 0, true); // no multiple of 8
    b.add({}, 0, true);                // nothing
    b.add({}, 64, false);
    BOOST_TEST(b.r.statistics().malformed == 3u);
    BOOST_TEST(b.r.size() == 0u);
}

BOOST_AUTO_TEST_CASE(a_datagram_that_takes_30_seconds_is_given_up_and_quoted_if_its_start_was_there) {
    bench b;
    const auto data = pattern(64);
    b.add(part(data, 0, 32), 0, true, 1, 0s);
    b.add(part(data, 32, 32), 32, false, 2, 1s);
    expired_datagram out;
    BOOST_TEST(!b.r.expire(at(30s - 1ns), out));
    BOOST_TEST((b.r.next_timeout() == at(30s)));
    BOOST_TEST(b.r.expire(at(30s), out));
    wire::ipv4_view ip;
    BOOST_REQUIRE((wire::ipv4_view::parse_quoted(out.quote.bytes(), ip) == wire::parse_error::none));
    BOOST_TEST(ip.identification() == 1u);
    BOOST_TEST(same(ip.payload(), part(data, 0, 32)));
    BOOST_TEST(!b.r.expire(at(30s), out));
    BOOST_TEST(b.r.expire(at(31s), out));
    BOOST_TEST(out.quote.empty()); // fragment 0 never came
    BOOST_TEST(b.r.statistics().timed_out == 2u);
    BOOST_TEST((b.r.next_timeout() == never));
    BOOST_TEST(b.large.free_count == 64u);
}

BOOST_AUTO_TEST_CASE(nothing_is_quoted_of_what_came_to_more_than_one_host) { // RFC 1122 3.2.2, RFC 4443 2.4
    for (const unsigned to_group : {0u, 1u}) {
        bench b;
        const auto data = pattern(96);
        for (std::uint16_t i = 0; i < 2; ++i) {
            const packet p = b.piece(part(data, i * 32u, 32), static_cast<std::uint16_t>(i * 32), true);
            b.r.add(at(0s), view(p), p, i == to_group);
        }
        expired_datagram out;
        BOOST_TEST(b.r.expire(at(30s), out));
        BOOST_TEST(out.quote.empty());
        BOOST_TEST(b.large.free_count == 64u);
        b.add(part(data, 0, 32), 0, true, 1, 31s); // the next in its place came to us alone
        BOOST_TEST(b.r.expire(at(61s), out));
        BOOST_TEST(out.quote.size() == 52u);
    }
}

BOOST_AUTO_TEST_CASE(a_mark_on_any_fragment_is_the_datagrams_and_stands_on_none_that_knows_of_none) { // RFC 3168 5.3
    constexpr std::uint8_t unaware = 0, ect_1 = 1, ect_0 = 2, marked = 3;
    struct row {
        std::uint8_t first, second;
        int whole; ///< -1: dropped
    };
    for (const row& r : {row{unaware, unaware, 0}, row{ect_0, ect_0, 2}, row{ect_1, ect_1, 1}, row{marked, marked, 3},
                         row{ect_0, marked, 3}, row{marked, ect_0, 3}, row{marked, ect_1, 3}, row{unaware, marked, -1},
                         row{marked, unaware, -1}}) {
        for (const bool six : {false, true}) {
            bench6 b;
            const auto data = pattern(64);
            buffer whole;
            for (const unsigned i : {0u, 1u}) {
                const std::uint8_t ecn = i == 0 ? r.first : r.second;
                if (six) {
                    b.traffic_class = static_cast<std::uint8_t>(0xb8 | ecn);
                    whole = b.add(part(data, i * 32u, 32), static_cast<std::uint16_t>(i * 32), i == 0);
                } else {
                    whole = static_cast<bench&>(b).add(datagram(b.pool, {.dscp = 0x2e, .ecn = ecn, .identification = 1,
                                                                         .dont_fragment = false, .more_fragments = i == 0,
                                                                         .fragment_offset = static_cast<std::uint16_t>(i * 32),
                                                                         .protocol = wire::ip_protocol::udp, .source = peer,
                                                                         .destination = us},
                                                                part(data, i * 32u, 32)));
                }
            }
            BOOST_TEST_CONTEXT("marks " << int{r.first} << ' ' << int{r.second} << ", IPv6 " << six) {
                BOOST_REQUIRE(whole.empty() == (r.whole < 0));
                BOOST_TEST(b.r.statistics().inconsistent == (r.whole < 0 ? 1u : 0u));
                wire::ipv4_view ip;
                wire::ipv6_view ip6;
                if (whole.empty()) continue;
                if (six) {
                    BOOST_REQUIRE((wire::ipv6_view::parse(whole.bytes(), ip6) == wire::parse_error::none));
                    BOOST_TEST(ip6.traffic_class() == (0xb8 | r.whole));
                } else {
                    BOOST_REQUIRE((wire::ipv4_view::parse(whole.bytes(), ip) == wire::parse_error::none));
                    BOOST_TEST((ip.ecn() == r.whole && ip.dscp() == 0x2e && ip.checksum_ok()));
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_late_fragment_does_not_complete_a_datagram_whose_time_is_over) {
    bench b;
    const auto data = pattern(64);
    b.add(part(data, 0, 32), 0, true, 1, 0s);
    BOOST_TEST(b.add(part(data, 32, 32), 32, false, 1, 30s).empty());
    BOOST_TEST(b.r.statistics().timed_out == 1u);
    BOOST_TEST(b.r.size() == 1u); // it began a new one
}

BOOST_AUTO_TEST_CASE(a_flood_of_first_fragments_is_bounded_and_the_newest_win) {
    bench b({.max_datagrams = 8}, 8);
    const auto data = pattern(64);
    for (std::uint16_t id = 0; id < 1000; ++id) b.add(part(data, 0, 32), 0, true, id);
    BOOST_TEST(b.r.size() == 8u);
    BOOST_TEST(b.r.statistics().evicted == 992u);
    BOOST_TEST(!b.add(part(data, 32, 32), 32, false, 999).empty());
    BOOST_TEST(b.add(part(data, 32, 32), 32, false, 5).empty());
}

BOOST_AUTO_TEST_CASE(fewer_frames_than_datagrams_bound_the_flood_as_well) {
    bench b({.max_datagrams = 8}, 3);
    const auto data = pattern(64);
    for (std::uint16_t id = 0; id < 10; ++id) b.add(part(data, 0, 32), 0, true, id);
    BOOST_TEST(b.r.size() == 3u);
    BOOST_TEST(b.r.statistics().evicted == 7u);
    BOOST_TEST(!b.add(part(data, 32, 32), 32, false, 9).empty());
}

BOOST_AUTO_TEST_CASE(when_readers_hold_every_frame_fragments_are_dropped_and_counted) {
    bench b({}, 2);
    const auto data = pattern(64);
    std::vector<buffer> held;
    for (std::uint16_t id = 0; id < 2; ++id) {
        b.add(part(data, 0, 32), 0, true, id);
        held.push_back(b.add(part(data, 32, 32), 32, false, id));
        BOOST_TEST(!held.back().empty());
    }
    BOOST_TEST(b.add(part(data, 0, 32), 0, true, 7).empty());
    BOOST_TEST(b.r.statistics().no_frame == 1u);
    held.clear();
    b.add(part(data, 0, 32), 0, true, 7);
    BOOST_TEST(!b.add(part(data, 32, 32), 32, false, 7).empty());
}

BOOST_AUTO_TEST_CASE(a_packet_shorter_than_its_length_says_is_refused) {
    bench b;
    packet p = b.piece(pattern(64), 0, true);
    p.head.remove_suffix(8);
    BOOST_TEST(b.add(p).empty());
    BOOST_TEST(b.r.statistics().malformed == 1u);
}

BOOST_AUTO_TEST_CASE(random_fragments_never_break_an_invariant) {
    const std::uint64_t seed = testing::test_seed();
    BOOST_TEST_CONTEXT("seed " << seed) {
        random_generator random(seed);
        bench b({.max_datagrams = 4}, 3);
        bench6 six({.max_datagrams = 4}, 3);
        const auto data = pattern(2000);
        duration now{0};
        for (int i = 0; i < 20'000; ++i) {
            const auto offset = static_cast<std::uint16_t>(8 * random.below(random.chance(0.1) ? 8192 : 32));
            const std::size_t size = random.chance(0.8) ? 8 * random.below(20) : random.below(1400);
            const byte_span payload = part(data, random.below(3), size);
            const bool more = random.chance(0.7);
            const auto id = static_cast<std::uint16_t>(random.below(6));
            b.add(payload, offset, more, id, now);
            six.add(payload, offset, more, id, now);
            now += duration{static_cast<std::int64_t>(random.below(2'000'000'000))};
            for (expired_datagram out; b.r.expire(at(now), out);) b.r.check_invariants();
            for (expired_datagram out; six.r.expire(at(now), out);) six.r.check_invariants();
        }
        BOOST_TEST(six.r.statistics().posthumous != 0u);
        BOOST_TEST(b.r.statistics().fragments == 20'000u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
