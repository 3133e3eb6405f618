// The parts by themselves: sequence numbers, queues, reassembly, scoreboard, estimator, congestion window, life cycle,
// initial numbers, ports, cookies.
#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/tcp/congestion/reno.hh>
#include <corewire/net/tcp/lifecycle.hh>
#include <corewire/net/tcp/open/isn.hh>
#include <corewire/net/tcp/open/port_selection.hh>
#include <corewire/net/tcp/open/syn_cookies.hh>
#include <corewire/net/tcp/receive/reassembler.hh>
#include <corewire/net/tcp/send/rto.hh>
#include <corewire/net/tcp/send/send_queue.hh>
#include <corewire/net/tcp/send/sender.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <map>
#include <set>
#include <vector>

using namespace corewire;
using namespace corewire::tcp;
using namespace std::chrono_literals;

namespace {

seq_number at(std::uint32_t v) { return seq_number(v); }

buffer bytes(frame_pool& pool, std::uint32_t first, std::uint32_t size) {
    buffer b = pool.allocate_buffer();
    std::byte* p = b.append(size);
    for (std::uint32_t i = 0; i < size; ++i) p[i] = static_cast<std::byte>((first + i) * 7);
    return b;
}

} // namespace

BOOST_AUTO_TEST_SUITE(parts)

BOOST_AUTO_TEST_CASE(the_pieces_of_a_buffer_follow_its_size_as_far_as_a_queue_goes) {
    BOOST_TEST(receive_queue::pieces_for(64 << 10, 0) == 2048u);
    BOOST_TEST(receive_queue::pieces_for(4u << 20, 0) == 8192u);
    BOOST_TEST(receive_queue::pieces_for(4u << 20, 7) == 7u);
    for (const std::uint32_t chosen : {0u, ~0u}) BOOST_TEST(receive_queue::pieces_for(1u << 30, chosen) == ring<buffer>::most / 2);
}

BOOST_AUTO_TEST_CASE(sequence_numbers_compare_across_the_wrap) { // RFC 9293 3.4
    BOOST_TEST((at(0xffff'fff0) < at(5)));
    BOOST_TEST((at(5) > at(0xffff'fff0)));
    BOOST_TEST((at(5) - at(0xffff'fff0)) == 21u);
    BOOST_TEST((later(at(0xffff'fff0), at(5)) == at(5)));
    BOOST_TEST((at(7) <= at(7)));
}

BOOST_AUTO_TEST_CASE(what_was_sent_is_told_beyond_half_of_all_numbers) { // TCP_INFO's tcpi_bytes_sent
    sender s;
    s.iss = s.max = at(0xffff'0000);
    BOOST_TEST(s.bytes_sent() == 0u);
    for (const std::uint32_t sent : {0u, 1u, 0x7fff'ffffu, 3'000'000'000u}) {
        s.max = s.iss + 1 + sent; // behind the SYN
        BOOST_TEST(s.bytes_sent() == sent);
    }
}

BOOST_AUTO_TEST_CASE(the_reassembler_puts_random_overlapping_pieces_together) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        frame_pool pool(1024);
        {
            random_generator random(seed);
            reassembler r;
            receive_queue q;
            r.limit(200);
            q.limit(10'000);
            const std::uint32_t base = 0xffff'f000u; // wraps on the way
            seq_number next = at(base);
            std::vector<bool> held(20'000); // by distance from base
            for (int i = 0; i < 2000 && next - at(base) < 10'000; ++i) {
                const std::uint32_t ahead = static_cast<std::uint32_t>(random.below(3000));
                const std::uint32_t size = 1 + static_cast<std::uint32_t>(random.below(400));
                const seq_number start = next + ahead;
                buffer b = bytes(pool, start.value, size);
                if (ahead == 0 || random.chance(0.05)) {
                    b = bytes(pool, next.value, size);
                    q.push(std::move(b));
                    next += size;
                    next = r.drain(next, q);
                } else {
                    std::uint32_t fresh = 0;
                    for (std::uint32_t n = 0; n < size; ++n) fresh += held[start - at(base) + n] ? 0u : 1u;
                    const std::uint64_t dropped = r.dropped();
                    const std::uint32_t stored = r.insert(start, std::move(b));
                    BOOST_REQUIRE(dropped == r.dropped()); // there is room for all
                    BOOST_REQUIRE_EQUAL(stored, fresh);
                    for (std::uint32_t n = 0; n < size; ++n) held[start - at(base) + n] = true;
                }
                for (std::uint32_t n = 0; n < next - at(base); ++n) held[n] = true;
                r.check_invariants(next);
                while (buffer piece = q.pop(~0u)) {}
            }
            BOOST_TEST((next - at(base)) >= 10000u);
        }
        BOOST_TEST(pool.free_count == pool.count());
    }
}

BOOST_AUTO_TEST_CASE(the_reassembler_is_bounded_in_pieces_and_ranges) {
    frame_pool pool(1024);
    reassembler r;
    r.limit(100);
    for (std::uint32_t i = 0; i < 200; ++i) r.insert(at(10 + 10 * i), bytes(pool, 0, 5));
    BOOST_TEST(r.ranges() == reassembler::range_limit);
    BOOST_TEST(r.pieces() == reassembler::range_limit);
    BOOST_TEST(r.dropped() == 200u - reassembler::range_limit);
    r.check_invariants(at(0));
    r.clear();
    for (std::uint32_t i = 0; i < 200; ++i) r.insert(at(10 + 600 * i), bytes(pool, 0, 600)); // too large to be gathered
    BOOST_TEST(r.pieces() == 100u);
    BOOST_TEST(r.ranges() == 1u);
    r.clear();
}

BOOST_AUTO_TEST_CASE(the_send_queue_finds_every_byte) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        frame_pool pool(1024);
        random_generator random(seed);
        send_queue q;
        const seq_number first = at(0xffff'fe00u);
        q.start(first, 1 << 20, 4096);
        for (int i = 0; i < 300; ++i) {
            q.push(bytes(pool, q.end().value, 1 + static_cast<std::uint32_t>(random.below(100))));
            if (random.chance(0.3)) q.acknowledge(q.first() + static_cast<std::uint32_t>(random.below(q.size() + 1)));
            q.check_invariants();
            if (q.size() == 0) continue;
            const std::uint32_t offset = static_cast<std::uint32_t>(random.below(q.size()));
            const std::uint32_t size = 1 + static_cast<std::uint32_t>(random.below(q.size() - offset));
            std::vector<std::byte> out(size);
            q.copy(q.first() + offset, size, out.data());
            bool right = true;
            for (std::uint32_t k = 0; k < size; ++k) right &= out[k] == static_cast<std::byte>((q.first().value + offset + k) * 7);
            BOOST_TEST(right);
            const auto place = q.find(q.first() + offset);
            BOOST_TEST((place.chunk->data()[place.offset] == out[0]));
        }
        q.clear();
        BOOST_TEST(pool.free_count == pool.count());
    }
}

BOOST_AUTO_TEST_CASE(the_time_out_follows_the_rfc) { // RFC 6298 2
    const parameters p{.min_rto = 200ms, .initial_rto = 1s, .max_rto = 60s};
    rto_estimator e;
    e.start(p);
    BOOST_TEST((e.current(p) == 1s));
    e.sample(100ms, p);
    BOOST_TEST((e.srtt() == 100ms && e.rttvar() == 50ms && e.current(p) == 300ms));
    e.sample(100ms, p);
    BOOST_TEST((e.rttvar() == 37500us && e.current(p) == 250ms));
    for (int i = 0; i < 50; ++i) e.sample(10us, p);
    BOOST_TEST((e.current(p) == 200ms));
    for (int i = 0; i < 300; ++i) e.back_off();
    BOOST_TEST((e.current(p) == 60s));
}

BOOST_AUTO_TEST_CASE(reno_doubles_then_adds_then_halves) { // RFC 5681 3.1; RFC 9293 3.8.2, MUST-19
    reno r(1000);
    BOOST_TEST(r.cwnd() == 10'000u);
    for (int i = 0; i < 10; ++i) r.on_ack({time_point{}, 1000, 10'000, 0ns});
    BOOST_TEST(r.cwnd() == 20'000u);
    r.on_loss(20'000);
    BOOST_TEST(r.cwnd() == 10'000u);
    BOOST_TEST(r.ssthresh() == 10'000u);
    for (int i = 0; i < 10; ++i) r.on_ack({time_point{}, 1000, 10'000, 0ns});
    BOOST_TEST(r.cwnd() == 11'000u);
    r.on_timeout(11'000, true);
    BOOST_TEST(r.cwnd() == 1000u);
    BOOST_TEST(r.ssthresh() == 5500u);
    r.on_timeout(1000, false);
    BOOST_TEST(r.ssthresh() == 5500u);
    r.check_invariants();
}

BOOST_AUTO_TEST_CASE(the_states_move_as_in_figure_5) { // RFC 9293 3.3.2
    using enum tcp_state;
    BOOST_TEST((next_state(syn_sent, transition::syn_received) == syn_received));
    BOOST_TEST((next_state(established, transition::fin_sent) == fin_wait_1));
    BOOST_TEST((next_state(fin_wait_1, transition::fin_received) == closing));
    BOOST_TEST((next_state(closing, transition::fin_acknowledged) == time_wait));
    BOOST_TEST((next_state(close_wait, transition::fin_sent) == last_ack));
    for (int s = 0; s < tcp_state_count; ++s) {
        BOOST_TEST((next_state(static_cast<tcp_state>(s), transition::aborted) == closed));
        BOOST_TEST(!name_of(static_cast<tcp_state>(s)).empty());
    }
}

BOOST_AUTO_TEST_CASE(initial_numbers_grow_on_one_flow_and_are_unlike_on_others) { // RFC 6528 3; RFC 9293 3.4.1, MUST-8, MUST-9
    const siphash_key key{1, 2};
    const four_tuple flow{10, 20, 30, 40};
    const seq_number a = initial_sequence_number(key, from_ns(0), flow);
    BOOST_TEST((initial_sequence_number(key, from_ns(4000000), flow) - a) == 1000u);
    BOOST_TEST((initial_sequence_number(key, from_ns(0), {10, 20, 30, 41}) != a));
    BOOST_TEST((initial_sequence_number({1, 3}, from_ns(0), flow) != a));
}

BOOST_AUTO_TEST_CASE(ports_do_not_come_round_soon_and_unusable_ones_are_skipped) { // RFC 6056 3.3.4
    port_selector ports({1, 2}, {3, 4});
    std::set<std::uint16_t> seen;
    for (int i = 0; i < 10'000; ++i) {
        const auto port = ports.select({1, 2, 0, 80}, [](std::uint16_t p) { return p % 2 == 0; });
        BOOST_REQUIRE(port.has_value());
        BOOST_REQUIRE(*port >= port_selector::first);
        BOOST_REQUIRE(*port % 2 == 0);
        BOOST_REQUIRE(seen.insert(*port).second);
    }
    BOOST_TEST(!ports.select({1, 2, 0, 80}, [](std::uint16_t) { return false; }).has_value());
}

BOOST_AUTO_TEST_CASE(of_ports_that_lie_apart_each_is_as_often_the_first) { // RFC 6056 3.3.4: as hard to guess as so many can be
    std::vector<std::uint16_t> few;
    for (std::uint16_t i = 0; i < 63; ++i) few.push_back(static_cast<std::uint16_t>(i < 32 ? 32'768 + i : 40'000 + 400 * (i - 32)));
    port_selector ports({1, 2}, {3, 4});
    std::map<std::uint16_t, unsigned> chosen;
    const auto any = [](std::uint16_t) { return true; };
    for (std::uint32_t host = 0; host < 6300; ++host) ++chosen[ports.select({1, host, 0, 80}, few, any).value()];
    BOOST_TEST(chosen.size() == few.size());
    for (const auto& [port, times] : chosen) BOOST_TEST((times > 55u && times < 145u), port << ": " << times); // 100, by chance 10 more
    std::set<std::uint16_t> all;
    for (std::size_t i = 0; i < few.size(); ++i)
        all.insert(ports.select({1, 2, 0, 80}, few, [&](std::uint16_t port) { return !all.contains(port); }).value());
    BOOST_TEST(all.size() == few.size());
    BOOST_TEST(!ports.select({1, 2, 0, 80}, few, [](std::uint16_t) { return false; }).has_value());
    BOOST_TEST(!ports.select({1, 2, 0, 80}, {}, [](std::uint16_t) { return true; }).has_value());
}

BOOST_AUTO_TEST_CASE(a_cookie_comes_home_once_within_two_minutes_and_to_its_own_flow_only) { // RFC 4987 3.6
    const siphash_key key{5, 6};
    const four_tuple flow{10, 20, 30, 40};
    const time_point now = from_ns(1'000'000'000'000);
    const seq_number cookie = make_cookie(key, now, flow, at(77), 1400);
    BOOST_TEST((check_cookie(key, now, flow, at(77), cookie) == std::uint16_t{1360}));
    BOOST_TEST((check_cookie(key, now + 64s, flow, at(77), cookie) == std::uint16_t{1360}));
    BOOST_TEST(!check_cookie(key, now + 129s, flow, at(77), cookie).has_value());
    BOOST_TEST(!check_cookie(key, now, flow, at(78), cookie).has_value());
    BOOST_TEST(!check_cookie(key, now, {10, 20, 30, 41}, at(77), cookie).has_value());
    BOOST_TEST(!check_cookie(key, now, flow, at(77), cookie + 1).has_value());
}

BOOST_AUTO_TEST_CASE(a_cookie_does_not_become_good_again_when_its_count_comes_round) { // five bits of it are visible
    const siphash_key key{5, 6};
    const four_tuple flow{10, 20, 30, 40};
    const time_point now = from_ns(1'000'000'000'000);
    const seq_number cookie = make_cookie(key, now, flow, at(77), 1400);
    for (int round = 1; round <= 40; ++round) {
        BOOST_TEST(!check_cookie(key, now + round * 32 * 64s, flow, at(77), cookie).has_value());
        BOOST_TEST(!check_cookie(key, now + (round * 32 + 1) * 64s, flow, at(77), cookie).has_value());
    }
    const time_point last = from_ns((31 + 5 * 32) * 64'000'000'000); // and across the turn it is good for as long as ever
    const seq_number young = make_cookie(key, last, flow, at(77), 1400);
    BOOST_TEST((check_cookie(key, last + 64s, flow, at(77), young) == std::uint16_t{1360}));
    BOOST_TEST(!check_cookie(key, last + 128s, flow, at(77), young).has_value());
}

BOOST_AUTO_TEST_CASE(the_cookie_timestamp_keeps_the_terms_and_never_runs_ahead) {
    for (std::uint32_t clock : {100u, 1000u, 1063u, 0x7fff'ffffu}) {
        for (std::uint8_t scale : {std::uint8_t{0}, std::uint8_t{7}, std::uint8_t{14}, no_window_scale}) {
            for (const bool ecn : {false, true}) {
                const std::uint32_t stamp = cookie_timestamp(clock, {.sack = true, .ecn = ecn, .window_scale = scale});
                BOOST_TEST(static_cast<std::int32_t>(clock - stamp) >= 0);
                const cookie_terms back = terms_of_timestamp(stamp, 1460);
                BOOST_TEST(back.sack);
                BOOST_TEST(back.ecn == ecn);
                BOOST_TEST(back.window_scale == scale);
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
