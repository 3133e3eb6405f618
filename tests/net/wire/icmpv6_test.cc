// ICMPv6 and neighbour discovery.
#include "support.hh"

#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv6.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {

/// A captured frame, taken apart.
struct captured {
    explicit captured(std::string_view frame) : packet(packet_of(frame)) {
        BOOST_REQUIRE(ipv6_view::parse(packet, ip) == parse_error::none);
        BOOST_REQUIRE((ip.next_header() == ip_protocol::icmpv6));
        BOOST_REQUIRE(icmpv6_view::parse(ip.payload(), icmp) == parse_error::none);
        BOOST_TEST(icmp.checksum_ok(ip.source(), ip.destination()));
    }
    byte_vector packet;
    ipv6_view ip;
    icmpv6_view icmp;
};

/// What `message` emits between the captured addresses.
template <typename Message>
std::string written(const Message& message, const captured& c) {
    byte_vector out(100);
    out.resize(message.emit(out, c.ip.source(), c.ip.destination()));
    return to_hex(out);
}

/// An ICMPv6 message of these bytes.
icmpv6_view view_of(const byte_vector& bytes) {
    icmpv6_view v;
    BOOST_REQUIRE(icmpv6_view::parse(bytes, v) == parse_error::none);
    return v;
}

} // namespace

BOOST_AUTO_TEST_SUITE(icmpv6)

BOOST_AUTO_TEST_CASE(a_neighbor_solicitation_of_a_kernel) {
    const captured c(kernel::neighbor_solicitation);
    neighbor_solicitation m;
    BOOST_REQUIRE(neighbor_solicitation::parse(c.icmp, m) == parse_error::none);
    BOOST_TEST(m.target == *ipv6_address::parse("fd00::2"));
    BOOST_REQUIRE(m.source_mac.has_value());
    BOOST_TEST(*m.source_mac == mac_address(0x02000000000a));
    BOOST_TEST(c.ip.destination() == m.target.solicited_node());
    BOOST_TEST(written(m, c) == to_hex(c.ip.payload()));
}

BOOST_AUTO_TEST_CASE(a_neighbor_advertisement_of_a_kernel) {
    const captured c(kernel::neighbor_advertisement);
    neighbor_advertisement m;
    BOOST_REQUIRE(neighbor_advertisement::parse(c.icmp, m) == parse_error::none);
    BOOST_TEST(!m.router);
    BOOST_TEST(m.solicited);
    BOOST_TEST(m.override);
    BOOST_TEST(m.target == *ipv6_address::parse("fd00::2"));
    BOOST_REQUIRE(m.target_mac.has_value());
    BOOST_TEST(*m.target_mac == mac_address(0x02000000000b));
    BOOST_TEST(written(m, c) == to_hex(c.ip.payload()));
}

BOOST_AUTO_TEST_CASE(a_router_solicitation_of_a_kernel) {
    const captured c(kernel::router_solicitation);
    router_solicitation m;
    BOOST_REQUIRE(router_solicitation::parse(c.icmp, m) == parse_error::none);
    BOOST_REQUIRE(m.source_mac.has_value());
    BOOST_TEST(*m.source_mac == mac_address(0x02000000000a));
    BOOST_TEST(written(m, c) == to_hex(c.ip.payload()));
    BOOST_TEST(written(router_solicitation{}, c).size() == 16u);
}

BOOST_AUTO_TEST_CASE(a_port_unreachable_of_a_kernel) {
    const captured c(kernel::icmpv6_port_unreachable);
    BOOST_TEST((c.icmp.type() == icmpv6_type::unreachable));
    BOOST_TEST(c.icmp.code() == 4);
    BOOST_TEST(c.icmp.is_error());
    ipv6_view quoted;
    BOOST_REQUIRE(ipv6_view::parse_quoted(c.icmp.payload(), quoted) == parse_error::none);
    BOOST_TEST(quoted.destination() == *ipv6_address::parse("fd00::2"));
    byte_vector out(c.ip.payload().size());
    icmpv6_header::from(c.icmp).emit(out, c.ip.source(), c.ip.destination(), c.icmp.payload());
    BOOST_TEST(to_hex(out) == to_hex(c.ip.payload()));
}

BOOST_AUTO_TEST_CASE(a_router_advertisement_goes_both_ways) {
    const captured c(kernel::router_solicitation);
    // Prefix 2001:db8::/64, and an MTU of 1400.
    const byte_vector options = hex("03 04 40 c0 00015180 00003840 00000000 20010db8000000000000000000000000"
                                    "05 01 0000 00000578");
    router_advertisement m;
    m.hop_limit = 64;
    m.other = true;
    m.lifetime = 1800;
    m.reachable_time = 30000;
    m.retransmit_time = 1000;
    m.options = options;
    byte_vector bytes(100);
    bytes.resize(m.emit(bytes, c.ip.source(), c.ip.destination()));
    BOOST_TEST(bytes.size() == 16 + options.size());
    const icmpv6_view v = view_of(bytes);
    BOOST_TEST(v.checksum_ok(c.ip.source(), c.ip.destination()));
    router_advertisement again;
    BOOST_REQUIRE(router_advertisement::parse(v, again) == parse_error::none);
    BOOST_TEST(again.hop_limit == 64);
    BOOST_TEST(!again.managed);
    BOOST_TEST(again.other);
    BOOST_TEST(again.lifetime == 1800);
    BOOST_TEST(again.reachable_time == 30000u);
    BOOST_TEST(again.retransmit_time == 1000u);
    BOOST_TEST(to_hex(again.options) == to_hex(options));
    nd_option_cursor cursor(again.options);
    nd_option option;
    BOOST_REQUIRE(cursor.next(option));
    BOOST_TEST((option.type == nd_option_type::prefix_information));
    BOOST_TEST(option.data.size() == 30u);
    BOOST_REQUIRE(cursor.next(option));
    BOOST_TEST((option.type == nd_option_type::mtu));
    BOOST_TEST(!cursor.next(option));
    BOOST_TEST(cursor.error() == parse_error::none);
}

BOOST_AUTO_TEST_CASE(a_router_says_what_it_is_worth_beside_others) { // RFC 4191 2.1, 2.2
    const ipv6_address from = *ipv6_address::parse("fe80::1"), to = ipv6_address::all_nodes();
    using enum router_preference;
    for (const auto& [preference, flags] : {std::pair{low, 0x18u}, {medium, 0u}, {high, 8u}}) {
        byte_vector bytes(router_advertisement::fixed_size);
        router_advertisement{.preference = preference, .lifetime = 1800}.emit(bytes, from, to);
        BOOST_TEST((bytes[5] == static_cast<std::byte>(flags)));
        router_advertisement again;
        BOOST_REQUIRE(router_advertisement::parse(view_of(bytes), again) == parse_error::none);
        BOOST_TEST((again.preference == preference));
        bytes[5] = std::byte{0x10}; // reserved
        BOOST_REQUIRE(router_advertisement::parse(view_of(bytes), again) == parse_error::none);
        BOOST_TEST((again.preference == medium));
    }
}

BOOST_AUTO_TEST_CASE(hostile_solicitations_are_refused) {
    struct row {
        const char* what;
        const char* bytes;
        parse_error expected;
    };
    static constexpr row table[] = {
        {"no target", "8700000000000000", parse_error::truncated},
        {"a target cut by one byte", "8700000000000000 fd0000000000000000000000000000", parse_error::truncated},
        {"code 1", "8701000000000000 fd000000000000000000000000000002", parse_error::bad_value},
        {"a multicast target", "8700000000000000 ff020000000000000000000000000001", parse_error::bad_value},
        {"another type", "8800000000000000 fd000000000000000000000000000002", parse_error::unsupported},
        {"an option of length 0", "8700000000000000 fd000000000000000000000000000002 0100000000000000",
         parse_error::bad_option},
        {"an option beyond the message", "8700000000000000 fd000000000000000000000000000002 0102000000000000",
         parse_error::bad_option},
        {"half an option", "8700000000000000 fd000000000000000000000000000002 01010000", parse_error::bad_option},
        {"one byte of an option", "8700000000000000 fd000000000000000000000000000002 01", parse_error::bad_option},
        {"no option", "8700000000000000 fd000000000000000000000000000002", parse_error::none},
        {"an unknown option (a nonce)", "8700000000000000 fd000000000000000000000000000002 0e01d2ff137c21ac",
         parse_error::none},
    };
    for (const row& r : table) {
        const byte_vector bytes = hex(r.bytes);
        neighbor_solicitation m;
        BOOST_TEST(neighbor_solicitation::parse(view_of(bytes), m) == r.expected, r.what);
        BOOST_TEST(!m.source_mac.has_value(), r.what);
    }
}

BOOST_AUTO_TEST_CASE(hostile_advertisements_are_refused) { // RFC 4861 7.1.2
    struct row {
        const char* what;
        const char* bytes;
        parse_error expected;
    };
    static constexpr row table[] = {
        {"no target", "8800000000000000", parse_error::truncated},
        {"a target cut by one byte", "8800000000000000 fd0000000000000000000000000000", parse_error::truncated},
        {"code 1", "8801000000000000 fd000000000000000000000000000002", parse_error::bad_value},
        {"a multicast target", "8800000000000000 ff020000000000000000000000000001", parse_error::bad_value},
        {"another type", "8700000000000000 fd000000000000000000000000000002", parse_error::unsupported},
        {"an option of length 0", "8800000000000000 fd000000000000000000000000000002 0200000000000000",
         parse_error::bad_option},
        {"an option beyond the message", "8800000000000000 fd000000000000000000000000000002 0202000000000000",
         parse_error::bad_option},
        {"no option", "8800000000000000 fd000000000000000000000000000002", parse_error::none},
        {"the sender's link-layer address, not the target's", "8800000000000000 fd000000000000000000000000000002 0101020000000001",
         parse_error::none},
    };
    for (const row& r : table) {
        const byte_vector bytes = hex(r.bytes);
        neighbor_advertisement m;
        BOOST_TEST(neighbor_advertisement::parse(view_of(bytes), m) == r.expected, r.what);
        BOOST_TEST(!m.target_mac.has_value(), r.what);
    }
}

BOOST_AUTO_TEST_CASE(a_short_message_is_truncated) {
    for (std::size_t size = 0; size < 8; ++size) {
        icmpv6_view v;
        BOOST_TEST(icmpv6_view::parse(byte_vector(size), v) == parse_error::truncated);
    }
}

BOOST_AUTO_TEST_CASE(random_messages_go_both_ways_and_damage_is_found) {
    corewire::random_generator random(test_seed());
    const ipv6_address a = *ipv6_address::parse("2001:db8::1");
    const ipv6_address b = *ipv6_address::parse("2001:db8::2");
    for (int i = 0; i < 2000; ++i) {
        const icmpv6_header h{static_cast<icmpv6_type>(any<std::uint8_t>(random)), any<std::uint8_t>(random),
                              any<std::uint32_t>(random)};
        const byte_vector payload = random_payload(random, random.below(100));
        byte_vector bytes(8 + payload.size());
        BOOST_REQUIRE(h.emit(bytes, a, b, payload) == bytes.size());
        const icmpv6_view v = view_of(bytes);
        BOOST_REQUIRE(icmpv6_header::from(v) == h);
        BOOST_REQUIRE(v.checksum_ok(a, b));
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
        BOOST_REQUIRE(!v.checksum_ok(a, b));
    }
    for (int i = 0; i < 1000; ++i) {
        neighbor_advertisement m{random.chance(0.5),
                                 random.chance(0.5),
                                 random.chance(0.5),
                                 ipv6_address::load(random_payload(random, 16).data()),
                                 {}};
        if (m.target.is_multicast()) continue;
        if (random.chance(0.5)) m.target_mac = mac_address(random.next());
        byte_vector bytes(m.target_mac ? 32 : 24);
        BOOST_REQUIRE(m.emit(bytes, a, b) == bytes.size());
        neighbor_advertisement again;
        BOOST_REQUIRE(neighbor_advertisement::parse(view_of(bytes), again) == parse_error::none);
        BOOST_REQUIRE(again == m);
    }
}

BOOST_AUTO_TEST_SUITE_END()
