// Neighbour discovery's link-layer options, there and back, and what strangers may put into them.
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/rdma/ud_link/discovery.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <vector>

using namespace corewire;

namespace {

const ipv6 from = *ipv6::parse("fe80::1"), to = *ipv6::parse("ff02::1:ff00:2"), wanted = *ipv6::parse("2001:db8::2");
const link_address us{0x11, mapped(ipv4(192, 0, 2, 1))}, them{0x22, mapped(ipv4(192, 0, 2, 2))};

/// A solicitation as a stack sends it: 72 bytes with its option.
std::vector<std::byte> solicitation(std::optional<mac_address> source) {
    std::vector<std::byte> ip(40 + 32);
    const wire::neighbor_solicitation ns{.target = wanted, .source_mac = source};
    const std::size_t size = ns.emit(std::span(ip).subspan(40), from, to);
    ip.resize(40 + size);
    const wire::ipv6_header header{.payload_length = static_cast<std::uint16_t>(size), .next_header = wire::ip_protocol::icmpv6,
                                   .hop_limit = 255, .source = from, .destination = to};
    header.emit(ip);
    return ip;
}

struct crossing {
    link_peers here, there;
    std::vector<std::byte> expanded(const std::vector<std::byte>& ip) {
        std::vector<std::byte> out(1000);
        out.resize(expand_discovery(ip, out, here, us.mac(), us));
        return out;
    }
    std::vector<std::byte> shrunk(std::vector<std::byte> ip) {
        ip.resize(shrink_discovery(ip, there, 0));
        return ip;
    }
};

void fix_checksum(std::vector<std::byte>& ip) {
    store_be16(ip.data() + 42, 0);
    const std::size_t size = ip.size() - 40;
    const auto sum = wire::pseudo_header_sum(from, to, wire::ip_protocol::icmpv6, size).add(std::span(ip).subspan(40));
    store_be16(ip.data() + 42, sum.checksum());
}

} // namespace

BOOST_AUTO_TEST_SUITE(discovery)

BOOST_AUTO_TEST_CASE(a_solicitation_crosses_with_a_link_address_and_arrives_as_it_was) {
    crossing c;
    const auto ip = solicitation(us.mac());
    BOOST_TEST(is_discovery(ip));
    const auto out = c.expanded(ip);
    BOOST_REQUIRE(out.size() == ip.size() + 16);
    BOOST_TEST(load_be16(out.data() + 4) == 48);
    BOOST_TEST(load_be32(out.data() + 64) == 0x0103'0000u); // source link layer, 24 bytes
    BOOST_TEST((link_address::load(out.data() + 68) == us));
    wire::icmpv6_view v;
    BOOST_TEST((wire::icmpv6_view::parse(std::span(out).subspan(40), v) == wire::parse_error::none));
    BOOST_TEST(v.checksum_ok(from, to));
    BOOST_TEST((c.shrunk(out) == ip));
    BOOST_TEST((c.there.find(us.mac())->address == us));
}

BOOST_AUTO_TEST_CASE(a_message_without_options_crosses_as_it_is) {
    crossing c;
    const auto ip = solicitation(std::nullopt);
    BOOST_TEST((c.expanded(ip) == ip));
    BOOST_TEST((c.shrunk(ip) == ip));
}

BOOST_AUTO_TEST_CASE(an_option_that_names_nobody_we_know_is_left_out) {
    crossing c;
    BOOST_TEST((c.expanded(solicitation(them.mac())) == solicitation(std::nullopt)));
    c.here.learn({them});
    const auto out = c.expanded(solicitation(them.mac()));
    BOOST_REQUIRE(out.size() == 88u);
    BOOST_TEST((link_address::load(out.data() + 68) == them));
}

BOOST_AUTO_TEST_CASE(a_host_that_can_be_none_is_not_believed) {
    crossing c;
    auto out = c.expanded(solicitation(us.mac()));
    link_address{link_address::group_pair, us.gid}.store(out.data() + 68);
    fix_checksum(out);
    BOOST_TEST((c.shrunk(out) == solicitation(std::nullopt)));
}

BOOST_AUTO_TEST_CASE(what_is_damaged_or_malformed_is_left_to_the_stack_and_teaches_nothing) {
    crossing c;
    const auto good = c.expanded(solicitation(us.mac()));
    auto damaged = good;
    damaged[70] ^= std::byte{1};
    BOOST_TEST((c.shrunk(damaged) == damaged));
    for (const std::uint8_t length : {0, 2, 4, 255}) {
        auto odd = good;
        odd[65] = std::byte{length};
        fix_checksum(odd);
        BOOST_TEST((c.shrunk(odd) == odd));
    }
    for (std::size_t size = 48; size < good.size(); ++size) {
        const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        BOOST_TEST((c.shrunk(cut) == cut));
    }
    BOOST_TEST(!c.there.find(us.mac()).has_value());
    std::array<std::byte, 80> small;
    BOOST_TEST(expand_discovery(solicitation(us.mac()), small, c.here, us.mac(), us) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
