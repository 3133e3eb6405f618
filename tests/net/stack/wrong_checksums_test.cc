// What a stack says about hosts whose SYNs all have wrong checksums, and that it says nothing about a few damaged ones.
#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ipv4.hh>

#include "tests/reactor/log/log_fixture.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;

namespace {

constexpr ipv4 ours{10, 0, 0, 1}, alice{10, 0, 0, 2}, bob{10, 0, 0, 3};

/// A stack at one end of a cable, and a log of what it says.
struct listening_stack {
    listening_stack() {
        net.connect(*nic, *peer);
        stack_config config;
        config.address = ip_prefix(ours, 24);
        config.seed = 1;
        config.announce = false;
        stack = std::make_unique<network_stack>(*log.loops.front(), std::move(nic), config);
    }
    void syn(ipv4 from, bool good) {
        constexpr std::uint32_t ip_at = 14, tcp_at = 34, size = 54;
        packet p;
        p.head = peer->pool().allocate_buffer();
        std::byte* at = p.head.append(size);
        std::memset(at, 0, size);
        mac_address(2, 0, 0, 0, 0, 1).store(at);
        peer->mac().store(at + 6);
        store_be16(at + 12, 0x0800);
        wire::ipv4_header{.total_length = 40, .protocol = wire::ip_protocol::tcp, .source = from, .destination = ours}
            .emit({at + ip_at, 20});
        store_be16(at + tcp_at, next_port++);
        store_be16(at + tcp_at + 2, 7);
        store_be16(at + tcp_at + 12, 0x5002); // 20 bytes, SYN
        const std::uint16_t sum = wire::pseudo_header_sum(from, ours, wire::ip_protocol::tcp, 20).add({at + tcp_at, 20}).checksum();
        store_be16(at + tcp_at + 16, static_cast<std::uint16_t>(good ? sum : sum ^ 0x0101));
        peer->transmit({&p, 1});
        net.advance_to(net.now() + std::chrono::milliseconds{1});
        log.pass(std::chrono::milliseconds{1});
        reactor::scope here(*log.loops.front());
        log.loops.front()->poll_once();
    }
    std::size_t said() {
        std::size_t n = 0;
        for (const std::string& line : log.messages()) n += line.find("checksum of every SYN") != std::string::npos ? 1 : 0;
        return n;
    }
    kept_log log;
    sim_network net;
    std::uint16_t next_port = 40'000;
    std::unique_ptr<sim_port> nic = net.make_port(mac_address(2, 0, 0, 0, 0, 1)), peer = net.make_port(mac_address(2, 0, 0, 0, 0, 2));
    std::unique_ptr<network_stack> stack;
};

} // namespace

BOOST_AUTO_TEST_SUITE(wrong_checksums)

BOOST_AUTO_TEST_CASE(a_host_whose_syns_are_all_wrong_is_named_once) {
    listening_stack s;
    for (int i = 0; i < 2; ++i) s.syn(alice, false);
    BOOST_TEST(s.said() == 0u);
    s.syn(alice, false);
    BOOST_TEST(s.said() == 1u);
    for (int i = 0; i < 20; ++i) s.syn(alice, false);
    BOOST_TEST(s.said() == 0u);
    BOOST_TEST(s.stack->statistics().bad_tcp_checksum == 23u);
}

BOOST_AUTO_TEST_CASE(a_few_damaged_ones_among_good_ones_are_counted_and_not_talked_about) { // RFC 9293 MUST-3
    listening_stack s;
    for (int i = 0; i < 30; ++i) {
        s.syn(alice, false);
        s.syn(alice, false);
        s.syn(alice, true);
    }
    BOOST_TEST(s.stack->statistics().bad_tcp_checksum == 60u);
    for (int i = 0; i < 30; ++i) { // one from each of two hosts
        s.syn(alice, false);
        s.syn(bob, false);
    }
    BOOST_TEST(s.said() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
