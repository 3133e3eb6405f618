// The wire port: what goes in at one end comes out at the other, and every frame comes home.
#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <deque>
#include <thread>
#include <vector>

using namespace corewire;

namespace {

struct cable {
    wire_link::ends ends;
    explicit cable(wire_options options = {}) : ends(wire_link::make(options)) {}
    wire_port& a() { return *ends.first; }
    wire_port& b() { return *ends.second; }
};

buffer filled(frame_pool& pool, std::uint32_t size, unsigned char first) {
    buffer b = pool.allocate_buffer();
    BOOST_REQUIRE(b.underlying_frame() != nullptr);
    std::byte* at = b.append(size);
    for (std::uint32_t i = 0; i < size; ++i) at[i] = static_cast<std::byte>(first + i * 7);
    return b;
}

bool holds(byte_span bytes, std::uint32_t size, unsigned char first) {
    if (bytes.size() != size) return false;
    for (std::uint32_t i = 0; i < size; ++i) {
        if (bytes[i] != static_cast<std::byte>(first + i * 7)) return false;
    }
    return true;
}

packet packet_of(buffer head, buffer body = {}) {
    packet p;
    p.head = std::move(head);
    p.body = std::move(body);
    return p;
}

std::size_t send(wire_port& from, packet p) { return from.transmit({&p, 1}); }

/// Lets tokens travel: each end looks once.
void settle(cable& c) {
    packet none[1];
    for (int i = 0; i < 4; ++i) {
        BOOST_CHECK_EQUAL(c.a().receive(none), 0u);
        BOOST_CHECK_EQUAL(c.b().receive(none), 0u);
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(wire_port)

BOOST_AUTO_TEST_CASE(packets_of_every_size_arrive_whole_and_in_order) {
    cable c;
    const auto free_a = c.a().pool().free_count;
    const auto free_b = c.b().pool().free_count;
    for (std::uint32_t size = 1; size <= 1514; ++size) {
        BOOST_REQUIRE_EQUAL(send(c.a(), packet_of(filled(c.a().pool(), size, static_cast<unsigned char>(size)))), 1u);
        packet in[4];
        BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
        BOOST_REQUIRE(holds(in[0].head.bytes(), size, static_cast<unsigned char>(size)));
        BOOST_REQUIRE(in[0].body.empty());
    }
    settle(c);
    BOOST_CHECK_EQUAL(c.a().pool().free_count, free_a);
    BOOST_CHECK_EQUAL(c.b().pool().free_count, free_b);
}

BOOST_AUTO_TEST_CASE(a_head_and_a_body_arrive_as_head_and_body) {
    cable c;
    const auto free_a = c.a().pool().free_count;
    for (const std::uint32_t head : {1u, 32u, 33u, 54u, 66u, 192u, 193u, 600u}) {
        for (const std::uint32_t body : {1u, 64u, 1448u}) {
            send(c.a(), packet_of(filled(c.a().pool(), head, 3), filled(c.a().pool(), body, 9)));
            packet in[1];
            BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
            BOOST_CHECK(holds(in[0].head.bytes(), head, 3));
            BOOST_CHECK(holds(in[0].body.bytes(), body, 9));
            BOOST_CHECK(!in[0].body.exclusive()); // lent bytes may not be written in place
        }
    }
    settle(c);
    BOOST_CHECK_EQUAL(c.a().pool().free_count, free_a);
    BOOST_CHECK_EQUAL(c.a().lent(), 0u);
}

BOOST_AUTO_TEST_CASE(a_lent_frame_stays_with_its_reader_until_released) {
    cable c;
    const auto free_a = c.a().pool().free_count;
    send(c.a(), packet_of(filled(c.a().pool(), 1000, 1)));
    packet in[1];
    BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
    buffer kept = in[0].head.share(100, 10);
    in[0] = {};
    settle(c);
    BOOST_CHECK_EQUAL(c.a().pool().free_count, free_a - 1);
    kept = {};
    settle(c);
    BOOST_CHECK_EQUAL(c.a().pool().free_count, free_a);
}

BOOST_AUTO_TEST_CASE(lent_frames_are_scarce_where_more_are_held_than_queues_without_a_reader_may) {
    for (const std::uint32_t may : {0u, 16u}) { // 0: half of the other end's
        cable c({.frames = 64, .relay = true, .held_unread = may});
        std::vector<packet> held;
        for (std::uint32_t n = 1; n <= 40; ++n) {
            BOOST_REQUIRE_EQUAL(send(c.a(), packet_of(filled(c.a().pool(), 1000, 1))), 1u);
            packet& in = held.emplace_back();
            BOOST_REQUIRE_EQUAL(c.b().receive({&in, 1}), 1u);
            BOOST_CHECK_EQUAL(in.head.underlying_frame()->owner->scarce(), n > (may == 0 ? 32u : may));
        }
        held.clear();
        settle(c);
        BOOST_CHECK_EQUAL(c.a().lent(), 0u);
    }
}

BOOST_AUTO_TEST_CASE(a_lent_frame_may_be_sent_back_and_comes_home_by_two_tokens) {
    cable c;
    const auto free_a = c.a().pool().free_count;
    send(c.a(), packet_of(filled(c.a().pool(), 1000, 1)));
    packet in[1];
    BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
    send(c.b(), packet_of(filled(c.b().pool(), 54, 2), std::move(in[0].head)));
    packet back[1];
    BOOST_REQUIRE_EQUAL(c.a().receive(back), 1u);
    BOOST_CHECK(holds(back[0].body.bytes(), 1000, 1));
    back[0] = {};
    settle(c);
    BOOST_CHECK_EQUAL(c.a().pool().free_count, free_a);
}

BOOST_AUTO_TEST_CASE(a_full_ring_takes_no_more_and_loses_nothing) {
    cable c;
    std::uint32_t sent = 0;
    for (;;) {
        packet p = packet_of(filled(c.a().pool(), 130, static_cast<unsigned char>(sent)));
        if (c.a().transmit({&p, 1}) == 0) {
            BOOST_CHECK_EQUAL(p.head.size(), 130u); // still the caller's
            break;
        }
        ++sent;
        BOOST_REQUIRE_LT(sent, 5000u);
    }
    BOOST_CHECK_EQUAL(sent, 1024u / 3);
    BOOST_CHECK_EQUAL(c.a().statistics().transmit_full, 1u);
    std::uint32_t received = 0;
    packet in[32];
    while (const std::size_t n = c.b().receive(in)) {
        for (std::size_t i = 0; i < n; ++i) {
            BOOST_REQUIRE(holds(in[i].head.bytes(), 130, static_cast<unsigned char>(received)));
            ++received;
        }
    }
    BOOST_CHECK_EQUAL(received, sent);
    BOOST_CHECK_EQUAL(send(c.a(), packet_of(filled(c.a().pool(), 130, 0))), 1u);
}

BOOST_AUTO_TEST_CASE(without_a_frame_to_receive_into_a_packet_is_dropped_and_counted) {
    cable c({.frames = 8});
    std::vector<buffer> hoard;
    while (true) {
        buffer b = c.b().pool().allocate_buffer();
        if (b.underlying_frame() == nullptr) break;
        hoard.push_back(std::move(b));
    }
    send(c.a(), packet_of(filled(c.a().pool(), 60, 0), filled(c.a().pool(), 500, 0)));
    packet in[1];
    BOOST_CHECK_EQUAL(c.b().receive(in), 0u);
    BOOST_CHECK_EQUAL(c.b().statistics().receive_no_buffer, 1u);
    settle(c);
    BOOST_CHECK_EQUAL(c.a().lent(), 0u);
}

BOOST_AUTO_TEST_CASE(checksums_are_vouched_for_only_when_asked) {
    for (const bool vouch : {true, false}) {
        cable c({.vouch_for_checksums = vouch});
        send(c.a(), packet_of(filled(c.a().pool(), 60, 0)));
        packet in[1];
        BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
        BOOST_CHECK_EQUAL(has(in[0].flags, offload::l4_checksum_good), vouch);
        BOOST_CHECK_EQUAL(c.a().capabilities().transmit_checksum, vouch);
    }
}

namespace {

/// One packet there and one back, each end polled by its own reactor, or both by one: after that the ends know.
void get_acquainted(cable& c, reactor& at_a, reactor& at_b) {
    packet in[1];
    for (int i = 0; i < 2; ++i) {
        BOOST_REQUIRE_EQUAL(send(c.a(), packet_of(filled(c.a().pool(), 60, 1))), 1u);
        {
            reactor::scope here(at_b);
            BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
        }
        BOOST_REQUIRE_EQUAL(send(c.b(), packet_of(filled(c.b().pool(), 60, 1))), 1u);
        reactor::scope here(at_a);
        BOOST_REQUIRE_EQUAL(c.a().receive(in), 1u);
    }
    in[0] = packet{};
}

} // namespace

BOOST_AUTO_TEST_CASE(between_ends_of_one_reactor_a_frame_changes_hands_and_goes_home_when_let_go) {
    cable c;
    const auto free_a = c.a().pool().free_count;
    const auto free_b = c.b().pool().free_count;
    reactor loop;
    get_acquainted(c, loop, loop);
    for (const std::uint32_t size : {1u, 60u, 192u, 193u, 1514u}) {
        buffer kept = filled(c.a().pool(), size, 9);
        BOOST_REQUIRE_EQUAL(send(c.a(), packet_of(kept.share())), 1u);
        packet in[1];
        BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
        BOOST_TEST(in[0].head.data() == kept.data());
        BOOST_TEST(in[0].head.size() == size);
        BOOST_TEST(!in[0].head.exclusive()); // the sender may still repeat it
        kept.clear();
        BOOST_TEST(in[0].head.exclusive());
        BOOST_TEST(holds(in[0].head.bytes(), size, 9));
        BOOST_TEST(c.a().pool().free_count == free_a - 1);
        in[0] = packet{};
        BOOST_TEST(c.a().pool().free_count == free_a);
    }
    BOOST_TEST(c.b().pool().free_count == free_b);
}

BOOST_AUTO_TEST_CASE(frames_that_change_hands_alone_and_together_arrive_in_order_and_are_counted) {
    cable c;
    reactor loop;
    get_acquainted(c, loop, loop);
    const port_statistics sent_before = c.a().statistics();
    const port_statistics taken_before = c.b().statistics();
    // Alone, all three at once, and one that finds the reader's packet in use.
    for (const std::size_t together : {1u, 3u, 1u, 2u}) {
        packet out[3];
        for (std::size_t i = 0; i < together; ++i) out[i] = packet_of(filled(c.a().pool(), 60, static_cast<unsigned char>(i)));
        BOOST_REQUIRE_EQUAL(c.a().transmit({out, together}), together);
        packet in[3];
        in[0] = packet_of(filled(c.b().pool(), 20, 77));
        BOOST_REQUIRE_EQUAL(c.b().receive({in, 1}), 1u); // room for one: the others wait
        BOOST_TEST(holds(in[0].head.bytes(), 60, 0));
        BOOST_REQUIRE_EQUAL(c.b().receive({in + 1, 2}), together - 1);
        for (std::size_t i = 1; i < together; ++i) BOOST_TEST(holds(in[i].head.bytes(), 60, static_cast<unsigned char>(i)));
        packet more[3];
        for (std::size_t i = 0; i < together; ++i) out[i] = packet_of(filled(c.a().pool(), 60, static_cast<unsigned char>(i)));
        BOOST_REQUIRE_EQUAL(c.a().transmit({out, together}), together);
        BOOST_REQUIRE_EQUAL(c.b().receive(more), together);
        for (std::size_t i = 0; i < together; ++i) BOOST_TEST(holds(more[i].head.bytes(), 60, static_cast<unsigned char>(i)));
    }
    BOOST_TEST(c.b().receive({}) == 0u);
    const port_statistics sent = c.a().statistics(), taken = c.b().statistics();
    BOOST_TEST(sent.transmitted_packets - sent_before.transmitted_packets == 14u);
    BOOST_TEST(sent.transmitted_bytes - sent_before.transmitted_bytes == 14u * 60);
    BOOST_TEST(taken.received_packets - taken_before.received_packets == 14u);
    BOOST_TEST(taken.received_bytes - taken_before.received_bytes == 14u * 60);
    BOOST_TEST(c.a().pool().free_count == c.b().pool().free_count);
}

BOOST_AUTO_TEST_CASE(between_ends_of_two_reactors_bytes_travel_in_the_ring) {
    cable c;
    reactor first, second;
    get_acquainted(c, first, second);
    const buffer kept = filled(c.a().pool(), 60, 9);
    BOOST_REQUIRE_EQUAL(send(c.a(), packet_of(kept.share())), 1u);
    packet in[1];
    BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
    BOOST_TEST(in[0].head.data() != kept.data());
    BOOST_TEST(holds(in[0].head.bytes(), 60, 9));
}

BOOST_AUTO_TEST_CASE(from_another_reactor_few_packets_are_taken_a_call_so_that_the_first_are_answered_while_others_come) {
    cable c;
    for (int i = 0; i < 20; ++i) BOOST_REQUIRE_EQUAL(send(c.a(), packet_of(filled(c.a().pool(), 60, 1))), 1u);
    packet got[32];
    std::size_t calls = 0, packets = 0;
    for (; packets < 20 && calls < 20; ++calls) packets += c.b().receive(std::span(got).subspan(packets));
    BOOST_TEST(packets == 20u);
    BOOST_TEST(calls == 4u);
}

BOOST_AUTO_TEST_CASE(a_full_ring_of_frames_that_change_hands_takes_no_more_and_loses_nothing) {
    cable c;
    reactor loop;
    get_acquainted(c, loop, loop);
    const auto free_a = c.a().pool().free_count;
    unsigned sent = 0;
    while (send(c.a(), packet_of(filled(c.a().pool(), 1514, static_cast<unsigned char>(sent)))) == 1) ++sent;
    BOOST_TEST(sent > wire_detail::packet_ring::lines - 16); // the reader says how far it is now and then only
    packet in[1];
    for (unsigned i = 0; i < sent; ++i) {
        BOOST_REQUIRE_EQUAL(c.b().receive(in), 1u);
        BOOST_REQUIRE(holds(in[0].head.bytes(), 1514, static_cast<unsigned char>(i)));
        in[0] = packet{};
    }
    BOOST_TEST(c.b().receive(in) == 0u);
    BOOST_TEST(c.a().pool().free_count == free_a);
}

BOOST_AUTO_TEST_CASE(a_sleeping_end_is_woken_once) {
    cable c;
    BOOST_CHECK(c.b().prepare_sleep());
    std::uint64_t count = 0;
    BOOST_CHECK_EQUAL(::read(c.b().wake_fd(), &count, sizeof count), -1);
    send(c.a(), packet_of(filled(c.a().pool(), 60, 0)));
    send(c.a(), packet_of(filled(c.a().pool(), 60, 0)));
    BOOST_CHECK_EQUAL(::read(c.b().wake_fd(), &count, sizeof count), 8);
    BOOST_CHECK_EQUAL(count, 1u);
    BOOST_CHECK(!c.b().prepare_sleep()); // packets wait
}

BOOST_AUTO_TEST_CASE(a_million_packets_between_two_threads_arrive_in_order) {
    constexpr std::uint32_t total = 1'000'000;
    cable c;
    std::thread sender([&] {
        random_generator random(7);
        for (std::uint32_t i = 0; i < total;) {
            packet none[1];
            c.a().receive(none); // takes tokens in
            buffer b = c.a().pool().allocate_buffer();
            if (b.underlying_frame() == nullptr) {
                std::this_thread::yield();
                continue;
            }
            const auto size = static_cast<std::uint32_t>(8 + random.below(1400));
            std::memcpy(b.append(size), &i, sizeof i);
            std::memcpy(b.mutable_data() + size - 4, &i, sizeof i);
            packet p = packet_of(std::move(b));
            while (c.a().transmit({&p, 1}) == 0) {
                std::this_thread::yield();
                c.a().receive(none);
            }
            ++i;
        }
    });
    std::uint32_t expected = 0;
    bool right = true;
    std::deque<buffer> kept; // held a while, so that tokens come home late and out of order
    while (expected < total) {
        packet in[32];
        const std::size_t n = c.b().receive(in);
        if (n == 0) std::this_thread::yield();
        for (std::size_t i = 0; i < n; ++i, ++expected) {
            std::uint32_t first, last;
            std::memcpy(&first, in[i].head.data(), 4);
            std::memcpy(&last, in[i].head.data() + in[i].head.size() - 4, 4);
            right = right && first == expected && last == expected;
            if (expected % 3 == 0) kept.push_back(std::move(in[i].head));
            if (kept.size() > 100) kept.erase(kept.begin() + expected % 50);
        }
    }
    sender.join();
    BOOST_CHECK(right);
    kept.clear();
    settle(c);
    BOOST_CHECK_EQUAL(c.a().pool().free_count, 8192u);
    BOOST_CHECK_EQUAL(c.b().pool().free_count, 8192u);
}

BOOST_AUTO_TEST_SUITE_END()
