// Two shards with one address, and one card that brings all to the first: both learn from ARP, one answers.
#include "two_shards.hh"

#include <corewire/net/wire/arp.hh>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

struct asked : two_shards_link {
    const mac_address asker_mac{2, 0, 0, 0, 0, 9};
    const ipv4 asker{10, 0, 0, 9};

    /// From `asker`, to the card of `to`.
    void say(port& to, const wire::arp_packet& arp) {
        packet p;
        p.head = to.pool().allocate_buffer();
        wire::ethernet_header{.destination = mac_address::broadcast(), .source = asker_mac, .type = wire::ether_type::arp}.emit(
            {p.head.append(14), 14});
        arp.emit({p.head.append(wire::arp_packet::size), wire::arp_packet::size});
        to.transmit({&p, 1});
        pass(2ms);
    }
    static unsigned answers(port& at) {
        unsigned n = 0;
        for (packet got; at.receive({&got, 1}) != 0; got = {}) {
            wire::arp_view arp;
            const byte_span frame = got.head.bytes();
            if (load_be16(frame.data() + 12) != 0x0806) continue;
            BOOST_REQUIRE((wire::arp_view::parse(frame.subspan(14), arp) == wire::parse_error::none));
            n += wire::arp_packet::from(arp).operation == wire::arp_operation::reply;
        }
        return n;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(steered_arp)

BOOST_FIXTURE_TEST_CASE(a_question_is_answered_once_and_every_shard_knows_the_asker, asked) {
    for (port* const at : std::initializer_list<port*>{end.get(), other_end.get()}) {
        say(*at, wire::arp_packet::request(asker_mac, asker, us4));
        BOOST_TEST(answers(*end) + answers(*other_end) == 1u);
        for (unsigned n : {0u, 1u}) {
            const neighbor* const known = shard(n).ip().neighbors().find(asker);
            BOOST_REQUIRE(known != nullptr);
            BOOST_TEST((known->mac() == asker_mac));
            shard(n).ip().neighbors().remove(asker);
        }
    }
}

BOOST_FIXTURE_TEST_CASE(a_conflict_is_counted_once, asked) {
    say(*end, wire::arp_packet::announcement(asker_mac, us4));
    std::uint64_t counted = 0;
    for (unsigned n : {0u, 1u}) counted += shard(n).ip().neighbors().claim().conflicts();
    BOOST_TEST(counted == 1u);
}

BOOST_FIXTURE_TEST_CASE(discovery_that_is_not_valid_costs_no_other_shard_anything, asked) { // RFC 4861 7.1
    const auto ns = message(wire::neighbor_solicitation{us, end->mac()}, peer, us);
    for (int i = 0; i < 100; ++i) send(ns, peer, us, wire::ip_protocol::icmpv6, 57); // from beyond the link
    const auto short_one = icmp({wire::icmpv6_type::neighbor_solicitation, 0, 0}, peer, us);
    send(short_one, peer, us, wire::ip_protocol::icmpv6, 255);
    BOOST_TEST(stack->statistics().ipv6_discovery_invalid == 101u);
    BOOST_TEST(other->statistics().ipv6_discovery_invalid == 0u);
    const ipv6 router = a6("fe80::99"), far = a6("2001:db8:ffff::1");
    bytes advertised(wire::router_advertisement::fixed_size); // nobody here follows routers
    wire::router_advertisement{.lifetime = 1800}.emit(advertised, router, ipv6::all_nodes());
    const std::uint64_t before = other->statistics().received;
    for (int i = 0; i < 100; ++i) send(advertised, router, ipv6::all_nodes(), wire::ip_protocol::icmpv6, 255);
    const auto redirect = message(wire::neighbor_redirect{router, far, std::nullopt}, router, us);
    for (int i = 0; i < 100; ++i) send(redirect, router, us, wire::ip_protocol::icmpv6, 255);
    BOOST_TEST(stack->statistics().redirects_refused == 100u);
    BOOST_TEST(other->statistics().redirects_refused == 0u); // they are of no first hop
    BOOST_TEST(other->statistics().received == before);
    const ipv6 third = a6("2001:db8::3");
    send(message(wire::neighbor_advertisement{false, false, true, third, asker_mac}, third, us), third, us, wire::ip_protocol::icmpv6, 255);
    pass(2ms);
    for (unsigned n : {0u, 1u}) BOOST_TEST(shard(n).ip().six()->neighbors().statistics().ignored_unsolicited == 1u); // it is for both
}

BOOST_AUTO_TEST_SUITE_END()
