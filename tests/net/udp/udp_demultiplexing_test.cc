// Which endpoint a datagram is for, and what becomes of one that is for nobody, damaged, or too much.
#include "tests/net/udp/datagrams.hh"
#include "tests/support/test_seed.hh"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace corewire;
using namespace corewire::test;

namespace {

const udp_address sender{peer, 5000};
const ipv4 feed(239, 1, 2, 3);

using bytes = std::vector<std::byte>;

struct bench {
    frame_pool pool{512};
    udp_demux demux;
    explicit bench(udp_demux_options o = {}) : demux(pool, o, 3) {}
    ~bench() { demux.check_invariants(); }

    udp_delivery input(packet p) {
        const wire::ipv4_view ip = view(p);
        const udp_delivery d = demux.input(ip, p);
        demux.check_invariants();
        return d;
    }
    udp_delivery from(udp_address source, udp_address to, byte_span payload = {}) {
        return input(udp_packet(pool, source, to, payload));
    }
    bool bind(udp_endpoint& e, udp_address local, bool shared = false) { return demux.bind(e, local, shared) == std::errc{}; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(udp_demultiplexing)

BOOST_AUTO_TEST_CASE(a_datagram_arrives_with_its_payload_and_addresses_in_the_frame_it_came_in) {
    bench b;
    udp_endpoint e(16, &b);
    BOOST_TEST(b.bind(e, {ipv4::any(), 7}));
    const auto data = pattern(64);
    packet p = udp_packet(b.pool, sender, {us, 7}, data);
    const std::byte* payload = p.head.data() + 28;
    const udp_delivery d = b.input(std::move(p));
    BOOST_TEST((d.verdict == udp_verdict::delivered));
    BOOST_TEST(d.endpoint == &e);
    BOOST_TEST(d.endpoint->owner() == &b);
    BOOST_TEST(e.queued() == 1u);
    const udp_datagram got = e.receive();
    BOOST_TEST(got.data.data() == payload);
    BOOST_TEST(same(got.data.bytes(), data));
    BOOST_TEST((got.source == sender));
    BOOST_TEST((got.destination == us));
    BOOST_TEST(!e.readable());
}

BOOST_AUTO_TEST_CASE(a_datagram_that_wants_no_reply_is_passed_on_with_its_port_of_zero) { // RFC 768, Fields
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {ipv4::any(), 7}));
    BOOST_TEST((b.from({peer, 0}, {us, 7}, pattern(4)).verdict == udp_verdict::delivered));
    const udp_datagram got = e.receive();
    BOOST_TEST((got.source == udp_address{peer, 0}));
    BOOST_TEST(got.data.size() == 4u);
    BOOST_TEST((b.from(sender, {us, 0}).verdict == udp_verdict::no_port)); // to it nothing can be sent
}

BOOST_AUTO_TEST_CASE(an_ethernet_header_before_and_padding_behind_do_no_harm) {
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {us, 7}));
    packet p = udp_packet(b.pool, sender, {us, 7}, pattern(3));
    const wire::ipv4_view ip = view(p);
    p.head.prepend(14);
    p.head.append(15); // a frame of 60 bytes
    BOOST_TEST((b.demux.input(ip, p).verdict == udp_verdict::delivered));
    BOOST_TEST(same(e.receive().data.bytes(), pattern(3)));
}

BOOST_AUTO_TEST_CASE(an_empty_datagram_is_a_datagram) {
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {us, 7}));
    BOOST_TEST((b.from(sender, {us, 7}).verdict == udp_verdict::delivered));
    BOOST_TEST(e.readable());
    BOOST_TEST(e.receive().data.empty());
}

BOOST_AUTO_TEST_CASE(nobody_on_the_port_leaves_the_packet_with_the_caller) {
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {us, 7}));
    packet p = udp_packet(b.pool, sender, {us, 8}, pattern(10));
    const wire::ipv4_view ip = view(p);
    BOOST_TEST((b.demux.input(ip, p).verdict == udp_verdict::no_port));
    BOOST_TEST(p.size() == 38u);
    BOOST_TEST((b.from(sender, {us, 0}).verdict == udp_verdict::no_port));
    BOOST_TEST((b.from(sender, {ipv4(10, 0, 0, 99), 7}).verdict == udp_verdict::no_port)); // bound to another address
    BOOST_TEST(b.demux.statistics().no_port == 3u);
}

BOOST_AUTO_TEST_CASE(the_most_particular_endpoint_wins) {
    bench b;
    udp_endpoint any(4), bound(4), connected(4);
    BOOST_TEST(b.bind(connected, {us, 7}, true)); // first, so that the order of binding is against it
    BOOST_TEST(b.bind(bound, {us, 7}, true));
    BOOST_TEST(b.bind(any, {ipv4::any(), 7}, true));
    BOOST_TEST((b.demux.connect(connected, us, sender) == std::errc{}));
    BOOST_TEST(b.from(sender, {us, 7}).endpoint == &connected);
    BOOST_TEST(b.from({peer, 5001}, {us, 7}).endpoint == &bound);
    BOOST_TEST(b.from({peer, 5001}, {ipv4(10, 0, 0, 9), 7}).endpoint == &any);
}

BOOST_AUTO_TEST_CASE(a_broadcast_is_for_all_on_the_port_in_whatever_order_they_have_come) {
    for (const bool any_first : {false, true}) {
        bench b;
        udp_endpoint any(4), bound(4);
        const auto bind_any = [&] { BOOST_TEST(b.bind(any, {ipv4::any(), 7}, true)); };
        if (any_first) bind_any();
        BOOST_TEST(b.bind(bound, {ipv4::broadcast(), 7}, true)); // the one that fits best
        if (!any_first) bind_any();
        b.from(sender, {ipv4::broadcast(), 7});
        BOOST_TEST(any.queued() == 1u);
        BOOST_TEST(bound.queued() == 1u);
    }
}

BOOST_AUTO_TEST_CASE(a_connected_endpoint_hears_its_peer_only) {
    bench b;
    udp_endpoint e(4);
    BOOST_TEST(b.bind(e, {ipv4::any(), 7}));
    BOOST_TEST((b.demux.connect(e, us, sender) == std::errc{}));
    BOOST_TEST((b.from({peer, 5001}, {us, 7}).verdict == udp_verdict::no_port));
    BOOST_TEST((b.from({ipv4(10, 0, 0, 3), 5000}, {us, 7}).verdict == udp_verdict::no_port));
    BOOST_TEST((b.from(sender, {us, 7}).verdict == udp_verdict::delivered));
    BOOST_TEST((b.demux.connect(e, us, {}) == std::errc{}));
    BOOST_TEST((b.from({peer, 5001}, {us, 7}).verdict == udp_verdict::delivered));
}

BOOST_AUTO_TEST_CASE(checksums_are_checked_unless_vouched_for_or_absent) {
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {us, 7}));
    const auto damaged = [&] {
        packet p = udp_packet(b.pool, sender, {us, 7}, pattern(64));
        p.head.mutable_data()[40] ^= std::byte{4};
        return p;
    };
    BOOST_TEST((b.input(damaged()).verdict == udp_verdict::dropped));
    BOOST_TEST(b.demux.statistics().bad_checksum == 1u);
    packet vouched = damaged();
    vouched.flags = offload::l4_checksum_good;
    BOOST_TEST((b.input(std::move(vouched)).verdict == udp_verdict::delivered));
    packet absent = damaged();
    store_be16(absent.head.mutable_data() + 26, 0);
    BOOST_TEST((b.input(std::move(absent)).verdict == udp_verdict::delivered)); // RFC 768: zero means none
    packet redirected = udp_packet(b.pool, sender, {us, 7}, pattern(64)); // right bytes, other pseudo-header
    peer.store(redirected.head.mutable_data() + 16);
    BOOST_TEST((b.input(std::move(redirected)).verdict == udp_verdict::dropped));
}

BOOST_AUTO_TEST_CASE(over_ipv6_a_checksum_is_never_absent_whoever_vouches) { // RFC 8200 8.1
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {ipv6::any(), 7}));
    const net_address to(*ipv6::parse("2001:db8::1")), from(*ipv6::parse("2001:db8::2"));
    for (const bool vouched : {false, true}) {
        for (const bool absent : {false, true}) {
            bytes d(12);
            wire::udp_header{5000, 7, 12, 0}.emit(d);
            if (!absent) wire::store_udp_checksum(d, from, to);
            packet p;
            p.head = b.pool.allocate_buffer();
            std::memcpy(p.head.append(12), d.data(), 12);
            p.flags = vouched ? offload::l4_checksum_good : offload::none;
            const udp_verdict verdict = b.demux.input(from, to, 0, 12, p).verdict;
            BOOST_TEST((verdict == (absent ? udp_verdict::dropped : udp_verdict::delivered)));
        }
    }
    BOOST_TEST(b.demux.statistics().bad_checksum == 2u);
}

BOOST_AUTO_TEST_CASE(lengths_that_lie_are_dropped) {
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {us, 7}));
    for (const std::uint16_t length : {std::uint16_t{0}, std::uint16_t{7}, std::uint16_t{73}, std::uint16_t{65535}}) {
        packet p = udp_packet(b.pool, sender, {us, 7}, pattern(64));
        store_be16(p.head.mutable_data() + 24, length);
        p.flags = offload::l4_checksum_good;
        BOOST_TEST((b.input(std::move(p)).verdict == udp_verdict::dropped));
    }
    packet cut = udp_packet(b.pool, sender, {us, 7}, pattern(64));
    cut.flags = offload::l4_checksum_good;
    cut.head.remove_suffix(1); // IP and UDP promise a byte that is not there
    BOOST_TEST((b.input(std::move(cut)).verdict == udp_verdict::dropped));
    packet padded = udp_packet(b.pool, sender, {us, 7}, pattern(64)); // UDP promises what IP does not carry; the padding is there
    store_be16(padded.head.mutable_data() + 24, 73);
    padded.head.append(10);
    padded.flags = offload::l4_checksum_good;
    BOOST_TEST((b.input(std::move(padded)).verdict == udp_verdict::dropped));
    packet no_header = datagram(b.pool, {.protocol = wire::ip_protocol::udp, .source = peer, .destination = us}, pattern(7));
    BOOST_TEST((b.input(std::move(no_header)).verdict == udp_verdict::dropped));
    BOOST_TEST(b.demux.statistics().malformed == 7u);
    packet shorter = udp_packet(b.pool, sender, {us, 7}, pattern(64)); // IP carries more than UDP says: cut off
    store_be16(shorter.head.mutable_data() + 24, 18);
    store_be16(shorter.head.mutable_data() + 26, 0);
    BOOST_TEST((b.input(std::move(shorter)).verdict == udp_verdict::delivered));
    BOOST_TEST(same(e.receive().data.bytes(), byte_span(pattern(64)).first(10)));
}

BOOST_AUTO_TEST_CASE(a_datagram_in_two_pieces_arrives_in_one) {
    bench b;
    udp_endpoint e(16);
    BOOST_TEST(b.bind(e, {us, 7}));
    const auto data = pattern(1000);
    {
        packet p = udp_packet(b.pool, sender, {us, 7}, data, 0); // the body is the payload: passed on
        const std::byte* body = p.body.data();
        BOOST_TEST((b.input(std::move(p)).verdict == udp_verdict::delivered));
        const udp_datagram got = e.receive();
        BOOST_TEST(got.data.data() == body);
        BOOST_TEST(same(got.data.bytes(), data));
    }
    BOOST_TEST((b.input(udp_packet(b.pool, sender, {us, 7}, data, 300)).verdict == udp_verdict::delivered)); // joined
    BOOST_TEST(same(e.receive().data.bytes(), data));
    for (const std::size_t in_head : {std::size_t{0}, std::size_t{300}}) {
        packet padded = udp_packet(b.pool, sender, {us, 7}, data, in_head);
        padded.body.append(6);
        BOOST_TEST((b.input(std::move(padded)).verdict == udp_verdict::delivered));
        BOOST_TEST(same(e.receive().data.bytes(), data));
    }
    packet damaged = udp_packet(b.pool, sender, {us, 7}, data, 301);
    damaged.body.mutable_data()[5] ^= std::byte{1};
    BOOST_TEST((b.input(std::move(damaged)).verdict == udp_verdict::dropped));
    std::vector<buffer> all;
    packet p = udp_packet(b.pool, sender, {us, 7}, data, 300);
    while (b.pool.free_count != 0) all.push_back(b.pool.allocate_buffer());
    BOOST_TEST((b.input(std::move(p)).verdict == udp_verdict::dropped));
    BOOST_TEST(b.demux.statistics().no_frame == 1u);
}

BOOST_AUTO_TEST_CASE(a_full_queue_drops_the_newest_and_frees_its_frame) {
    bench b;
    udp_endpoint e(4);
    BOOST_TEST(b.bind(e, {us, 7}));
    for (unsigned i = 0; i < 10; ++i) b.from(sender, {us, 7}, pattern(10, i));
    BOOST_TEST(e.queued() == 4u);
    BOOST_TEST(e.statistics().dropped_full == 6u);
    BOOST_TEST(b.demux.statistics().dropped_full == 6u);
    BOOST_TEST(b.pool.free_count == 508u);
    for (unsigned i = 0; i < 4; ++i) BOOST_TEST(same(e.receive().data.bytes(), pattern(10, i)));
    BOOST_TEST((b.from(sender, {us, 7}).verdict == udp_verdict::delivered));
}

BOOST_AUTO_TEST_CASE(all_endpoints_together_hold_no_more_than_they_may_and_each_leaves_room_to_others) {
    bench b({.max_queued = 12});
    udp_endpoint first(64), second(64), third(64);
    BOOST_TEST(b.bind(first, {us, 7}));
    BOOST_TEST(b.bind(second, {us, 8}));
    BOOST_TEST(b.bind(third, {us, 9}));
    for (int i = 0; i < 12; ++i) b.from(sender, {us, 7});
    BOOST_TEST(first.queued() == 6u);
    for (int i = 0; i < 12; ++i) b.from(sender, {us, 8});
    BOOST_TEST(second.queued() == 3u);
    for (int i = 0; i < 12; ++i) b.from(sender, {us, 9});
    BOOST_TEST(third.queued() == 2u);
    BOOST_TEST(b.demux.queued() == 11u);
    BOOST_TEST(b.demux.statistics().dropped_total_full == 25u);
    for (int i = 0; i < 10; ++i) { // who reads goes on hearing
        third.receive();
        BOOST_TEST((b.from(sender, {us, 9}).verdict == udp_verdict::delivered));
    }
    BOOST_TEST((b.from(sender, {us, 7}).verdict == udp_verdict::dropped));
}

BOOST_AUTO_TEST_CASE(the_last_frames_of_a_pool_are_not_for_who_does_not_read) {
    bench b;
    frame_pool other(64); // another port's: its last frames are its own
    udp_endpoint idle(4096), busy(4096);
    BOOST_TEST(b.bind(idle, {us, 7}));
    BOOST_TEST(b.bind(busy, {us, 8}));
    const auto from = [&](frame_pool& pool, std::uint16_t port) {
        return b.input(udp_packet(pool, sender, {us, port}, pattern(10))).verdict;
    };
    for (int i = 0; i < 1000; ++i) from(b.pool, 7);
    BOOST_TEST(b.pool.free_count == 128u);
    BOOST_TEST(b.demux.statistics().dropped_total_full == b.demux.statistics().dropped_full);
    for (int i = 0; i < 1000; ++i) from(other, 7);
    BOOST_TEST(other.free_count == 16u);
    for (int i = 0; i < 10; ++i) { // who reads goes on hearing
        BOOST_TEST((from(b.pool, 8) == udp_verdict::delivered));
        BOOST_TEST((from(other, 8) == udp_verdict::dropped)); // it has one unread
        BOOST_TEST(busy.queued() == 1u);
        busy.receive();
    }
    std::vector<buffer> taken; // what others hold
    while (b.pool.free_count > 64) taken.push_back(b.pool.allocate_buffer());
    BOOST_TEST((from(b.pool, 8) == udp_verdict::dropped)); // half of the last ones are nobody's
    BOOST_TEST(b.pool.free_count == 64u);
    while (idle.readable()) idle.receive();
    taken.clear();
    BOOST_TEST((from(b.pool, 7) == udp_verdict::delivered));
    BOOST_TEST((from(other, 7) == udp_verdict::delivered));
}

BOOST_AUTO_TEST_CASE(leaving_frees_what_waits_and_the_port) {
    bench b;
    {
        udp_endpoint e(16);
        BOOST_TEST(b.bind(e, {us, 7}));
        for (int i = 0; i < 5; ++i) b.from(sender, {us, 7});
        BOOST_TEST(b.pool.free_count == 507u);
    }
    BOOST_TEST(b.pool.free_count == 512u);
    BOOST_TEST(b.demux.queued() == 0u);
    udp_endpoint again(16);
    BOOST_TEST(b.bind(again, {us, 7}));
}

BOOST_AUTO_TEST_CASE(a_group_datagram_goes_to_everyone_on_the_port) {
    bench b;
    udp_endpoint first(4), second(4), elsewhere(4), bound(4);
    BOOST_TEST(b.bind(first, {ipv4::any(), 7}, true));
    BOOST_TEST(b.bind(second, {feed, 7}, true));
    BOOST_TEST(b.bind(bound, {us, 7}, true));
    BOOST_TEST(b.bind(elsewhere, {ipv4::any(), 8}));
    b.from(sender, {feed, 7}); // nobody's yet but who is bound to it
    BOOST_TEST((!first.readable() && second.readable()));
    second.receive();
    first.add_group(feed);
    const auto data = pattern(100);
    const udp_delivery d = b.from(sender, {feed, 7}, data);
    BOOST_TEST((d.verdict == udp_verdict::delivered));
    std::set<udp_endpoint*> told;
    for (udp_endpoint* e = d.endpoint; e != nullptr; e = e->also_delivered()) told.insert(e);
    BOOST_TEST((told == std::set<udp_endpoint*>{&first, &second}));
    BOOST_TEST(!bound.readable());
    const udp_datagram a = first.receive(), c = second.receive();
    BOOST_TEST(same(a.data.bytes(), data));
    BOOST_TEST(c.data.data() == a.data.data()); // the same bytes
    BOOST_TEST(!a.data.exclusive());
    BOOST_TEST((a.destination == feed));
    // One that is full does not keep the others from it.
    for (int i = 0; i < 6; ++i) b.from(sender, {feed, 7});
    second.receive();
    const udp_delivery one = b.from(sender, {feed, 7});
    BOOST_TEST(one.endpoint == &second);
    BOOST_TEST(one.endpoint->also_delivered() == nullptr);
}

BOOST_AUTO_TEST_CASE(random_packets_break_no_invariant) {
    const std::uint64_t seed = testing::test_seed();
    BOOST_TEST_CONTEXT("seed " << seed) {
        random_generator random(seed);
        bench b;
        {
            udp_endpoint e(8);
            BOOST_TEST(b.bind(e, {us, 7}));
            for (int i = 0; i < 5000; ++i) {
                packet p = udp_packet(b.pool, sender, {us, static_cast<std::uint16_t>(random.below(9))},
                                      pattern(random.below(200)), random.below(250));
                const wire::ipv4_view ip = view(p);
                for (std::uint64_t n = random.below(4); n > 0 && !p.head.empty(); --n) {
                    const std::uint64_t where = 20 + random.below(8);
                    if (where < p.head.size()) p.head.mutable_data()[where] = static_cast<std::byte>(random.next());
                }
                if (random.chance(0.1)) p.head.remove_suffix(static_cast<std::uint32_t>(random.below(p.head.size() - 19)));
                if (random.chance(0.5)) p.flags = offload::l4_checksum_good;
                b.demux.input(ip, p);
                if (random.chance(0.5) && e.readable()) e.receive();
            }
            b.demux.check_invariants();
        }
        BOOST_TEST(b.pool.free_count == 512u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
