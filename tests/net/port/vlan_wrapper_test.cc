// The wrapper that speaks one VLAN: which frames come in, what goes out, and the bytes of the tag.
#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/port/wrap/packet_text.hh>
#include <corewire/net/port/wrap/vlan_port.hh>
#include <corewire/net/port/xdp/partial_checksum.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/vlan.hh>

#include "tests/support/test_packets.hh"

#include <boost/test/unit_test.hpp>

#include <stdexcept>

using namespace corewire;
using namespace corewire::test;

namespace {

const mac_address mac_a(2, 0, 0, 0, 0, 1), mac_b(2, 0, 0, 0, 0, 2);

/// A host in VLAN 7 and a bare port at the other end of a cable.
struct cable {
    cable() { net.connect(*nic, *bare); }
    void settle() { net.advance_to(net.now() + std::chrono::milliseconds(1)); }
    sim_network net;
    std::unique_ptr<sim_port> inside = net.make_port(mac_a), bare = net.make_port(mac_b);
    sim_port* nic = inside.get();
    vlan_port in_seven{std::move(inside), 7};
};

std::vector<std::byte> frame_of(std::initializer_list<unsigned> after_macs, std::size_t size = 64) {
    std::vector<std::byte> f(12);
    mac_a.store(f.data());
    mac_b.store(f.data() + 6);
    for (const unsigned v : after_macs) f.push_back(static_cast<std::byte>(v));
    f.resize(size);
    return f;
}

packet packet_of(port& from, byte_span bytes) {
    packet p;
    p.head = from.pool().allocate_buffer();
    std::memcpy(p.head.append(static_cast<std::uint32_t>(bytes.size())), bytes.data(), bytes.size());
    return p;
}

/// A port that takes so many packets a call.
struct narrow_port final : wrapped_port {
    narrow_port(std::unique_ptr<port> inner, std::size_t room) : wrapped_port(std::move(inner)), takes(room) {}
    std::size_t transmit(std::span<packet> burst) override { return wrapped_port::transmit(burst.first(std::min(takes, burst.size()))); }
    std::size_t takes;
};

} // namespace

BOOST_AUTO_TEST_SUITE(vlan_wrapper)

BOOST_AUTO_TEST_CASE(only_frames_of_our_vlan_come_in_and_the_others_are_counted) {
    struct row {
        const char* what;
        std::vector<std::byte> frame;
        std::uint64_t vlan_counts::*count; ///< null: it comes in
    };
    const row table[] = {
        {"ours", frame_of({0x81, 0x00, 0x00, 0x07, 0x88, 0xb5, 1, 2, 3, 4}), nullptr},
        {"ours, with a priority", frame_of({0x81, 0x00, 0xe0, 0x07, 0x88, 0xb5, 1, 2, 3, 4}), nullptr},
        {"ours, drop eligible", frame_of({0x81, 0x00, 0x10, 0x07, 0x88, 0xb5, 1, 2, 3, 4}), nullptr},
        {"untagged", frame_of({0x88, 0xb5, 1, 2, 3, 4}), &vlan_counts::untagged},
        {"a priority only", frame_of({0x81, 0x00, 0xa0, 0x00, 0x88, 0xb5, 1, 2, 3, 4}), &vlan_counts::untagged},
        {"another VLAN", frame_of({0x81, 0x00, 0x00, 0x08, 0x88, 0xb5, 1, 2, 3, 4}), &vlan_counts::other_vlan},
        {"another VLAN with our number in its low byte", frame_of({0x81, 0x00, 0x01, 0x07, 0x88, 0xb5}), &vlan_counts::other_vlan},
        {"reserved", frame_of({0x81, 0x00, 0x0f, 0xff, 0x88, 0xb5, 1, 2, 3, 4}), &vlan_counts::other_vlan},
        {"a provider's tag", frame_of({0x88, 0xa8, 0x00, 0x07, 0x88, 0xb5, 1, 2, 3, 4}), &vlan_counts::untagged},
        {"half a tag", frame_of({0x81, 0x00, 0x00, 0x07}, 16), &vlan_counts::malformed},
        {"a tag without a type", frame_of({0x81, 0x00, 0x00, 0x07}, 17), &vlan_counts::malformed},
    };
    for (const row& r : table) {
        BOOST_TEST_CONTEXT(r.what) {
            cable c;
            send(*c.bare, packet_of(*c.bare, r.frame));
            c.settle();
            const auto got = receive_all(c.in_seven);
            BOOST_TEST(got.size() == (r.count == nullptr ? 1u : 0u));
            const vlan_counts& counts = c.in_seven.counts();
            BOOST_TEST(counts.untagged + counts.other_vlan + counts.malformed + counts.no_frame == (r.count == nullptr ? 0u : 1u));
            if (r.count != nullptr) BOOST_TEST((counts.*r.count) == 1u);
            if (got.size() == 1) {
                BOOST_TEST(got[0].size() == r.frame.size() - 4);
                BOOST_TEST((got[0] == frame_of({0x88, 0xb5, 1, 2, 3, 4}, 60)));
            }
            BOOST_TEST(c.in_seven.pool().free_count == c.in_seven.pool().count());
        }
    }
}

BOOST_AUTO_TEST_CASE(frames_go_out_with_the_tag_between_the_addresses_and_the_type) {
    cable c;
    send(c.in_seven, packet_of(c.in_seven, frame_of({0x88, 0xb5, 1, 2, 3, 4}, 60)));
    c.settle();
    const auto got = receive_all(*c.bare);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST((got[0] == frame_of({0x81, 0x00, 0x00, 0x07, 0x88, 0xb5, 1, 2, 3, 4}, 64)));
    BOOST_TEST(describe_frame(got[0]) == "vlan 7 02:00:00:00:00:02 > 02:00:00:00:00:01 type 0x88b5 len 46");
}

BOOST_AUTO_TEST_CASE(among_others_ours_keep_their_order) {
    cable c;
    for (unsigned i = 0; i < 60; ++i) {
        const unsigned vlan = i % 3 == 0 ? 7 : i % 3;
        send(*c.bare, packet_of(*c.bare, frame_of({0x81, 0x00, 0x00, vlan, 0x88, 0xb5, 0, 0, 0, i})));
    }
    c.settle();
    const auto got = receive_numbers(c.in_seven);
    BOOST_REQUIRE(got.size() == 20u);
    for (std::uint32_t i = 0; i < 20; ++i) BOOST_TEST(got[i] == i * 3);
    BOOST_TEST(c.in_seven.counts().other_vlan == 40u);
}

BOOST_AUTO_TEST_CASE(a_frame_of_the_largest_packet_passes_both_ways) {
    cable c;
    const std::uint32_t longest = 14 + c.in_seven.mtu();
    send(c.in_seven, packet_of(c.in_seven, frame_of({0x88, 0xb5}, longest)));
    c.settle();
    auto got = receive_all(*c.bare);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST(got[0].size() == longest + 4);
    send(*c.bare, packet_of(*c.bare, got[0]));
    c.settle();
    got = receive_all(c.in_seven);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST(got[0].size() == longest);
}

BOOST_AUTO_TEST_CASE(offsets_for_checksums_follow_the_tag_and_what_is_not_taken_comes_back_as_it_was) {
    cable c;
    vlan_port tagging(std::make_unique<narrow_port>(std::make_unique<wrapped_port>(std::move(c.bare)), 0), 9);
    packet p = packet_of(tagging, frame_of({0x08, 0x00, 1, 2, 3, 4}, 60));
    p.flags = offload::l4_checksum_needed;
    p.l4_offset = 34;
    BOOST_TEST(tagging.transmit({&p, 1}) == 0u);
    BOOST_TEST(p.l4_offset == 34u);
    BOOST_TEST((std::vector<std::byte>(p.head.bytes().begin(), p.head.bytes().end()) == frame_of({0x08, 0x00, 1, 2, 3, 4}, 60)));
    static_cast<narrow_port&>(tagging.inner()).takes = 1;
    BOOST_TEST(tagging.transmit({&p, 1}) == 1u);

    struct offset_seen final : wrapped_port {
        explicit offset_seen(std::unique_ptr<port> inner) : wrapped_port(std::move(inner)) {}
        std::size_t transmit(std::span<packet> burst) override {
            offset = burst.front().l4_offset;
            return wrapped_port::transmit(burst);
        }
        unsigned offset = 0;
    };
    cable d;
    vlan_port other(std::make_unique<offset_seen>(std::move(d.bare)), 9);
    p = packet_of(other, frame_of({0x08, 0x00}, 60));
    p.l4_offset = 34;
    BOOST_TEST(other.transmit({&p, 1}) == 1u);
    BOOST_TEST(static_cast<offset_seen&>(other.inner()).offset == 38u);
}

BOOST_AUTO_TEST_CASE(of_a_burst_the_port_takes_what_it_has_room_for_and_the_rest_stays_untagged) {
    cable c;
    vlan_port tagging(std::make_unique<narrow_port>(std::move(c.bare), 2), 7);
    std::vector<packet> burst;
    for (std::uint32_t i = 0; i < 5; ++i) burst.push_back(numbered_frame(tagging, mac_a, i));
    BOOST_TEST(tagging.transmit(burst) == 2u);
    for (std::uint32_t i = 2; i < 5; ++i) BOOST_TEST(number_of(burst[i].head.bytes()) == i);
    BOOST_TEST(tagging.transmit(std::span(burst).subspan(2)) == 2u);
    BOOST_TEST(tagging.transmit(std::span(burst).subspan(4)) == 1u);
    c.settle();
    BOOST_TEST(receive_all(*c.nic).size() == 5u);
}

BOOST_AUTO_TEST_CASE(a_head_without_room_is_copied_and_lost_when_there_is_no_frame) {
    cable c;
    packet tight;
    tight.head = c.in_seven.pool().allocate_buffer(0);
    const auto bytes = frame_of({0x88, 0xb5, 0, 0, 0, 1}, 60);
    std::memcpy(tight.head.append(60), bytes.data(), 60);
    BOOST_TEST(send(c.in_seven, std::move(tight)));
    c.settle();
    BOOST_TEST(receive_all(*c.bare).size() == 1u);

    std::vector<packet> burst(3);
    for (packet& p : burst) {
        p.head = c.in_seven.pool().allocate_buffer(&p == &burst[1] ? 0 : frame_headroom);
        std::memcpy(p.head.append(60), bytes.data(), 60);
    }
    std::vector<buffer> hoard;
    while (c.in_seven.pool().free_count != 0) hoard.push_back(c.in_seven.pool().allocate_buffer());
    BOOST_TEST(c.in_seven.transmit(burst) == 3u); // the one in the middle is lost, as on the way
    hoard.clear();
    c.settle();
    BOOST_TEST(receive_all(*c.bare).size() == 2u);
    BOOST_TEST(c.in_seven.counts().no_frame == 1u);
}

BOOST_AUTO_TEST_CASE(bytes_that_others_see_are_not_changed) {
    cable c;
    packet p = packet_of(*c.nic, frame_of({0x81, 0x00, 0x00, 0x00, 0x88, 0xb5}));
    const buffer watcher = p.head.share();
    BOOST_TEST(is_priority_tagged(p.head.bytes()));
    BOOST_TEST(remove_vlan_tag(p, c.nic->pool()));
    BOOST_TEST(!is_priority_tagged(p.head.bytes()));
    BOOST_TEST((std::vector<std::byte>(watcher.bytes().begin(), watcher.bytes().end()) == frame_of({0x81, 0x00, 0x00, 0x00, 0x88, 0xb5})));
    BOOST_TEST(!is_priority_tagged(frame_of({0x81, 0x00, 0x00, 0x00, 0x81, 0x00}))); // one tag, not two
    BOOST_TEST(!is_priority_tagged(frame_of({0x81, 0x00, 0x00, 0x07, 0x08, 0x00})));
}

BOOST_AUTO_TEST_CASE(a_number_that_names_no_vlan_is_refused) {
    for (const std::uint16_t id : {0, 4095, 4096, 65535}) {
        cable c;
        BOOST_CHECK_THROW(vlan_port(std::move(c.bare), id), std::invalid_argument);
    }
    cable c;
    BOOST_TEST(vlan_port(std::move(c.bare), 4094).name().ends_with(".4094"));
}

BOOST_AUTO_TEST_CASE(a_checksum_left_to_complete_is_recognised_behind_a_tag) {
    auto f = frame_of({0x08, 0x00}, 60);
    wire::ipv4_header{.total_length = 46, .protocol = wire::ip_protocol::udp, .source = ipv4(10, 0, 0, 1), .destination = ipv4(10, 0, 0, 2)}
        .emit(mutable_byte_span(f).subspan(14));
    std::uint32_t sum = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 26;
    store_be16(f.data() + 14 + 20 + 6, static_cast<std::uint16_t>(sum));
    BOOST_TEST(has_partial_checksum(f));
    auto tagged = frame_of({0x81, 0x00, 0x00, 0x07}, 16);
    tagged.insert(tagged.end(), f.begin() + 12, f.end());
    BOOST_TEST(has_partial_checksum(tagged));
    for (std::size_t size = 0; size < 46; ++size) BOOST_TEST(!has_partial_checksum(byte_span(tagged).first(size)));
    tagged[18 + 20 + 6] ^= std::byte{1};
    BOOST_TEST(!has_partial_checksum(tagged));
}

BOOST_AUTO_TEST_SUITE_END()
