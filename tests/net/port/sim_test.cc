// The simulated network: exact times, every fault, and the same run from the same seed.
#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>

#include "tests/support/test_packets.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <stdexcept>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

const mac_address mac_a(2, 0, 0, 0, 0, 1), mac_b(2, 0, 0, 0, 0, 2), mac_c(2, 0, 0, 0, 0, 3);
constexpr auto forward = sim_link::direction::forward;

struct two_hosts {
    explicit two_hosts(const sim_link_options& o = {}, std::uint64_t seed = 7)
        : net({.seed = seed}), a(net.make_port(mac_a)), b(net.make_port(mac_b)), link(net.connect(*a, *b, o)) {}
    sim_network net;
    std::unique_ptr<sim_port> a, b;
    sim_link& link;
};

struct arrival {
    std::int64_t at;
    std::vector<std::byte> bytes;
    bool operator==(const arrival&) const = default;
};

/// 400 frames through every fault; all arrivals with their times.
std::vector<arrival> stormy_run(std::uint64_t seed) {
    two_hosts h({.latency = 20us, .bits_per_second = 1'000'000'000, .loss = .1, .duplicate = .1, .corrupt = .1,
                 .reorder = .2, .reorder_delay = 50us}, seed);
    std::vector<arrival> all;
    for (std::uint32_t i = 0; i < 400; ++i) {
        send(*h.a, numbered_frame(*h.a, mac_b, i, 64 + i));
        h.net.advance_to(std::min(h.net.now() + 1us, h.net.next_event()));
        for (auto& f : receive_all(*h.b)) all.push_back({to_ns(h.net.now()), f});
    }
    while (h.net.next_event() != never) {
        h.net.advance_to(h.net.next_event());
        for (auto& f : receive_all(*h.b)) all.push_back({to_ns(h.net.now()), f});
    }
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(sim)

BOOST_AUTO_TEST_CASE(a_packet_arrives_after_the_latency_and_not_a_nanosecond_before) {
    two_hosts h({.latency = 10us});
    send(*h.a, numbered_frame(*h.a, mac_b, 1));
    h.net.advance_to(from_ns(9'999));
    BOOST_TEST(receive_numbers(*h.b).empty());
    h.net.advance_to(from_ns(10'000));
    BOOST_TEST(receive_numbers(*h.b) == std::vector<std::uint32_t>{1}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_rate_spaces_packets_by_their_size) {
    two_hosts h({.latency = 0ns, .bits_per_second = 1'000'000'000});
    for (std::uint32_t i = 0; i < 3; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 125)); // a microsecond each
    for (int i = 1; i <= 3; ++i) {
        BOOST_TEST(to_ns(h.net.next_event()) == i * 1000);
        h.net.advance_to(h.net.next_event());
        BOOST_TEST(receive_numbers(*h.b).size() == 1u);
    }
}

BOOST_AUTO_TEST_CASE(a_full_queue_drops_and_counts) {
    two_hosts h({.bits_per_second = 1'000'000, .queue_bytes = 1000});
    for (std::uint32_t i = 0; i < 20; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 100));
    BOOST_TEST(h.link.statistics(forward).queue_full == 10u);
    h.net.advance_to(from_ns(1'000'000'000));
    BOOST_TEST(receive_numbers(*h.b).size() == 10u);
}

BOOST_AUTO_TEST_CASE(a_cable_that_becomes_faster_keeps_what_waits_and_takes_more) {
    sim_link_options o{.latency = 1ms, .bits_per_second = 8'000'000, .queue_bytes = 10'000};
    two_hosts h(o);
    std::uint32_t number = 0;
    for (; number < 10; ++number) send(*h.a, numbered_frame(*h.a, mac_b, number, 1000)); // a millisecond each
    o.bits_per_second *= 4;
    h.link.configure(forward, o);
    for (; number < 20; ++number) {
        h.net.advance_to(h.net.now() + 1ms);
        send(*h.a, numbered_frame(*h.a, mac_b, number, 1000));
    }
    h.net.advance_to(h.net.now() + 100ms);
    BOOST_TEST(h.link.statistics(forward).queue_full == 0u);
    const auto got = receive_numbers(*h.b);
    BOOST_TEST(got.size() == 20u);
    BOOST_TEST(std::ranges::is_sorted(got));
}

BOOST_AUTO_TEST_CASE(a_cable_that_becomes_slower_has_no_more_room_for_that) {
    sim_link_options o{.bits_per_second = 8'000'000, .queue_bytes = 10'000};
    two_hosts h(o);
    for (std::uint32_t i = 0; i < 10; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 1000));
    o.bits_per_second /= 4;
    h.link.configure(forward, o);
    send(*h.a, numbered_frame(*h.a, mac_b, 10, 1000));
    BOOST_TEST(h.link.statistics(forward).queue_full == 1u);
    h.net.advance_to(from_ns(1'500'000)); // one and a half have left
    for (std::uint32_t i = 11; i < 13; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 1000));
    BOOST_TEST(h.link.statistics(forward).queue_full == 2u);
}

BOOST_AUTO_TEST_CASE(nothing_overtakes_what_is_on_a_cable_that_becomes_shorter) {
    two_hosts h({.latency = 100ms});
    for (std::uint32_t i = 0; i < 5; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 100));
    h.link.configure(forward, {.latency = 1ms});
    for (std::uint32_t i = 5; i < 10; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 100));
    h.net.advance_to(from_ns(99'999'999));
    BOOST_TEST(receive_numbers(*h.b).empty());
    h.net.advance_to(from_ns(100'100'000));
    const auto got = receive_numbers(*h.b);
    BOOST_TEST(got.size() == 10u);
    BOOST_TEST(std::ranges::is_sorted(got));
    send(*h.a, numbered_frame(*h.a, mac_b, 10, 100));
    h.net.advance_to(from_ns(101'200'000));
    BOOST_TEST(receive_numbers(*h.b).size() == 1u); // a millisecond now
}

BOOST_AUTO_TEST_CASE(nothing_overtakes_the_queue_of_a_cable_whose_limit_is_taken_away) {
    two_hosts h({.bits_per_second = 8'000'000});
    for (std::uint32_t i = 0; i < 5; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 1000));
    h.link.configure(forward, {});
    for (std::uint32_t i = 5; i < 10; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 1000));
    h.net.advance_to(from_ns(4'999'999));
    BOOST_TEST(receive_numbers(*h.b).size() == 4u);
    h.net.advance_to(from_ns(5'010'000));
    BOOST_TEST(receive_numbers(*h.b) == (std::vector<std::uint32_t>{4, 5, 6, 7, 8, 9}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_idle_cable_without_a_queue_takes_one_packet_at_a_time) {
    two_hosts h({.bits_per_second = 8'000'000, .queue_bytes = 0});
    for (std::uint32_t i = 0; i < 2; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i, 1000));
    h.net.advance_to(from_ns(1'000'000));
    send(*h.a, numbered_frame(*h.a, mac_b, 2, 1000));
    h.net.advance_to(from_ns(10'000'000));
    BOOST_TEST(receive_numbers(*h.b) == (std::vector<std::uint32_t>{0, 2}), boost::test_tools::per_element());
    BOOST_TEST(h.link.statistics(forward).queue_full == 1u);
}

BOOST_AUTO_TEST_CASE(what_no_cable_can_be_is_refused) {
    two_hosts h;
    for (const sim_link_options& o : {sim_link_options{.latency = -1ns}, sim_link_options{.reorder_delay = -1ns},
                                      sim_link_options{.loss = 50}, sim_link_options{.corrupt = -.1}}) {
        BOOST_CHECK_THROW(h.link.configure(o), std::invalid_argument);
        BOOST_CHECK_THROW(h.link.configure(forward, o), std::invalid_argument);
        auto c = h.net.make_port(mac_c);
        BOOST_CHECK_THROW(h.net.connect(*c, h.net.make_switch(), o), std::invalid_argument);
    }
    // Packets would go round without end and without time.
    BOOST_CHECK_THROW(h.net.connect(h.net.make_switch(), h.net.make_switch(), {.latency = 0ns}), std::invalid_argument);
    BOOST_CHECK_THROW(h.net.make_port(mac_c, {.mtu = 9000}), std::invalid_argument);
    sim_network jumbo({.frames = 64, .frame_size = 16384});
    BOOST_TEST(jumbo.make_port(mac_c, {.mtu = 9000})->mtu() == 9000u);
}

BOOST_AUTO_TEST_CASE(packets_that_the_network_has_no_frame_for_are_counted_apart) {
    sim_network net({.frames = 8});
    auto a = net.make_port(mac_a), b = net.make_port(mac_b);
    sim_link& link = net.connect(*a, *b);
    for (std::uint32_t i = 0; i < 10; ++i) send(*a, numbered_frame(*a, mac_b, i));
    BOOST_TEST(link.statistics(forward).network_full == 2u);
    BOOST_TEST(net.no_frames() == 2u);
}

BOOST_AUTO_TEST_CASE(a_cut_cable_carries_nothing_until_it_is_mended) {
    two_hosts h;
    h.link.cut(true);
    send(*h.a, numbered_frame(*h.a, mac_b, 1));
    h.link.cut(false);
    send(*h.a, numbered_frame(*h.a, mac_b, 2));
    h.net.advance_to(from_ns(1'000'000));
    BOOST_TEST(receive_numbers(*h.b) == std::vector<std::uint32_t>{2}, boost::test_tools::per_element());
    BOOST_TEST(h.link.statistics(forward).partitioned == 1u);
}

BOOST_AUTO_TEST_CASE(a_filter_takes_out_the_packet_that_a_test_names) {
    two_hosts h;
    h.link.drop_if(forward, [](byte_span, std::uint64_t number) { return number == 1; });
    for (std::uint32_t i = 0; i < 3; ++i) send(*h.a, numbered_frame(*h.a, mac_b, i));
    h.net.advance_to(from_ns(1'000'000));
    BOOST_TEST((receive_numbers(*h.b) == std::vector<std::uint32_t>{0, 2}));
}

BOOST_AUTO_TEST_CASE(corruption_flips_exactly_one_bit) {
    two_hosts h({.corrupt = 1});
    packet p = numbered_frame(*h.a, mac_b, 5);
    const std::vector<std::byte> sent(p.head.bytes().begin(), p.head.bytes().end());
    send(*h.a, std::move(p));
    h.net.advance_to(from_ns(1'000'000));
    const auto got = receive_all(*h.b);
    BOOST_REQUIRE(got.size() == 1u);
    int bits = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
        bits += __builtin_popcount(std::to_integer<unsigned>(sent[i] ^ got[0][i]));
    }
    BOOST_TEST(bits == 1);
}

BOOST_AUTO_TEST_CASE(corruption_spares_what_an_fcs_guards_and_nothing_else_does) {
    two_hosts h({.corrupt = 1});
    for (std::uint32_t i = 0; i < 500; ++i) {
        packet p = numbered_frame(*h.a, mac_b, i);
        if (i % 2 == 1) store_be16(p.head.mutable_data() + 12, 0x0806); // ARP has no checksum
        if (i % 4 == 3) { // behind a tag
            store_be16(p.head.mutable_data() + 12, 0x8100);
            store_be16(p.head.mutable_data() + 16, 0x0806);
        }
        send(*h.a, std::move(p));
    }
    h.net.advance_to(from_ns(1'000'000));
    const auto got = receive_all(*h.b);
    BOOST_TEST(got.size() == 250u);
    BOOST_TEST(h.link.statistics(forward).lost == 250u);
    for (const auto& f : got) {
        BOOST_TEST((mac_address::load(f.data()) == mac_b));
        BOOST_TEST((mac_address::load(f.data() + 6) == mac_a));
        BOOST_TEST(load_be16(f.data() + 12) == 0x88b5u);
    }
}

BOOST_AUTO_TEST_CASE(a_tag_does_not_hide_a_packet_from_marks) { // IEEE 802.1Q: priority 2 looks like an IPv4 header
    two_hosts h({.mark = 1});
    packet p = numbered_frame(*h.a, mac_b, 5, 100);
    std::byte* const tag = p.head.mutable_data() + 12;
    store_be16(tag, 0x8100);
    store_be16(tag + 2, 0x4007);
    store_be16(tag + 4, 0x0800);
    wire::ipv4_header{.total_length = 82, .ecn = 2, .source = ipv4(10, 0, 0, 1), .destination = ipv4(10, 0, 0, 2)}.emit({tag + 6, 20});
    send(*h.a, std::move(p));
    h.net.advance_to(from_ns(1'000'000));
    const auto got = receive_all(*h.b).at(0);
    BOOST_TEST(load_be16(got.data() + 14) == 0x4007u);
    BOOST_TEST(load_u8(got.data() + 19) == 3u);
    BOOST_TEST(wire::checksum_ok(byte_span(got).subspan(18, 20)));
    BOOST_TEST(h.link.statistics(forward).marked == 1u);
}

BOOST_AUTO_TEST_CASE(marks_are_for_packets_that_are_ecn_capable_and_leave_their_checksum_right) { // RFC 3168 5
    two_hosts h({.mark = 1});
    const auto carried = [&](std::uint16_t type, std::uint8_t ecn) {
        packet p = numbered_frame(*h.a, mac_b, 5, 100);
        std::byte* const ip = p.head.mutable_data() + 14;
        store_be16(ip - 2, type);
        if (type == 0x0800) {
            wire::ipv4_header{.total_length = 86, .dscp = 0x12, .ecn = ecn, .source = ipv4(10, 0, 0, 1), .destination = ipv4(10, 0, 0, 2)}
                .emit({ip, 20});
        } else {
            const auto traffic_class = static_cast<std::uint8_t>(0x48 | ecn);
            wire::ipv6_header{.traffic_class = traffic_class, .flow_label = 0xfffff, .payload_length = 46}.emit({ip, 40});
        }
        send(*h.a, std::move(p));
        h.net.advance_to(h.net.now() + 1ms);
        return receive_all(*h.b).at(0);
    };
    for (const std::uint8_t ecn : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{3}}) {
        const unsigned want = 0x48u | (ecn == 0 ? 0 : 3);
        const auto four = carried(0x0800, ecn), six = carried(0x86dd, ecn);
        BOOST_TEST(load_u8(four.data() + 15) == want);
        BOOST_TEST(wire::checksum_ok(byte_span(four).subspan(14, 20)));
        BOOST_TEST(load_be32(six.data() + 14) == (0x6000'0000u | want << 20 | 0xfffff));
    }
    BOOST_TEST(h.link.statistics(forward).marked == 4u);
}

BOOST_AUTO_TEST_CASE(faults_happen_about_as_often_as_asked) {
    two_hosts h({.loss = .1, .duplicate = .1, .reorder = .1});
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        send(*h.a, numbered_frame(*h.a, mac_b, i));
        h.net.advance_to(h.net.now() + 1us);
        receive_all(*h.b);
    }
    const auto& s = h.link.statistics(forward);
    BOOST_TEST((s.lost > 800 && s.lost < 1200));
    BOOST_TEST((s.duplicated > 700 && s.duplicated < 1100));
    BOOST_TEST((s.reordered > 800 && s.reordered < 1200));
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_bytes_at_the_same_nanoseconds_and_another_one_does_not) {
    const auto once = stormy_run(42);
    BOOST_TEST((once == stormy_run(42)));
    BOOST_TEST((once != stormy_run(43)));
    BOOST_TEST(once.size() > 300u);
}

BOOST_AUTO_TEST_CASE(a_full_inbox_drops_and_counts_as_a_nic_does) {
    sim_network net;
    auto a = net.make_port(mac_a);
    auto b = net.make_port(mac_b, {.inbox = 4});
    net.connect(*a, *b);
    for (std::uint32_t i = 0; i < 6; ++i) send(*a, numbered_frame(*a, mac_b, i));
    net.advance_to(from_ns(1'000'000));
    BOOST_TEST(receive_numbers(*b).size() == 4u);
    BOOST_TEST(b->statistics().receive_no_buffer == 2u);
}

BOOST_AUTO_TEST_CASE(a_switch_floods_until_it_has_learned_and_then_sends_to_one) {
    sim_network net;
    auto a = net.make_port(mac_a), b = net.make_port(mac_b), c = net.make_port(mac_c);
    sim_switch& s = net.make_switch();
    net.connect(*a, s);
    net.connect(*b, s);
    net.connect(*c, s);
    send(*a, numbered_frame(*a, mac_b, 1));
    net.advance_to(from_ns(100'000));
    BOOST_TEST(receive_numbers(*b).size() == 1u);
    BOOST_TEST(receive_numbers(*c).size() == 1u);
    send(*b, numbered_frame(*b, mac_a, 2));
    send(*b, numbered_frame(*b, mac_address::broadcast(), 3));
    net.advance_to(from_ns(200'000));
    BOOST_TEST(receive_numbers(*a).size() == 2u);
    BOOST_TEST((receive_numbers(*c) == std::vector<std::uint32_t>{3}));
}

BOOST_AUTO_TEST_CASE(a_host_that_goes_takes_no_one_with_it) {
    two_hosts h;
    send(*h.a, numbered_frame(*h.a, mac_b, 1));
    h.b.reset();
    h.net.advance_to(from_ns(1'000'000));
    BOOST_TEST(h.net.in_flight() == 0u);
    auto late = std::make_unique<sim_network>();
    auto orphan = late->make_port(mac_c);
    late.reset();
    BOOST_TEST(send(*orphan, numbered_frame(*orphan, mac_a, 1)));
    BOOST_TEST(orphan->statistics().transmit_dropped == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
