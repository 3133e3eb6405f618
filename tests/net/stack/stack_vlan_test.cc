// A stack in a VLAN: the socket suite between two hosts of VLAN 7, who hears whom, and what a stack without a VLAN makes of tags.
#include "stack_world.hh"

#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/port/wrap/vlan_port.hh>
#include <corewire/net/wire/arp.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

namespace {

stack_config in_vlan(std::uint16_t id) {
    stack_config config;
    config.vlan = id;
    return config;
}

struct vlan_world : stack_world {
    vlan_world() : stack_world({.vouch_for_checksums = false}, in_vlan(7)) {}
};

/// A stack of VLAN `id` at one end of a cable; at the other a bare port that says what it likes.
struct alone {
    explicit alone(std::uint16_t id) {
        net.connect(*nic, *peer);
        stack_config config = in_vlan(id);
        config.address = ip_prefix(ipv4(10, 0, 0, 1), 24);
        config.seed = 1;
        config.announce = false;
        stack = std::make_unique<network_stack>(loop, std::move(nic), config);
    }
    /// Who has 10.0.0.1, in a frame with these bytes before the EtherType. What comes back.
    std::vector<std::vector<std::byte>> asked(std::initializer_list<unsigned> tag) {
        packet p;
        p.head = peer->pool().allocate_buffer();
        mac_address::broadcast().store(p.head.append(6));
        peer->mac().store(p.head.append(6));
        for (const unsigned v : tag) *p.head.append(1) = static_cast<std::byte>(v);
        store_be16(p.head.append(2), 0x0806);
        wire::arp_packet{.operation = wire::arp_operation::request, .sender_mac = peer->mac(), .sender_ip = ipv4(10, 0, 0, 9),
                         .target_mac = {}, .target_ip = ipv4(10, 0, 0, 1)}
            .emit({p.head.append(wire::arp_packet::size), wire::arp_packet::size});
        peer->transmit({&p, 1});
        for (int i = 0; i < 10; ++i) {
            clock.advance(std::chrono::milliseconds{1});
            net.advance_to(net.now() + std::chrono::milliseconds{1});
            loop.poll_once();
        }
        std::vector<std::vector<std::byte>> frames;
        for (packet got; peer->receive({&got, 1}) != 0;) frames.emplace_back(got.head.bytes().begin(), got.head.bytes().end());
        return frames;
    }
    virtual_clock clock;
    reactor loop{{.clock = &clock}};
    sim_network net;
    std::unique_ptr<sim_port> nic = net.make_port(mac_address(2, 0, 0, 0, 0, 1)), peer = net.make_port(mac_address(2, 0, 0, 0, 0, 2));
    std::unique_ptr<network_stack> stack;
};

bool is_reply(const std::vector<std::byte>& frame, std::size_t at) {
    return frame.size() >= at + 2 + wire::arp_packet::size && load_be16(frame.data() + at) == 0x0806 &&
           load_be16(frame.data() + at + 8) == 2;
}

} // namespace

BOOST_AUTO_TEST_SUITE(stack_vlan)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, vlan_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_CASE(in_a_vlan_only_its_frames_are_answered_and_the_answers_carry_its_tag) {
    alone w(7);
    const auto replies = w.asked({0x81, 0x00, 0x00, 0x07});
    BOOST_REQUIRE(replies.size() == 1u);
    BOOST_TEST(load_be32(replies[0].data() + 12) == 0x8100'0007u); // PCP 0
    BOOST_TEST(is_reply(replies[0], 16));
    BOOST_TEST(w.asked({}).empty());
    BOOST_TEST(w.asked({0x81, 0x00, 0x20, 0x00}).empty());
    BOOST_TEST(w.asked({0x81, 0x00, 0x00, 0x08}).empty());
    BOOST_TEST(w.asked({0x81, 0x00, 0x00, 0x07, 0x81, 0x00, 0x00, 0x07}).empty());
    BOOST_REQUIRE(w.stack->vlan() != nullptr);
    BOOST_TEST(w.stack->vlan()->counts().untagged == 2u);
    BOOST_TEST(w.stack->vlan()->counts().other_vlan == 1u);
    BOOST_TEST(w.stack->statistics().other_vlan == 1u); // the second tag
}

BOOST_AUTO_TEST_CASE(without_a_vlan_a_priority_tag_is_no_tag_and_other_tags_are_dropped) { // IEEE 802.1Q 6.9.1
    alone w(0);
    BOOST_TEST(w.stack->vlan() == nullptr);
    for (const auto& tag : {std::initializer_list<unsigned>{}, {0x81, 0x00, 0xe0, 0x00}}) {
        const auto replies = w.asked(tag);
        BOOST_REQUIRE(replies.size() == 1u);
        BOOST_TEST(is_reply(replies[0], 12));
    }
    BOOST_TEST(w.asked({0x81, 0x00, 0x00, 0x07}).empty());
    BOOST_TEST(w.asked({0x81, 0x00, 0x00, 0x00, 0x81, 0x00, 0x00, 0x00}).empty());
    BOOST_TEST(w.stack->statistics().other_vlan == 2u);
    BOOST_TEST(w.stack->statistics().received == 4u);
}

BOOST_AUTO_TEST_CASE(a_number_that_names_no_vlan_makes_no_stack) {
    BOOST_CHECK_THROW(alone(4095), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
