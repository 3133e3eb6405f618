// Extension headers of IPv6: the walk, what it refuses and how, its bounds.
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/net/wire/net_address.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using namespace corewire::wire;
using verdict = ipv6_chain_verdict;

namespace {

using bytes = std::vector<std::uint8_t>;

/// Each header: its kind and its bytes from the second on; its next-header octet is filled in. Ends in TCP.
struct piece {
    std::uint8_t kind;
    bytes rest;
};
bytes packet(const std::vector<piece>& pieces, std::uint8_t last = 6) {
    bytes p(40, 0);
    p[0] = 0x60;
    std::size_t named = 6;
    for (const piece& each : pieces) {
        p[named] = each.kind;
        named = p.size();
        p.push_back(0);
        p.insert(p.end(), each.rest.begin(), each.rest.end());
    }
    p[named] = last;
    p.resize(p.size() + 20, 0); // what is carried
    p[4] = static_cast<std::uint8_t>((p.size() - 40) >> 8);
    p[5] = static_cast<std::uint8_t>(p.size() - 40);
    return p;
}
ipv6_chain walk(const bytes& p) { return walk_extensions(std::as_bytes(std::span(p))); }
constexpr std::uint8_t hop_by_hop = 0, routing = 43, fragment = 44, destination = 60;
const bytes padding{0, 1, 4, 0, 0, 0, 0}; ///< an options header of 8 bytes: PadN

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_extensions)

BOOST_AUTO_TEST_CASE(a_packet_without_any_starts_behind_its_header) {
    const ipv6_chain c = walk(packet({}));
    BOOST_TEST((c.verdict == verdict::good && c.protocol == ip_protocol::tcp));
    BOOST_TEST(c.offset == 40u);
    BOOST_TEST(c.named_at == 6u);
    BOOST_TEST(!c.fragment);
}

BOOST_AUTO_TEST_CASE(options_and_finished_routes_are_skipped) { // RFC 8200 4.2, 4.3, 4.4, 4.6
    const ipv6_chain c = walk(packet({{hop_by_hop, {0, 5, 2, 0, 0, 1, 0}}, {destination, padding}, {routing, {0, 4, 0, 0, 0, 0, 0}}}, 17));
    BOOST_TEST((c.verdict == verdict::good && c.protocol == ip_protocol::udp));
    BOOST_TEST(c.offset == 64u);
    BOOST_TEST(c.named_at == 56u);
}

BOOST_AUTO_TEST_CASE(unknown_options_say_what_becomes_of_the_packet) { // RFC 8200 4.2
    const auto with = [](std::uint8_t type) { return walk(packet({{destination, {0, type, 4, 0, 0, 0, 0}}})); };
    BOOST_TEST((with(0x1e).verdict == verdict::good));
    BOOST_TEST((with(0x5e).verdict == verdict::refused));
    for (const std::uint8_t type : {std::uint8_t{0x9e}, std::uint8_t{0xde}}) {
        const ipv6_chain c = with(type);
        BOOST_TEST((c.verdict == verdict::problem));
        BOOST_TEST(c.problem_code == 2);
        BOOST_TEST(c.problem_at == 42u);
        BOOST_TEST(c.problem_told_to_group == (type == 0x9e));
    }
}

BOOST_AUTO_TEST_CASE(hop_by_hop_options_stand_first_or_are_a_problem) { // RFC 8200 4.1
    const ipv6_chain c = walk(packet({{destination, padding}, {hop_by_hop, padding}}));
    BOOST_TEST((c.verdict == verdict::problem));
    BOOST_TEST(c.problem_code == 1);
    BOOST_TEST(c.problem_at == 40u);
}

BOOST_AUTO_TEST_CASE(a_route_that_goes_on_is_a_problem) { // RFC 8200 4.4, RFC 5095
    for (const std::uint8_t type : {std::uint8_t{0}, std::uint8_t{4}, std::uint8_t{99}}) {
        const ipv6_chain c = walk(packet({{routing, {0, type, 1, 0, 0, 0, 0}}}));
        BOOST_TEST((c.verdict == verdict::problem));
        BOOST_TEST(c.problem_code == 0);
        BOOST_TEST(c.problem_at == 42u);
    }
}

BOOST_AUTO_TEST_CASE(a_fragment_is_told_and_one_that_is_all_is_none) { // RFC 8200 4.5, RFC 6946
    const ipv6_chain whole = walk(packet({{fragment, {0, 0, 0, 1, 2, 3, 4}}}));
    BOOST_TEST((whole.verdict == verdict::good && whole.protocol == ip_protocol::tcp && !whole.fragment));
    BOOST_TEST(whole.offset == 48u);
    const ipv6_chain part = walk(packet({{destination, padding}, {fragment, {0, 0x05, 0xa9, 1, 2, 3, 4}}, {destination, padding}}));
    BOOST_TEST((part.verdict == verdict::good && part.fragment && part.more_fragments));
    BOOST_TEST((part.protocol == ip_protocol::ipv6_destination)); // nothing behind it is looked at
    BOOST_TEST(part.fragment_offset == 0x05a8);
    BOOST_TEST(part.identification == 0x01020304u);
    BOOST_TEST(part.fragment_at == 48u);
    BOOST_TEST(part.fragment_named_at == 40u);
}

BOOST_AUTO_TEST_CASE(the_upper_layer_is_found_whatever_is_wrong_with_the_headers_before_it) {
    const bytes unknown{0, 0xc1, 4, 0, 0, 0, 0}, goes_on{0, 0, 1, 0, 0, 0, 0};
    const bytes all = packet({{destination, unknown}, {routing, goes_on}, {hop_by_hop, padding}, {fragment, {0, 0, 1, 1, 2, 3, 4}}});
    const auto carried = find_upper_layer(std::as_bytes(std::span(all)));
    BOOST_REQUIRE(carried.has_value());
    BOOST_TEST((carried->protocol == ip_protocol::tcp && carried->offset == 72u));
    for (std::size_t size = 40; size < 72; size += 8) // the header that begins there names the next
        BOOST_TEST(!find_upper_layer(std::as_bytes(std::span(all)).first(size)).has_value());
    const bytes later = packet({{fragment, {0, 0x05, 0xa9, 1, 2, 3, 4}}});
    const bytes hidden = packet({{fragment, {0, 0x05, 0xa9, 1, 2, 3, 4}}, {destination, padding}});
    const auto of_later = find_upper_layer(std::as_bytes(std::span(later)));
    BOOST_REQUIRE(of_later.has_value());
    BOOST_TEST((of_later->protocol == ip_protocol::tcp && of_later->offset == later.size()));
    BOOST_TEST(!find_upper_layer(std::as_bytes(std::span(hidden))).has_value());
}

BOOST_AUTO_TEST_CASE(headers_and_options_are_bounded) {
    BOOST_TEST((walk(packet(std::vector<piece>(8, {destination, padding}))).verdict == verdict::good));
    BOOST_TEST((walk(packet(std::vector<piece>(9, {destination, padding}))).verdict == verdict::too_long));
    bytes long_one(7 + 31 * 8, 0);
    long_one[0] = 31;
    BOOST_TEST((walk(packet({{destination, long_one}})).verdict == verdict::good)); // 256 bytes
    BOOST_TEST((walk(packet({{destination, long_one}, {destination, padding}})).verdict == verdict::too_long));
    bytes many{2};
    for (int i = 0; i < 11; ++i) many.insert(many.end(), {0x1e, 0});
    BOOST_TEST((walk(packet({{destination, many}})).verdict == verdict::too_long));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_malformed) {
    BOOST_TEST((walk(packet({{destination, {0, 0x1e, 5, 0, 0, 0, 0}}})).verdict == verdict::malformed)); // beyond its header
    BOOST_TEST((walk(packet({{destination, {0, 0, 0, 0, 0, 0, 0x1e}}})).verdict == verdict::malformed)); // no length octet
    const bytes good = packet({{hop_by_hop, padding}, {destination, padding}, {fragment, {0, 0, 1, 1, 2, 3, 4}}});
    for (std::size_t size = 40; size < 64; ++size) { // every truncation inside the headers
        const bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        BOOST_TEST((walk(cut).verdict == verdict::malformed));
    }
}

BOOST_AUTO_TEST_CASE(prefixes_are_read_and_compared_by_bits) {
    const auto p = ipv6_prefix::parse("2001:db8::1/64");
    BOOST_REQUIRE(p.has_value());
    BOOST_TEST(p->contains(*ipv6::parse("2001:db8::ffff:1")));
    BOOST_TEST(!p->contains(*ipv6::parse("2001:db8:0:1::1")));
    BOOST_TEST(to_string(ipv6_prefix(p->network(), p->length())) == "2001:db8::/64");
    BOOST_TEST(ipv6_prefix::parse("2001:db8:8000::/33")->contains(*ipv6::parse("2001:db8:ffff::")));
    BOOST_TEST(!ipv6_prefix::parse("2001:db8:8000::/33")->contains(*ipv6::parse("2001:db8:7fff::")));
    BOOST_TEST(ipv6_prefix::parse("::/0")->contains(*ipv6::parse("ff02::1")));
    BOOST_TEST(ipv6_prefix::common_prefix(*ipv6::parse("fe80::1"), *ipv6::parse("fe80::3")) == 126u);
    for (const char* bad : {"2001:db8::1", "2001:db8::1/", "2001:db8::1/129", "2001:db8::1/064", "10.0.0.1/8", "/64", "::/ 1", "::/-1"})
        BOOST_TEST(!ipv6_prefix::parse(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(both_families_fit_one_address) {
    const net_address four(ipv4(192, 0, 2, 1)), six(*ipv6::parse("2001:db8::1"));
    BOOST_TEST((four.is_v4() && four.v4() == ipv4(192, 0, 2, 1) && !six.is_v4() && six.v6() == *ipv6::parse("2001:db8::1")));
    BOOST_TEST(to_string(four) == "192.0.2.1");
    BOOST_TEST(to_string(six) == "2001:db8::1");
    BOOST_TEST((net_address(ipv6::any()).covers(four) && net_address(ipv6::any()).covers(six)));
    BOOST_TEST((net_address(ipv4::any()).covers(four) && !net_address(ipv4::any()).covers(six)));
    BOOST_TEST((four.covers(four) && !four.covers(six) && !six.covers(net_address(ipv6::any()))));
    // RFC 4291 appendix A
    BOOST_TEST(to_string(link_local_address(mac_address(0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde))) == "fe80::3656:78ff:fe9a:bcde");
}

BOOST_AUTO_TEST_SUITE_END()
