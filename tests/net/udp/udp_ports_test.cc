// Who may have which port, and how one is chosen.
#include "tests/net/udp/datagrams.hh"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

using namespace corewire;
using namespace corewire::test;

namespace {
const udp_address server{peer, 53};
frame_pool& pool() {
    static frame_pool p(16);
    return p;
}
} // namespace

BOOST_AUTO_TEST_SUITE(udp_ports)

BOOST_AUTO_TEST_CASE(an_address_and_port_belong_to_one_endpoint_unless_all_share) {
    udp_demux d(pool(), {}, 3);
    udp_endpoint a(1), b(1), c(1), e(1);
    BOOST_TEST((d.bind(a, {us, 7}) == std::errc{}));
    BOOST_TEST((d.bind(b, {us, 7}) == std::errc::address_in_use));
    BOOST_TEST((d.bind(b, {ipv4::any(), 7}) == std::errc::address_in_use));
    BOOST_TEST((d.bind(b, {us, 7}, true) == std::errc::address_in_use)); // the first does not share
    BOOST_TEST((d.bind(b, {ipv4(239, 0, 0, 1), 7}) == std::errc{}));     // another address
    BOOST_TEST((d.bind(c, {us, 8}, true) == std::errc{}));
    BOOST_TEST((d.bind(e, {us, 8}, true) == std::errc{}));
    BOOST_TEST(d.on_port(8) == 2u);
    d.check_invariants();
}

BOOST_AUTO_TEST_CASE(two_endpoints_may_not_have_the_same_peer) {
    udp_demux d(pool(), {}, 3);
    udp_endpoint a(1), b(1);
    BOOST_TEST((d.bind(a, {us, 8}, true) == std::errc{}));
    BOOST_TEST((d.bind(b, {us, 8}, true) == std::errc{}));
    BOOST_TEST((d.connect(a, us, server) == std::errc{}));
    BOOST_TEST((d.connect(b, us, server) == std::errc::address_in_use));
    BOOST_TEST((d.connect(b, us, {peer, 54}) == std::errc{}));
}

BOOST_AUTO_TEST_CASE(endpoints_and_those_on_one_port_are_bounded) {
    udp_demux d(pool(), {.max_endpoints = 5, .max_on_port = 3}, 3);
    std::vector<std::unique_ptr<udp_endpoint>> some;
    for (int i = 0; i < 3; ++i) {
        some.push_back(std::make_unique<udp_endpoint>(1));
        BOOST_TEST((d.bind(*some.back(), {us, 8}, true) == std::errc{}));
    }
    udp_endpoint x(1), y(1), z(1);
    BOOST_TEST((d.bind(x, {us, 8}, true) == std::errc::address_in_use));
    BOOST_TEST((d.bind(x, {us, 9}) == std::errc{}));
    BOOST_TEST((d.bind(y, {us, 10}) == std::errc{}));
    BOOST_TEST((d.bind(z, {us, 11}) == std::errc::no_buffer_space));
    BOOST_TEST(d.statistics().endpoints_refused == 2u);
    d.check_invariants();
}

BOOST_AUTO_TEST_CASE(where_ports_are_lent_they_alone_are_chosen) {
    udp_demux d(pool(), {}, 3);
    const std::vector<std::uint16_t> lent{32'768, 50'000, 65'535};
    udp_endpoint a(1), b(1), c(1), none(1);
    d.choose_from(lent);
    std::set<std::uint16_t> had;
    for (udp_endpoint* each : {&a, &b, &c}) {
        BOOST_TEST((d.bind(*each, {us, 0}) == std::errc{}));
        had.insert(each->local().port);
    }
    BOOST_TEST((had == std::set<std::uint16_t>(lent.begin(), lent.end())));
    BOOST_TEST((d.bind(none, {us, 0}) == std::errc::address_in_use));
    BOOST_TEST(d.statistics().ports_exhausted == 1u);
    d.unbind(b);
    BOOST_TEST((d.bind(b, {us, 0}) == std::errc{}));
    d.choose_from(std::span<const std::uint16_t>{}); // none at all
    BOOST_TEST((d.bind(none, {us, 0}) == std::errc::address_in_use));
    d.choose_from(std::nullopt);
    BOOST_TEST((d.bind(none, {us, 0}) == std::errc{}));
    BOOST_TEST(none.local().port >= udp_demux_options{}.ephemeral_first);
}

BOOST_AUTO_TEST_CASE(ephemeral_ports_are_random_in_their_range_until_all_are_taken) {
    udp_demux d(pool(), {.ephemeral_first = 60'000, .ephemeral_last = 60'099}, 3);
    std::vector<std::unique_ptr<udp_endpoint>> all;
    std::set<std::uint16_t> ports;
    unsigned in_order = 0;
    for (int i = 0; i < 100; ++i) {
        all.push_back(std::make_unique<udp_endpoint>(1));
        BOOST_TEST((d.bind(*all.back(), {us, 0}) == std::errc{}));
        const std::uint16_t port = all.back()->local().port;
        BOOST_TEST((port >= 60'000 && port <= 60'099));
        if (!ports.empty() && ports.count(static_cast<std::uint16_t>(port - 1)) != 0 &&
            all[all.size() - 2]->local().port + 1 == port)
            ++in_order;
        ports.insert(port);
    }
    BOOST_TEST(ports.size() == 100u);
    BOOST_TEST(in_order < 30u);
    udp_endpoint more(1);
    BOOST_TEST((d.bind(more, {us, 0}) == std::errc::address_in_use));
    BOOST_TEST(d.statistics().ports_exhausted == 1u);
    all.erase(all.begin() + 50);
    BOOST_TEST((d.bind(more, {us, 0}) == std::errc{}));
    d.check_invariants();
}

BOOST_AUTO_TEST_CASE(an_ephemeral_port_is_one_whose_replies_come_home) {
    udp_demux d(pool(), {}, 3);
    const home_hash home{[](const void*, udp_address local, udp_address remote) { return (local.port + remote.port) % 4 == 1; }, nullptr};
    for (int i = 0; i < 200; ++i) {
        udp_endpoint e(1);
        BOOST_TEST((d.bind(e, {us, 0}, false, home, server) == std::errc{}));
        BOOST_TEST((e.local().port + server.port) % 4 == 1);
    }
    const home_hash nowhere{[](const void*, udp_address, udp_address) { return false; }, nullptr};
    udp_endpoint e(1);
    BOOST_TEST((d.bind(e, {us, 0}, false, nowhere, server) == std::errc::address_in_use));
}

BOOST_AUTO_TEST_CASE(connecting_moves_an_ephemeral_port_home_and_leaves_a_chosen_one) {
    udp_demux d(pool(), {}, 3);
    const home_hash home{[](const void*, udp_address local, udp_address remote) { return (local.port + remote.port) % 64 == 1; }, nullptr};
    udp_endpoint e(1), chosen(1);
    BOOST_TEST((d.bind(e, {ipv4::any(), 0}) == std::errc{}));
    BOOST_TEST((d.connect(e, us, server, home) == std::errc{}));
    BOOST_TEST((e.local().port + server.port) % 64 == 1);
    BOOST_TEST(d.on_port(e.local().port) == 1u);
    BOOST_TEST((d.bind(chosen, {us, 1000}) == std::errc{}));
    BOOST_TEST((d.connect(chosen, us, server, home) == std::errc{}));
    BOOST_TEST(chosen.local().port == 1000u);
    d.check_invariants();
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_to_the_connected_endpoint_once) {
    udp_demux d(pool(), {}, 3);
    udp_endpoint e(1), unconnected(1);
    BOOST_TEST((d.bind(e, {us, 1000}) == std::errc{}));
    BOOST_TEST((d.bind(unconnected, {us, 1001}) == std::errc{}));
    BOOST_TEST((d.connect(e, us, server) == std::errc{}));
    icmp_report r{.kind = icmp_error_kind::port_unreachable, .protocol = wire::ip_protocol::udp, .local = us, .remote = peer,
                  .local_port = 1000, .remote_port = 53};
    BOOST_TEST(d.on_error(r) == &e);
    BOOST_TEST((e.take_error() == std::errc::connection_refused));
    BOOST_TEST((e.take_error() == std::errc{}));
    r.kind = icmp_error_kind::fragmentation_needed;
    BOOST_TEST(d.on_error(r) == &e);
    BOOST_TEST((e.take_error() == std::errc::message_size));
    r.kind = icmp_error_kind::prohibited; // a filter does not pass
    BOOST_TEST(d.on_error(r) == &e);
    BOOST_TEST((e.take_error() == std::errc::host_unreachable));
    r.kind = icmp_error_kind::host_unreachable; // soft
    BOOST_TEST(d.on_error(r) == nullptr);
    r.own = true; // not a router's word: our own link finds nobody there
    BOOST_TEST(d.on_error(r) == &e);
    BOOST_TEST((e.take_error() == std::errc::host_unreachable));
    r.kind = icmp_error_kind::port_unreachable;
    r.own = false;
    r.remote_port = 54; // not what we sent to
    BOOST_TEST(d.on_error(r) == nullptr);
    r.local_port = 1001;
    BOOST_TEST(d.on_error(r) == nullptr);
    r = {.kind = icmp_error_kind::port_unreachable,
         .protocol = wire::ip_protocol::tcp,
         .local = us,
         .remote = peer,
         .local_port = 1000,
         .remote_port = 53};
    BOOST_TEST(d.on_error(r) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
