// Packets whose sources claim to be on the link and are not: what answers to them may cost the link, and who is known already.
#include "ipv6_link.hh"

using namespace corewire;
using namespace std::chrono_literals;
using wire::icmpv6_header;
using wire::icmpv6_type;
using wire::ip_protocol;

namespace {

const ipv6 gateway = ipv6_link::a6("fe80::9"), honest = ipv6_link::a6("2001:db8::abcd");
constexpr std::size_t share = neighbor_options{}.max_entries / 8;

stack_config with_a_gateway() {
    stack_config config;
    config.address = ip_prefix(ipv4(10, 0, 0, 1), 16);
    config.ipv6.emplace().gateway = gateway;
    return config;
}

struct crowded_link : ipv6_link {
    crowded_link() : ipv6_link(0, with_a_gateway()) {}

    /// What `from` claims to send, as quickly as the cable takes it.
    void offer(ipv6 from, ip_protocol protocol, const bytes& payload) {
        bytes b(40);
        wire::ipv6_header{.payload_length = static_cast<std::uint16_t>(payload.size()), .next_header = protocol, .hop_limit = 64,
                          .source = from, .destination = us}
            .emit(b);
        b.insert(b.end(), payload.begin(), payload.end());
        put(wire::ether_type::ipv6, b);
    }
    void ping(ipv6 from) { offer(from, ip_protocol::icmpv6, icmp(icmpv6_header::echo_request(7, 9), from, us)); }
    void syn(ipv6 from) {
        bytes b(20);
        store_be16(b.data(), 4000);
        store_be16(b.data() + 2, 80);
        b[12] = std::byte{0x50};
        b[13] = std::byte{2};
        store_be16(b.data() + 14, 1000);
        store_be16(b.data() + 16, wire::pseudo_header_sum(from, us, ip_protocol::tcp, 20).add(b).checksum());
        offer(from, ip_protocol::tcp, b);
    }
    void ping(ipv4 from) {
        bytes b(28);
        wire::ipv4_header{.total_length = 28, .protocol = ip_protocol::icmp, .source = from, .destination = ipv4(10, 0, 0, 1)}.emit(b);
        b[20] = std::byte{8};
        store_be16(b.data() + 22, wire::internet_checksum(byte_span(b).subspan(20)));
        put(wire::ether_type::ipv4, b);
    }
    void put(wire::ether_type type, const bytes& packet_bytes) {
        packet p;
        p.head = end->pool().allocate_buffer();
        BOOST_REQUIRE(p.head.underlying_frame() != nullptr);
        wire::ethernet_header{.destination = stack->device().mac(), .source = end->mac(), .type = type}.emit({p.head.append(14), 14});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(packet_bytes.size())), packet_bytes.data(), packet_bytes.size());
        BOOST_REQUIRE(end->transmit({&p, 1}) == 1);
    }
    neighbor_discovery& nd() { return stack->ip().six()->neighbors(); }
};

ipv6 invented(unsigned i) {
    auto octets = ipv6_link::a6("2001:db8::7:0:1").octets();
    octets[14] = static_cast<std::uint8_t>(i >> 8);
    octets[15] = static_cast<std::uint8_t>(i);
    return ipv6(octets);
}

} // namespace

BOOST_AUTO_TEST_SUITE(invented_neighbors)

BOOST_AUTO_TEST_CASE(a_flood_from_invented_addresses_asks_little_and_pushes_nobody_out) {
    for (const bool syns : {false, true}) {
        crowded_link w;
        auto listener = w.stack->listen(socket_address(w.us, 80), {});
        w.send(w.message(wire::neighbor_solicitation{w.us, w.end->mac()}, gateway, w.our_group), gateway, w.our_group, ip_protocol::icmpv6,
               255);
        w.ping(honest); // its reply waits for its MAC
        w.pass(1ms);
        w.heard();
        const std::uint64_t asked = w.nd().statistics().requests_sent;
        for (unsigned i = 0; i < 3000; ++i) {
            if (syns) w.syn(invented(i));
            else w.ping(invented(i));
            if (i % 16 == 15) w.pass(16us), w.frames();
        }
        w.pass(1ms);
        w.heard();
        BOOST_TEST(w.nd().statistics().requests_sent - asked <= share);
        BOOST_TEST(w.nd().statistics().strangers_refused >= 1000u);
        BOOST_TEST((w.nd().find(gateway) != nullptr));
        w.send(w.message(wire::neighbor_advertisement{false, true, true, honest, w.end->mac()}, honest, w.us), honest, w.us,
               ip_protocol::icmpv6, 255);
        const auto replies = w.heard();
        BOOST_TEST(std::ranges::count_if(replies, [&](const auto& p) { return w.view(p).destination() == honest; }) == 1);
        w.nd().check_invariants();
    }
}

BOOST_AUTO_TEST_CASE(an_invented_address_of_ipv4_is_asked_for_once_a_second) { // RFC 1122 2.3.2.1 (MUST)
    crowded_link w;
    std::size_t asked = 0, asked_of_one = 0;
    const auto listen = [&](duration d) {
        w.pass(d);
        for (const auto& f : w.frames()) {
            if (load_be16(f.data() + 12) != 0x806) continue;
            ++asked;
            asked_of_one += ipv4::load(f.data() + 38) == ipv4(10, 0, 1, 9);
        }
    };
    for (unsigned i = 0; i < 5 * 1100; ++i) {
        w.ping(ipv4(10, 0, static_cast<std::uint8_t>(1 + i % 1100 / 250), static_cast<std::uint8_t>(1 + i % 250)));
        if (i % 16 == 15) listen(100us);
    }
    listen(1ms);
    BOOST_TEST(asked == share);
    BOOST_TEST(asked_of_one == 1u);
    w.stack->ip().neighbors().check_invariants();
}

BOOST_AUTO_TEST_SUITE_END()
