// The socket API over the `verbs` port in a VLAN: rules that ask for its tag, a tag in every frame that we send, and everything without it
// the kernel's.
#include "verbs_sockets_world.hh"

#include "tests/rdma/support.hh"

using namespace corewire;

namespace {

constexpr std::uint16_t ours = 7;

std::vector<std::byte> tagged(std::vector<std::byte> frame, std::uint16_t tag) {
    const std::byte header[4] = {std::byte{0x81}, std::byte{0}, static_cast<std::byte>(tag >> 8), static_cast<std::byte>(tag)};
    frame.insert(frame.begin() + 12, header, header + 4);
    return frame;
}

/// Every frame on the cable is of the VLAN.
struct vlan_world : verbs_sockets_world {
    explicit vlan_world(bool over_ipv6 = false) : verbs_sockets_world(over_ipv6, holds::its_own_addresses, ours) {
        for (verbs_host* h : {&server_host(), &client_host()})
            h->nic.on_sent_frame([this](byte_span frame) {
                ++sent;
                of_ours += load_be16(frame.data() + 12) == 0x8100 && (load_be16(frame.data() + 14) & 0xfff) == ours;
            });
    }
    std::uint64_t bulk_bytes() override { return 4'000'000; }
    void settle() override {
        verbs_sockets_world::settle();
        BOOST_TEST(sent != 0u);
        BOOST_TEST(of_ours == sent);
    }
    unsigned sent = 0, of_ours = 0;
};

struct vlan_ipv6_world : vlan_world {
    vlan_ipv6_world() : vlan_world(true) {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_vlan_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, vlan_world) { run(socket_suite::name(*this)); }
CASE(one_connection_echoes)
CASE(a_hundred_connections_echo)
CASE(half_close_lets_the_other_side_finish)
CASE(a_closed_port_refuses)
CASE(datagrams_echo)
CASE(a_datagram_to_a_closed_port_is_refused)
CASE(a_member_of_a_group_hears_it_until_it_leaves)

#undef CASE
#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name##_over_ipv6, vlan_ipv6_world) { run(socket_suite::name(*this)); }
CASE(one_connection_echoes)
CASE(bulk_arrives_unchanged_both_ways)
CASE(datagrams_echo)

BOOST_FIXTURE_TEST_CASE(large_segments_are_cut_behind_their_tag, vlan_world) {
    run(socket_suite::one_connection_echoes(*this));
    auto headers = tagged(test::udp_frame(client().device().mac(), first, 1, second, 2, 12), ours);
    headers[18 + 9] = std::byte{6};
    headers[38 + 12] = std::byte{0x50};
    packet p;
    p.head = server_host().port->pool().allocate_buffer();
    std::memcpy(p.head.append(58), headers.data(), 58);
    p.body = server_host().port->pool().allocate_buffer();
    std::memset(p.body.append(1800), 2, 1800);
    p.flags = offload::segment | offload::l4_checksum_needed;
    p.l4_offset = 38;
    p.segment_size = 1000;
    BOOST_TEST(server_host().port->transmit({&p, 1}) == 1u);
    BOOST_TEST(server_host().nic.statistics().segments == 2u);
    for (int i = 0; i < 4; ++i) loop().poll_once(); // the sends' completions
}

BOOST_FIXTURE_TEST_CASE(frames_without_the_tag_or_with_another_are_the_kernels, vlan_world) {
    run(socket_suite::one_connection_echoes(*this));
    const auto plain = test::udp_frame(server().device().mac(), second, 5000, first, 9);
    const auto reaches_us = [&](std::uint16_t tag) {
        const std::vector<std::byte> frame = tag == 0 ? plain : tagged(plain, tag);
        const unsigned kernels = server_host().kernel.heard;
        const std::uint64_t before = server_host().port->statistics().received_packets;
        server_host().nic.deliver(frame);
        loop().poll_once();
        const bool came = server_host().port->statistics().received_packets != before;
        BOOST_TEST((server_host().kernel.heard != kernels) == !came);
        return came;
    };
    BOOST_TEST(reaches_us(ours));
    BOOST_TEST(reaches_us(0x6000 | ours)); // of a priority
    BOOST_TEST(!reaches_us(0));
    BOOST_TEST(!reaches_us(8));
    BOOST_TEST(!reaches_us(0x6000)); // of a priority and no VLAN
}

BOOST_AUTO_TEST_SUITE_END()
