// The bytes of DHCP: what is read of good ones, and that bad ones are refused.
#include "scripted_server.hh"

#include <memory>

using namespace corewire;
using namespace corewire::dhcp_test;
using type = dhcp_message_type;

namespace {

const dhcp_client_id id = dhcp_client_id::of(our_mac, 1);

dhcp_parse_error parse(const bytes& m, dhcp_reply& out) {
    const auto block = std::make_unique<std::byte[]>(m.size()); // AddressSanitizer sees a read too far
    std::ranges::copy(m, block.get());
    return parse_dhcp_reply({block.get(), m.size()}, our_mac, id, out);
}
dhcp_reply parsed(const std::vector<option>& options) {
    dhcp_reply out;
    const dhcp_parse_error error = parse(reply(type::ack, 5, given, options), out);
    BOOST_REQUIRE((error == dhcp_parse_error::none));
    return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(dhcp_message)

BOOST_AUTO_TEST_CASE(a_reply_is_read) {
    const dhcp_reply r = parsed({address(54, server_address), address(1, ipv4(255, 255, 254, 0)), word(51, 7), word(58, 3), word(59, 5),
                                 half(26, 1400), raw(6, {192, 0, 2, 53, 198, 51, 100, 53}), raw(15, {'e', 'x', '.', 'o', 'r', 'g', 0})});
    BOOST_TEST((r.type == type::ack && r.transaction == 5u && r.your_address == given && r.server == server_address));
    BOOST_TEST((r.mask == ipv4(255, 255, 254, 0) && r.lease_seconds == 7u && r.renewal_seconds == 3u && r.rebinding_seconds == 5u));
    BOOST_TEST((r.mtu == 1400));
    BOOST_REQUIRE(r.name_servers.count == 2u);
    BOOST_TEST((r.name_servers.items[1] == ipv4(198, 51, 100, 53)));
    BOOST_TEST(std::string(r.domain.items.data(), r.domain.count) == "ex.org");
    BOOST_TEST(!r.routes.has_value());
}

BOOST_AUTO_TEST_CASE(classless_routes_are_read_and_one_that_is_wrong_spoils_all) { // RFC 3442
    const dhcp_reply r = parsed(
        {raw(121, {0, 192, 0, 2, 1, 8, 10, 192, 0, 2, 2, 25, 198, 51, 100, 128, 0, 0, 0, 0, 12, 172, 31, 192, 0, 2, 3})});
    BOOST_REQUIRE((r.routes && r.routes->count == 4u));
    BOOST_TEST((r.routes->items[0] == route{ip_prefix(ipv4::any(), 0), ipv4(192, 0, 2, 1)}));
    BOOST_TEST((r.routes->items[1] == route{ip_prefix(ipv4(10, 0, 0, 0), 8), ipv4(192, 0, 2, 2)}));
    BOOST_TEST((r.routes->items[2] == route{ip_prefix(ipv4(198, 51, 100, 128), 25), ipv4::any()}));
    BOOST_TEST((r.routes->items[3] == route{ip_prefix(ipv4(172, 16, 0, 0), 12), ipv4(192, 0, 2, 3)})); // host bits are cleared
    BOOST_TEST(!parsed({raw(121, {33, 10, 0, 0, 0, 0, 192, 0, 2, 1})}).routes.has_value());
    BOOST_TEST(!parsed({raw(121, {0, 192, 0, 2, 1, 24, 10, 0, 0})}).routes.has_value());
}

BOOST_AUTO_TEST_CASE(an_option_in_pieces_is_put_together) { // RFC 3396
    const dhcp_reply r = parsed({raw(121, {8, 10, 192}), raw(6, {192, 0, 2, 53}), raw(121, {0, 2, 2})});
    BOOST_REQUIRE((r.routes && r.routes->count == 1u));
    BOOST_TEST((r.routes->items[0].gateway == ipv4(192, 0, 2, 2)));
}

BOOST_AUTO_TEST_CASE(options_go_on_in_the_file_and_server_name_fields) { // RFC 2132 9.3
    bytes m = reply(type::ack, 5, given, {one(52, 3)});
    const option lease = word(51, 77), dns = address(6, ipv4(192, 0, 2, 53));
    bytes in_file, in_sname;
    append(in_file, {lease});
    append(in_sname, {dns});
    std::ranges::copy(in_file, m.begin() + 108);
    std::ranges::copy(in_sname, m.begin() + 44);
    dhcp_reply r;
    BOOST_TEST((parse(m, r) == dhcp_parse_error::none));
    BOOST_TEST((r.lease_seconds == 77u && r.name_servers.count == 1u));
    m[108 + 1] = std::byte{200}; // runs out of its field
    BOOST_TEST((parse(m, r) == dhcp_parse_error::bad_option));
}

BOOST_AUTO_TEST_CASE(lists_are_bounded_and_what_is_no_host_is_left_out) {
    const dhcp_reply r = parsed({raw(6, {0, 0, 0, 0, 127, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2, 192, 0, 2, 3, 192, 0, 2, 4, 192, 0, 2, 5}),
                                 raw(3, {192, 0, 2}), raw(15, {'a', ' ', 'b'})});
    BOOST_TEST(r.name_servers.count == 4u);
    BOOST_TEST(r.addresses_left_out == 1u);
    BOOST_TEST((r.name_servers.items[0] == ipv4(192, 0, 2, 1)));
    BOOST_TEST(r.routers.empty()); // three bytes are no address
    BOOST_TEST(r.domain.empty());
}

BOOST_AUTO_TEST_CASE(of_more_routes_than_there_is_room_for_the_default_one_is_kept_and_the_rest_counted) {
    const auto routes_to = [](unsigned first, unsigned last) { // as long as they may be: two pieces
        option o{121, {}};
        for (unsigned i = first; i < last; ++i)
            for (const unsigned v : {8u, i, 192u, 0u, 2u, 1u}) o.data.push_back(static_cast<std::byte>(v));
        return o;
    };
    const dhcp_reply all = parsed({routes_to(10, 52)});
    BOOST_TEST(all.routes->count == 42u);
    BOOST_TEST(all.routes_left_out == 0u);
    option more = routes_to(52, 70);
    const option by_default = raw(121, {0, 192, 0, 2, 9}), to_gateway = raw(121, {32, 192, 0, 2, 9, 0, 0, 0, 0});
    more.data.insert(more.data.end(), by_default.data.begin(), by_default.data.end());
    const dhcp_reply r = parsed({routes_to(10, 51), to_gateway, more});
    BOOST_REQUIRE(r.routes->count == 42u);
    BOOST_TEST(r.routes_left_out == 19u);
    BOOST_TEST((r.routes->items[41] == route{ip_prefix(ipv4(192, 0, 2, 9), 32), ipv4::any()})); // the way to the default one's gateway
    BOOST_TEST((r.routes->items[40] == route{ip_prefix(ipv4::any(), 0), ipv4(192, 0, 2, 9)}));
    BOOST_TEST((r.routes->items[39] == route{ip_prefix(ipv4(49, 0, 0, 0), 8), ipv4(192, 0, 2, 1)}));
}

BOOST_AUTO_TEST_CASE(of_routes_on_the_link_alone_the_default_one_is_kept_too_and_the_way_to_its_gateway) {
    option links{121, {}};
    for (unsigned i = 0; i < 42; ++i)
        for (const unsigned v : {32u, 192u, 0u, 2u, 100 + i, 0u, 0u, 0u, 0u}) links.data.push_back(static_cast<std::byte>(v));
    option more{121, {links.data.begin() + 27 * 9, links.data.end()}}; // an option has 255 bytes at most
    links.data.resize(27 * 9);
    for (const unsigned v : {0u, 192u, 0u, 2u, 141u}) more.data.push_back(static_cast<std::byte>(v));
    for (const unsigned v : {0u, 192u, 0u, 2u, 7u}) more.data.push_back(static_cast<std::byte>(v)); // another one
    const dhcp_reply r = parsed({links, more});
    BOOST_REQUIRE(r.routes->count == 42u);
    BOOST_TEST(r.routes_left_out == 2u);
    BOOST_TEST((r.routes->items[41] == route{ip_prefix(ipv4(192, 0, 2, 141), 32), ipv4::any()}));
    BOOST_TEST((r.routes->items[40] == route{ip_prefix(ipv4::any(), 0), ipv4(192, 0, 2, 141)}));
}

BOOST_AUTO_TEST_CASE(what_is_no_reply_to_us_is_refused) {
    const bytes good = reply(type::offer, 5, given, {address(54, server_address)});
    const auto changed = [&](std::size_t at, unsigned value) {
        bytes m = good;
        m[at] = static_cast<std::byte>(value);
        dhcp_reply r;
        return parse(m, r);
    };
    using error = dhcp_parse_error;
    BOOST_TEST((changed(0, 2) == error::none));
    BOOST_TEST((changed(0, 1) == error::not_a_reply)); // a request
    BOOST_TEST((changed(1, 6) == error::not_ours));    // hardware
    BOOST_TEST((changed(2, 8) == error::not_ours));
    BOOST_TEST((changed(33, 9) == error::not_ours));   // MAC
    BOOST_TEST((changed(236, 0) == error::not_a_reply)); // BOOTP of another kind
    BOOST_TEST((changed(240, 200) == error::not_a_reply)); // BOOTP: it has no type
    BOOST_TEST((changed(242, 9) == error::bad_option)); // a type that no DHCP has
    BOOST_TEST((changed(241, 2) == error::bad_option)); // of two bytes
    dhcp_reply r;
    BOOST_TEST((parse(reply(type::offer, 5, given, {raw(51, {1, 2, 3})}), r) == error::bad_option));
    BOOST_TEST((parse(reply(type::offer, 5, given, {address(1, ipv4(255, 0, 255, 0))}), r) == error::bad_option));
    BOOST_TEST((parse(reply(type::offer, 5, given, {address(1, ipv4::any())}), r) == error::bad_option));
    for (std::size_t size = 0; size < good.size(); ++size) // cut anywhere: nothing breaks
        static_cast<void>(parse(bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), r));
    BOOST_TEST((parse(bytes(good.begin(), good.begin() + 239), r) == error::not_a_reply));
    BOOST_TEST((parse(bytes(good.begin(), good.begin() + 247), r) == error::bad_option));
}

BOOST_AUTO_TEST_CASE(no_request_is_longer_than_its_room) {
    std::array<std::byte, dhcp_request_size> room;
    dhcp_request m{.type = type::request, .transaction = 1, .mac = our_mac, .requested = given, .server = server_address};
    m.max_size = 1500;
    m.id = id;
    const std::string name(200, 'n');
    m.host_name = name;
    const std::size_t size = write_dhcp_request(m, room);
    BOOST_TEST((size > 300u && size <= room.size()));
    BOOST_TEST((room[size - 1] == std::byte{255}));
    BOOST_TEST(write_dhcp_request({.mac = our_mac, .id = id}, room) == 300u);
}

BOOST_AUTO_TEST_SUITE_END()
