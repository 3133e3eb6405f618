// IPv6 in a VLAN: the socket suite between two hosts of VLAN 7; neighbour discovery, duplicates and router advertisements behind a tag.
#include "ipv6_link.hh"
#include "stack_world_over_ipv6.hh"

#include <corewire/net/port/wrap/vlan_port.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::icmpv6_type;
using wire::ip_protocol;

namespace {

stack_config in_vlan(bool autoconfigure = false) {
    stack_config config;
    config.vlan = 7;
    config.ipv6.emplace().duplicate_probes = 0;
    config.ipv6->autoconfigure = autoconfigure;
    config.ipv6->secret = siphash_key{1, 2};
    return config;
}

struct tagged_world : stack_world_over_ipv6 {
    tagged_world() : stack_world_over_ipv6({.vouch_for_checksums = false}, in_vlan()) {}
};

/// A stack of VLAN 7; what the test says and hears at the other end of the cable is of VLAN `peers`.
struct tagged_link : ipv6_link {
    explicit tagged_link(std::uint16_t peers = 7, unsigned probes = 0, bool autoconfigure = false)
        : ipv6_link(probes, in_vlan(autoconfigure), peers) {}
    const ipv6 router = a6("fe80::99"), prefix = a6("2001:db8:1::");

    void ask_who_has_us() {
        send(message(wire::neighbor_solicitation{us, end->mac()}, peer, our_group), peer, our_group, ip_protocol::icmpv6, 255);
    }
    /// A router, and a prefix for addresses of one's own making (RFC 4861 4.2, 4.6.2).
    void advertise() {
        bytes options(32);
        options[0] = std::byte{3};
        options[1] = std::byte{4};
        options[2] = std::byte{64};
        options[3] = std::byte{0xc0};
        store_be32(options.data() + 4, 86'400);
        store_be32(options.data() + 8, 14'400);
        prefix.store(options.data() + 16);
        wire::router_advertisement how;
        how.lifetime = 1800;
        how.options = options;
        bytes out(16 + options.size());
        how.emit(out, router, ipv6::all_nodes());
        send(out, router, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
    }
    std::vector<ipv6> made() {
        std::vector<ipv6> out;
        for (const own_ipv6_address& a : stack->ip().six()->addresses().all())
            if (a.origin == ipv6_address_origin::autoconfigured) out.push_back(a.address);
        return out;
    }
    /// Messages of this type that have come since the last call.
    unsigned heard_of(icmpv6_type type) {
        unsigned n = 0;
        for (const bytes& packet : heard())
            n += view(packet).next_header() == ip_protocol::icmpv6 && icmp_of(packet).type() == type;
        return n;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_vlan)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, tagged_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_CASE(neighbours_are_answered_in_their_vlan_and_in_no_other) { // RFC 4861 7.2.4
    for (const std::uint16_t peers : {7, 8, 0}) {
        tagged_link w(peers);
        w.ask_who_has_us();
        BOOST_TEST(w.heard_of(icmpv6_type::neighbor_advertisement) == (peers == 7 ? 1u : 0u));
        BOOST_REQUIRE(w.stack->vlan() != nullptr);
        BOOST_TEST(w.stack->vlan()->counts().other_vlan == (peers == 8 ? 1u : 0u));
        BOOST_TEST(w.stack->vlan()->counts().untagged == (peers == 0 ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(what_a_stack_in_a_vlan_says_by_itself_carries_its_tag) { // IEEE 802.1Q 9.3; RFC 4862 5.4.2, RFC 4861 6.3.7, RFC 3810 5
    tagged_link w(0, 1, true); // a port that leaves tags in
    w.frames();
    unsigned frames = 0;
    w.pass(6s);
    for (const auto& f : w.frames()) {
        BOOST_REQUIRE(f.size() > 18u);
        BOOST_TEST(load_be32(f.data() + 12) == 0x8100'0007u); // PCP 0
        frames += load_be16(f.data() + 16) == 0x86dd;
    }
    BOOST_TEST(frames >= 2u);
}

BOOST_AUTO_TEST_CASE(a_router_of_the_vlan_is_heeded_and_none_of_another) { // RFC 4862 5.5.3
    for (const std::uint16_t peers : {7, 8, 0}) {
        tagged_link w(peers, 0, true);
        w.pass(2s);
        BOOST_TEST((w.heard_of(icmpv6_type::router_solicitation) != 0) == (peers == 7));
        w.advertise();
        const std::vector<ipv6> made = w.made();
        BOOST_REQUIRE(made.size() == (peers == 7 ? 1u : 0u));
        const ipv6 beyond = w.a6("2001:db8:2::1");
        BOOST_TEST((w.stack->ip().six()->route(beyond).kind == hop_kind::unicast) == (peers == 7));
        if (peers != 7) continue;
        BOOST_TEST(ipv6_prefix(w.prefix, 64).contains(made[0]));
        BOOST_TEST((w.stack->ip().six()->route(beyond).address == w.router));
    }
}

BOOST_AUTO_TEST_CASE(a_duplicate_in_the_vlan_counts_and_one_in_another_does_not) { // RFC 4862 5.4
    for (const std::uint16_t peers : {7, 8, 0}) {
        tagged_link w(peers, 1);
        const wire::neighbor_advertisement answer{false, false, true, w.us, w.end->mac()};
        w.send(tagged_link::message(answer, w.us, ipv6::all_nodes()), w.us, ipv6::all_nodes(), ip_protocol::icmpv6, 255);
        w.pass(3s);
        BOOST_TEST(w.stack->ip().six()->addresses().is_ours(w.us) == (peers != 7));
    }
}

BOOST_AUTO_TEST_SUITE_END()
